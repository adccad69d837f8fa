"""fp8, bf8, fp6, bf6 and fp4: encode, decode, E8M0 scale, stochastic rounding.

Formats: gfx942 uses the NANOO encodings (bias one higher, no infinity, no
negative zero, 0x80 is the only NaN; torch calls them `fnuz`); gfx950 uses the
OCP 8-bit formats and the OCP MX fp6, bf6 and fp4 (OCP Microscaling v1.0).

Overflow (CDNA4 ISA manual, 7.3, table "FP16_OVFL rule"; the CDNA3 manual has
the same rule): with MODE.FP16_OVFL set a value above the largest finite one,
and infinity, becomes the largest finite value; otherwise NaN for fp8 and
infinity for bf8, which in the NANOO bf8 is the NaN.  fp6 and fp4 always
saturate, and turn NaN into the largest magnitude (AMD's host emulation of the
conversions, `amd_hip_ocp_host.hpp` in ROCm/clr).

Stochastic rounding (`V_CVT_SR_*`): the source mantissa has k more bits than the
destination; the top k bits of the 32-bit seed are added below the last kept
place and the sum is truncated.  For a destination denormal the mantissa is
aligned first.  Same sources; the manual's pseudocode drops the carry out of the
mantissa, which the host emulation keeps, as is done here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from .bits import F32, Array, kind_of, settle_nans, to_bits
from .formats import f64_to_bf16
from .rounding import check_round_mode


@dataclass(frozen=True)
class Format:
    """A binary format of at most 8 bits; codes are held in uint8.

    `max_code` is the code of the largest finite value, `nan_code` the NaN an
    encoder produces (sign bit added unless `fnuz`), `inf_code` the infinity; both
    None when the format has none.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    max_code: int
    nan_code: int | None
    inf_code: int | None = None
    fnuz: bool = False

    @property
    def bits(self) -> int:
        """Width of a code."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal value, which the denormals share."""
        return 1 - self.bias


E4M3FNUZ = Format("e4m3fnuz", 4, 3, 8, 0x7F, 0x80, fnuz=True)
E5M2FNUZ = Format("e5m2fnuz", 5, 2, 16, 0x7F, 0x80, fnuz=True)
E4M3FN = Format("e4m3fn", 4, 3, 7, 0x7E, 0x7F)
E5M2 = Format("e5m2", 5, 2, 15, 0x7B, 0x7E, 0x7C)
E2M3 = Format("e2m3", 2, 3, 1, 0x1F, None)
E3M2 = Format("e3m2", 3, 2, 3, 0x1F, None)
E2M1 = Format("e2m1", 2, 1, 1, 0x07, None)

FP8 = {"gfx942": E4M3FNUZ, "gfx950": E4M3FN}
"""What `fp8` means on each architecture."""
BF8 = {"gfx942": E5M2FNUZ, "gfx950": E5M2}
"""What `bf8` means on each architecture."""

SCALE_BIAS = 127
SCALE_NAN = 255
"""The E8M0 scale is a power of two with this bias; this code is its NaN."""


@cache
def decode_table(fmt: Format) -> Array:
    """Read-only float32 array of the values of all 256 byte values (high bits beyond the format ignored)."""
    values = [_decode_one(code & ((1 << fmt.bits) - 1), fmt) for code in range(256)]
    table = np.array(values, dtype=np.uint32).view(np.float32)
    table.flags.writeable = False
    return table


def _decode_one(code: int, fmt: Format) -> int:
    """Bits of the float32 value of one code."""
    negative = code >> (fmt.bits - 1)
    magnitude = code & ((1 << (fmt.bits - 1)) - 1)
    sign = negative << 31
    if fmt.fnuz and code == fmt.nan_code:
        return 0xFFC00000
    if magnitude == fmt.inf_code:
        return sign | 0x7F800000
    if not fmt.fnuz and magnitude > fmt.max_code:
        return sign | 0x7FC00000
    exponent = magnitude >> fmt.mantissa_bits
    mantissa = magnitude & ((1 << fmt.mantissa_bits) - 1)
    if exponent:
        mantissa |= 1 << fmt.mantissa_bits
    value = mantissa * 2.0 ** (max(exponent, 1) - fmt.bias - fmt.mantissa_bits)
    return sign | int(np.float32(value).view(np.uint32))


def decode(codes: Array, fmt: Format) -> Array:
    """float32 values of an array of codes (uint8, or wider with the code in the low bits), exact."""
    return decode_table(fmt)[np.asarray(codes).astype(np.uint8)]


def encode(x: Array, fmt: Format, saturate: bool = False, seed: Array | None = None, round_mode: int = 0) -> Array:
    """Codes (uint8) of a float16, float32 or float64 array, one rounding.

    `saturate` is MODE.FP16_OVFL (ignored by fp6 and fp4, which always saturate).
    With `seed` (uint32) rounding is stochastic and `round_mode` must be 0.
    """
    x = np.asarray(x)
    if x.dtype == np.float32 and seed is None and round_mode == 0:
        return _encode_f32_nearest(x, fmt, saturate)
    return _encode(x.astype(np.float64), x, fmt, saturate, seed, kind_of(x).mantissa_bits, round_mode)


def encode_scaled(
    x: Array,
    scale: Array,
    fmt: Format,
    saturate: bool = False,
    seed: Array | None = None,
    source_mantissa_bits: int | None = None,
) -> Array:
    """Codes of x / 2**(scale - 127), one rounding: `V_CVT_SCALEF32_*` to fp8, bf8, fp6, bf6 and fp4.

    `scale` holds biased exponents 0..255 (`scale_of` extracts them from the f32
    scale operand).  The code 255 is the scale's NaN and makes the result NaN.
    For bf16 sources pass their float32 values and `source_mantissa_bits=7`,
    which matters to stochastic rounding only.
    """
    x = np.asarray(x)
    shift = SCALE_BIAS - np.asarray(scale).astype(np.int32)
    wide = np.where(np.asarray(scale) == SCALE_NAN, np.nan, np.ldexp(x.astype(np.float64), shift))
    bits = kind_of(x).mantissa_bits if source_mantissa_bits is None else source_mantissa_bits
    return _encode(wide, x, fmt, saturate, seed, bits, 0)


def _encode_f32_nearest(x: Array, fmt: Format, saturate: bool) -> Array:
    """The common case in 32-bit arithmetic: float32, to nearest even, no scale."""
    magnitude = to_bits(x) & F32.magnitude
    shift = 23 - fmt.mantissa_bits
    half = np.uint32((1 << (shift - 1)) - 1)
    odd = (magnitude >> np.uint32(shift)) & np.uint32(1)
    code = (magnitude + (odd + half)) >> np.uint32(shift)
    code = code - np.uint32((127 - fmt.bias) << fmt.mantissa_bits)
    smallest = np.uint32((fmt.min_exponent + 127) << 23)
    small = magnitude < smallest
    if np.any(small):
        # Adding a power of two whose ulp is the denormals' quantum makes the f32 adder round to it.
        anchor = np.float32(2.0 ** (fmt.min_exponent + shift))
        steps = to_bits(np.abs(x) + anchor) - anchor.view(np.uint32)
        code = np.where(small, steps, code)
    sign = (to_bits(x) >> np.uint32(32 - fmt.bits)) & np.uint32(1 << (fmt.bits - 1))
    if np.any(code > fmt.max_code):  # overflow, infinity and NaN alike
        finite = magnitude < F32.infinity_bits
        return _finish(code.astype(np.int64), sign != 0, code > fmt.max_code, finite, x != x, fmt, saturate)
    if fmt.fnuz:
        sign = sign * (code != 0)  # there is no negative zero
    return (code | sign).astype(np.uint8)


def _encode(
    wide: Array, source: Array, fmt: Format, saturate: bool, seed: Array | None, source_bits: int, round_mode: int
) -> Array:
    check_round_mode(round_mode)
    magnitude = np.abs(wide)
    finite = magnitude < np.inf
    magnitude = np.where(finite, magnitude, 0.0)
    _, exponent = np.frexp(magnitude)
    exponent = np.where(magnitude == 0, fmt.min_exponent, np.maximum(exponent - 1, fmt.min_exponent))
    steps = np.ldexp(magnitude, fmt.mantissa_bits - exponent)
    negative = np.signbit(source)
    if seed is not None:
        if round_mode:
            raise ValueError(f"stochastic rounding takes no round_mode, got {round_mode}")
        lost = source_bits - fmt.mantissa_bits
        added = (np.asarray(seed, dtype=np.uint32) >> np.uint32(32 - lost)).astype(np.float64)
        steps = np.floor(steps + np.ldexp(added, -lost))
    elif round_mode == 0:
        steps = np.rint(steps)
    else:
        up = (negative == (round_mode == 2)) & (round_mode != 3)
        steps = np.where(up, np.ceil(steps), np.floor(steps))
    # A step count includes the hidden bit, so that a carry moves on to the next binade by itself.
    excess = np.minimum(exponent - fmt.min_exponent, 4096).astype(np.int64)
    code = steps.astype(np.int64) + (excess << fmt.mantissa_bits)
    if round_mode:
        code = _stop_at_max(code, fmt, negative, round_mode)
    return _finish(code, negative, code > fmt.max_code, finite, wide != wide, fmt, saturate)


def _stop_at_max(code: Array, fmt: Format, negative: Array, round_mode: int) -> Array:
    """A directed mode overflows only when it rounds away from zero."""
    away = (negative == (round_mode == 2)) & (round_mode != 3)
    return np.where((code > fmt.max_code) & ~away, fmt.max_code, code)


def _finish(
    code: Array, negative: Array, too_big: Array, finite: Array, nan: Array, fmt: Format, saturate: bool
) -> Array:
    sign = np.where(negative, 1 << (fmt.bits - 1), 0)
    has_nan = fmt.nan_code is not None
    if saturate or not has_nan:
        overflow = fmt.max_code | sign
    elif fmt.inf_code is not None:
        overflow = fmt.inf_code | sign
    else:
        overflow = _nan(fmt, sign)
    out = np.where(too_big | ~finite, overflow, code | sign)
    out = np.where(nan, _nan(fmt, sign) if has_nan else fmt.max_code | sign, out)
    if fmt.fnuz:
        out = np.where((code == 0) & finite, 0, out)  # there is no negative zero
    return out.astype(np.uint8)


def _nan(fmt: Format, sign: Array) -> Array:
    if fmt.nan_code is None:
        raise ValueError(f"{fmt.name} has no NaN")
    return np.full_like(sign, fmt.nan_code) if fmt.fnuz else fmt.nan_code | sign


def scale_of(scale: Array) -> Array:
    """Biased exponent (int32, 0..255) of the float32 scale operand of a `V_CVT_SCALEF32_*` instruction."""
    bits = np.asarray(scale).view(np.uint32)
    return ((bits >> np.uint32(23)) & np.uint32(0xFF)).astype(np.int32)


def decode_scaled(codes: Array, scale: Array, fmt: Format, to: type = np.float32) -> Array:
    """Values times 2**(scale - 127), rounded once to nearest even into `to`.

    `to` is np.float32, np.float16, or np.uint16 for bf16 bits.  Overflow gives
    infinity; the scale code 255 gives NaN.
    """
    value = decode(codes, fmt)
    scaled = np.ldexp(value.astype(np.float64), np.asarray(scale).astype(np.int32) - SCALE_BIAS)
    nan = (np.asarray(scale) == SCALE_NAN) | (value != value)
    sign = np.where(np.signbit(value), np.float32(-np.nan), np.float32(np.nan))
    if to is np.uint16:
        return f64_to_bf16(np.where(nan, np.nan, scaled))
    return settle_nans(np.where(nan, np.nan, scaled).astype(to), sign)


def prng(state: Array) -> Array:
    """Next value (uint32) of the shift register that reseeds multi-pass conversions: `V_PRNG_B32`."""
    state = np.asarray(state, dtype=np.uint32)
    feedback = (state >> np.uint32(31)) * np.uint32(0xC5)
    return (state << np.uint32(1)) ^ feedback


def prng_sequence(seed: Array, count: int) -> Array:
    """uint32 array [..., count]: the seed and its `count - 1` successors, one for each pass."""
    values = [np.asarray(seed, dtype=np.uint32)]
    for _ in range(count - 1):
        values.append(prng(values[-1]))
    return np.stack(values, axis=-1)


def pack6(codes: Array) -> Array:
    """6-bit codes [..., 16 n] into dwords [..., 3 n], the first code in the lowest bits."""
    codes = np.asarray(codes)
    if codes.shape[-1] % 16:
        raise ValueError(f"the last axis must hold a multiple of 16 codes, got {codes.shape}")
    shifts = np.arange(6, dtype=np.uint8)
    bits = ((codes.astype(np.uint8)[..., None] >> shifts) & 1).reshape(*codes.shape[:-1], -1, 32)
    weights = np.uint32(1) << np.arange(32, dtype=np.uint32)
    return (bits * weights).sum(axis=-1, dtype=np.uint32)


def unpack6(words: Array) -> Array:
    """Inverse of `pack6`: dwords [..., 3 n] into codes uint8 [..., 16 n]."""
    words = np.asarray(words, dtype=np.uint32)
    if words.shape[-1] % 3:
        raise ValueError(f"the last axis must hold a multiple of 3 dwords, got {words.shape}")
    bits = (words[..., None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)
    bits = bits.reshape(*words.shape[:-1], -1, 6)
    return (bits << np.arange(6, dtype=np.uint32)).sum(axis=-1, dtype=np.uint32).astype(np.uint8)
