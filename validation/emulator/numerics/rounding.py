"""Building blocks of correct rounding: error-free sum, round to odd, directed steps."""

from __future__ import annotations

import numpy as np

from .bits import RNE, TOWARD_NEGATIVE, TOWARD_POSITIVE, TOWARD_ZERO, Array, FloatKind

_ONE = np.uint64(1)


def check_round_mode(round_mode: int) -> None:
    """ValueError unless `round_mode` is one of the four MODE.FP_ROUND values."""
    if round_mode not in (RNE, TOWARD_POSITIVE, TOWARD_NEGATIVE, TOWARD_ZERO):
        raise ValueError(f"round_mode must be 0 (RNE), 1 (+inf), 2 (-inf) or 3 (toward zero), got {round_mode!r}")


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Knuth's error-free sum in float64: (s, e) with s = fl(a + b) and s + e = a + b exactly."""
    s = a + b
    part = s - a
    return s, (a - (s - part)) + (b - part)


def round_to_odd(s: Array, e: Array) -> Array:
    """Round s + e (|e| at most half an ulp of s) to odd: the sticky bit ends up in the last place."""
    bits = np.asarray(s).view(np.uint64)
    fix = (e != 0) & ((bits & _ONE) == 0)
    up = (e > 0) == (s > 0)
    return np.where(fix, np.where(up, bits + _ONE, bits - _ONE), bits).view(np.float64)


def step_directed(nearest: Array, residue: Array, kind: FloatKind, round_mode: int) -> Array:
    """Move `nearest` one step where a directed mode asks for it.

    `residue` has the sign of (exact - nearest); its magnitude is not used.
    """
    bits = np.array(nearest).view(kind.uint_type)
    negative = (bits & kind.sign) != 0
    grow = bits + kind.uint_type(1)
    shrink = np.where((bits & kind.magnitude) == 0, kind.uint_type(1) | kind.sign, bits - kind.uint_type(1))
    shrink_up = np.where((bits & kind.magnitude) == 0, kind.uint_type(1), bits - kind.uint_type(1))
    up = np.where(negative, shrink_up, grow)
    down = np.where(negative, grow, shrink)
    if round_mode == TOWARD_POSITIVE:
        out = np.where(residue > 0, up, bits)
    elif round_mode == TOWARD_NEGATIVE:
        out = np.where(residue < 0, down, bits)
    else:
        out = np.where((residue < 0) & ~negative | (residue > 0) & negative, bits - kind.uint_type(1), bits)
    return out.astype(kind.uint_type).view(kind.float_type)


def residue_sign(s: Array, e: Array, nearest: Array) -> Array:
    """Sign of (s + e) - nearest for float64 s, e and a result `nearest` of any format."""
    wide = nearest.astype(np.float64)
    gap = np.where(np.isinf(wide) & np.isfinite(s), np.where(wide > 0, -1.0, 1.0), s - wide)
    return np.where(gap != 0, gap, e)


def signed_zero(result: Array, a: Array, b: Array, round_mode: int) -> Array:
    """An exact zero sum of operands of opposite sign is -0 when rounding down (IEEE 754, 6.3)."""
    if round_mode != TOWARD_NEGATIVE:
        return result
    opposite = np.signbit(a) != np.signbit(b)
    return np.where((result == 0) & opposite, -np.abs(result), result).astype(result.dtype)
