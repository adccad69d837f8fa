"""rcp, rsq, sqrt, exp2, log2, sin and cos of the transcendental unit.

Silicon gives about 1 ulp for the f32 and f16 forms and 2**29 ulp for the f64
forms (CDNA3 and CDNA4 ISA manuals, notes of each opcode), with an unpublished
algorithm: a result here is the correctly rounded one as a rule and always within
1 ulp of the exact value (f32, f16), so it need not equal the hardware's bit for
bit.  The f64 forms keep 24 significant bits, so that a kernel that leaves out
its Newton-Raphson steps is as wrong here as it is on the hardware.

Special values follow the manuals' functional examples.  The f32 rcp, rsq, sqrt,
exp2 and log2 flush denormal inputs and results whatever the MODE says, sin and
cos and all f16 and f64 forms do not.  sin and cos take revolutions and accept
the full range; a sine that is exactly zero is +0 except for an input of -0
(the sign for other inputs is *inferred* from the example for -MaxFloat).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from . import _tables as tables
from .bits import F32, F64, Array, flush_denormals, settle_nans, to_bits

_TINY32 = F32.tiny
_HUGE32 = np.float32(2.0**126)
_LOW29 = np.uint64(0x1FFFFFFF)


def _polynomial(x: Array, coefficients: list[float]) -> Array:
    """Horner's rule in float64; a fixed sequence of rounded operations."""
    result = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        result += coefficient
        result *= x
    result += coefficients[0]
    return result


def _exp2_wide(x: Array) -> Array:
    """2**x as float64 for x of any float dtype, relative error below 2**-44; NaN becomes small."""
    if x.size and not (x.min() >= -1000 and x.max() <= 1000):
        x = np.fmin(np.fmax(x, x.dtype.type(-1000)), x.dtype.type(1000))
    n = np.rint(x * x.dtype.type(1 << tables.EXP2_BITS))
    whole = n.astype(np.int64)
    n *= x.dtype.type(1.0 / (1 << tables.EXP2_BITS))
    rest = (x - n).astype(np.float64)  # exact in x's own format
    result = _polynomial(rest, tables.EXP2_SERIES[:5])
    result *= tables.EXP2_TABLE[whole & ((1 << tables.EXP2_BITS) - 1)]
    # to the exponent field goes the rest of n: the result is far from the ends of float64's range
    exponent = (whole & -(1 << tables.EXP2_BITS)) << (52 - tables.EXP2_BITS)
    return (result.view(np.int64) + exponent).view(np.float64)


def _log2_wide(x: Array) -> Array:
    """log2 as float64 of positive normal float32 values; other lanes get a meaningless finite value."""
    offset = to_bits(x) - np.uint32(tables.LOG2_ORIGIN)
    index = ((offset >> np.uint32(23 - tables.LOG2_BITS)) & np.uint32((1 << tables.LOG2_BITS) - 1)).astype(np.int64)
    exponent = np.asarray(offset).view(np.int32) >> np.int32(23)
    mantissa = np.asarray(to_bits(x) - (offset & np.uint32(0xFF800000))).view(np.float32)
    rest = tables.LOG2_RECIPROCAL[index]
    rest *= mantissa  # exact: 24 by 24 bits
    rest -= 1.0
    result = _polynomial(rest, tables.LOG2_SERIES)
    result += tables.LOG2_TABLE[index]
    result += exponent
    return result


def _sin_wide(t: Array) -> Array:
    """sin(2 pi t) as float64 for |t| <= 1/4."""
    return _polynomial(t * t, tables.SIN_SERIES) * t


def _revolution(x: Array) -> Array:
    """x minus the nearest integer, exact, as float64 in [-1/2, 1/2]; NaN for infinities."""
    return np.asarray(x - np.rint(x)).astype(np.float64)


def _sin(x: Array) -> Array:
    turn = _revolution(x)
    folded = np.abs(turn)
    folded = np.minimum(folded, 0.5 - folded)
    result = np.copysign(_sin_wide(folded), turn)
    result += 0.0  # -0 + 0 is +0
    zero = x == 0
    return np.where(zero, x, result) if np.any(zero) else result


def _cos(x: Array) -> Array:
    return _sin_wide(0.25 - np.abs(_revolution(x)))


def rcp32(x: Array) -> Array:
    """1/x of float32: `V_RCP_F32`, `V_RCP_IFLAG_F32`."""
    x = np.asarray(x)
    magnitude = np.abs(x)
    # One test for the three rare cases: denormal input, denormal result, NaN.
    if magnitude.size and magnitude.min() >= _TINY32 and magnitude.max() <= _HUGE32:
        return np.float32(1) / x
    return settle_nans(flush_denormals(np.float32(1) / flush_denormals(x)), x)


def sqrt32(x: Array) -> Array:
    """Square root of float32: `V_SQRT_F32`."""
    x = np.asarray(x)
    return settle_nans(np.sqrt(flush_denormals(x)), x)


def rsq32(x: Array) -> Array:
    """1/sqrt(x) of float32: `V_RSQ_F32`."""
    x = np.asarray(x)
    root = np.sqrt(flush_denormals(x).astype(np.float64))
    return settle_nans((1.0 / root).astype(np.float32), x)


def exp2_32(x: Array) -> Array:
    """2**x of float32: `V_EXP_F32`."""
    x = np.asarray(x)
    result = _exp2_wide(x).astype(np.float32)
    if x.size and not x.min() >= -126:  # also when some lane is NaN
        result = result * (x >= -126)
        result = np.where(x != x, x, result)
    return settle_nans(result, x)


def log2_32(x: Array) -> Array:
    """log2(x) of float32: `V_LOG_F32`."""
    x = np.asarray(x)
    result = _log2_wide(x).astype(np.float32)
    ordinary = (to_bits(x) - np.uint32(0x00800000)) < np.uint32(0x7F000000)
    if np.all(ordinary):
        return result
    special = np.where(np.abs(x) < _TINY32, np.float32(-np.inf), np.where(x > 0, F32.inf, np.float32(np.nan)))
    return settle_nans(np.where(ordinary, result, special), x)


def sin32(x: Array) -> Array:
    """sin(2 pi x) of float32: `V_SIN_F32`."""
    x = np.asarray(x)
    return settle_nans(_sin(x).astype(np.float32), x)


def cos32(x: Array) -> Array:
    """cos(2 pi x) of float32: `V_COS_F32`."""
    x = np.asarray(x)
    return settle_nans(_cos(x).astype(np.float32), x)


def _log2_any(x: Array) -> Array:
    """log2 of float16 inputs given as float64, with the special values."""
    ordinary = (x > 0) & (x < np.inf)
    special = np.where(x == 0, -np.inf, np.where(x > 0, np.inf, np.nan))
    return np.where(ordinary, _log2_wide(x.astype(np.float32)), special)


def _exp2_any(x: Array) -> Array:
    return np.where(x != x, x, _exp2_wide(x))


_F16_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "rcp": lambda x: 1.0 / x,
    "sqrt": np.sqrt,
    "rsq": lambda x: 1.0 / np.sqrt(x),
    "exp2": _exp2_any,
    "log2": _log2_any,
    "sin": _sin,
    "cos": _cos,
}


@cache
def _f16_table(name: str) -> Array:
    """Read-only float16 results for all 65536 float16 inputs."""
    inputs = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        results = settle_nans(_F16_FUNCTIONS[name](inputs.astype(np.float64)).astype(np.float16), inputs)
    results.flags.writeable = False
    return results


def _from_table(name: str, x: Array) -> Array:
    return _f16_table(name)[to_bits(x)]


def rcp16(x: Array) -> Array:
    """1/x of float16: `V_RCP_F16`."""
    return _from_table("rcp", x)


def sqrt16(x: Array) -> Array:
    """Square root of float16: `V_SQRT_F16`."""
    return _from_table("sqrt", x)


def rsq16(x: Array) -> Array:
    """1/sqrt(x) of float16: `V_RSQ_F16`."""
    return _from_table("rsq", x)


def exp2_16(x: Array) -> Array:
    """2**x of float16: `V_EXP_F16`."""
    return _from_table("exp2", x)


def log2_16(x: Array) -> Array:
    """log2(x) of float16: `V_LOG_F16`."""
    return _from_table("log2", x)


def sin16(x: Array) -> Array:
    """sin(2 pi x) of float16: `V_SIN_F16`."""
    return _from_table("sin", x)


def cos16(x: Array) -> Array:
    """cos(2 pi x) of float16: `V_COS_F16`."""
    return _from_table("cos", x)


def _coarse(x: Array, operand: Array) -> Array:
    """A float64 result rounded to 24 significant bits, finite values staying finite."""
    bits = to_bits(x)
    odd = (bits >> np.uint64(29)) & np.uint64(1)
    rounded = (bits + (odd + np.uint64(0x0FFFFFFF))) & ~_LOW29
    keep = ~np.isfinite(x) | ((rounded & F64.magnitude) >= F64.infinity_bits) | (np.abs(x) < F64.tiny)
    return settle_nans(np.where(keep, bits, rounded).view(np.float64), operand)


def rcp64(x: Array) -> Array:
    """1/x of float64 to 24 significant bits: `V_RCP_F64`."""
    return _coarse(1.0 / np.asarray(x), x)


def sqrt64(x: Array) -> Array:
    """Square root of float64 to 24 significant bits: `V_SQRT_F64`."""
    return _coarse(np.sqrt(np.asarray(x)), x)


def rsq64(x: Array) -> Array:
    """1/sqrt(x) of float64 to 24 significant bits: `V_RSQ_F64`."""
    return _coarse(1.0 / np.sqrt(np.asarray(x)), x)
