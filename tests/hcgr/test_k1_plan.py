"""K1 plans: geometry, the limits that are told, workspaces, and the heuristic."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch

from hcgr.arch import ARCHS, GFX942, GFX950, Arch
from hcgr.plan import k1_limits
from hcgr.plan.k1 import K1DecoupledPlan, K1FusedPlan, K1NormPlan, K1ReducePlan, K1SplitKPlan
from hcgr.plan.k1_resident import K1ResidentPlan

FUSED = K1FusedPlan(4, 2560, 336, 324)
DECOUPLED = K1DecoupledPlan(4, 2560, 336, 324)
RESIDENT = K1ResidentPlan(4, 2560, 336, 324, row_tiles=2)


def told(problems: Any) -> str:
    return " | ".join(str(problem) for problem in problems)


def test_geometry_of_the_production_tile() -> None:
    assert (FUSED.rows, FUSED.lanes, FUSED.column_tiles, FUSED.slots) == (128, 512, 21, 3)
    assert FUSED.lds_bytes == 2 * 24 * 1024
    assert (FUSED.streams, FUSED.slices, FUSED.columns, FUSED.scaled) == (4, 1, 2560, True)
    assert FUSED.workgroups(129) == 2
    # Two accumulators of 21 tiles of four registers, and 16 x 16 x 16 products over 10240 columns.
    assert FUSED.accumulator_vgprs == 168
    assert FUSED.mfmas(128) == 8 * 21 * 640


@pytest.mark.parametrize(
    ("splits", "streams", "slices", "columns", "scaled"),
    [(1, 4, 1, 2560, True), (2, 2, 1, 2560, True), (4, 1, 1, 2560, True), (20, 1, 5, 512, False)],
)
def test_parts_of_k(splits: int, streams: int, slices: int, columns: int, scaled: bool) -> None:
    plan = replace(FUSED, splits=splits)
    assert (plan.streams, plan.slices, plan.columns, plan.scaled) == (streams, slices, columns, scaled)
    assert streams * columns * splits == 4 * 2560
    assert plan.workgroups(100) == splits


def test_dead_column_tiles_are_not_multiplied() -> None:
    wide = replace(FUSED, n_pad=384)
    assert wide.mfmas(64) == FUSED.mfmas(64)
    assert wide.partial_columns == 336
    assert replace(wide, live=337).column_tiles == 22


@pytest.mark.parametrize("splits", [0, 3, 6, 4 * 3, 4 * 80])
def test_parts_that_k_has_not(splits: int) -> None:
    message = told(k1_limits.fused_problems(replace(FUSED, splits=splits), GFX942))
    assert "split_k must be" in message
    assert f"got {splits}" in message


@pytest.mark.parametrize(
    ("changed", "arch", "words"),
    [
        ({"hs": 2500}, GFX942, ["hs", "512", "2500"]),
        ({"hs": 0}, GFX942, ["hs", "512"]),
        ({"n_pad": 340}, GFX942, ["n_pad", "16", "340"]),
        ({"live": 337}, GFX942, ["live", "n_pad=336", "337"]),
        ({"live": 0}, GFX942, ["live"]),
        ({"mfma_k": 32}, GFX942, ["mfma_k", "gfx942", "32"]),
        ({"dma_bytes": 16}, GFX942, ["dma_bytes", "gfx942", "16"]),
        ({"dma_bytes": 4}, GFX950, ["dma_bytes", "0 or 16", "4"]),
        ({"waves": 9}, GFX950, ["waves", "1 to 8", "9"]),
        ({"row_tiles": 0}, GFX950, ["row_tiles", "0"]),
        ({"row_tiles": 2}, GFX950, ["plan", "256 vector registers", "8 waves", "gfx950"]),
        ({"n_pad": 560, "live": 560, "waves": 1}, GFX942, ["plan", "65536 bytes of LDS", "gfx942", "71680"]),
    ],
)
def test_fused_limits(changed: dict[str, Any], arch: Arch, words: list[str]) -> None:
    message = told(k1_limits.fused_problems(replace(FUSED, **changed), arch))
    assert message
    assert not [word for word in words if word not in message], message


def test_split_k_has_the_limits_of_its_tile() -> None:
    plan = K1SplitKPlan(4, 2560, 336, 324, splits=3)
    assert told(k1_limits.split_k_problems(plan, GFX942)) == told(k1_limits.fused_problems(plan.tile, GFX942))
    assert not told(k1_limits.split_k_problems(replace(plan, splits=4), GFX942))


def test_geometry_of_a_resident_workgroup() -> None:
    assert (RESIDENT.rows, RESIDENT.lanes, RESIDENT.column_tiles, RESIDENT.owned_tiles) == (32, 512, 21, 3)
    assert (RESIDENT.slots, RESIDENT.streams, RESIDENT.lds_bytes) == (5, 4, 32 * 1024)
    # Five pairs of steps of 32 rows: 40 columns a lane and row, two to a register. Six sums of four.
    assert (RESIDENT.resident_vgprs, RESIDENT.accumulator_vgprs) == (80, 24)
    # Those of a folded weight are scaled at the end of each stream, into as many others.
    folded = replace(RESIDENT, folded=True)
    assert (folded.accumulator_vgprs, replace(folded, splits=4).accumulator_vgprs) == (48, 24)
    assert replace(RESIDENT, splits=2).workgroups(33) == 4
    assert RESIDENT.mfmas(33) == 4 * 21 * 640
    most = RESIDENT.max_tokens()
    assert RESIDENT.workgroups(most) * RESIDENT.lanes < 1 << 32 <= RESIDENT.workgroups(most + 1) * RESIDENT.lanes


@pytest.mark.parametrize(
    ("changed", "arch", "words"),
    [
        ({"hs": 2500}, GFX942, ["hs", "512", "2500"]),
        ({"live": 337}, GFX942, ["live", "n_pad=336", "337"]),
        ({"mfma_k": 32}, GFX942, ["mfma_k", "gfx942", "32"]),
        ({"waves": 9}, GFX950, ["waves", "1 to 8", "9"]),
        ({"waves": 3}, GFX950, ["waves", "40 pairs", "HS=2560", "3"]),
        ({"splits": 3}, GFX950, ["split_k", "divisor of HC=4", "3"]),
        ({"splits": 8}, GFX950, ["split_k", "divisor of HC=4", "8"]),
        ({"row_tiles": 0}, GFX942, ["row_tiles", "0"]),
        ({"row_tiles": 4}, GFX942, ["plan", "256 vector registers", "8 waves", "gfx942"]),
        ({"n_pad": 656, "live": 641}, GFX950, ["plan", "at most 40 column tiles with 8 waves", "41"]),
        ({"n_pad": 528, "live": 516, "hs": 3072}, GFX950, ["plan", "at most 32 column tiles with 8 waves", "33"]),
        ({"n_pad": 528, "live": 516, "folded": True}, GFX942, ["plan", "256 vector registers", "about 266"]),
        ({"hs": 40960, "row_tiles": 1}, GFX950, ["plan", "256 vector registers", "about 734"]),
        ({"hs": 512, "row_tiles": 5, "live": 16}, GFX942, ["plan", "65536 bytes of LDS", "gfx942", "81920"]),
    ],
)
def test_resident_limits(changed: dict[str, Any], arch: Arch, words: list[str]) -> None:
    message = told(k1_limits.resident_problems(replace(RESIDENT, **changed), arch))
    assert message
    assert not [word for word in words if word not in message], message


@pytest.mark.parametrize(
    ("plan", "arch", "deepest"),
    [
        # gfx942: 28 KiB a stage leave two in 64 KiB; a third would need 84.
        (DECOUPLED, GFX942, 2),
        # 7 columns tiles on 4 waves and 8 rows' fragments: 16 KiB and 16 loads a stage, (4 - 1) * 16 <= 63.
        (replace(DECOUPLED, column_groups=3, row_tiles=2), GFX942, 4),
        (replace(DECOUPLED, mfma_k=32, dma_bytes=16), GFX950, 5),
        # 4 bytes a lane on gfx950: LDS would hold five, vmcnt counts to 63 = 2.25 stages of 28.
        (replace(DECOUPLED, mfma_k=32), GFX950, 3),
        # 16 steps of 32 columns are all there is.
        (K1DecoupledPlan(2, 512, 16, 16, waves=1, mfma_k=32, dma_bytes=16), GFX950, 32),
    ],
)
def test_deepest_pipeline(plan: K1DecoupledPlan, arch: Arch, deepest: int) -> None:
    assert k1_limits.max_stages(plan, arch) == deepest
    assert not told(k1_limits.decoupled_problems(replace(plan, stages=deepest), arch))
    for stages in (1, deepest + 1):
        message = told(k1_limits.decoupled_problems(replace(plan, stages=stages), arch))
        assert "stages must be 2 to" in message
        assert f"got {stages}" in message
        assert arch.name in message


def test_a_tile_that_no_two_stages_fit_says_so() -> None:
    message = told(k1_limits.decoupled_problems(replace(DECOUPLED, waves=1), GFX942))
    assert "smaller tile" in message


@pytest.mark.parametrize(
    ("changed", "arch", "words"),
    [
        ({"dma_bytes": 16}, GFX942, ["dma_bytes", "must be 4 on gfx942", "16"]),
        ({"dma_bytes": 12, "mfma_k": 32}, GFX950, ["dma_bytes", "4 or 16", "12"]),
        ({"column_groups": 2}, GFX942, ["column_groups", "21", "2"]),
        ({"column_groups": 0}, GFX942, ["column_groups", "0"]),
    ],
)
def test_decoupled_limits(changed: dict[str, Any], arch: Arch, words: list[str]) -> None:
    message = told(k1_limits.decoupled_problems(replace(DECOUPLED, **changed), arch))
    assert not [word for word in words if word not in message], message


def test_workspaces() -> None:
    work = k1_limits.k1_workspace
    assert work(FUSED, 100) == {}
    assert work(replace(FUSED, splits=4, n_pad=384), 100) == {"partials": ((4, 100, 336), torch.float32)}
    raw = work(replace(FUSED, splits=8), 100)
    assert raw == {"partials": ((8, 100, 336), torch.float32), "squares": ((8, 100), torch.float32)}
    assert work(K1SplitKPlan(4, 2560, 336, 324, 8), 100) == {"partials": ((8, 100, 336), torch.float32)}
    assert work(RESIDENT, 100) == {}
    assert work(replace(RESIDENT, splits=4), 100) == {"partials": ((4, 100, 336), torch.float32)}
    assert work(DECOUPLED, 100) == {}
    assert work(replace(DECOUPLED, folded=False), 100) == {"xn": ((100, 10240), torch.bfloat16)}


def test_kernels_before_and_after() -> None:
    assert k1_limits.reduce_plan(FUSED) is None
    assert k1_limits.reduce_plan(replace(FUSED, splits=2)) == K1ReducePlan(4, 2560, 336, 324, 2, False)
    assert k1_limits.reduce_plan(replace(FUSED, splits=8)) == K1ReducePlan(4, 2560, 336, 324, 8, True)
    split = K1SplitKPlan(4, 2560, 336, 324, 8)
    assert k1_limits.reduce_plan(split) == K1ReducePlan(4, 2560, 336, 324, 8, False)
    assert k1_limits.reduce_plan(DECOUPLED) is None
    assert k1_limits.reduce_plan(RESIDENT) is None
    assert k1_limits.reduce_plan(replace(RESIDENT, splits=4)) == K1ReducePlan(4, 2560, 336, 324, 4, False)
    norm = {"norm_f32": True, "norm_full": True}
    assert k1_limits.norm_plan(split, True, **norm) == K1NormPlan(4, 2560)
    assert k1_limits.norm_plan(DECOUPLED, False, **norm) == K1NormPlan(4, 2560, False)
    unfolded = replace(DECOUPLED, folded=False)
    assert k1_limits.norm_plan(unfolded, True, **norm) == K1NormPlan(4, 2560, True, True, True, True)


def traffic_ratio(plan: K1FusedPlan | K1ResidentPlan, tokens: int) -> float:
    """Bytes of combine_and_mix by this plan over the compulsory: partials are written and read once."""
    extra = 0
    for shape, dtype in k1_limits.k1_workspace(plan, tokens).values():
        extra += 2 * torch.Size(shape).numel() * dtype.itemsize
    return 1 + extra / k1_limits.compulsory_bytes(tokens, plan.hc, plan.hs, plan.n_pad, plan.combine)


@pytest.mark.parametrize("arch", ARCHS.values(), ids=lambda arch: arch.name)
@pytest.mark.parametrize("tokens", [1, 9, 64, 512, 777, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 10_000_000])
def test_heuristic_stays_within_the_traffic_budget_and_fills_large_calls(arch: Arch, tokens: int) -> None:
    for cus in (80, arch.cus):
        plan = k1_limits.plan_k1_fused(tokens, 4, 2560, 336, 324, arch, cus)
        assert not told(k1_limits.fused_problems(plan, arch))
        assert traffic_ratio(plan, tokens) <= (1.20 if tokens >= 2048 else 1.35)
        if tokens >= 2048:
            assert plan.workgroups(tokens) >= k1_limits.FILLED * cus
        if tokens >= 128 * cus:
            assert traffic_ratio(plan, tokens) == 1.0


@pytest.mark.parametrize("arch", ARCHS.values(), ids=lambda arch: arch.name)
@pytest.mark.parametrize("tokens", [256, 512, 777, 1024, 2048, 4096, 8192, 16384, 65536, 10_000_000])
def test_resident_heuristic_stays_within_the_traffic_budget_and_fills_large_calls(arch: Arch, tokens: int) -> None:
    for cus, combine in product((80, 228, 256, 304), (True, False)):
        plan = k1_limits.plan_k1_resident(tokens, 4, 2560, 336, 324, arch, cus, combine)
        assert plan is not None
        assert not told(k1_limits.resident_problems(plan, arch))
        assert traffic_ratio(plan, tokens) <= (1.20 if tokens >= 2048 else 1.35)
        if tokens >= 2048:
            assert plan.workgroups(tokens) >= k1_limits.FILLED * cus
        if tokens >= 32 * cus:
            assert (traffic_ratio(plan, tokens), plan.row_tiles) == (1.0, 2)


def test_resident_heuristic_where_no_workgroup_can_hold_a_stream() -> None:
    assert k1_limits.plan_k1_resident(4096, 4, 8192, 336, 324, GFX942, 304) is not None
    assert k1_limits.plan_k1_resident(4096, 4, 40960, 336, 324, GFX942, 304) is None
    assert k1_limits.plan_k1_resident(4096, 4, 100, 336, 324, GFX942, 304) is None


@pytest.mark.parametrize("arch", ARCHS.values(), ids=lambda arch: arch.name)
@pytest.mark.parametrize(("hc", "hs", "n_pad"), [(2, 2560, 336), (4, 8192, 384), (8, 40960, 336), (4, 2560, 384)])
def test_heuristic_finds_a_tile_for_every_shape(arch: Arch, hc: int, hs: int, n_pad: int) -> None:
    for tokens in (1, 100, 4096):
        for live in (320, n_pad):
            plan = k1_limits.plan_k1_fused(tokens, hc, hs, n_pad, live, arch, arch.cus)
            assert not told(k1_limits.fused_problems(plan, arch))


def test_heuristic_says_when_nothing_fits() -> None:
    with pytest.raises(ValueError, match="hs=100"):
        k1_limits.plan_k1_fused(64, 4, 100, 336, 324, GFX942, 304)
