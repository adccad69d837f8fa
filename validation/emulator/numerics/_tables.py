"""Lookup tables of `transcendental`, computed in integers when first imported.

Nothing here depends on a host math library: square roots and logarithms are
taken in fixed point with Python integers, and each entry is rounded once.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import isqrt

import numpy as np

from .bits import Array

EXP2_BITS = 8
LOG2_BITS = 8
LOG2_ORIGIN = 0x3F350000
"""f32 bits just above sqrt(1/2): log2 reduces its argument to [origin, 2 * origin), so that 1 is well inside."""

_FIXED = 160  # fraction bits of the fixed-point numbers below


def _exp2_entries() -> list[float]:
    """2**(j/256) for j in 0..255, by repeated fixed-point square roots and products."""
    root = 2 << _FIXED
    for _ in range(EXP2_BITS):
        root = isqrt(root << _FIXED)
    entries, power = [], 1 << _FIXED
    for _ in range(1 << EXP2_BITS):
        entries.append(power / (1 << _FIXED))
        power = power * root >> _FIXED
    return entries


def _atanh_series(numerator: int, denominator: int) -> int:
    """2 * atanh(numerator / denominator) in fixed point, by its Taylor series."""
    term = (2 * numerator << _FIXED) // denominator
    total, n = 0, 1
    while term:
        total += term // n
        term = term * numerator * numerator // (denominator * denominator)
        n += 2
    return total


LN2 = _atanh_series(1, 3)
"""log(2) in fixed point: 2 * atanh(1/3)."""


def _log2_fixed(x: Fraction) -> int:
    """log2 of a rational in [1/2, 2], in fixed point."""
    natural = _atanh_series((x - 1).numerator * x.denominator, (x + 1).numerator * x.denominator) if x >= 1 else 0
    if x < 1:
        return -_log2_fixed(1 / x)
    return (natural << _FIXED) // LN2


def _log2_entries() -> tuple[list[float], list[float]]:
    """For each slice of [origin, 2 * origin): a short reciprocal of its middle, and -log2 of that reciprocal.

    The reciprocals have 24 bits, so that their product with a 24-bit mantissa is
    exact in float64, and the slices that touch 1 use exactly 1 so that log2 keeps
    its relative accuracy there.
    """
    reciprocals, logs = [], []
    step = 1 << (23 - LOG2_BITS)
    for j in range(1 << LOG2_BITS):
        low = LOG2_ORIGIN + j * step
        ends = [float(np.uint32(bits).view(np.float32)) for bits in (low, low + step)]
        touches_one = ends[0] <= 1.0 <= ends[1]
        reciprocal = Fraction(1 if touches_one else float(np.float32(2.0 / (ends[0] + ends[1]))))
        reciprocals.append(float(reciprocal))
        logs.append(-_log2_fixed(reciprocal) / (1 << _FIXED))
    return reciprocals, logs


def _freeze(values: list[float]) -> Array:
    table = np.array(values, dtype=np.float64)
    table.flags.writeable = False
    return table


def _power_series(count: int, base: int) -> list[float]:
    """base**n / n! for n in 0..count-1, base in fixed point."""
    entries, term = [], 1 << _FIXED
    for n in range(count):
        entries.append(term / (1 << _FIXED))
        term = (term * base >> _FIXED) // (n + 1)
    return entries


def _pi(fraction_bits: int) -> int:
    """pi in fixed point, truncated, by Machin's formula with guard bits."""
    guard = 64

    def arctan(inverse: int) -> int:
        term = (1 << (fraction_bits + guard)) // inverse
        total, n, sign = 0, 1, 1
        while term:
            total += sign * (term // n)
            term //= inverse * inverse
            n, sign = n + 2, -sign
        return total

    return 4 * (4 * arctan(5) - arctan(239)) >> guard


_TWO_OVER_PI = (1 << 2 * 1300) * 2 // _pi(1300) >> (1300 - 1201)
"""The first 1201 fraction bits of 2/pi."""

EXP2_TABLE = _freeze(_exp2_entries())
LOG2_RECIPROCAL, LOG2_TABLE = (_freeze(entries) for entries in _log2_entries())

EXP2_SERIES = _power_series(6, LN2)
"""Coefficients of 2**r."""

LOG2_SERIES = [0.0] + [(-1) ** (n + 1) * ((1 << 2 * _FIXED) // (LN2 * n)) / (1 << _FIXED) for n in range(1, 6)]
"""Coefficients of log2(1 + r)."""

SIN_SERIES = [(-1) ** n * c for n, c in enumerate(_power_series(22, 2 * _pi(_FIXED))[1::2])]
"""Coefficients of sin(2 pi t) / t in powers of t**2."""


@cache
def two_over_pi(shift: int) -> int:
    """The 53 bits of 2/pi that follow the first `shift` fraction bits; bits beyond 1201 are zero."""
    window = _TWO_OVER_PI << shift >> (1201 - 53)
    return window & ((1 << 53) - 1)
