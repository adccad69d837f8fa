"""The f32/f64/f16 division macro: div_scale, div_fmas, div_fixup; and trig_preop.

Pseudocode: CDNA3 and CDNA4 ISA manuals, `V_DIV_SCALE_F32` and following.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._tables import two_over_pi
from .bits import F32, F64, Array, exponent_field, is_denormal, is_nan, kind_of, quiet_nan
from .fma import fma32, fma64
from .ieee import ldexp


@dataclass(frozen=True)
class _Division:
    """Constants of the macro for one format."""

    scale: int  # exponent of the scaling in div_scale
    post_scale: int  # exponent of the scaling in div_fmas
    near_overflow: int  # numerator minus denominator exponent from which the quotient may overflow
    tiny_numerator: int  # biased exponent up to which the numerator is scaled
    underflow: int | None  # exponent difference below which div_fixup underflows


_F32 = _Division(64, 32, 96, 23, -150)
_F64 = _Division(128, 64, 768, 53, -1075)


def _constants(x: Array) -> _Division:
    kind = kind_of(x)
    if kind is F32:
        return _F32
    if kind is F64:
        return _F64
    raise TypeError(f"div_scale and div_fmas exist for float32 and float64, got {x.dtype}")


@np.errstate(all="ignore")
def div_scale(value: Array, denominator: Array, numerator: Array) -> tuple[Array, Array]:
    """(scaled value, VCC as bool): `V_DIV_SCALE_F32`, `V_DIV_SCALE_F64`.

    `value` must be the numerator or the denominator bit for bit, as the manual
    demands; comparing values decides which of them is meant.
    """
    value, denominator, numerator = np.broadcast_arrays(value, denominator, numerator)
    constants = _constants(value)
    kind = kind_of(value)
    gap = exponent_field(numerator) - exponent_field(denominator)
    # The reciprocal is examined in double precision for f32 too, as in the pseudocode, but for f32 results.
    reciprocal_tiny = _denormal_reciprocal(denominator)
    quotient_tiny = is_denormal((numerator / denominator).astype(kind.float_type))
    is_denominator, is_numerator = value == denominator, value == numerator

    zero = (numerator == 0) | (denominator == 0)
    overflow = gap >= constants.near_overflow
    cases = [
        zero,
        overflow,
        is_denormal(denominator),
        reciprocal_tiny & quotient_tiny,
        reciprocal_tiny,
        quotient_tiny,
        exponent_field(numerator) <= constants.tiny_numerator,
    ]
    up, down = np.int32(constants.scale), np.int32(-constants.scale)
    shifts = [
        np.int32(0),
        np.where(is_denominator, up, 0),
        up,
        np.where(is_denominator, up, 0),
        down,
        np.where(is_numerator, up, 0),
        up,
    ]
    flags = [False, True, False, True, False, True, False]
    shift = np.select(cases, shifts, 0)
    vcc = np.select(cases, flags, False)
    scaled = np.where(shift != 0, ldexp(value, shift), value)
    return np.where(zero, kind.default_nan, scaled).astype(kind.float_type), vcc


def _denormal_reciprocal(x: Array) -> Array:
    """True where 1/x is denormal in x's format."""
    return is_denormal((1.0 / x).astype(x.dtype))


@np.errstate(all="ignore")
def div_fmas(a: Array, b: Array, c: Array, vcc: Array) -> Array:
    """fma, times 2**32 (f32) or 2**64 (f64) where `vcc`: `V_DIV_FMAS_F32`, `V_DIV_FMAS_F64`.

    As in the pseudocode the fma rounds before the scaling.
    """
    a = np.asarray(a)
    constants = _constants(a)
    result = fma32(a, b, c) if kind_of(a) is F32 else fma64(a, b, c)
    vcc = np.asarray(vcc, dtype=bool)
    if not np.any(vcc):
        return result
    return np.where(vcc, ldexp(np.asarray(result), np.int32(constants.post_scale)), result)


@np.errstate(all="ignore")
def div_fixup(quotient: Array, denominator: Array, numerator: Array) -> Array:
    """The quotient with its special cases put right: `V_DIV_FIXUP_F16`, `_F32`, `_F64`.

    UNDERFLOW and OVERFLOW of the pseudocode are taken as the signed zero and
    infinity (*inferred*: the manuals name them only).
    """
    quotient, denominator, numerator = np.broadcast_arrays(quotient, denominator, numerator)
    kind = kind_of(quotient)
    constants = {F32: _F32, F64: _F64}.get(kind)
    sign = np.where(np.signbit(denominator) != np.signbit(numerator), -1.0, 1.0).astype(kind.float_type)
    infinite_d, infinite_n = np.isinf(denominator), np.isinf(numerator)
    zero_d, zero_n = denominator == 0, numerator == 0
    cases = [
        is_nan(numerator),
        is_nan(denominator),
        (zero_d & zero_n) | (infinite_d & infinite_n),
        zero_d | infinite_n,
        infinite_d | zero_n,
    ]
    zero = np.copysign(kind.float_type(0), sign)
    results = [quiet_nan(numerator), quiet_nan(denominator), kind.default_nan, sign * kind.inf, zero]
    if constants is not None:
        gap = exponent_field(numerator) - exponent_field(denominator)
        cases.append(gap < constants.underflow)
        results.append(zero)
    return np.select(cases, results, np.copysign(quotient, sign)).astype(kind.float_type)


@np.errstate(all="ignore")
def trig_preop(x: Array, segment: Array) -> Array:
    """53 bits of 2/pi for the range reduction of float64 `x`: `V_TRIG_PREOP_F64`.

    `segment` (uint32, low 5 bits) picks the 53-bit piece; large exponents of x
    skip leading pieces.
    """
    x, segment = np.broadcast_arrays(x, segment)
    exponent = exponent_field(x)
    shift = (segment.astype(np.int64) & 31) * 53
    shift = shift + np.where(exponent > 1077, exponent - 1077, 0)
    pieces = np.array([two_over_pi(int(s)) for s in np.ravel(shift)], dtype=np.float64).reshape(shift.shape)
    return ldexp(pieces, (-53 - shift + np.where(exponent >= 1968, 128, 0)).astype(np.int32))
