"""One-step rounding to bf16 against exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.rounding import BF16_MAX, F32_OVERFLOW, half_ulp, round_bf16


def rational_rne(value: float) -> float:
    """Nearest bf16, ties to even, by integer arithmetic on the exact fraction."""
    if not math.isfinite(value) or value == 0.0:
        return value
    exact = Fraction(abs(value))
    exponent = max(math.frexp(abs(value))[1] - 8, -133)
    scaled = exact / Fraction(2) ** exponent
    low = scaled.numerator // scaled.denominator
    rest = scaled - low
    units = low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1))
    result = Fraction(units) * Fraction(2) ** exponent
    return math.copysign(math.inf if result > Fraction(BF16_MAX) else float(result), value)


def rounded(value: float) -> float:
    return float(round_bf16(torch.tensor([value], dtype=torch.float64))[0])


@settings(max_examples=400, deadline=None)
@given(st.floats(allow_nan=False, width=64))
def test_any_float64(value: float) -> None:
    assert rounded(value) == rational_rne(value)
    assert math.copysign(1, rounded(value)) == math.copysign(1, value)


@settings(max_examples=300, deadline=None)
@given(st.integers(0x0000, 0x7F7F), st.sampled_from([-1, 0, 1]))
def test_around_every_tie(bits: int, side: int) -> None:
    """Half-way points of neighbouring bf16 numbers, subnormals too, and one float64 step either side."""
    pair = torch.tensor([bits, bits + 1], dtype=torch.int16).view(torch.bfloat16).to(torch.float64)
    low, high = float(pair[0]), float(pair[1])
    tie = (low + (high if math.isfinite(high) else 2.0**128)) / 2
    value = tie if side == 0 else math.nextafter(tie, side * math.inf)
    assert rounded(value) == rational_rne(value)


def test_double_rounding_is_avoided() -> None:
    """Just above a bf16 tie by less than float32 resolves: float32 lands on the tie and would go to even."""
    value = 1.0 + 2.0**-8 + 2.0**-40
    assert rounded(value) == 1.0 + 2.0**-7
    assert float(torch.tensor(value, dtype=torch.float64).to(torch.float32).to(torch.bfloat16)) == 1.0


def test_special_values() -> None:
    out = round_bf16(
        torch.tensor([math.nan, math.inf, -math.inf, -0.0, 2.0**-134, 3 * 2.0**-135, F32_OVERFLOW], dtype=torch.float64)
    ).to(torch.float64)
    assert math.isnan(out[0])
    assert out[1:3].tolist() == [math.inf, -math.inf]
    assert math.copysign(1, float(out[3])) == -1.0
    assert out[4:].tolist() == [0.0, 2.0**-133, math.inf]


def test_refuses_another_dtype() -> None:
    with pytest.raises(TypeError, match=r"float64 \(got torch.float32\)"):
        round_bf16(torch.ones(1))


@settings(max_examples=200, deadline=None)
@given(st.floats(min_value=0.0, max_value=3e38))
def test_half_ulp_bounds_the_rounding_error_and_is_reached_in_the_binade(value: float) -> None:
    half = float(half_ulp(torch.tensor([value], dtype=torch.float64), torch.bfloat16)[0])
    assert abs(rounded(value) - value) <= half
    low = 2.0 ** (math.frexp(value)[1] - 1) if value >= 2.0**-126 else 0.0
    tie = low + half
    assert abs(rounded(tie) - tie) == half
