"""K2's plans: what they compute, what they refuse, and what the heuristic picks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hcgr.arch import ARCHS, GFX942, GFX950, Arch
from hcgr.plan.k2 import BLOCK_ROWS, MAX_RANK, K2Plan, plan_k2, tile_heights

GOOD = K2Plan(4, 2560, 320, 64, 8, 1, 10)


def test_figures_of_a_plan() -> None:
    assert (GOOD.waves, GOOD.lanes, GOOD.block_columns, GOOD.column_groups) == (8, 512, 256, 1)
    assert GOOD.padded_rank == 320
    assert GOOD.lds_bytes == 64 * 320 * 2
    assert (GOOD.row_tiles(1), GOOD.row_tiles(64), GOOD.row_tiles(65)) == (1, 1, 2)
    assert GOOD.workgroups(130) == 3
    split = K2Plan(4, 2560, 336, 32, 2, 4)
    assert (split.waves, split.padded_rank, split.column_groups) == (8, 352, 40)
    assert split.lds_bytes == 32 * 352 * 2 + 3 * 32 * 64 * 4
    assert GOOD.max_tokens() * 8 < 1 << 32
    assert GOOD.max_tokens() > 10_000_000


@pytest.mark.parametrize(("arch", "k"), [(GFX942, 16), (GFX950, 32)])
def test_mfma_count_is_ideal_but_for_row_and_rank_padding(arch: Arch, k: int) -> None:
    assert GOOD.mfmas(64, arch) == 64 * 10240 * 320 // (16 * 16 * k)
    assert GOOD.mfmas(1, arch) == GOOD.mfmas(64, arch)
    padded = replace(GOOD, rank=312)
    assert padded.mfmas(64, arch) == GOOD.mfmas(64, arch)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stream_waves": 3}, "stream_waves must divide hc=4, got 3"),
        ({"stream_waves": 0}, "stream_waves must divide hc=4, got 0"),
        ({"rank": 0}, "rank must be a multiple of 8 up to 512, got 0"),
        ({"rank": 316}, "rank must be a multiple of 8 up to 512, got 316"),
        ({"rank": MAX_RANK + 8, "block_rows": 16}, "rank must be a multiple of 8 up to 512, got 520"),
        ({"block_rows": 48}, r"block_rows must be one of \(128, 64, 32, 16\), got 48"),
        ({"column_waves": 16}, "1 to 8 waves, got 16"),
        ({"column_waves": 0}, "1 to 8 waves, got 0"),
        ({"passes": 3}, "hs=2560 must be a multiple of 256 columns x 3 passes"),
        ({"passes": 0}, "passes must be 1 or more, got 0"),
        ({"hs": 2560 + 64}, "hs=2624 must be a multiple of 256 columns x 10 passes"),
        ({"column_waves": 2, "stream_waves": 4}, "stream_waves above 1 must come with passes=1, got passes=10"),
        ({"rank": 512}, "at most 144 registers, got 160"),
        ({"rank": 448, "full_norm": True}, "at most 144 registers, got 152"),
        ({"block_rows": 128}, "LDS must be at most 65536 bytes on gfx942, got 81920"),
    ],
)
def test_a_plan_says_why_it_cannot_be_built(change: dict[str, Any], message: str) -> None:
    assert not list(GOOD.problems(GFX942))
    problems = list(replace(GOOD, **change).problems(GFX942))
    assert problems
    with pytest.raises(AssertionError, match=message):
        raise AssertionError("; ".join(problems))


@pytest.mark.parametrize("arch", ARCHS.values(), ids=ARCHS)
@pytest.mark.parametrize("hc", [2, 4, 8])
@pytest.mark.parametrize("hs", [512, 2560, 8192, 40960])
@pytest.mark.parametrize("rank", [8, 64, 80, 128, 256, 320, 512])
def test_every_token_count_gets_a_plan_that_can_be_built(arch: Arch, hc: int, hs: int, rank: int) -> None:
    for tokens in (1, 3, 8, 17, 100, 512, 4097, 65536, 10_000_000):
        plan = plan_k2(tokens, hc, hs, rank, arch.cus, arch)
        assert not list(plan.problems(arch)), plan
        assert tokens <= plan.max_tokens()


@pytest.mark.parametrize("arch", ARCHS.values(), ids=ARCHS)
def test_every_cu_gets_a_workgroup_once_there_are_enough(arch: Arch) -> None:
    """And row blocks grow with the tokens, so that w_up is read less often."""
    heights = []
    for tokens in (1, 64, 512, 2048, 8192, 65536):
        plan = plan_k2(tokens, 4, 2560, 320, arch.cus, arch)
        heights.append(plan.block_rows)
        if tokens >= 512:
            assert plan.workgroups(tokens) >= arch.cus
            assert plan.block_columns % 64 == 0, "a workgroup reads whole lines of R2"
    assert heights == sorted(heights)
    tallest = 64 if arch is GFX942 else 128
    assert plan_k2(65536, 4, 2560, 320, arch.cus, arch) == K2Plan(4, 2560, 320, tallest, 8, 1, 10)


def test_fewer_cus_take_taller_blocks() -> None:
    full, reduced = (plan_k2(2048, 4, 2560, 320, cus, GFX942) for cus in (304, 80))
    assert reduced.workgroups(2048) < full.workgroups(2048)
    assert reduced.workgroups(2048) >= 80


@pytest.mark.parametrize(("tokens", "heights"), [(224, (32, 16)), (100, ()), (128, BLOCK_ROWS), (48, (16,))])
def test_heights_that_divide_the_rows(tokens: int, heights: tuple[int, ...]) -> None:
    assert tile_heights(tokens) == heights
    if heights:
        plan = plan_k2(tokens, 4, 2560, 320, 304, GFX942, whole_tiles=True)
        assert plan.block_rows in heights
    else:
        with pytest.raises(ValueError, match=r"tile heights \(128, 64, 32, 16\) divides, got 100 rows"):
            plan_k2(tokens, 4, 2560, 320, 304, GFX942, whole_tiles=True)


@pytest.mark.parametrize(("hs", "rank"), [(2560, 4), (2560, 324), (2560, 1024), (2688, 320)])
def test_shapes_that_no_tile_fits(hs: int, rank: int) -> None:
    with pytest.raises(ValueError, match=f"got HS={hs}, r={rank}"):
        plan_k2(1, 4, hs, rank, 304, GFX942)


def test_full_width_norm_weight_costs_the_tallest_tile() -> None:
    """Eight more registers would spill."""
    plan = plan_k2(65536, 4, 2560, 320, GFX950.cus, GFX950, full_norm=True)
    assert (plan.block_rows, plan.passes) == (64, 10)


def test_options_reach_the_plan() -> None:
    plan = plan_k2(512, 4, 2560, 320, 304, GFX942, full_norm=True, norm_f32=True, activated=True)
    assert plan.full_norm
    assert plan.norm_f32
    assert plan.activated
