"""Judge of the numerics tests: rounding of exact rationals, written without the code under test."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np


class Binary(NamedTuple):
    """A binary format with infinities: explicit mantissa bits, smallest and largest exponent."""

    mantissa: int
    low: int
    high: int


BINARY = {
    np.dtype(np.float16): Binary(10, -14, 15),
    np.dtype(np.float32): Binary(23, -126, 127),
    np.dtype(np.float64): Binary(52, -1022, 1023),
}
BF16 = Binary(7, -126, 127)


def exponent_of(x: Fraction) -> int:
    """e with 2**e <= |x| < 2**(e + 1)."""
    e = abs(x.numerator).bit_length() - x.denominator.bit_length()
    return e if abs(x) >= Fraction(2) ** e else e - 1


def round_exact(x: Fraction, fmt: Binary, mode: int = 0) -> Fraction | str:
    """x rounded to `fmt` (0 nearest even, 1 up, 2 down, 3 to zero); "inf" or "-inf" on overflow."""
    if x == 0:
        return x
    quantum = Fraction(2) ** (max(exponent_of(x), fmt.low) - fmt.mantissa)
    steps, rest = divmod(abs(x), quantum)
    away = (mode == 1 and x > 0) or (mode == 2 and x < 0)
    if mode == 0:
        up = rest * 2 > quantum or (rest * 2 == quantum and steps % 2 == 1)
    else:
        up = away and rest > 0
    value = (steps + up) * quantum
    top = (2 - Fraction(1, 2**fmt.mantissa)) * Fraction(2) ** fmt.high
    if value > top:
        if mode in (0,) or away:
            return "inf" if x > 0 else "-inf"
        value = top
    return value if x > 0 else -value


def same(value: Any, expected: Fraction | str) -> bool:
    """True when a float equals an expected rational or infinity."""
    number = float(value)
    if isinstance(expected, str):
        return number == float(expected)
    return np.isfinite(number) and Fraction(number) == expected


def hard_pool(dtype: Any, rng: np.random.Generator, count: int) -> np.ndarray:
    """Random bit patterns mixed with the values where rounding goes wrong: edges, ties, neighbours of powers."""
    info = np.finfo(dtype)
    uint = np.dtype(f"u{np.dtype(dtype).itemsize}")
    top = 1 << (8 * uint.itemsize)
    random_bits = rng.integers(0, top, count, dtype=uint).view(dtype)
    edges = [0.0, info.smallest_subnormal, info.tiny, info.max, 1.0, 1.0 + info.eps, 1.0 - info.epsneg, 2.0, 3.0, 0.5]
    special = np.array([*edges, *[-x for x in edges], np.inf, -np.inf, np.nan], dtype=dtype)
    powers = np.ldexp(dtype(1), rng.integers(info.minexp, info.maxexp, count)).astype(dtype)
    near = (powers.view(uint) + rng.integers(0, 3, count).astype(uint) - uint.type(1)).view(dtype)
    short = (rng.integers(-64, 64, count) / np.float64(16)).astype(dtype)
    return np.concatenate([random_bits, special, near, short])
