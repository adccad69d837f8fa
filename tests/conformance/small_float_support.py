"""The small float formats, for the tests of conversions.

Values come from torch's float8 dtypes, and for the formats that torch lacks from a table of every code's value after
the OCP Microscaling specification, searched exactly for the nearest (even) or the neighbours (stochastic) of a value.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import torch

from validation.emulator.machine.waves import FloatMode

SATURATING = FloatMode(fp16_overflow=True)
TORCH = {
    ("fp8", "gfx942"): torch.float8_e4m3fnuz, ("bf8", "gfx942"): torch.float8_e5m2fnuz,
    ("fp8", "gfx950"): torch.float8_e4m3fn, ("bf8", "gfx950"): torch.float8_e5m2,
}  # fmt: skip
LARGEST = {("fp8", "gfx942"): 240.0, ("bf8", "gfx942"): 57344.0, ("fp8", "gfx950"): 448.0, ("bf8", "gfx950"): 57344.0}
BYTES = ("fp8", "bf8")


@dataclass(frozen=True)
class Mini:
    """Sign, exponent, mantissa, bias, no NaN: fp6 (e2m3), bf6 (e3m2), fp4 (e2m1), and the finite part of fp8, bf8."""

    exponent: int
    mantissa: int
    bias: int
    largest: Fraction

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.mantissa

    def value(self, code: int) -> Fraction:
        sign = -1 if code >> (self.bits - 1) else 1
        e, m = (code >> self.mantissa) & ((1 << self.exponent) - 1), code & ((1 << self.mantissa) - 1)
        if e == 0:
            return sign * Fraction(m, 1 << self.mantissa) * Fraction(2) ** (1 - self.bias)
        return sign * (1 + Fraction(m, 1 << self.mantissa)) * Fraction(2) ** (e - self.bias)

    def below(self, x: Fraction) -> int:
        """Code of the largest magnitude not above |x|, without its sign."""
        return bisect_right(magnitudes(self), min(abs(x), self.largest)) - 1

    def signed(self, code: int, negative: bool) -> int:
        return code | (1 << (self.bits - 1) if negative else 0)

    def nearest(self, x: float) -> int:
        """Code, saturating; ties to the even code."""
        exact = abs(Fraction(x))
        low = self.below(exact)
        if exact >= self.largest:
            return self.signed(low, math.copysign(1, x) < 0)
        up = self.value(low + 1) - exact
        down = exact - self.value(low)
        code = low if down < up or (down == up and low % 2 == 0) else low + 1
        return self.signed(code, math.copysign(1, x) < 0)

    def stochastic(self, x: float, seed: int, lost: int) -> int:
        """The lower neighbour, or the upper when the dropped fraction plus the top ``lost`` seed bits reach 1."""
        exact = abs(Fraction(x))
        low = self.below(exact)
        if exact < self.largest:
            fraction = (exact - self.value(low)) / (self.value(low + 1) - self.value(low))
            low += fraction + Fraction(seed >> (32 - lost), 1 << lost) >= 1
        return self.signed(low, math.copysign(1, x) < 0)


@cache
def magnitudes(mini: Mini) -> list[Fraction]:
    """Values of the codes without sign, which ascend with the code."""
    return [mini.value(c) for c in range(1 << (mini.bits - 1))]


MINI = {
    "fp6": Mini(2, 3, 1, Fraction(15, 2)), "bf6": Mini(3, 2, 3, Fraction(28)), "fp4": Mini(2, 1, 1, Fraction(6)),
    "fp8": Mini(4, 3, 7, Fraction(448)), "bf8": Mini(5, 2, 15, Fraction(57344)),
}  # fmt: skip
SOURCE_BITS = {"f32": 23, "f16": 10, "bf16": 7}


def random_step(state: int) -> int:
    return ((state << 1) & 0xFFFFFFFF) ^ (0xC5 if state >> 31 else 0)


def decoded(name: str, arch: str, codes: np.ndarray) -> np.ndarray:
    return torch.tensor(codes.astype(np.uint8)).view(TORCH[name, arch]).to(torch.float32).numpy()


def encoded(name: str, arch: str, values: np.ndarray) -> np.ndarray:
    return torch.tensor(values.astype(np.float32)).to(TORCH[name, arch]).view(torch.uint8).numpy().astype(np.uint32)


def same_float(got: np.ndarray, expected: np.ndarray) -> None:
    nan = np.isnan(expected)
    assert (np.isnan(got) == nan).all()
    assert (got[~nan].view(np.uint32) == expected[~nan].view(np.uint32)).all()


def finite_values(name: str, arch: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=64) * 2.0 ** rng.integers(-18, 9, 64)
    values[:6] = [0.0, -0.0, 2.0**-40, -(2.0**-40), 1.0, 1.0625]
    return np.clip(values, -LARGEST[name, arch], LARGEST[name, arch]).astype(np.float32)
