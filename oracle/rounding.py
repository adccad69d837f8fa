"""Rounding to the two storage formats, in one step from float64, and the constants of the error model.

``Tensor.to(torch.bfloat16)`` on a float64 tensor rounds twice (through float32), which moves a value that
float32 rounds onto a bf16 tie.  A reference may not do that, so the one-step rounding is written out here.
"""

from __future__ import annotations

import torch
from torch import Tensor

U32 = 2.0**-24
"""Unit roundoff of float32 (24-bit significand, round to nearest)."""

ULP32 = 2.0 * U32
"""One float32 ulp relative to the value, at worst: the error of an intrinsic that is good to 1 ulp."""

UB = 2.0**-8
"""Unit roundoff of bf16 (8-bit significand): half an ulp relative to the value, at worst.

At the top of a binade half an ulp is only 2**-9 of the value; `half_ulp` gives the amount that holds at
each value, which is the tightest bound that round-to-nearest allows.
"""

LAMBDA = 8.0
"""Confidence factor of the probabilistic accumulation bound ``LAMBDA * sqrt(K) * U32 * S``."""

TINY32 = 2.0**-126
"""Smallest normal float32: the most that a transcendental unit loses by flushing a subnormal result."""

SUBNORMAL32 = 2.0**-149
"""Spacing of subnormal float32 numbers: the absolute error of an underflowing multiply, at worst."""

F32_OVERFLOW = 2.0**128 - 2.0**103
"""Smallest magnitude that rounds to Inf in float32."""

BF16_MAX = 2.0**128 - 2.0**120
"""Largest finite bf16."""

_DROPPED = 45  # significand bits that float64 has (52) and bf16 has not (7)
_EXPONENT = 0x7FF0000000000000
_BF16_HALF_SPACING_MIN = 2.0**-134


def round_bf16(value: Tensor) -> Tensor:
    """Round a float64 tensor to bf16 once, to nearest even, keeping NaN, Inf, -0 and subnormals."""
    if value.dtype != torch.float64:
        raise TypeError(f"round_bf16: value must be float64 (got {value.dtype}); convert it exactly first")
    bits = value.contiguous().view(torch.int64)
    odd = (bits >> _DROPPED) & 1
    kept = (bits + ((1 << (_DROPPED - 1)) - 1) + odd) & -(1 << _DROPPED)
    rounded = kept.view(torch.float64)
    size = value.abs()
    small = size < 2.0**-126
    if bool(small.any()):
        # Below the normal range the spacing is constant: adding 1.5 * 2**52 spacings makes float64 round there.
        shift = 1.5 * 2.0 ** (52 - 133)
        rounded = torch.where(small, torch.copysign((value + shift) - shift, value), rounded)
    # What is not above the largest bf16 does not round to more; a NaN makes the comparison false too
    if not (value.numel() and bool(size.amax() <= BF16_MAX)):
        infinite = torch.copysign(torch.full_like(value, torch.inf), value)
        rounded = torch.where(rounded.abs() > BF16_MAX, infinite, rounded)
        rounded = torch.where(value.isnan(), value, rounded)
    return rounded.to(torch.float32).to(torch.bfloat16)


def round_to(value: Tensor, dtype: torch.dtype) -> Tensor:
    """Round a float64 tensor once to `dtype` (bfloat16, float32 or float64)."""
    if dtype == torch.bfloat16:
        return round_bf16(value)
    if dtype in (torch.float32, torch.float64):
        return value.to(dtype)
    raise TypeError(f"round_to: dtype must be bfloat16, float32 or float64 (got {dtype})")


def half_ulp(magnitude: Tensor, dtype: torch.dtype) -> Tensor:
    """Largest error of a store to `dtype` of any value up to `magnitude` (float64, >= 0).

    bf16: half the spacing in the binade of `magnitude`.  float32: zero, because a float32 output is the
    result of the last operation itself, whose rounding the bound of the stage already counts.
    """
    if dtype == torch.float32:
        return torch.zeros_like(magnitude)
    if dtype != torch.bfloat16:
        raise TypeError(f"half_ulp: dtype must be bfloat16 or float32 (got {dtype})")
    binade = (magnitude.contiguous().view(torch.int64) & _EXPONENT).view(torch.float64)
    return binade.mul_(UB).clamp_min_(_BF16_HALF_SPACING_MIN)
