"""Correctly rounded add, multiply and fused multiply-add for f16, f32 and f64.

numpy has no fma, and an fma built from a float64 multiply and add rounds twice.
The f32 form here computes in float64 and corrects only the lanes where the
second rounding can go wrong: those whose float64 sum lies exactly half-way
between two f32 values, or in the f32 denormal range, where "half-way" sits at
another bit.  Everywhere else the sum and the exact value lie on the same side
of every rounding boundary, because the boundaries are float64 values.

The f64 form is the round-to-odd algorithm of Boldo and Melquiond ("Emulation of
FMA and correctly rounded sums", IEEE Trans. Computers 57, 2008) with exact
integers for operands where its error-free steps could leave the f64 range.

`round_mode` is the MODE.FP_ROUND value (`bits.RNE` and the three directed modes).
Denormals are always honoured: flushing is a separate step (`ieee.flush_inputs`).
"""

from __future__ import annotations

import numpy as np

from .bits import F16, F32, F64, RNE, TOWARD_NEGATIVE, Array, FloatKind, has_nan, settle_nans
from .into import into, placed
from .rounding import check_round_mode, residue_sign, round_to_odd, signed_zero, step_directed, two_sum
from .scratch import scratch

_F32_TAIL = np.uint64(0x1FFFFFFF)
_F32_HALF = np.uint64(0x10000000)
#: The tail at the top of the word, and what it is there half-way.
_TAIL_TO_TOP, _HALF_AT_TOP = np.int64(35), -(1 << 63)
_TWICE_TINY = 2 << 23
_TWICE_WIDE_TINY = np.uint64((int(np.float64(F32.tiny).view(np.uint64)) << 1) - 1)
_SPLITTER = np.float64(134217729.0)  # 2**27 + 1, Dekker's constant for 53 bits


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    p = a * b
    big_a, big_b = a * _SPLITTER, b * _SPLITTER
    a_hi, b_hi = big_a - (big_a - a), big_b - (big_b - b)
    a_lo, b_lo = a - a_hi, b - b_hi
    return p, ((a_hi * b_hi - p) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo


@into()
def fma32(a: Array, b: Array, c: Array, round_mode: int = RNE, out: Array | None = None) -> Array:
    """fma of float32 arrays, one rounding: `V_FMA_F32`, `V_FMAC_F32`, `V_PK_FMA_F32`, `V_FMA_MIX_F32`.

    For the mixed form convert the f16 operands with `formats.f16_to_f32` first.
    """
    if round_mode != RNE:
        return placed(_narrow_fma(a, b, c, F32, round_mode), out)
    shape = np.broadcast(a, b, c).shape
    if not shape:
        return fma32(np.atleast_1d(a), b, c)[0]
    s = scratch("fma32", shape, np.float64)
    np.multiply(a, b, dtype=np.float64, out=s)  # exact: 24 + 24 bits
    np.add(s, c, out=s)
    result = np.empty(shape, np.float32) if out is None else out
    np.copyto(result, s, casting="same_kind")
    if _may_be_suspicious32(s, result):
        suspicious = _suspicious32(s)
        if suspicious.any():
            _fix32(result, a, b, c, suspicious)
    return placed(settle_nans(result, a, b, c), out)


def _may_be_suspicious32(s: Array, result: Array) -> bool:
    """Cheap tests first: nearly no array holds a lane that needs more."""
    wide, narrow = scratch("fma32", s.shape, np.int64), scratch("fma32", s.shape, np.uint32)
    np.left_shift(s.view(np.int64), _TAIL_TO_TOP, out=wide)
    if wide.min() == _HALF_AT_TOP:
        return True
    # twice the bits: the sign drops out
    if np.left_shift(result.view(np.uint32), np.uint32(1), out=narrow).min() > _TWICE_TINY:
        return False
    twice = np.left_shift(s.view(np.uint64), np.uint64(1), out=wide.view(np.uint64))
    twice -= np.uint64(1)  # zeros go to the top
    return bool(twice.min() < _TWICE_WIDE_TINY)


def _suspicious32(s: Array) -> Array:
    magnitude = np.abs(s)
    return ((s.view(np.uint64) & _F32_TAIL) == _F32_HALF) | ((magnitude < F32.tiny) & (magnitude != 0))


def _fix32(result: Array, a: Array, b: Array, c: Array, where: Array) -> None:
    lanes = np.nonzero(where)
    a, b, c = (np.broadcast_to(x, result.shape)[lanes].astype(np.float64) for x in (a, b, c))
    result[lanes] = round_to_odd(*two_sum(a * b, c)).astype(np.float32)


def _narrow_fma(a: Array, b: Array, c: Array, kind: FloatKind, round_mode: int) -> Array:
    """Directed f32 or f16 fma through float64, where the product is exact."""
    check_round_mode(round_mode)
    product = np.multiply(a, b, dtype=np.float64)
    s, e = two_sum(product, np.asarray(c).astype(np.float64))
    e = np.where(np.isfinite(s), e, 0.0)
    nearest = s.astype(kind.float_type)
    result = np.where(np.isfinite(s), step_directed(nearest, residue_sign(s, e, nearest), kind, round_mode), nearest)
    result = signed_zero(result.astype(kind.float_type), product, c, round_mode)
    return settle_nans(result, a, b, c)


def fma16(a: Array, b: Array, c: Array, round_mode: int = RNE) -> Array:
    """fma of float16 arrays, one rounding: `V_FMA_F16`, `V_PK_FMA_F16`.

    The float64 sum may be inexact only when the product is below 2**-30 of it,
    which cannot reach an f16 rounding boundary: one conversion is enough.
    """
    if round_mode != RNE:
        return _narrow_fma(a, b, c, F16, round_mode)
    s = np.multiply(a, b, dtype=np.float64) + c
    return settle_nans(s.astype(np.float16), a, b, c)


def fma64(a: Array, b: Array, c: Array, round_mode: int = RNE) -> Array:
    """fma of float64 arrays, one rounding: `V_FMA_F64`, `V_FMAC_F64`."""
    check_round_mode(round_mode)
    a, b, c = np.broadcast_arrays(a, b, c)
    direct = a * b + c
    product_hi, product_lo = _two_product(a, b)
    sum_hi, sum_lo = two_sum(c, product_lo)
    high, low = two_sum(product_hi, sum_hi)
    tail = round_to_odd(*two_sum(sum_lo, low))
    result: Array
    result, residue = two_sum(high, tail)
    if round_mode != RNE:
        result = signed_zero(step_directed(result, residue, F64, round_mode), product_hi, c, round_mode)
    exact_as_is = (a == 0) | (b == 0) | ~np.isfinite(a) | ~np.isfinite(b) | ~np.isfinite(c)
    result = np.where(exact_as_is, signed_zero(direct, a * b, c, round_mode), result)
    hard = ~exact_as_is & ~(_in_range(a, 400) & _in_range(b, 400) & ((c == 0) | _in_range(c, 800)))
    for lane in np.flatnonzero(hard):
        at = np.unravel_index(lane, hard.shape)
        result[at] = exact_fma64(float(a[at]), float(b[at]), float(c[at]), round_mode)
    return settle_nans(result, a, b, c)


def _in_range(x: Array, exponent: int) -> Array:
    magnitude = np.abs(x)
    return (magnitude > 2.0**-exponent) & (magnitude < 2.0**exponent)


def exact_fma64(a: float, b: float, c: float, round_mode: int = RNE, exponent: int = 0) -> np.float64:
    """(a * b + c) * 2**exponent of finite float64 values in integers, rounded once.

    Python's integer division rounds correctly to nearest even, denormals included.
    """
    (an, ad), (bn, bd), (cn, cd) = (x.as_integer_ratio() for x in (a, b, c))
    numerator = an * bn * cd + cn * ad * bd
    denominator = ad * bd * cd
    if exponent > 0:
        numerator <<= exponent
    else:
        denominator <<= -exponent
    if numerator == 0:  # c is the exact negative of the product, hence of the other sign
        return np.float64(-0.0 if round_mode == TOWARD_NEGATIVE else 0.0)
    try:
        nearest = numerator / denominator
    except OverflowError:
        nearest = float("inf") if numerator > 0 else float("-inf")
    if nearest == 0 and numerator < 0:
        nearest = -0.0
    if round_mode == RNE:
        return np.float64(nearest)
    if abs(nearest) == float("inf"):
        residue = -1 if nearest > 0 else 1
    else:
        near_n, near_d = nearest.as_integer_ratio()
        residue = numerator * near_d - near_n * denominator
    sign = float((residue > 0) - (residue < 0))
    return np.float64(step_directed(np.float64(nearest), np.float64(sign), F64, round_mode))


@into()
def add32(a: Array, b: Array, round_mode: int = RNE, out: Array | None = None) -> Array:
    """float32 sum in the given rounding mode: `V_ADD_F32`."""
    if round_mode == RNE:
        return placed(settle_nans(np.add(a, b, out=out), a, b), out)
    return placed(_narrow_fma(a, np.float32(1), b, F32, round_mode), out)


@into()
def sub32(a: Array, b: Array, round_mode: int = RNE, out: Array | None = None) -> Array:
    """The sum of `a` and of `b` with its sign changed: `V_SUB_F32`."""
    if round_mode == RNE:
        result = np.subtract(a, b, out=out)
        return placed(settle_nans(result, a, np.negative(b)), out) if has_nan(result) else result
    return add32(a, np.negative(b), round_mode, out)


@into()
def mul32(a: Array, b: Array, round_mode: int = RNE, out: Array | None = None) -> Array:
    """float32 product in the given rounding mode: `V_MUL_F32`."""
    if round_mode == RNE:
        return placed(settle_nans(np.multiply(a, b, out=out), a, b), out)
    return placed(_narrow_mul(a, b, F32, round_mode), out)


def _narrow_mul(a: Array, b: Array, kind: FloatKind, round_mode: int) -> Array:
    check_round_mode(round_mode)
    product = np.multiply(a, b, dtype=np.float64)
    nearest = product.astype(kind.float_type)
    moved = step_directed(nearest, residue_sign(product, np.float64(0), nearest), kind, round_mode)
    return settle_nans(np.where(np.isfinite(product), moved, nearest).astype(kind.float_type), a, b)


def add16(a: Array, b: Array, round_mode: int = RNE) -> Array:
    """float16 sum in the given rounding mode: `V_ADD_F16`, `V_PK_ADD_F16`."""
    if round_mode == RNE:
        return settle_nans(np.add(a, b, dtype=np.float32).astype(np.float16), a, b)
    return _narrow_fma(a, np.float16(1), b, F16, round_mode)


def mul16(a: Array, b: Array, round_mode: int = RNE) -> Array:
    """float16 product in the given rounding mode: `V_MUL_F16`, `V_PK_MUL_F16`."""
    if round_mode == RNE:
        return settle_nans(np.multiply(a, b, dtype=np.float32).astype(np.float16), a, b)
    return _narrow_mul(a, b, F16, round_mode)


def add64(a: Array, b: Array, round_mode: int = RNE) -> Array:
    """float64 sum in the given rounding mode: `V_ADD_F64`."""
    if round_mode == RNE:
        return settle_nans(a + b, a, b)
    return fma64(a, np.float64(1), b, round_mode)


def mul64(a: Array, b: Array, round_mode: int = RNE) -> Array:
    """float64 product in the given rounding mode: `V_MUL_F64`."""
    if round_mode == RNE:
        return settle_nans(a * b, a, b)
    negative = np.signbit(a) != np.signbit(b)
    return fma64(a, b, np.where(negative, -0.0, 0.0), round_mode)
