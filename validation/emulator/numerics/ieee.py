"""IEEE-mode operations: min and max, clamp, rounding to integers, frexp, ldexp, class.

Functions take float16, float32 or float64 arrays and return the same format
unless noted.  Pseudocode: CDNA3 and CDNA4 ISA manuals, VOP chapters; where it is
not followed to the letter the docstring says so.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from .bits import (
    F16,
    F64,
    RNE,
    Array,
    FloatKind,
    exponent_field,
    flush_denormals,
    is_nan,
    is_signalling,
    kind_of,
    quiet_nan,
    settle_nans,
    to_bits,
)
from .rounding import check_round_mode, residue_sign, step_directed

FLUSH_BOTH, FLUSH_OUTPUT, FLUSH_INPUT, FLUSH_NONE = range(4)
"""Values of a MODE.FP_DENORM field: bit 0 allows denormal inputs, bit 1 denormal outputs (ISA manual, MODE)."""


def flush_inputs(x: Array, denorm_mode: int) -> Array:
    """`x` with denormals made zeros of the same sign unless FP_DENORM bit 0 allows them."""
    return x if denorm_mode & 1 else flush_denormals(x)


def flush_outputs(x: Array, denorm_mode: int) -> Array:
    """`x` with denormals made zeros of the same sign unless FP_DENORM bit 1 allows them."""
    return x if denorm_mode & 2 else flush_denormals(x)


def canonicalize(x: Array) -> Array:
    """Quiet NaNs, everything else unchanged: `V_MAX x, x` in IEEE mode, without its flushing."""
    return quiet_nan(np.asarray(x))


# Minimum and maximum


def _select(a: Array, b: Array, take_a: Array, ieee: bool) -> Array:
    """a where take_a, with the NaN rules common to min and max."""
    take_a = np.where(is_nan(a), False, np.where(is_nan(b), True, take_a))
    out: Array = np.where(take_a, a, b)
    if ieee:
        signalling_b = is_signalling(b)
        signalling_a = is_signalling(a)
        if signalling_b.any() or signalling_a.any():
            out = np.where(signalling_b, quiet_nan(b), out)
            out = np.where(signalling_a, quiet_nan(a), out)
    return out


def _keys(x: Array) -> Array:
    """Signed integers that order as the numbers do, with -0 (key -1) just below +0 (key 0)."""
    kind = kind_of(x)
    int_type = np.dtype(f"i{x.dtype.itemsize}").type
    signed = to_bits(x).view(int_type)
    return signed ^ ((signed >> int_type(x.dtype.itemsize * 8 - 1)) & int_type(kind.magnitude))


def _from_keys(keys: Array, kind: FloatKind) -> Array:
    int_type = keys.dtype.type
    return np.asarray(keys ^ ((keys >> int_type(keys.dtype.itemsize * 8 - 1)) & int_type(kind.magnitude))).view(
        kind.float_type
    )


def _extreme(a: Array, b: Array, ieee: bool, largest: bool) -> Array:
    a, b = np.asarray(a), np.asarray(b)
    kind = kind_of(a)
    if a.dtype != b.dtype:
        raise TypeError(f"operands must have one format, got {a.dtype} and {b.dtype}")
    key_a, key_b = _keys(a), _keys(b)
    picked = np.maximum(key_a, key_b) if largest else np.minimum(key_a, key_b)
    if np.any(is_nan(a)) or np.any(is_nan(b)):
        return _select(a, b, picked == key_a, ieee).astype(a.dtype)
    return _from_keys(picked, kind)


def minimum(a: Array, b: Array, ieee: bool = True) -> Array:
    """Smaller operand, a number beating NaN, -0 below +0: `V_MIN_F16`, `V_MIN_F32`, `V_MIN_F64`.

    With `ieee` (MODE.IEEE) a signalling NaN operand is returned quieted; without
    it a signalling NaN counts as any NaN.
    """
    return _extreme(a, b, ieee, largest=False)


def maximum(a: Array, b: Array, ieee: bool = True) -> Array:
    """Larger operand, a number beating NaN, -0 below +0: `V_MAX_F16`, `V_MAX_F32`, `V_MAX_F64`."""
    return _extreme(a, b, ieee, largest=True)


def min3(a: Array, b: Array, c: Array, ieee: bool = True) -> Array:
    """minimum(minimum(a, b), c): `V_MIN3_F32`, `V_MIN3_F16`."""
    return minimum(minimum(a, b, ieee), c, ieee)


def max3(a: Array, b: Array, c: Array, ieee: bool = True) -> Array:
    """maximum(maximum(a, b), c): `V_MAX3_F32`, `V_MAX3_F16`."""
    return maximum(maximum(a, b, ieee), c, ieee)


def med3(a: Array, b: Array, c: Array, ieee: bool = True) -> Array:
    """Middle operand, or min3 when any is NaN: `V_MED3_F32`, `V_MED3_F16`."""
    a, b, c = np.asarray(a), np.asarray(b), np.asarray(c)
    nan = is_nan(a) | is_nan(b) | is_nan(c)
    key_a, key_b, key_c = _keys(a), _keys(b), _keys(c)
    minus_zero = (key_a == -1) | (key_b == -1) | (key_c == -1)
    if not (np.any(nan) or np.any(minus_zero)):
        low, high = np.minimum(key_a, key_b), np.maximum(key_a, key_b)
        return _from_keys(np.maximum(low, np.minimum(high, key_c)), kind_of(a))
    # The pseudocode compares values, to which the zeros are equal: their signs follow its order of tests.
    top = max3(a, b, c, ieee)
    middle = np.where(top == a, maximum(b, c, ieee), np.where(top == b, maximum(a, c, ieee), maximum(a, b, ieee)))
    return np.where(nan, min3(a, b, c, ieee), middle).astype(a.dtype)


def minimum3(*operands: Array) -> Array:
    """IEEE 754-2019 minimum of its operands, NaN beating numbers: `V_MINIMUM3_F32`, `V_PK_MINIMUM3_F16` (gfx950)."""
    return _propagating(operands, largest=False)


def maximum3(*operands: Array) -> Array:
    """IEEE 754-2019 maximum of its operands, NaN beating numbers: `V_MAXIMUM3_F32`, `V_PK_MAXIMUM3_F16` (gfx950)."""
    return _propagating(operands, largest=True)


def _propagating(operands: tuple[Array, ...], largest: bool) -> Array:
    result = reduce(lambda a, b: _extreme(a, b, False, largest), operands)
    nan = reduce(np.logical_or, [is_nan(x) for x in operands])
    if not np.any(nan):
        return result
    kind = kind_of(np.asarray(operands[0]))
    return settle_nans(np.where(nan, kind.default_nan, result).astype(kind.float_type), *operands)


# Output modifiers


_OMOD = {0: None, 1: 2.0, 2: 4.0, 3: 0.5}


def omod(x: Array, code: int) -> Array:
    """Result times 2, 4 or 1/2 for OMOD codes 1, 2, 3, with denormal results flushed and -0 made +0.

    (CDNA3 manual, "Output modifiers": OMOD is honoured only while output
    denormals are flushed; the caller checks that.)
    """
    if code not in _OMOD:
        raise ValueError(f"OMOD code must be 0..3, got {code!r}")
    factor = _OMOD[code]
    if factor is None:
        return x
    x = np.asarray(x)
    scaled = flush_denormals(np.asarray(x * x.dtype.type(factor)))
    return settle_nans(np.asarray(scaled + x.dtype.type(0)), x)


def clamp(x: Array, dx10_clamp: bool = True) -> Array:
    """Result limited to [0, 1]: the CLAMP modifier.  NaN gives 0 with MODE.DX10_CLAMP, else itself."""
    x = np.asarray(x)
    zero = x.dtype.type(0)
    inside = np.fmin(np.fmax(x, zero), x.dtype.type(1)) + zero  # the sum settles the sign of zero
    if not dx10_clamp and np.any(is_nan(x)):
        inside = np.where(is_nan(x), quiet_nan(x), inside)
    return inside


# Rounding to integral values


def trunc(x: Array) -> Array:
    """Integral part: `V_TRUNC_F16`, `_F32`, `_F64`; keeps the sign of zero."""
    return settle_nans(np.trunc(x), x)


def ceil(x: Array) -> Array:
    """Next integral value up: `V_CEIL_*`; results in (-1, 0) become -0 as in the pseudocode."""
    return settle_nans(np.ceil(x), x)


def floor(x: Array) -> Array:
    """Next integral value down: `V_FLOOR_*`."""
    return settle_nans(np.floor(x), x)


def rndne(x: Array) -> Array:
    """Nearest integral value, ties to even: `V_RNDNE_*`; keeps the sign of zero.

    The pseudocode's floor(x + 0.5) would round values just below a half up and
    lose -0; IEEE 754 roundToIntegralTiesToEven is what compilers rely on (LLVM
    selects the opcode for `llvm.rint`).
    """
    return settle_nans(np.rint(x), x)


def fract(x: Array) -> Array:
    """x - floor(x) below 1: `V_FRACT_*`; limited to the largest value under 1 as the manual's note says.

    An infinity gives NaN.
    """
    x = np.asarray(x)
    kind = kind_of(x)
    below_one = (kind.uint_type(kind.bias << kind.mantissa_bits) - kind.uint_type(1)).view(kind.float_type)
    return settle_nans(np.minimum(x - np.floor(x), below_one), x)


# Exponents


def frexp_exp(x: Array) -> Array:
    """int32 exponent e with |x| = m * 2**e, 1/2 <= m < 1; 0 for zero, infinity and NaN: `V_FREXP_EXP_*`.

    Denormals are normalised, as the invariant in the manual's note demands.
    """
    _, exponent = np.frexp(np.where(np.isfinite(x), x, 0).astype(np.float64))
    return exponent.astype(np.int32)


def frexp_mant(x: Array) -> Array:
    """Signed significand of magnitude in [1/2, 1); zero, infinity and NaN pass: `V_FREXP_MANT_*`."""
    x = np.asarray(x)
    mantissa, _ = np.frexp(np.where(np.isfinite(x), x, 0).astype(np.float64))
    return settle_nans(np.where(np.isfinite(x), mantissa, x).astype(x.dtype), x)


def ldexp(x: Array, exponent: Array, round_mode: int = RNE) -> Array:
    """x * 2**exponent (int32 array), rounded once: `V_LDEXP_F16`, `_F32`, `_F64`."""
    check_round_mode(round_mode)
    x = np.asarray(x)
    kind = kind_of(x)
    power = np.clip(np.asarray(exponent).astype(np.int32), -3000, 3000)
    if kind is F64:
        return settle_nans(_ldexp64(x, power, round_mode), x)
    # Within these limits float64 holds the scaled value exactly.
    limit = 60 if kind is F16 else 300
    scaled = np.ldexp(x.astype(np.float64), np.clip(power, -limit, limit))
    nearest = np.asarray(scaled.astype(kind.float_type))
    if round_mode != RNE:
        moved = step_directed(nearest, residue_sign(scaled, np.float64(0), nearest), kind, round_mode)
        nearest = np.where(np.isfinite(scaled), moved, nearest).astype(kind.float_type)
    return settle_nans(nearest, x)


def _ldexp64(x: Array, power: Array, round_mode: int) -> Array:
    """float64 scaling: the mantissa is normalised first, so that only one factor can round."""
    mantissa, exponent = np.frexp(np.where(np.isfinite(x), x, 0.0))
    total = exponent.astype(np.int64) + power
    large = np.clip(total, -1021, 1024)
    # |mantissa| * 2**large is exact and normal; the rest, if any, is one rounding step down.
    base = np.where(large == 1024, mantissa * 2.0 * 2.0**1023, mantissa * _power_of_two(np.minimum(large, 1023)))
    rest = total - large
    result = base * _power_of_two(np.clip(rest, -1021, 0)) * np.where(rest > 0, np.inf, 1.0)
    result = np.where(np.isfinite(x) & (x != 0), result, x)
    if round_mode == RNE:
        return result
    exact_back = np.where((rest < 0) & (rest > -1000), result * _power_of_two(np.clip(-rest, 0, 1000)), result)
    residue = np.where(rest < 0, base - exact_back, np.where(np.isinf(result), -result, 0.0))
    residue = np.where(np.isfinite(x), residue, 0.0)
    return step_directed(result, residue, F64, round_mode)


def _power_of_two(exponent: Array) -> Array:
    """2.0**exponent for exponents -1022..1023, from the bits."""
    return np.asarray((np.asarray(exponent).astype(np.int64) + 1023) << 52).view(np.float64)


# Classes


CLASS_NAMES = ("snan", "qnan", "-inf", "-normal", "-denormal", "-zero", "+zero", "+denormal", "+normal", "+inf")
"""Meaning of bits 0..9 of the class mask."""


def class_bits(x: Array) -> Array:
    """uint32 with the one bit of `CLASS_NAMES` that describes each value set."""
    x = np.asarray(x)
    kind = kind_of(x)
    bits = to_bits(x)
    magnitude = bits & kind.magnitude
    negative = (bits & kind.sign) != 0
    field = exponent_field(x)
    positive_bit = np.select([magnitude == kind.infinity_bits, field > 0, magnitude > 0], [9, 8, 7], 6)
    negative_bit = 11 - positive_bit
    number = np.where(negative, negative_bit, positive_bit)
    nan = np.where((bits & kind.quiet) != 0, 1, 0)
    return (np.int64(1) << np.where(is_nan(x), nan, number)).astype(np.uint32)


def class_test(x: Array, mask: Array) -> Array:
    """True where the class of `x` is in `mask` (uint32, bits as `CLASS_NAMES`): `V_CMP_CLASS_*`."""
    return (class_bits(x) & np.asarray(mask, dtype=np.uint32)) != 0


# Odds and ends


def mul_legacy(a: Array, b: Array) -> Array:
    """Product of float32, +0 when either operand is zero whatever the other: `V_MUL_LEGACY_F32`."""
    product = settle_nans(np.multiply(a, b, dtype=np.float32), a, b)
    zero = (np.asarray(a) == 0) | (np.asarray(b) == 0)
    return np.where(zero, np.float32(0), product)
