"""The comparison must fail on what a broken kernel leaves behind."""

from __future__ import annotations

import pytest
import torch

from . import compare

K = 64


@pytest.fixture
def product() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A float32 product as a kernel would give it, its float64 value and its bound."""
    generator = torch.Generator().manual_seed(1)
    a, b = torch.randn(16, K, generator=generator), torch.randn(16, K, generator=generator)
    want = a.double() @ b.double().t()
    return a @ b.t(), want, compare.dot_bound(a.double().abs() @ b.double().abs().t(), K)


def test_a_right_result_passes(product: tuple[torch.Tensor, ...]) -> None:
    case = compare.within("right", *product)
    assert case.passed
    assert 0 < case.ratio < 1


@pytest.mark.parametrize("fault", ["zero", "shuffled", "one element", "not a number", "dropped term", "shape"])
def test_a_wrong_result_fails(product: tuple[torch.Tensor, ...], fault: str) -> None:
    got, want, bound = product
    wrong = got.clone()
    if fault == "zero":
        wrong.zero_()
    elif fault == "shuffled":
        wrong = wrong.roll(1, 0)
    elif fault == "one element":
        wrong[3, 5] += 1e-2
    elif fault == "not a number":
        wrong[3, 5] = float("nan")
    elif fault == "dropped term":
        wrong *= 1 - 1 / K
    else:
        wrong = wrong[:-1]
    case = compare.within(fault, wrong, want, bound)
    assert not case.passed
    if fault in ("one element", "not a number"):
        assert "(3, 5)" in case.detail


def test_exact_compares_bits() -> None:
    value = torch.tensor([1.0, 0.0, float("nan")])
    assert compare.exact("same", value.clone(), value).passed
    assert not compare.exact("sign of zero", torch.tensor([1.0, -0.0, float("nan")]), value).passed
    assert not compare.exact("dtype", value.double(), value).passed
    assert not compare.exact("shape", value[:2], value).passed
    assert not compare.exact("one bit", torch.tensor([1.0 + 2**-23, 0.0, float("nan")]), value).passed


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.int32, torch.int64])
def test_poison_is_seen(dtype: torch.dtype) -> None:
    poison = compare.poisoned((4, 4), dtype)
    assert poison.dtype == dtype
    assert not compare.exact("unwritten", poison, torch.zeros(4, 4, dtype=dtype)).passed
