"""Conversions between floats and integers, saturating as the vector ALU does.

Out-of-range values and infinities saturate and NaN becomes 0 (CDNA3 and CDNA4
ISA manuals, notes of `V_CVT_I32_F32` and its relatives).  Float to int
truncates unless the opcode says otherwise.  No value outside the target's range
ever reaches a C cast, whose result would depend on the host.
"""

from __future__ import annotations

import numpy as np

from .bits import F32, RNE, Array
from .formats import f32_to_f16, pack16
from .rounding import check_round_mode, residue_sign, step_directed

_BYTE = np.uint32(0xFF)


def _saturate(whole: Array, low: int, high: int, dtype: type) -> Array:
    """Integral float64 values (or NaN) clipped to [low, high] and cast; NaN gives 0."""
    clipped = np.fmin(np.fmax(whole, float(low)), float(high))
    if np.any(whole != whole):
        clipped = np.where(whole != whole, 0.0, clipped)
    return np.asarray(clipped).astype(np.int64).astype(dtype)


def _wide(x: Array) -> Array:
    return np.asarray(x).astype(np.float64)


def float_to_i32(x: Array) -> Array:
    """int32 of a float16, float32 or float64 array, truncating: `V_CVT_I32_F32`, `V_CVT_I32_F64`."""
    return _saturate(np.trunc(_wide(x)), -(1 << 31), (1 << 31) - 1, np.int32)


def float_to_u32(x: Array) -> Array:
    """uint32 of a float array, truncating: `V_CVT_U32_F32`, `V_CVT_U32_F64`."""
    return _saturate(np.trunc(_wide(x)), 0, (1 << 32) - 1, np.uint32)


def float_to_i16(x: Array) -> Array:
    """int16 of a float array, truncating: `V_CVT_I16_F16`."""
    return _saturate(np.trunc(_wide(x)), -(1 << 15), (1 << 15) - 1, np.int16)


def float_to_u16(x: Array) -> Array:
    """uint16 of a float array, truncating: `V_CVT_U16_F16`."""
    return _saturate(np.trunc(_wide(x)), 0, (1 << 16) - 1, np.uint16)


def f32_to_i32_rpi(x: Array) -> Array:
    """int32 of floor(x + 0.5) with the sum unrounded: `V_CVT_RPI_I32_F32`."""
    return _saturate(np.floor(_wide(x) + 0.5), -(1 << 31), (1 << 31) - 1, np.int32)


def f32_to_i32_flr(x: Array) -> Array:
    """int32 of floor(x): `V_CVT_FLR_I32_F32`."""
    return _saturate(np.floor(_wide(x)), -(1 << 31), (1 << 31) - 1, np.int32)


def _narrow_int(x: Array, round_mode: int) -> Array:
    wide = np.asarray(x).astype(np.float64)
    nearest = np.asarray(wide.astype(np.float32))
    if round_mode == RNE:
        return nearest
    check_round_mode(round_mode)
    return step_directed(nearest, residue_sign(wide, np.float64(0), nearest), F32, round_mode)


def i32_to_f32(x: Array, round_mode: int = RNE) -> Array:
    """float32 of int32 (or uint32 bits) values: `V_CVT_F32_I32`."""
    return _narrow_int(_signed(x), round_mode)


def u32_to_f32(x: Array, round_mode: int = RNE) -> Array:
    """float32 of uint32 values: `V_CVT_F32_U32`."""
    return _narrow_int(np.asarray(x, dtype=np.uint32), round_mode)


def i32_to_f64(x: Array) -> Array:
    """float64 of int32 (or uint32 bits) values, exact: `V_CVT_F64_I32`."""
    return _signed(x).astype(np.float64)


def u32_to_f64(x: Array) -> Array:
    """float64 of uint32 values, exact: `V_CVT_F64_U32`."""
    return np.asarray(x, dtype=np.uint32).astype(np.float64)


def i16_to_f16(x: Array, round_mode: int = RNE) -> Array:
    """float16 of int16 (or uint16 bits) values: `V_CVT_F16_I16`."""
    return f32_to_f16(np.asarray(x).astype(np.uint16).view(np.int16).astype(np.float32), round_mode)


def u16_to_f16(x: Array, round_mode: int = RNE) -> Array:
    """float16 of uint16 values: `V_CVT_F16_U16`; above 65519 the result overflows."""
    return f32_to_f16(np.asarray(x).astype(np.uint16).astype(np.float32), round_mode)


def ubyte_to_f32(x: Array, byte: int) -> Array:
    """float32 of byte 0..3 of uint32 values: `V_CVT_F32_UBYTE0` to `UBYTE3`."""
    if byte not in range(4):
        raise ValueError(f"byte must be 0..3, got {byte!r}")
    return ((np.asarray(x, dtype=np.uint32) >> np.uint32(8 * byte)) & _BYTE).astype(np.float32)


def i4_to_f32_offset(x: Array) -> Array:
    """float32 in [-1/2, 7/16] of the signed low nibble over 16: `V_CVT_OFF_F32_I4`."""
    nibble = (np.asarray(x, dtype=np.uint32) & np.uint32(15)).astype(np.int32)
    return (((nibble ^ 8) - 8) / np.float64(16)).astype(np.float32)


def _signed(x: Array) -> Array:
    x = np.asarray(x)
    return x.view(np.int32) if x.dtype == np.uint32 else x.astype(np.int32)


# Normalised and packed conversions


def float_to_snorm16(x: Array) -> Array:
    """int16 of x * 32767 for x clipped to [-1, 1], NaN to 0: `V_CVT_NORM_I16_F16`, `V_CVT_PKNORM_I16_*`.

    Rounds to nearest even; the manuals only give the name of the conversion
    (*inferred* from the snorm rule of the graphics APIs).
    """
    scaled = np.rint(np.fmin(np.fmax(_wide(x), -1.0), 1.0) * 32767.0)
    return _saturate(np.where(np.isnan(x), np.nan, scaled), -32767, 32767, np.int16)


def float_to_unorm16(x: Array) -> Array:
    """uint16 of x * 65535 for x clipped to [0, 1], NaN to 0: `V_CVT_NORM_U16_F16`, `V_CVT_PKNORM_U16_*`."""
    scaled = np.rint(np.fmin(np.fmax(_wide(x), 0.0), 1.0) * 65535.0)
    return _saturate(np.where(np.isnan(x), np.nan, scaled), 0, 65535, np.uint16)


def cvt_pknorm_i16(a: Array, b: Array) -> Array:
    """uint32 with snorm16(a) low and snorm16(b) high, from float16 or float32: `V_CVT_PKNORM_I16_F32`/`_F16`."""
    return pack16(float_to_snorm16(a), float_to_snorm16(b))


def cvt_pknorm_u16(a: Array, b: Array) -> Array:
    """uint32 with unorm16(a) low and unorm16(b) high: `V_CVT_PKNORM_U16_F32`/`_F16`."""
    return pack16(float_to_unorm16(a), float_to_unorm16(b))


def cvt_pk_u16_u32(a: Array, b: Array) -> Array:
    """uint32 of two uint32 values saturated to 16 bits, `a` low: `V_CVT_PK_U16_U32`."""
    high = np.uint32(0xFFFF)
    return pack16(np.minimum(np.asarray(a, np.uint32), high), np.minimum(np.asarray(b, np.uint32), high))


def cvt_pk_i16_i32(a: Array, b: Array) -> Array:
    """uint32 of two int32 (or uint32 bits) values saturated to 16 signed bits, `a` low: `V_CVT_PK_I16_I32`."""
    low, high = np.int32(-(1 << 15)), np.int32((1 << 15) - 1)
    a, b = (np.clip(_signed(x), low, high).astype(np.int16) for x in (a, b))
    return pack16(a, b)


def cvt_pk_u8_f32(x: Array, byte: Array, old: Array) -> Array:
    """`old` (uint32) with byte `byte` & 3 replaced by x saturated to 0..255: `V_CVT_PK_U8_F32`, `V_CVT_PKACCUM_U8_F32`.

    Truncates, as the manuals' other float to integer conversions do (*inferred*).
    """
    shift = (np.asarray(byte, dtype=np.uint32) & np.uint32(3)) * np.uint32(8)
    value = _saturate(np.trunc(_wide(x)), 0, 255, np.uint32)
    return (np.asarray(old, dtype=np.uint32) & ~(_BYTE << shift)) | (value << shift)


def sat_pk_u8_i16(x: Array) -> Array:
    """uint32 with the two signed halves of `x` saturated to 0..255 in bytes 0 and 1: `V_SAT_PK_U8_I16`."""
    word = np.asarray(x, dtype=np.uint32)
    halves = ((word << np.uint32(16)).view(np.int32) >> np.int32(16), word.view(np.int32) >> np.int32(16))
    low, high = (np.clip(half, np.int32(0), np.int32(255)).astype(np.uint32) for half in halves)
    return low | (high << np.uint32(8))
