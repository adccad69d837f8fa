"""Oracle of the two-stage hyper-connection gated residual: what is right, and how far a kernel may be.

reference   the op in float32 (float64 for itself), stage by stage
bounds      derived error bounds, one per stage
compare     error / bound figures, bit equality, twin ratio
checks      one call per stage: a kernel's tensors in, a `Comparison` out
endtoend    the whole op, with propagated uncertainty
exact       inputs with one right answer, bit for bit
inputs      seeded inputs, by kind
guards      poisoned outputs and guard bytes

It needs torch alone and knows nothing of the kernels or of who runs them.
"""

from oracle import bounds, exact, guards, inputs, reference, rounding
from oracle.checks import (
    check_combine,
    check_folded_weight,
    check_h,
    check_k1,
    check_k2,
    check_packed,
    check_rrms,
    check_xn,
)
from oracle.compare import Comparison, Comparisons, Deviation, compare, compare_exact, twin_ratio
from oracle.endtoend import check_combine_and_mix, check_mix

__all__ = [
    "Comparison",
    "Comparisons",
    "Deviation",
    "bounds",
    "check_combine",
    "check_combine_and_mix",
    "check_folded_weight",
    "check_h",
    "check_k1",
    "check_k2",
    "check_mix",
    "check_packed",
    "check_rrms",
    "check_xn",
    "compare",
    "compare_exact",
    "exact",
    "guards",
    "inputs",
    "reference",
    "rounding",
    "twin_ratio",
]
