"""Plans of the skinny K1: what they compute, what they refuse, and what the heuristic picks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hcgr.arch import ARCHS, GFX942, GFX950, Arch
from hcgr.plan.skinny import SkinnyPlan, counter_slots, plan_skinny

GOOD = SkinnyPlan(4, 2560, 336, 324, 8, 4)


def test_figures_of_a_plan() -> None:
    assert (GOOD.lanes, GOOD.waves, GOOD.steps) == (320, 5, 1)
    assert (GOOD.tiles, GOOD.grid(8), GOOD.workgroups(8)) == (81, (81, 4, 1), 324)
    assert (GOOD.token_groups(8), GOOD.token_groups(9)) == (1, 2)
    assert GOOD.partial_elements(8) == 324 * 8 * 4
    assert (GOOD.counter_slots(8), GOOD.counter_slots(9)) == (81, 162)
    assert counter_slots(336, 2) == 168
    assert GOOD.record == 8 * 4 + 8
    assert GOOD.lds_bytes == 5 * 40 * 4 + 16
    wide = replace(GOOD, hs=40960, tokens=3, columns=8)
    assert (wide.lanes, wide.steps, wide.tiles, wide.record) == (512, 10, 41, 28)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hc": 3}, "hc must be a power of two, 2 or more, got 3"),
        ({"hc": 1}, "hc must be a power of two, 2 or more, got 1"),
        ({"hs": 2560 + 64}, "hs must be a positive multiple of 512, got 2624"),
        ({"hs": 0}, "hs must be a positive multiple of 512, got 0"),
        ({"tokens": 0}, "tokens must be 1 to 8, got 0"),
        ({"tokens": 9}, "tokens must be 1 to 8, got 9"),
        ({"columns": 2}, r"columns must be one of \(8, 4\), got 2"),
        ({"n_pad": 332}, "n_pad must be a positive multiple of 8, got 332"),
        ({"n_pad": 0}, "n_pad must be a positive multiple of 8, got 0"),
        ({"live": 0}, "live must be 1 to n_pad=336, got 0"),
        ({"columns": 8, "hs": 8192}, "tokens and columns must take at most 192 registers, got 240"),
        ({"live": 337}, "live must be 1 to n_pad=336, got 337"),
    ],
)
def test_a_plan_says_why_it_cannot_be_built(change: dict[str, Any], message: str) -> None:
    assert not list(GOOD.problems(GFX942))
    problems = list(replace(GOOD, **change).problems(GFX942))
    assert problems
    with pytest.raises(AssertionError, match=message):
        raise AssertionError("; ".join(problems))


def test_lds_is_checked() -> None:
    tiny = replace(GFX942, lds_bytes=GOOD.lds_bytes - 1)
    assert list(GOOD.problems(tiny)) == ["LDS must be at most 815 bytes on gfx942, got 816"]


@pytest.mark.parametrize("arch", ARCHS.values(), ids=ARCHS)
@pytest.mark.parametrize("hc", [2, 4, 8])
@pytest.mark.parametrize("hs", [2560, 8192, 40960])
@pytest.mark.parametrize(("n_pad", "rank"), [(336, 320), (384, 320)])
def test_decode_reads_weights_once_and_fills_the_machine(arch: Arch, hc: int, hs: int, n_pad: int, rank: int) -> None:
    for tokens in range(1, 9):
        plan = plan_skinny(tokens, hc, hs, n_pad, rank + hc, arch.cus, arch)
        assert not list(plan.problems(arch))
        assert plan.token_groups(tokens) == 1
        assert plan.tokens == tokens
        if hc >= 4:
            assert plan.workgroups(tokens) >= arch.cus


def test_fewer_cus_take_wider_column_tiles() -> None:
    assert plan_skinny(8, 4, 2560, 336, 324, 304, GFX942).columns == 4
    assert plan_skinny(8, 4, 2560, 336, 324, 80, GFX942).columns == 8


def test_wide_streams_keep_to_what_fits_in_registers() -> None:
    assert plan_skinny(6, 4, 40960, 336, 324, 80, GFX942).columns == 8
    assert plan_skinny(7, 4, 40960, 336, 324, 80, GFX942).columns == 4


def test_dead_columns_get_no_workgroup() -> None:
    assert plan_skinny(1, 4, 2560, 384, 324, 256, GFX950).tiles == 81
    assert plan_skinny(1, 4, 2560, 336, 320, 256, GFX950, combine=False).tiles == 80


def test_narrowest_packed() -> None:
    plan = plan_skinny(8, 4, 2560, 8, 8, 304, GFX942)
    assert (plan.columns, plan.tiles) == (4, 2)


@pytest.mark.parametrize(
    ("hc", "hs", "n_pad", "live"), [(4, 2500, 336, 324), (3, 2560, 336, 324), (4, 2560, 332, 324), (4, 2560, 8, 9)]
)
def test_shapes_that_no_tile_fits(hc: int, hs: int, n_pad: int, live: int) -> None:
    with pytest.raises(ValueError, match=r"skinny K1: .* got "):
        plan_skinny(1, hc, hs, n_pad, live, 304, GFX942)
