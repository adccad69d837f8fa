"""Which plan a call runs: explicit, tuned, heuristic; discarded plans; LDS, vmcnt and CU counts."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from hcgr import arch as arch_table
from hcgr.plan import choose, k1_limits
from hcgr.plan.k1 import K1DecoupledPlan, K1FusedPlan, K1SplitKPlan
from hcgr.plan.k1_resident import K1ResidentPlan
from hcgr.plan.k2 import K2Plan, plan_k2
from hcgr.plan.skinny import SkinnyPlan
from hcgr.tuned import model, table

HC, HS, R, N_PAD = 4, 2560, 320, 336
LIVE = R + HC
COMMON = {"hc": HC, "hidden": HC * HS, "n_pad": N_PAD, "cus": 256, "evidence": "modelled", "command": "test"}


def k1(tokens: int, arch: str = "gfx950", **changes: Any) -> Any:
    given = {"hc": HC, "hs": HS, "n_pad": N_PAD, "live": LIVE, "cus": arch_table.get(arch).cus, "folded": True}
    given |= changes
    return choose.k1(tokens, arch=arch, **given)


def k2(tokens: int, arch: str = "gfx950", **changes: Any) -> K2Plan:
    given = {"hc": HC, "hs": HS, "rank": R, "cus": arch_table.get(arch).cus, "lora_stride": N_PAD} | changes
    return choose.k2(tokens, arch=arch, **given)


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A table to fill, `gfx950` sections by name; plans chosen with it are forgotten afterwards."""
    sections: dict[str, Any] = {}
    monkeypatch.setattr(table, "loaded", lambda: {"gfx950": sections})
    choose.k1.cache_clear()
    choose.k2.cache_clear()
    yield sections
    choose.k1.cache_clear()
    choose.k2.cache_clear()


def split(**fields: Any) -> dict[str, Any]:
    return {"method": "split_k", "split_k": 2, "row_tiles": 1, "waves": 4, **COMMON, **fields}


def decoupled(**fields: Any) -> dict[str, Any]:
    return {
        "method": "decoupled", "stages": 3, "column_groups": 1, "row_tiles": 1, "waves": 4, **COMMON, **fields
    }  # fmt: skip


def tile(**fields: Any) -> dict[str, Any]:
    return {
        "method": "tile", "block_rows": 64, "column_waves": 8, "stream_waves": 1, "passes": 2, **COMMON, **fields
    }  # fmt: skip


# -- paths -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", arch_table.ARCHS)
@pytest.mark.parametrize("tokens", [1, 3, 8])
def test_few_rows_of_a_folded_weight_are_skinny(tokens: int, arch: str) -> None:
    plan = k1(tokens, arch)
    assert isinstance(plan, SkinnyPlan)
    assert (plan.hc, plan.hs, plan.n_pad, plan.live, plan.combine) == (HC, HS, N_PAD, LIVE, True)


@pytest.mark.parametrize("arch", arch_table.ARCHS)
@pytest.mark.parametrize(("tokens", "folded", "kind"), [(9, True, K1FusedPlan), (8, False, K1SplitKPlan)])
def test_everything_else_is_tiled(tokens: int, folded: bool, kind: type, arch: str) -> None:
    plan = k1(tokens, arch, folded=folded, combine=False, norm_f32=True, norm_full=True)
    assert isinstance(plan, kind)
    expected = {"combine": False} if folded else {"norm_f32": True, "norm_full": True}
    assert {name: getattr(plan, name) for name in expected} == expected


@pytest.mark.parametrize("arch", arch_table.ARCHS)
@pytest.mark.parametrize("cus", [80, 256, 304])
@pytest.mark.parametrize("hs", [512, 2560, 8192, 40960])
@pytest.mark.parametrize("hc", [2, 4, 8])
@pytest.mark.parametrize("folded", [True, False])
def test_every_shape_has_plans_within_the_arch(folded: bool, hc: int, hs: int, cus: int, arch: str) -> None:
    entry = arch_table.get(arch)
    for n_pad in (16, 336, 384):
        rank = min(320, n_pad - 8) // 8 * 8
        for tokens in (1, 8, 9, 100, 511, 2048, 4097, 65536, 10_000_019 if folded else 8_000_001):
            plan = choose.k1(tokens, hc, hs, n_pad, rank + min(hc, 8), arch, cus, folded)
            if isinstance(plan, SkinnyPlan):
                assert not list(plan.problems(entry))
            elif isinstance(plan, K1FusedPlan):
                assert not list(k1_limits.fused_problems(plan, entry))
                assert plan.workgroups(tokens) * plan.lanes < 1 << 32
            elif isinstance(plan, K1ResidentPlan):
                assert tokens >= k1_limits.RESIDENT_ROWS
                assert not list(k1_limits.resident_problems(plan, entry))
                assert plan.workgroups(tokens) * plan.lanes < 1 << 32
            else:
                assert isinstance(plan, K1SplitKPlan)
                assert tokens < k1_limits.RESIDENT_ROWS or hs == 40960
                assert not list(k1_limits.split_k_problems(plan, entry))
            second = choose.k2(tokens, hc, hs, rank, arch, cus, n_pad)
            assert not list(second.problems(entry))
            assert tokens <= second.max_tokens()


@pytest.mark.parametrize("arch", arch_table.ARCHS)
@pytest.mark.parametrize("combine", [True, False])
def test_many_rows_of_an_unfolded_weight_are_resident(combine: bool, arch: str) -> None:
    norm = {"norm_f32": True, "norm_full": True}
    plan = k1(256, arch, folded=False, combine=combine, **norm)
    assert isinstance(plan, K1ResidentPlan)
    assert {name: getattr(plan, name) for name in ("combine", *norm)} == {"combine": combine, **norm}
    assert isinstance(k1(255, arch, folded=False), K1SplitKPlan)
    assert isinstance(k1(17, arch, folded=False, rows=256), K1ResidentPlan)
    # Asked to be split, it is; so is what is not unfolded, and a stream that no workgroup holds.
    for request in (choose.Request(4), choose.Request("auto", None, 16)):
        assert isinstance(k1(256, arch, folded=False, request=request), K1SplitKPlan)
    assert isinstance(k1(256, arch), K1FusedPlan)
    assert isinstance(k1(256, arch, folded=False, hs=40960), K1SplitKPlan)


@pytest.mark.parametrize("arch", arch_table.ARCHS.values(), ids=lambda arch: arch.name)
def test_the_model_finds_the_resident_path_faster_from_where_it_is_taken(arch: arch_table.Arch) -> None:
    part = arch.parts[0]

    def seconds(tokens: int, plan: Any) -> float:
        return sum(model.launch_seconds(work, arch, part) for work in model.k1_works(plan, tokens, arch))

    for tokens, faster in ((128, False), (256, True), (512, True), (2048, True), (8192, True), (65536, True)):
        resident = k1_limits.plan_k1_resident(tokens, HC, HS, N_PAD, LIVE, arch, part.cus)
        tile = k1_limits.plan_k1_fused(tokens, HC, HS, N_PAD, LIVE, arch, part.cus)
        split = K1SplitKPlan(HC, HS, N_PAD, LIVE, tile.splits, tile.row_tiles, tile.waves, tile.mfma_k, tile.dma_bytes)
        assert (seconds(tokens, resident) < seconds(tokens, split)) is faster, tokens


def test_fewer_cus_need_fewer_workgroups() -> None:
    few, many = k1(4096, "gfx942", cus=80), k1(4096, "gfx942", cus=304)
    assert few.rows * many.splits >= many.rows * few.splits
    assert few != many
    assert many.workgroups(4096) > few.workgroups(4096) >= 80 * k1_limits.FILLED


@pytest.mark.parametrize("folded", [True, False])
def test_more_rows_than_a_launch_takes(folded: bool) -> None:
    with pytest.raises(choose.NoPlanError) as caught:
        k1(1 << 31, folded=folded)
    found = re.fullmatch(r"residual must be of at most (\d+) rows in one launch, got \d+ rows", str(caught.value))
    assert found is not None
    assert k1(int(found[1]), folded=folded)
    with pytest.raises(choose.NoPlanError, match=f"at most {found[1]} rows"):
        k1(int(found[1]) + 1, folded=folded)


# -- what the caller asks for ------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", arch_table.ARCHS)
@pytest.mark.parametrize("folded", [True, False])
@pytest.mark.parametrize("splits", [2, 4, 8, 20])
def test_explicit_split_k(splits: int, folded: bool, arch: str) -> None:
    for height in (None, *choose.K1_HEIGHTS):
        plan = k1(256, arch, folded=folded, request=choose.Request(splits, None, height))
        tiles = plan if folded else plan.tile
        assert tiles.splits == splits
        assert height in (None, tiles.rows)


@pytest.mark.parametrize("arch", arch_table.ARCHS)
@pytest.mark.parametrize("folded", [True, False])
def test_split_k_1_and_stages_are_the_decoupled_path(folded: bool, arch: str) -> None:
    for request in (choose.Request(1), choose.Request("auto", 2), choose.Request(1, 4), choose.Request("auto", 3)):
        plan = k1(256, arch, folded=folded, request=request)
        assert isinstance(plan, K1DecoupledPlan)
        assert plan.folded is folded
        assert request.stages in (None, plan.stages)
        assert not list(k1_limits.decoupled_problems(plan, arch_table.get(arch)))


@pytest.mark.parametrize("arch", arch_table.ARCHS)
def test_deeper_pipelines_reread_rows_only_as_far_as_they_must(arch: str) -> None:
    entry = arch_table.get(arch)
    for stages in range(2, {"gfx942": 8, "gfx950": 32}[arch] + 1):
        plan = k1(256, arch, request=choose.Request(1, stages))
        assert plan.lds_bytes <= entry.lds_bytes
        assert plan.pending_loads <= entry.max_vmcnt
        fewer = [g for g in range(1, plan.column_groups) if -(-LIVE // 16) % g == 0]
        for groups in fewer:
            for row_tiles, waves in k1_limits.FUSED_TILES:
                other = K1DecoupledPlan(
                    HC, HS, N_PAD, LIVE, True, stages, groups, row_tiles, waves, plan.mfma_k, plan.dma_bytes
                )
                assert list(k1_limits.decoupled_problems(other, entry))


def test_too_few_k_tiles_for_the_depth() -> None:
    """K = 2 * 512 is 32 steps of 32 columns."""
    shape = {"hc": 2, "hs": 512, "n_pad": 16, "live": 10}
    assert k1(16, request=choose.Request(1, 32), **shape).stages == 32
    with pytest.raises(choose.NoPlanError, match="stages must be 2 to 32"):
        k1(16, request=choose.Request(1, 33), **shape)


# -- the table ---------------------------------------------------------------------------------------------


def test_the_table_chooses(entries: dict[str, Any]) -> None:
    entries["k1"] = {64: split(split_k=4), 1024: decoupled()}
    assert k1(64) == K1FusedPlan(HC, HS, N_PAD, LIVE, True, 4, 1, 4, 32, 16)
    assert k1(64, folded=False) == K1SplitKPlan(HC, HS, N_PAD, LIVE, 4, 1, 4, 32, 16)
    assert k1(1024) == K1DecoupledPlan(HC, HS, N_PAD, LIVE, True, 3, 1, 1, 4, 32, 16)
    assert k1(1 << 20).stages == 3


def test_splits_of_the_table_are_for_what_is_split(entries: dict[str, Any]) -> None:
    entries["k1"] = {64: split(split_k=4), 512: split(split_k=4), 4096: decoupled()}
    assert isinstance(k1(128, folded=False), K1SplitKPlan)
    assert isinstance(k1(512, folded=False), K1ResidentPlan)
    assert k1(512, folded=False, hs=40960, hc=4) == k1(
        512, folded=False, hs=40960, hc=4, request=choose.Request(use_tuned=False)
    )
    assert isinstance(k1(4096, folded=False), K1DecoupledPlan)


def test_below_the_smallest_key_and_for_method_heuristic(entries: dict[str, Any]) -> None:
    plain = {n: k1(n, request=choose.Request(use_tuned=False)) for n in (48, 512)}
    entries["k1"] = {64: split(), 512: {"method": "heuristic", **COMMON}}
    assert k1(48) == plain[48]
    assert k1(512) == plain[512]
    assert k1(64) != k1(64, request=choose.Request(use_tuned=False))


def test_the_skinny_path_is_not_in_the_table(entries: dict[str, Any]) -> None:
    entries["k1"] = {1: split()}
    assert isinstance(k1(8), SkinnyPlan)


def test_a_tile_height_that_does_not_divide_falls_back_to_one_that_does(entries: dict[str, Any]) -> None:
    """M = 224, nearest key 256, tile height 64 -> 32."""
    entries["k1"] = {64: split(), 256: split(waves=4, split_k=4)}
    entries["up_gate_mix"] = {64: tile(), 256: tile()}
    assert k1(256).rows == 64
    assert k1(224).rows == 32
    assert k1(224).splits == 4
    assert k1(240).rows == 16
    assert k2(256).block_rows == 64
    assert k2(224).block_rows == 32
    assert k2(240).block_rows == 16
    assert (k2(224).column_waves, k2(224).passes) == (8, 2)


def test_rows_that_no_height_divides_take_the_heuristic(entries: dict[str, Any]) -> None:
    entries["k1"] = {256: split(split_k=4)}
    entries["up_gate_mix"] = {256: tile()}
    assert k1(257) == k1(257, request=choose.Request(use_tuned=False))
    assert k2(257) == k2(257, use_tuned=False)


def test_gemm_pad_is_what_is_looked_up_and_divided(entries: dict[str, Any]) -> None:
    entries["k1"] = {128: split(row_tiles=1, waves=8, split_k=4)}
    assert k1(100, rows=128).rows == 128
    assert k1(100, rows=112) == k1(100, rows=112, request=choose.Request(use_tuned=False))


@pytest.mark.parametrize("entry", [split(hidden=8192), split(hc=2), split(cus=304)], ids=["hidden", "hc", "cus"])
def test_a_plan_for_something_else_is_discarded(entries: dict[str, Any], entry: dict[str, Any]) -> None:
    entries["k1"] = {1024: entry}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert k1(1024) == k1(1024, request=choose.Request(use_tuned=False))


UNBUILDABLE = {
    "split": split(split_k=3),
    "registers": split(row_tiles=4, waves=8),
    "k tiles": decoupled(stages=321),
    "lds": decoupled(stages=40),
    "groups": decoupled(column_groups=2),
    "beyond all numbers": split(split_k=2**63, row_tiles=10**30),
}


@pytest.mark.parametrize("name", UNBUILDABLE)
def test_a_plan_that_cannot_be_built_is_discarded_aloud(entries: dict[str, Any], name: str) -> None:
    entries["k1"] = {1024: UNBUILDABLE[name]}
    with pytest.warns(choose.DiscardedPlanWarning, match="k1 plan for 1024 rows on gfx950 cannot be built"):
        plan = k1(1024)
    assert plan == k1(1024, request=choose.Request(use_tuned=False))


def test_a_plan_made_for_another_n_pad_or_a_folded_weight_is_discarded_in_silence(entries: dict[str, Any]) -> None:
    entries["k1"] = {1024: split(split_k=3)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for changes in ({"n_pad": 384, "live": 384}, {"folded": False}):
            assert k1(1024, **changes) == k1(1024, **changes, request=choose.Request(use_tuned=False))


def test_a_plan_too_deep_for_this_k_is_discarded(entries: dict[str, Any]) -> None:
    """16 stages fit K = 1024 columns (32 steps); a hidden size of 512 * 2 with 34 stages does not."""
    shape = {"hc": 2, "hs": 512, "n_pad": 16, "live": 10}
    fields = {"hc": 2, "hidden": 1024, "waves": 1}
    entries["k1"] = {16: decoupled(stages=32, **fields), 64: decoupled(stages=33, **fields)}
    assert k1(16, **shape).stages == 32
    assert isinstance(k1(64, **shape), K1FusedPlan)


def test_the_section_of_an_n_pad_goes_first(entries: dict[str, Any]) -> None:
    entries["k1"] = {256: split(split_k=1)}
    entries["k1_n336"] = {256: split(split_k=4)}
    assert k1(256).splits == 4
    assert k1(256, n_pad=384).splits == 1


def test_k2_sections_of_one_stride_hold_for_exact_counts(entries: dict[str, Any]) -> None:
    entries["up_gate_mix"] = {64: tile(passes=1)}
    entries["up_gate_mix_n336"] = {64: tile(passes=5)}
    assert k2(64).passes == 5
    assert k2(128).passes == 1
    assert k2(64, lora_stride=384).passes == 1


@pytest.mark.parametrize("entry", [tile(hidden=8192), tile(hc=2), tile(cus=80)])
def test_a_k2_plan_for_something_else_is_discarded(entries: dict[str, Any], entry: dict[str, Any]) -> None:
    entries["up_gate_mix"] = {64: entry}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert k2(64) == plan_k2(64, HC, HS, R, 256, arch_table.GFX950)


@pytest.mark.parametrize("entry", [tile(passes=3), tile(stream_waves=3), tile(column_waves=16)])
def test_a_k2_plan_that_cannot_be_built_is_discarded_aloud(entries: dict[str, Any], entry: dict[str, Any]) -> None:
    entries["up_gate_mix"] = {64: entry}
    with pytest.warns(choose.DiscardedPlanWarning, match="up_gate_mix plan for 64 rows on gfx950 cannot be built"):
        plan = k2(64)
    assert plan == plan_k2(64, HC, HS, R, 256, arch_table.GFX950)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        k2(64, lora_stride=384)


def test_an_entry_says_nothing_about_norm_weights(entries: dict[str, Any]) -> None:
    entries["up_gate_mix"] = {64: tile()}
    plan = k2(64, norm_f32=True, norm_full=True)
    assert (plan.norm_f32, plan.full_norm, plan.passes) == (True, True, 2)


@pytest.mark.parametrize("block_m", choose.K2_HEIGHTS)
@pytest.mark.parametrize("arch", arch_table.ARCHS)
def test_k2_of_a_given_height(arch: str, block_m: int) -> None:
    """h of 128 rows of r = 320 is 80 KiB, more than gfx942 has; r = 192 fits."""
    plan = k2(256, arch, block_m=block_m, rank=192 if (arch, block_m) == ("gfx942", 128) else R)
    assert plan.block_rows == block_m
    assert not list(plan.problems(arch_table.get(arch)))


def test_k2_of_a_height_that_does_not_fit() -> None:
    with pytest.raises(choose.NoPlanError, match="block_m must be a tile height that fits r=512 on gfx942"):
        choose.k2(256, HC, HS, 512, "gfx942", 304, 384, block_m=128)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_the_committed_table_is_in_use(arch: str) -> None:
    """Every committed tile is taken for its own count and shape."""
    sections = table.loaded()[arch]
    for section, counts in sections.items():
        for tokens, entry in counts.items():
            if entry["method"] == "heuristic":
                continue
            if section.startswith("k1"):
                plan = k1(tokens, arch, n_pad=entry["n_pad"])
                assert (plan.splits, plan.row_tiles, plan.waves) == tuple(
                    entry[name] for name in ("split_k", "row_tiles", "waves")
                )
            else:
                second = k2(tokens, arch, lora_stride=entry["n_pad"])
                names = ("block_rows", "column_waves", "stream_waves", "passes")
                assert all(getattr(second, name) == entry[name] for name in names)


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize(("tokens", "live"), [(9, 516), (100, 516), (255, 516), (65536, 704)])
def test_a_weight_too_wide_for_one_workgroup_is_shared_out(tokens: int, live: int, folded: bool) -> None:
    """r = 512 with inject rows is 33 column tiles, and two stages of that are more than gfx942's LDS."""
    tiles = -(-live // 16)
    plan = choose.k1(tokens, HC, HS, 16 * tiles, live, "gfx942", 304, folded)
    assert isinstance(plan, K1DecoupledPlan)
    assert plan.column_groups * plan.column_tiles == tiles
    assert plan.column_groups > 1
    assert not any(k1_limits.decoupled_problems(plan, arch_table.get("gfx942")))
    assert not isinstance(choose.k1(tokens, HC, HS, 16 * tiles, live, "gfx950", 256, folded), K1DecoupledPlan)


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("tokens", [256, 2048, 65536])
def test_many_rows_of_a_weight_too_wide_for_lds_are_resident(tokens: int, folded: bool) -> None:
    plan = choose.k1(tokens, HC, HS, 528, 516, "gfx942", 304, folded)
    assert isinstance(plan, K1ResidentPlan)
    assert plan.folded is folded
    assert not any(k1_limits.resident_problems(plan, arch_table.get("gfx942")))


def test_too_many_rows_of_a_weight_too_wide_for_one_workgroup() -> None:
    with pytest.raises(choose.NoPlanError, match=r"residual must be of at most .* rows in one launch"):
        choose.k1(1 << 40, HC, HS, 528, 516, "gfx942", 304, True)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"split_k": 1}, "dn_block_m"),
        ({"stages": 2}, "dn_block_m"),
        ({"split_k": 4}, "sk_block_m"),
        ({"split_k": 4, "stages": 2}, "sk_block_m"),
        ({}, "sk_block_m"),
    ],
)
def test_the_tile_height_is_that_of_the_path(asked: dict[str, int], name: str) -> None:
    request: dict[str, Any] = {"split_k": "auto", "stages": None, **asked}
    heights = {"block_m": 128, "dn_block_m": 64, "sk_block_m": 32}
    assert choose.tile_height(**request, **heights) == (name, heights[name])
    assert choose.tile_height(**request, **heights | {name: None}) == ("block_m", 128)
