"""The f32/f64/f16 division macro: div_scale, div_fmas, div_fixup; and trig_preop.

Pseudocode: CDNA3 and CDNA4 ISA manuals, `V_DIV_SCALE_F32` and following.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._tables import two_over_pi
from .bits import F16, F32, F64, Array, exponent_field, is_denormal, is_nan, kind_of, quiet_nan, settle_nans, to_bits
from .fma import exact_fma64, fma32, fma64
from .ieee import ldexp
from .rounding import round_to_odd, two_sum


@dataclass(frozen=True)
class _Division:
    """Constants of the macro for one format."""

    scale: int  # exponent of the scaling
    near_overflow: int  # numerator minus denominator exponent from which the quotient may overflow
    tiny_numerator: int  # biased exponent up to which the numerator is scaled
    underflow: int  # exponent difference below which div_fixup underflows


_F32 = _Division(64, 96, 23, -150)
_F64 = _Division(128, 768, 53, -1075)


def _constants(x: Array) -> _Division:
    kind = kind_of(x)
    if kind is F32:
        return _F32
    if kind is F64:
        return _F64
    raise TypeError(f"div_scale and div_fmas exist for float32 and float64, got {x.dtype}")


def _unscaled(x: Array, constants: _Division) -> bool:
    """True when all exponents are so near 0 that no quotient of two such arrays needs any care."""
    kind = kind_of(x)
    reach = constants.near_overflow // 2 - 1
    low = kind.uint_type((kind.bias - reach) << kind.mantissa_bits)
    span = kind.uint_type((2 * reach + 1) << kind.mantissa_bits)
    return bool(np.all(((to_bits(x) & kind.magnitude) - low) < span))


def div_scale(value: Array, denominator: Array, numerator: Array) -> tuple[Array, Array]:
    """(scaled value, VCC as bool): `V_DIV_SCALE_F32`, `V_DIV_SCALE_F64`.

    `value` must be the numerator or the denominator bit for bit, as the manual
    demands; comparing values decides which of them is meant.

    Departures from the pseudocode, each needed for the macro to divide correctly
    (the tests prove it): the f32 reciprocal counts as denormal in f32, not in
    f64; a large denominator is scaled down, not up; zero operands set VCC, as
    tinygrad's notes on the pseudocode report for hardware.
    """
    value, denominator, numerator = np.broadcast_arrays(value, denominator, numerator)
    constants = _constants(value)
    kind = kind_of(value)
    if _unscaled(denominator, constants) and _unscaled(numerator, constants):
        return np.array(value), np.zeros(value.shape, dtype=bool)
    exponent_n, exponent_d = exponent_field(numerator), exponent_field(denominator)
    special = exponent_d == kind.exponent_max
    reciprocal_tiny = special | (np.abs(1.0 / denominator) < kind.tiny)
    quotient_tiny = special | (np.abs(numerator / denominator) < kind.tiny)
    is_denominator, is_numerator = value == denominator, value == numerator

    zero = (numerator == 0) | (denominator == 0)
    up, down, none = np.int32(constants.scale), np.int32(-constants.scale), np.int32(0)
    rules: list[tuple[Array, Array, bool]] = [  # condition, exponent of the scaling, VCC
        (zero, none, True),
        (exponent_n - exponent_d >= constants.near_overflow, np.where(is_denominator, up, none), True),
        (is_denormal(denominator), up, False),
        (reciprocal_tiny & quotient_tiny, np.where(is_denominator, down, none), True),
        (reciprocal_tiny, down, False),
        (quotient_tiny, np.where(is_numerator, up, none), True),
        (exponent_n <= constants.tiny_numerator, up, False),
    ]
    conditions: list[Array] = [condition for condition, _, _ in rules]
    shift = np.select(conditions, [np.broadcast_to(amount, zero.shape) for _, amount, _ in rules], none)
    vcc = np.select(conditions, [np.full(zero.shape, flag) for _, _, flag in rules], False)
    scaled = np.where(shift != 0, ldexp(value, shift), value)
    return np.where(zero, kind.default_nan, scaled).astype(kind.float_type), vcc


def div_fmas(a: Array, b: Array, c: Array, vcc: Array) -> Array:
    """fma, rescaled where `vcc`: `V_DIV_FMAS_F32` (2**+-64), `V_DIV_FMAS_F64` (2**+-128).

    The manuals print one factor, 2**32 or 2**64, which undoes neither scaling of
    `div_scale`.  The direction comes from the exponent of `c`, the quotient
    estimate: up from 2 on, else down (tinygrad's notes on the pseudocode, from
    hardware).  Fma and scaling round once together: with two roundings the macro
    would not divide correctly where the quotient is denormal.
    """
    a, b, c, vcc = np.broadcast_arrays(a, b, c, vcc)
    constants = _constants(a)
    kind = kind_of(a)
    result = fma32(a, b, c) if kind is F32 else fma64(a, b, c)
    if not np.any(vcc):
        return result
    up = exponent_field(c) > kind.bias
    power = np.where(up, constants.scale, -constants.scale)
    if kind is F32:
        odd = round_to_odd(*two_sum(np.multiply(a, b, dtype=np.float64), c.astype(np.float64)))
        scaled = np.ldexp(odd, power).astype(np.float32)
        return settle_nans(np.where(vcc & np.isfinite(odd), scaled, result), a, b, c)
    result = np.array(result)
    for lane in np.flatnonzero(vcc & np.isfinite(a) & np.isfinite(b) & np.isfinite(c)):
        at = np.unravel_index(lane, vcc.shape)
        result[at] = exact_fma64(float(a[at]), float(b[at]), float(c[at]), exponent=int(power[at]))
    return result


def div_fixup(quotient: Array, denominator: Array, numerator: Array) -> Array:
    """The quotient with its special cases put right: `V_DIV_FIXUP_F16`, `_F32`, `_F64`.

    UNDERFLOW of the pseudocode is taken as the signed zero (*inferred*: the
    manuals name it only).  A NaN quotient of ordinary operands becomes the
    signed infinity (tinygrad's notes on the pseudocode, from hardware).
    """
    quotient, denominator, numerator = np.broadcast_arrays(quotient, denominator, numerator)
    kind = kind_of(quotient)
    if kind is not F16 and not np.any(is_nan(quotient)):
        constants = _constants(quotient)
        if _unscaled(denominator, constants) and _unscaled(numerator, constants):
            sign = (to_bits(denominator) ^ to_bits(numerator)) & kind.sign
            return np.asarray((to_bits(quotient) & kind.magnitude) | sign).view(kind.float_type)
    negative = np.signbit(denominator) != np.signbit(numerator)
    infinity = np.where(negative, -kind.inf, kind.inf)
    zero = np.where(negative, kind.float_type(-0.0), kind.float_type(0))
    infinite_d, infinite_n = np.isinf(denominator), np.isinf(numerator)
    zero_d, zero_n = denominator == 0, numerator == 0
    invalid = np.full(quotient.shape, kind.default_nan)
    rules = [
        (is_nan(numerator), quiet_nan(numerator)),
        (is_nan(denominator), quiet_nan(denominator)),
        ((zero_d & zero_n) | (infinite_d & infinite_n), invalid),
        (zero_d | infinite_n, infinity),
        (infinite_d | zero_n, zero),
    ]
    if kind is not F16:
        gap = exponent_field(numerator) - exponent_field(denominator)
        rules.append((gap < _constants(quotient).underflow, zero))
    rules.append((is_nan(quotient), infinity))
    signed = np.where(negative, -np.abs(quotient), np.abs(quotient))
    # NaN payloads must survive: select among bit patterns, not floats.
    bits = [np.broadcast_to(to_bits(result), signed.shape) for _, result in rules]
    chosen = np.select([condition for condition, _ in rules], bits, to_bits(signed))
    return np.asarray(chosen).view(kind.float_type)


def trig_preop(x: Array, segment: Array) -> Array:
    """53 bits of 2/pi for the range reduction of float64 `x`: `V_TRIG_PREOP_F64`.

    `segment` (uint32, low 5 bits) picks the 53-bit piece; large exponents of x
    skip leading pieces.
    """
    x, segment = np.broadcast_arrays(x, segment)
    exponent = exponent_field(x)
    shift = (segment.astype(np.int64) & 31) * 53
    shift = shift + np.where(exponent > 1077, exponent - 1077, 0)
    distinct, where = np.unique(shift, return_inverse=True)
    pieces = np.array([two_over_pi(int(s)) for s in distinct], dtype=np.float64)[where].reshape(shift.shape)
    return ldexp(pieces, (-53 - shift + np.where(exponent >= 1968, 128, 0)).astype(np.int32))
