"""The exact tier: the reference and every twin variant give the same bits, a dropped term other ones."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import check_k1, check_k2, compare_exact, exact, reference
from tests.oracle import twin
from tests.oracle.twin import Fault, Variant

SHAPES = [(3, 2, 96, 12), (5, 4, 64, 20), (4, 8, 128, 16), (2, 4, 2560, 320)]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.sampled_from([2, 4, 8]), st.integers(1, 70), st.integers(0, 2**31))
def test_combine_is_bitwise(m: int, hc: int, hs: int, seed: int) -> None:
    for make in (exact.combine_case, exact.combine_ties):
        c = make(m, hc, hs, seed=seed)
        got = reference.combine(c.residual, c.block_output, c.injection, hc)
        assert compare_exact("combine", got, c.r2).passed
        assert compare_exact(
            "combine", twin.combine(c.residual, c.block_output, c.injection, hc, Variant(seed)), c.r2
        ).passed


def test_ties_case_tells_rounding_to_even_from_away_and_from_truncation() -> None:
    c = exact.combine_ties(4, 4, 64)
    total = c.residual.double().view(4, 4, 64) + c.block_output.double().unsqueeze(1)
    tie = (total.abs() > 256) & (total % 2 != 0)
    assert tie.sum() > 100
    away = torch.where(tie, total + total.sign(), total).to(torch.bfloat16)
    assert not compare_exact("combine", away, c.r2).passed
    toward_zero = torch.where(tie, total - total.sign(), total).to(torch.bfloat16)
    assert not compare_exact("combine", toward_zero, c.r2).passed


@pytest.mark.parametrize(("m", "hc", "hs", "r"), SHAPES)
@pytest.mark.parametrize("fold_w", [True, False])
@pytest.mark.parametrize("eps", [0.0, 3.0])
def test_k1_is_bitwise(m: int, hc: int, hs: int, r: int, fold_w: bool, eps: float) -> None:
    case = exact.k1_case(m, hc, hs, r + hc, r + 16, fold_w=fold_w, eps=eps)
    assert exact.reference_agrees(case)
    assert (case.packed[:, r + hc :] == 0).all()
    r2 = case.combine.r2
    v = Variant(1)
    assert torch.equal(twin.rrms(r2, eps, v), case.rrms)

    def run(fault: Fault) -> torch.Tensor:
        if fold_w:
            return twin.down_folded(r2, case.rrms, case.weight, v, fault)
        return twin.down(r2, case.rrms, case.norm_weight, case.weight, v, fault)

    assert compare_exact("packed", run(Fault()), case.packed, zero_sign=False).passed
    assert not compare_exact("packed", run(Fault(drop_last=True)), case.packed, zero_sign=False).passed
    operand = r2.flatten(1) if fold_w else reference.norm(r2, case.rrms, case.norm_weight).flatten(1)
    assert exact.accumulation_is_exact(operand, case.weight)
    c = case.combine
    assert check_k1(
        r2,
        case.rrms,
        case.packed,
        c.residual,
        c.block_output,
        c.injection,
        case.norm_weight,
        case.weight,
        hc=hc,
        eps=eps,
        fold_w=fold_w,
        live=r + hc,
        exact_sum=True,
    ).passed


@pytest.mark.parametrize(("m", "hc", "hs", "r"), SHAPES)
def test_k2_is_bitwise(m: int, hc: int, hs: int, r: int) -> None:
    c = exact.k2_case(m, hc, hs, r, n_pad=r + 16)
    assert c.lora.stride(0) == r + 16
    assert compare_exact("x", reference.k2(c.lora, c.r2, c.rrms, c.norm_weight, c.w_up, hc), c.x).passed
    args = (c.lora, c.r2, c.rrms, c.norm_weight, c.w_up)
    assert compare_exact("x", twin.gate_mix(*args, Variant(2)), c.x).passed
    assert not compare_exact("x", twin.gate_mix(*args, Variant(2), Fault(drop_last=True)), c.x).passed
    assert check_k2(c.x, *args, hc=hc).passed


def test_case_limits_are_refused() -> None:
    with pytest.raises(ValueError, match=r"eps: must be 0.0 or 3.0"):
        exact.k1_case(1, 4, 64, 8, 8, fold_w=True, eps=1e-6)
    with pytest.raises(ValueError, match=r"hs: HS times its float32 reciprocal must be 1 \(got 41\)"):
        exact.k1_case(1, 4, 41, 8, 8, fold_w=True)


def test_accumulation_is_exact_knows_its_limit() -> None:
    ones = torch.ones(1, 4)
    assert exact.accumulation_is_exact(ones * 2.0**10, ones * 2.0**12)
    assert not exact.accumulation_is_exact(torch.tensor([[1.0, 2.0**24]]), torch.ones(1, 2))
    assert not exact.accumulation_is_exact(ones * torch.inf, ones)
    assert exact.accumulation_is_exact(torch.zeros(1, 4), ones)
