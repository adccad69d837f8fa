"""The error contract: what each entry point accepts, checked before anything is allocated or launched.

A contract is a generator of :class:`~hcgr.requirements.Problem`, ordered so that a later requirement may rely
on the earlier ones. It can be asked without launching anything: ``combine_problems`` yields what is wrong,
``check_combine`` raises the first of it. Exceptions: ``NotImplementedError`` for an architecture without
kernels, ``TypeError`` for an argument that is no tensor or stream, ``ValueError`` for everything else.

One module an entry point: :mod:`~hcgr.contract.combine`, :mod:`~hcgr.contract.mix` (with and without COMBINE),
:mod:`~hcgr.contract.k1` and :mod:`~hcgr.contract.k2` (the direct kernels).
"""

from hcgr.contract.combine import check_combine, combine_problems
from hcgr.contract.common import (
    ACTIVATION_DTYPES,
    HC_COUNTS,
    NORM_WEIGHT_DTYPES,
    Accepted,
    present,
    raise_first,
    stream_problems,
    tensor_problems,
)
from hcgr.contract.k1 import check_k1, k1_problems
from hcgr.contract.k2 import check_k2, k2_problems
from hcgr.contract.mix import (
    check_combine_and_mix,
    check_mix,
    combine_and_mix_problems,
    mix_problems,
)

__all__ = [
    "ACTIVATION_DTYPES",
    "HC_COUNTS",
    "NORM_WEIGHT_DTYPES",
    "Accepted",
    "check_combine",
    "check_combine_and_mix",
    "check_k1",
    "check_k2",
    "check_mix",
    "combine_and_mix_problems",
    "combine_problems",
    "k1_problems",
    "k2_problems",
    "mix_problems",
    "present",
    "raise_first",
    "stream_problems",
    "tensor_problems",
]
