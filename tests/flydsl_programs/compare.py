"""Judging a program's output: bit equality, or a bound derived for each element."""

from __future__ import annotations

from dataclasses import dataclass

import torch

UNIT_ROUNDOFF = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
"""Largest relative error of one round-to-nearest store, by element type."""

U32 = UNIT_ROUNDOFF[torch.float32]

LAMBDA = 8.0
"""Factor of the probabilistic bound of a K-term sum, ``LAMBDA * sqrt(K) * u`` (Higham and Mary 2019)."""


@dataclass(frozen=True)
class Case:
    """One judged output. ``ratio`` is the worst error over its bound: 0 when bit equality was asked."""

    name: str
    passed: bool
    ratio: float
    detail: str


def _worst(name: str, ratio: torch.Tensor, got: torch.Tensor, want: torch.Tensor) -> Case:
    flat = int(torch.argmax(ratio.flatten()))
    worst = float(ratio.flatten()[flat])
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), ratio.shape))
    detail = f"worst at {index}: got {got.flatten()[flat].item()!r}, want {want.flatten()[flat].item()!r}"
    return Case(name, worst <= 1.0, worst, detail)


def exact(name: str, got: torch.Tensor, want: torch.Tensor) -> Case:
    """Equal shape, dtype and bits (so -0.0 differs from 0.0, and a NaN equals the same NaN)."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return Case(name, False, float("inf"), f"got {got.dtype}{got.shape}, want {want.dtype}{want.shape}")
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[got.element_size()]
    differs = got.contiguous().view(width) != want.contiguous().view(width)
    count = int(differs.sum())
    if not count:
        return Case(name, True, 0.0, "")
    case = _worst(name, differs.double(), got, want)
    return Case(name, False, float("inf"), f"{count} of {got.numel()} differ; first {case.detail[9:]}")


def within(name: str, got: torch.Tensor, want: torch.Tensor, bound: torch.Tensor) -> Case:
    """``|got - want| <= bound`` element by element; `want` and `bound` are float64."""
    if got.shape != want.shape:
        return Case(name, False, float("inf"), f"got shape {got.shape}, want {want.shape}")
    error = (got.double() - want).abs()
    ratio = torch.where(error.isfinite(), error / bound, torch.full_like(error, float("inf")))
    ratio = torch.where(error == 0, torch.zeros_like(ratio), ratio)
    return _worst(name, ratio, got, want)


def dot_bound(terms: torch.Tensor, k: int) -> torch.Tensor:
    """Error of a K-term float32 sum of exact products; `terms` is the sum of their magnitudes."""
    return LAMBDA * k**0.5 * U32 * terms


def stored(want: torch.Tensor, bound: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """`bound` after one more rounding to `dtype` of a value near `want`."""
    return bound + UNIT_ROUNDOFF[dtype] * (want.abs() + bound)


def small_integers(generator: torch.Generator, shape: tuple[int, ...], low: int, high: int) -> torch.Tensor:
    """Float64 integers of [low, high]: their products and sums stay exact in float32."""
    return torch.randint(low, high + 1, shape, generator=generator).double()


def poisoned(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Output buffer in which every element holds a NaN (or, for integers, a rare pattern)."""
    if dtype.is_floating_point and dtype.itemsize > 1:
        return torch.full(shape, float("nan"), dtype=dtype)
    return (
        torch.full(shape, 0x5A, dtype=torch.uint8).view(dtype)
        if dtype.itemsize == 1
        else torch.full(shape, -0x5A5A5A5, dtype=dtype)
    )
