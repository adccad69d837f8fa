"""Conversions among f16, bf16, f32 and f64.

bf16 values are uint16 arrays of bits; the other formats are numpy's own dtypes.
Semantics: CDNA3 and CDNA4 ISA manuals, VOP1/VOP3 chapter (`V_CVT_*`): f32 to
f16 rounds by the double-precision FP_ROUND field, `CVT_PK_F16_F32` and
`CVT_PK_BF16_F32` to nearest even and `CVT_PKRTZ_F16_F32` toward zero whatever
the mode.  Denormals are always produced and honoured: flushing is a separate
step.  NaNs come out quiet with the most significant payload bits kept.
"""

from __future__ import annotations

import numpy as np

from .bits import F16, F32, RNE, TOWARD_ZERO, Array, FloatKind, settle_nans, to_bits
from .rounding import check_round_mode, residue_sign, step_directed

_U16 = np.uint32(16)
_ROUND_HALF = np.uint32(0x7FFF)
_LOW = np.uint32(1)
_QUIET_BF16 = np.uint16(0x40)


def _narrow(x: Array, kind: FloatKind, round_mode: int) -> Array:
    nearest = np.asarray(x.astype(kind.float_type))
    if round_mode != RNE:
        check_round_mode(round_mode)
        wide = x.astype(np.float64)
        moved = step_directed(nearest, residue_sign(wide, np.float64(0), nearest), kind, round_mode)
        nearest = np.where(np.isfinite(wide), moved, nearest).astype(kind.float_type)
    return settle_nans(nearest, x)


def _f16_toward_zero(x: Array) -> Array:
    """float32 to float16 toward zero: drop the bits that f16 lacks, then convert exactly."""
    kept = np.asarray((to_bits(x) & np.uint32(0xFFFFE000)).view(np.float32))
    magnitude = np.abs(x)
    small = magnitude < F16.tiny
    if np.any(small):
        kept = np.where(small, np.trunc(x * np.float32(2.0**24)) * np.float32(2.0**-24), kept)
    out = np.asarray(kept.astype(np.float16))
    if np.any(magnitude >= np.float32(65536)):
        out = np.where(np.isinf(out) & np.isfinite(x), np.copysign(F16.max, out), out).astype(np.float16)
    # A NaN whose payload sits in the dropped bits has become an infinity.
    nan = x != x
    return settle_nans(np.where(nan, F16.default_nan, out), x) if np.any(nan) else out


def f32_to_f16(x: Array, round_mode: int = RNE, saturate: bool = False) -> Array:
    """float32 to float16, one rounding: `V_CVT_F16_F32`.

    With `saturate` (MODE.FP16_OVFL) a finite value that overflows becomes the
    largest finite f16 of its sign; infinities stay infinite.
    """
    x = np.asarray(x)
    out = _f16_toward_zero(x) if round_mode == TOWARD_ZERO else _narrow(x, F16, round_mode)
    if saturate:
        over = np.isinf(out) & np.isfinite(x)
        out = np.where(over, np.copysign(F16.max, out), out).astype(np.float16)
    return out


def f16_to_f32(x: Array) -> Array:
    """float16 to float32, exact: `V_CVT_F32_F16`."""
    x = np.asarray(x)
    return settle_nans(x.astype(np.float32), x)


def f64_to_f32(x: Array, round_mode: int = RNE) -> Array:
    """float64 to float32, one rounding: `V_CVT_F32_F64`."""
    return _narrow(np.asarray(x), F32, round_mode)


def f32_to_f64(x: Array) -> Array:
    """float32 to float64, exact: `V_CVT_F64_F32`."""
    x = np.asarray(x)
    return settle_nans(x.astype(np.float64), x)


def f32_to_bf16(x: Array) -> Array:
    """float32 to bf16 bits (uint16), round to nearest even: `V_CVT_PK_BF16_F32` (gfx950), one half."""
    bits = to_bits(x)
    high = bits >> _U16
    out = ((bits + (_ROUND_HALF + (high & _LOW))) >> _U16).astype(np.uint16)
    nan = x != x
    if np.any(nan):
        out = np.where(nan, high.astype(np.uint16) | _QUIET_BF16, out)
    return out


def bf16_to_f32(bits: Array) -> Array:
    """bf16 bits (any unsigned dtype, low 16 bits used) to float32, exact: `V_CVT_F32_BF16`.

    A signalling NaN keeps its bits: the manual defines the conversion as a shift.
    """
    return np.asarray(np.asarray(bits).astype(np.uint32) << _U16).view(np.float32)


def f64_to_bf16(x: Array) -> Array:
    """float64 to bf16 bits (uint16), one rounding to nearest even."""
    wide = np.asarray(x, dtype=np.float64)
    nearest = np.asarray(wide.astype(np.float32))
    # Fold what the first rounding lost into a sticky last bit, so that the second one sees it.
    bits = to_bits(nearest)
    residue = residue_sign(wide, np.float64(0), nearest)
    inexact = (residue != 0) & np.isfinite(nearest) & ((bits & _LOW) == 0)
    away = (residue > 0) == ~np.signbit(wide)
    sticky = np.where(inexact, np.where(away, bits + _LOW, bits - _LOW), bits).astype(np.uint32)
    return f32_to_bf16(settle_nans(sticky.view(np.float32), wide))


def f32_to_bf16_sr(x: Array, seed: Array) -> Array:
    """float32 to bf16 bits with stochastic rounding: `V_CVT_SR_BF16_F32` (gfx950).

    The top 16 bits of `seed` (uint32) are added below the kept mantissa and the
    sum is truncated.  Which seed bits are used is *inferred* from the fp8 forms,
    for which the manual gives them; a finite value may round up to infinity.
    """
    bits = to_bits(x)
    finite = np.isfinite(x)
    out = ((bits + (np.asarray(seed, dtype=np.uint32) >> _U16)) >> _U16).astype(np.uint16)
    special = (bits >> _U16).astype(np.uint16) | np.where(x != x, _QUIET_BF16, np.uint16(0))
    return np.where(finite, out, special).astype(np.uint16)


def f32_to_f16_sr(x: Array, seed: Array) -> Array:
    """float32 to float16 with stochastic rounding: `V_CVT_SR_F16_F32` (gfx950).

    The top 13 bits of `seed` (uint32) are added below the last f16 place and the
    sum is truncated (*inferred*, as for `f32_to_bf16_sr`).
    """
    x = np.asarray(x)
    wide = np.abs(x.astype(np.float64))
    _, exponent = np.frexp(np.where(np.isfinite(wide), wide, 0.0))
    quantum = np.maximum(exponent - 1, -14) - 10
    fraction = (np.asarray(seed, dtype=np.uint32) >> np.uint32(19)).astype(np.float64) * 2.0**-13
    steps = np.floor(np.ldexp(wide, -quantum) + fraction)
    magnitude = np.where(np.isfinite(wide), np.ldexp(steps, quantum), wide)
    out = _narrow(np.asarray(magnitude), F16, RNE)
    return settle_nans(np.copysign(out, x.astype(np.float16)).astype(np.float16), x)


def pack16(low: Array, high: Array) -> Array:
    """Two 16-bit values (uint16, int16, float16 or already wide) in one uint32, `low` in bits 15:0."""
    return _half(low) | (_half(high) << _U16)


def _half(x: Array) -> Array:
    x = np.asarray(x)
    if x.dtype.itemsize == 2:
        return x.view(np.uint16).astype(np.uint32)
    return x.astype(np.uint32) & np.uint32(0xFFFF)


def unpack16(word: Array) -> tuple[Array, Array]:
    """The low and high halves of a uint32 array as uint16 arrays."""
    word = np.asarray(word)
    return word.astype(np.uint16), (word >> _U16).astype(np.uint16)


def cvt_pkrtz_f16_f32(a: Array, b: Array) -> Array:
    """uint32 with f16(a) in the low and f16(b) in the high half, both toward zero: `V_CVT_PKRTZ_F16_F32`."""
    return pack16(f32_to_f16(a, TOWARD_ZERO), f32_to_f16(b, TOWARD_ZERO))


def cvt_pk_f16_f32(a: Array, b: Array) -> Array:
    """uint32 with f16(a) low and f16(b) high, to nearest even: `V_CVT_PK_F16_F32` (gfx950)."""
    return pack16(f32_to_f16(a), f32_to_f16(b))


def cvt_pk_bf16_f32(a: Array, b: Array) -> Array:
    """uint32 with bf16(a) low and bf16(b) high, to nearest even: `V_CVT_PK_BF16_F32` (gfx950)."""
    return pack16(f32_to_bf16(a), f32_to_bf16(b))
