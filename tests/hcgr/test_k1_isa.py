"""Properties of K1's machine code on both architectures, compiled without a GPU."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict
from functools import cache
from typing import Any

import pytest

from hcgr.arch import ARCHS
from hcgr.plan import k1, k1_limits

from .workers import run_worker

PRODUCTION: dict[str, Any] = {"hc": 4, "hs": 2560, "n_pad": 336, "live": 324}


def fused_plans(arch: str) -> list[k1.K1FusedPlan]:
    entry = ARCHS[arch]
    matrix = {"mfma_k": entry.mfma_k, "dma_bytes": 16 if 16 in entry.lds_dma_bytes else 0}
    shapes: list[dict[str, Any]] = [
        {"splits": 1, "waves": 8},
        {"splits": 1, "waves": 4, "row_tiles": 2},
        {"splits": 4, "waves": 8},
        {"splits": 4, "waves": 4, "row_tiles": 2},
        {"splits": 8, "waves": 2},
        {"splits": 40, "waves": 1},
        {"splits": 1, "waves": 8, "combine": False},
        {"splits": 1, "waves": 8, "n_pad": 384},
        {"splits": 1, "waves": 4, "n_pad": 384, "live": 380},
        {"splits": 4, "waves": 4, "row_tiles": 2, "n_pad": 384, "live": 380},
        {"splits": 1, "waves": 8, "hc": 8, "hs": 40960, "live": 328},
        {"splits": 2, "waves": 8, "hc": 2, "hs": 8192, "live": 322},
    ]
    return [k1.K1FusedPlan(**{**PRODUCTION, **matrix, **shape}) for shape in shapes]


def split_k_plans(arch: str) -> list[k1.K1SplitKPlan]:
    fused = fused_plans(arch)[0]
    base = {**PRODUCTION, "mfma_k": fused.mfma_k, "dma_bytes": fused.dma_bytes}
    shapes: list[dict[str, Any]] = [
        {"splits": 1, "waves": 8},
        {"splits": 4, "waves": 4, "norm_f32": True},
        {"splits": 16, "waves": 2, "norm_full": True},
        {"splits": 4, "waves": 4, "row_tiles": 2, "norm_f32": True, "norm_full": True},
    ]
    return [k1.K1SplitKPlan(**{**base, **shape}) for shape in shapes]


def decoupled_plans(arch: str) -> list[k1.K1DecoupledPlan]:
    entry = ARCHS[arch]
    base = {**PRODUCTION, "mfma_k": entry.mfma_k}
    shapes: list[dict[str, Any]] = [
        {"stages": 2, "dma_bytes": 4},
        {"stages": 2, "dma_bytes": 4, "folded": False},
        {"stages": 3, "dma_bytes": 4, "column_groups": 3, "row_tiles": 2},
        {"stages": 4, "dma_bytes": 4, "column_groups": 7, "row_tiles": 2, "folded": False},
    ]
    if 16 in entry.lds_dma_bytes:
        shapes += [
            {"stages": stages, "dma_bytes": 16, "row_tiles": tiles, "folded": folded}
            for stages, tiles, folded in ((2, 1, True), (3, 2, True), (5, 1, False))
        ]
    return [k1.K1DecoupledPlan(**{**base, **shape}) for shape in shapes]


def other_plans(arch: str) -> list[Any]:
    plans: list[Any] = [k1.K1NormPlan(hc, hs) for hc, hs in ((4, 2560), (8, 8192))]
    plans += [k1.K1NormPlan(4, 2560, True, True, True, True), k1.K1NormPlan(2, 40960, False, True)]
    plans += [k1_limits.reduce_plan(plan) for plan in fused_plans(arch) if plan.splits > 1]
    return plans


MODULES = {
    k1.K1FusedPlan: "k1_fused",
    k1.K1SplitKPlan: "k1_split_k",
    k1.K1DecoupledPlan: "k1_decoupled",
    k1.K1NormPlan: "k1_combine_norm",
    k1.K1ReducePlan: "k1_reduce",
}


def every_plan(arch: str) -> list[Any]:
    return [*fused_plans(arch), *split_k_plans(arch), *decoupled_plans(arch), *other_plans(arch)]


@cache
def build(arch: str) -> dict[Any, dict[str, Any]]:
    """Every plan compiled for `arch`."""
    plans = every_plan(arch)
    request = json.dumps([[MODULES[type(plan)], type(plan).__name__, asdict(plan)] for plan in plans])
    done = run_worker("k1_isa_worker.py", arch, request)
    # FlyDSL reports some backend errors on standard error only, and still returns text.
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr.lower(), done.stderr
    return dict(zip(plans, json.loads(done.stdout), strict=True))


def each(*makers: Any) -> Any:
    cases = [(arch, plan) for arch in ARCHS for maker in makers for plan in maker(arch)]
    return pytest.mark.parametrize(("arch", "plan"), cases, ids=lambda value: str(value))


def mnemonics(lines: list[str]) -> Counter[str]:
    return Counter(line.split()[0] for line in lines if not line.endswith(":"))


def loop_of(lines: list[str]) -> list[str]:
    """The blocks from the first to the last of the innermost loop: around the barriers."""
    barriers = [i for i, line in enumerate(lines) if line == "s_barrier"]
    labels = {line[:-1]: i for i, line in enumerate(lines) if line.endswith(":")}
    for i in range(barriers[-1], len(lines)):
        branch = re.match(r"s_c?branch\S*\s+(\S+)", lines[i])
        if branch and labels[branch[1]] <= barriers[0]:
            return lines[labels[branch[1]] : i + 1]
    raise AssertionError("no loop around the barriers")


def test_every_plan_here_is_within_the_limits_that_are_told() -> None:
    for name, arch in ARCHS.items():
        for fused in fused_plans(name):
            assert not list(k1_limits.fused_problems(fused, arch))
        for split_k in split_k_plans(name):
            assert not list(k1_limits.split_k_problems(split_k, arch))
        for decoupled in decoupled_plans(name):
            assert not list(k1_limits.decoupled_problems(decoupled, arch))


@each(every_plan)
def test_no_spill_no_scratch_no_descriptor(arch: str, plan: Any) -> None:
    built = build(arch)[plan]
    for field in ("vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size"):
        assert built["metadata"][field] == "0", field
    assert not [line for line in built["instructions"] if re.match(r"(buffer|flat|scratch)_(load|store)", line)]


@each(fused_plans, split_k_plans, decoupled_plans)
def test_lds_and_registers_are_what_the_plan_says(arch: str, plan: Any) -> None:
    tile = getattr(plan, "tile", plan)
    metadata = build(arch)[plan]["metadata"]
    assert int(metadata["group_segment_fixed_size"]) == tile.lds_bytes <= ARCHS[arch].lds_bytes
    assert int(metadata["max_flat_workgroup_size"]) == tile.lanes
    # The workgroup has to fit on one compute unit: its waves share four SIMDs.
    assert ARCHS[arch].waves_per_simd(int(metadata["vgpr_count"])) * k1_limits.SIMDS >= tile.waves


@each(fused_plans, split_k_plans)
def test_two_steps_of_matrix_instructions_in_the_loop(arch: str, plan: Any) -> None:
    tile = getattr(plan, "tile", plan)
    lines = build(arch)[plan]["instructions"]
    matrix = sum(n for name, n in mnemonics(loop_of(lines)).items() if name.startswith("v_mfma"))
    everywhere = sum(n for name, n in mnemonics(lines).items() if name.startswith("v_mfma"))
    assert matrix == everywhere == 2 * tile.column_tiles * tile.row_tiles * (32 // tile.mfma_k)


@each(decoupled_plans)
def test_one_step_of_matrix_instructions_in_the_loop(arch: str, plan: Any) -> None:
    lines = build(arch)[plan]["instructions"]
    count = mnemonics(loop_of(lines))
    matrix = sum(n for name, n in count.items() if name.startswith("v_mfma"))
    assert matrix == plan.column_tiles * plan.row_tiles * (32 // plan.mfma_k)
    everywhere = sum(n for name, n in mnemonics(lines).items() if name.startswith("v_mfma"))
    assert matrix == everywhere


@each(decoupled_plans)
def test_asynchronous_loads_have_a_counted_wait_of_the_stated_depth(arch: str, plan: Any) -> None:
    lines = build(arch)[plan]["instructions"]
    dma = "global_load_lds_dword" + ("x4" if plan.dma_bytes == 16 else "")
    loop = loop_of(lines)
    assert mnemonics(loop)[dma] == plan.loads_per_stage
    assert mnemonics(lines)[dma] == plan.stages * plan.loads_per_stage
    # Nothing else in the loop is counted, so the wait leaves exactly the younger stages in flight.
    counted = [line for line in loop if line.startswith(("global_", "buffer_", "flat_"))]
    assert all(line.startswith(dma) for line in counted)
    waits = [re.search(r"vmcnt\((\d+)\)", line) for line in loop]
    assert [int(wait[1]) for wait in waits if wait] == [plan.pending_loads]
    at = loop.index("s_barrier")
    assert re.search(rf"vmcnt\({plan.pending_loads}\)", " ".join(loop[at - 2 : at]))
    assert not [line for line in loop[:at] if line.startswith(dma)]


@each(lambda arch: [p for p in (*fused_plans(arch), *split_k_plans(arch)) if p.dma_bytes])
def test_weights_by_lds_dma_wait_for_all_but_the_prefetched_rows(arch: str, plan: Any) -> None:
    """Between a weight stage's LDS-DMA and its wait there are the row loads, and no store that may be skipped."""
    tile = getattr(plan, "tile", plan)
    loop = loop_of(build(arch)[plan]["instructions"])
    first, second = (i for i, line in enumerate(loop) if line == "s_barrier")
    sent = [i for i, line in enumerate(loop) if line.startswith("global_load_lds_dwordx4")]
    assert len(sent) == 2 * tile.slots
    early = [i for i in sent if first < i < second]
    assert len(early) == tile.slots
    between = [line for line in loop[early[-1] + 1 : second] if line.startswith("global_")]
    assert all(line.startswith("global_load_dwordx4") for line in between)
    assert f"vmcnt({len(between)})" in " ".join(loop[second - 2 : second])
    # The other stage is the youngest operation at its wait.
    late = [i for i in sent if i > second or i < first]
    assert not [line for line in loop[late[-1] + 1 :] if line.startswith("global_")]
    assert "vmcnt(0)" in " ".join(loop[:first])


@each(fused_plans)
def test_residual_is_read_once_and_r2_written_once(arch: str, plan: Any) -> None:
    count = mnemonics(loop_of(build(arch)[plan]["instructions"]))
    rows = 2 * plan.row_tiles * (2 if plan.combine else 1)
    weights = 0 if plan.dma_bytes else 2 * plan.slots
    assert count["global_load_dwordx4"] == rows + weights
    assert count["global_store_dwordx4"] == (2 * plan.row_tiles if plan.combine else 0)
