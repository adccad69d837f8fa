"""Merging, padding and folding of K1's weight."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from typing import Any

import pytest
import torch

import oracle
from hcgr.weights import fold_norm_weight, merge_gr_two_stage_weight
from oracle import reference


def normal(*shape: int, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize(
    ("r", "hc", "n_pad", "rows"),
    [(320, 4, None, 384), (320, 4, 336, 336), (60, 4, None, 64), (61, 4, None, 128), (4, 4, 8, 8)],
)
def test_rows_are_down_then_inject_then_zeros(r: int, hc: int, n_pad: int | None, rows: int) -> None:
    w_down, w_inject = normal(r, hc * 8), normal(hc, hc * 8, seed=1)
    merged = merge_gr_two_stage_weight(w_down, w_inject, hc, n_pad)
    assert merged.shape == (rows, hc * 8)
    assert merged.dtype == torch.bfloat16
    assert merged.is_contiguous()
    assert torch.equal(merged[:r], w_down)
    assert torch.equal(merged[r : r + hc], w_inject)
    assert not merged[r + hc :].any()


def test_final_mixer_has_no_inject_rows() -> None:
    w_down = normal(320, 16)
    merged = merge_gr_two_stage_weight(w_down, None, 4)
    assert merged.shape == (320, 16)
    assert torch.equal(merged, w_down)
    assert merged.data_ptr() != w_down.data_ptr()


def test_strided_rows_merge() -> None:
    wide = normal(20, 64)
    merged = merge_gr_two_stage_weight(wide[:16, :32], wide[16:, 32:], 4, 32)
    assert torch.equal(merged[:16], wide[:16, :32])
    assert torch.equal(merged[16:20], wide[16:, 32:])


@pytest.mark.parametrize("inference", [False, True])
def test_a_models_parameters_merge_and_fold(inference: bool) -> None:
    """Parameters require a gradient; what is made of them does not, so it can be copied and kept in a state dict."""
    down, inject, norm = (torch.nn.Parameter(normal(*shape)) for shape in ((16, 128), (2, 128), (64,)))
    with torch.inference_mode(inference):
        merged = merge_gr_two_stage_weight(down, inject, 2, 32)
        folded = fold_norm_weight(merged, norm, 2)
        again = fold_norm_weight(torch.nn.Parameter(merged, requires_grad=not inference), norm, 2)
    plain = fold_norm_weight(merge_gr_two_stage_weight(down.data, inject.data, 2, 32), norm.data, 2)
    for weight in (merged, folded, again):
        assert not weight.requires_grad
        assert torch.equal(copy.deepcopy(weight), weight)
        assert torch.equal(pickle.loads(pickle.dumps(weight)), weight)
    assert torch.equal(folded, plain)
    assert torch.equal(again, plain)


@pytest.mark.parametrize("full_width", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("hc", [2, 4, 8])
def test_fold_is_the_reference_and_within_its_bound(hc: int, dtype: torch.dtype, full_width: bool) -> None:
    weight = normal(24, hc * 64)
    norm_weight = normal(hc * 64 if full_width else 64, dtype=dtype, seed=2) * 0.1
    folded = fold_norm_weight(weight, norm_weight, hc)
    assert folded.is_contiguous()
    assert torch.equal(folded, reference.fold_weight(weight, norm_weight, hc))
    comparison = oracle.check_folded_weight(folded, weight, norm_weight, hc)
    assert comparison.passed, comparison


def test_fold_rounds_to_nearest_even_once() -> None:
    """By hand: (1 + 2**-8) * 1.5 = 1.505859375 sits between bf16 1.5 and 1.5078125; the latter is nearer."""
    weight = torch.full((1, 4), 1.5, dtype=torch.bfloat16)
    folded = fold_norm_weight(weight, torch.full((2,), 2.0**-8), 2)
    exact = Fraction(3, 2) * (1 + Fraction(1, 256))
    below, above = Fraction(3, 2), Fraction(3, 2) + Fraction(1, 128)
    nearest = min((below, above), key=lambda value: abs(value - exact))
    assert folded.tolist() == [[float(nearest)] * 4]


def test_fold_of_a_minus_one_weight_is_zero_and_zero_rows_stay_zero() -> None:
    weight = torch.cat([normal(4, 16), torch.zeros(2, 16, dtype=torch.bfloat16)])
    norm_weight = torch.full((8,), -1.0, dtype=torch.bfloat16)
    assert not fold_norm_weight(weight, norm_weight, 2).any()


GOOD: dict[str, Any] = {"w_down": normal(12, 32), "w_inject": normal(4, 32), "hc_count": 4}


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"w_down": [1]}, TypeError, ["w_down", "tensor", "list"]),
        ({"w_down": normal(12, 32).float()}, ValueError, ["w_down", "bfloat16", "float32"]),
        ({"w_down": normal(32)}, ValueError, ["w_down", "rank 2"]),
        ({"w_down": normal(12, 30)}, ValueError, ["w_down", "multiple of hc_count=4", "30"]),
        ({"w_down": normal(0, 32)}, ValueError, ["w_down", "r > 0"]),
        ({"w_inject": normal(3, 32)}, ValueError, ["w_inject", "[HC, K]", "[4, 32]", "[3, 32]"]),
        ({"w_inject": normal(4, 16)}, ValueError, ["w_inject", "[4, 32]", "[4, 16]"]),
        ({"w_inject": normal(4, 32).to("meta")}, ValueError, ["w_inject", "cpu", "meta"]),
        ({"hc_count": 3}, ValueError, ["hc_count", "2, 4, 8", "3"]),
        ({"n_pad": 15}, ValueError, ["n_pad", "at least 16", "15"]),
        ({"n_pad": 16.0}, ValueError, ["n_pad", "integer", "16.0"]),
    ],
)
def test_merge_refuses(changed: dict[str, Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        merge_gr_two_stage_weight(**{**GOOD, **changed})
    assert not [word for word in words if word not in str(caught.value)], str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((None, normal(8), 4), TypeError, ["w_down_merged"]),
        ((normal(8, 32), None, 4), TypeError, ["norm_weight"]),
        ((normal(8, 32).half(), normal(8), 4), ValueError, ["w_down_merged", "bfloat16", "float16"]),
        ((normal(8, 30), normal(8), 4), ValueError, ["w_down_merged", "hc_count=4"]),
        ((normal(8, 32), normal(16), 4), ValueError, ["norm_weight", "[8] or [32]", "[16]"]),
        ((normal(8, 32), normal(8).double(), 4), ValueError, ["norm_weight", "float64"]),
        ((normal(8, 32), normal(8).to("meta"), 4), ValueError, ["norm_weight", "meta"]),
        ((normal(8, 32), normal(8), 5), ValueError, ["hc_count", "5"]),
    ],
)
def test_fold_refuses(arguments: Any, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        fold_norm_weight(*arguments)
    assert not [word for word in words if word not in str(caught.value)], str(caught.value)
