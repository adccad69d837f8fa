"""Device helpers that the kernels trace inline.

Import these by name (``from hcgr.kernels.device import load8``), not through the module: FlyDSL 0.4.x builds
its disk-cache key from the functions that a kernel reaches as globals of its own folder, and would miss an
edit here.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl.expr import rocdl

LOG2E = 1.4426950408889634


def load8(ptr: Any, offset: Any) -> Any:
    """Eight bf16 at `offset` elements from `ptr`, 16-byte aligned, read once: ``global_load_dwordx4 nt``."""
    return fx.generic_load(ptr + offset, count=8, nontemporal=True)


def store8(ptr: Any, offset: Any, value: Any) -> None:
    """Eight bf16 to `offset` elements from `ptr`, 16-byte aligned, streaming: ``global_store_dwordx4 nt``."""
    fx.generic_store(ptr + offset, value, nontemporal=True)


def exp2(x: Any) -> Any:
    """2**x of an f32 in one instruction (``v_exp_f32``, within 1 ulp; tiny results flush to zero)."""
    return fx.Float32(rocdl.exp2(fx.Float32.ir_type, x.ir_value()))


def rcp(x: Any) -> Any:
    """1/x of an f32 in one instruction (``v_rcp_f32``, within 1 ulp; 1/inf is 0)."""
    return fx.Float32(rocdl.rcp(fx.Float32.ir_type, x.ir_value()))


def sigmoid_of_quotient(x: Any, divisor: int) -> Any:
    """sigma(x / divisor) of an f32. `divisor` is a power of two, so folding it into the constant is exact.

    Saturates without NaN: a large negative x gives exp2(inf) = inf and 1/inf = 0. A NaN stays a NaN.
    """
    return rcp(exp2(x * (-LOG2E / divisor)) + 1.0)


def inject_weight(logit: Any, hc: int) -> Any:
    """iw = 2 * sigma(inj / HC) in f32 from one bf16 injection logit."""
    return sigmoid_of_quotient(logit.to(fx.Float32), hc) * 2.0
