"""Correct float32 runs must pass, whatever their order, split count, fusing and 1-ulp intrinsics."""

from __future__ import annotations

import pytest

import oracle
from oracle.inputs import KINDS
from tests.oracle import twin
from tests.oracle.stages import EPS, PRODUCTION, SMALL, STAGES, case
from tests.oracle.twin import Variant

RUNS = 200


@pytest.mark.parametrize("name", STAGES)
def test_correct_runs_pass(name: str) -> None:
    stage = STAGES[name]
    kinds = list(KINDS)
    for start in range(0, RUNS, 10):
        c = case(SMALL, start, kinds[start // 10 % len(kinds)])
        for seed in range(start, start + 10):
            result = stage.run(c, Variant(seed))
            assert result.passed, f"seed {seed}: {result}"
            assert result.undetermined <= result.elements // 10


@pytest.mark.parametrize("name", STAGES)
@pytest.mark.parametrize("kind", ["normal", "wide", "large_mean"])
def test_correct_runs_pass_at_production_width(name: str, kind: str) -> None:
    result = STAGES[name].run(case(PRODUCTION, 7, kind), Variant(7))
    assert result.passed, result
    assert result.undetermined == 0


@pytest.mark.parametrize("hc", [2, 8])
def test_other_stream_counts_pass(hc: int) -> None:
    c = case((5, hc, 128, 16, 32), 3)
    for name, stage in STAGES.items():
        result = stage.run(c, Variant(3))
        assert result.passed, f"{name}: {result}"


@pytest.mark.parametrize("fold_w", [True, False])
@pytest.mark.parametrize("shape", [SMALL, PRODUCTION])
def test_end_to_end_passes(fold_w: bool, shape: tuple[int, int, int, int, int]) -> None:
    for seed in range(20 if shape is SMALL else 1):
        c, v = case(shape, seed), Variant(seed + 1000)
        i = c.inp
        r = i.w_up.shape[1]
        r2 = twin.combine(i.residual, i.block_output, i.injection, i.hc, v)
        rrms = twin.rrms(r2, EPS, v)
        weight = i.folded if fold_w else i.merged
        packed = twin.down_folded(r2, rrms, weight, v) if fold_w else twin.down(r2, rrms, i.norm_weight, weight, v)
        x = twin.gate_mix(packed[:, :r], r2, rrms, i.norm_weight, i.w_up, v)
        whole = oracle.check_combine_and_mix(
            r2,
            x,
            packed[:, r : r + i.hc],
            i.residual,
            i.block_output,
            i.injection,
            i.norm_weight,
            weight,
            i.w_up,
            hc=i.hc,
            eps=EPS,
            fold_w=fold_w,
            splits=v.splits,
        )
        assert whole.passed, whole
        assert list(whole.stages) == ["r2", "inj_next", "x"]
        staged = oracle.check_k1(
            r2,
            rrms,
            packed,
            i.residual,
            i.block_output,
            i.injection,
            i.norm_weight,
            weight,
            hc=i.hc,
            eps=EPS,
            fold_w=fold_w,
            live=c.live,
            splits=v.splits,
        )
        assert staged.passed, staged
        hidden = oracle.check_k1(
            r2,
            None,
            packed,
            i.residual,
            i.block_output,
            i.injection,
            i.norm_weight,
            weight,
            hc=i.hc,
            eps=EPS,
            fold_w=fold_w,
            live=c.live,
            splits=v.splits,
        )
        assert hidden.passed, hidden
