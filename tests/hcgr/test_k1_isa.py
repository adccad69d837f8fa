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
from hcgr.plan.k1_resident import K1ResidentPlan

from .workers import in_turn, run_worker

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
        {"splits": 40, "waves": 2},
        {"splits": 1, "waves": 8, "combine": False},
        {"splits": 1, "waves": 8, "n_pad": 384},
        {"splits": 1, "waves": 4, "n_pad": 384, "live": 380},
        {"splits": 4, "waves": 4, "row_tiles": 2, "n_pad": 384, "live": 380},
        {"splits": 1, "waves": 8, "hc": 8, "hs": 40960, "live": 328},
        {"splits": 2, "waves": 8, "hc": 2, "hs": 8192, "live": 322},
    ]
    return [k1.K1FusedPlan(**{**PRODUCTION, **matrix, **shape}) for shape in in_turn(arch, shapes, 4)]


def split_k_plans(arch: str) -> list[k1.K1SplitKPlan]:
    fused = fused_plans(arch)[0]
    base = {**PRODUCTION, "mfma_k": fused.mfma_k, "dma_bytes": fused.dma_bytes}
    shapes: list[dict[str, Any]] = [
        {"splits": 1, "waves": 8},
        {"splits": 4, "waves": 4, "norm_f32": True},
        {"splits": 16, "waves": 2, "norm_full": True},
        {"splits": 4, "waves": 4, "row_tiles": 2, "norm_f32": True, "norm_full": True},
    ]
    return [k1.K1SplitKPlan(**{**base, **shape}) for shape in in_turn(arch, shapes, 1)]


def resident_plans(arch: str) -> list[K1ResidentPlan]:
    base = {**PRODUCTION, "mfma_k": ARCHS[arch].mfma_k}
    shapes: list[dict[str, Any]] = [
        {"row_tiles": 2},
        {"splits": 4},
        {"norm_f32": True, "norm_full": True},
        {"row_tiles": 2, "splits": 4, "norm_f32": True, "norm_full": True},
        {"row_tiles": 2, "splits": 2, "combine": False},
        {"n_pad": 384, "live": 384, "norm_full": True, "combine": False},
        {"hc": 2, "hs": 8192, "live": 322},
        {"hc": 8, "hs": 512, "waves": 4, "row_tiles": 2, "n_pad": 48, "live": 48},
    ]
    return [K1ResidentPlan(**{**base, **shape}) for shape in in_turn(arch, shapes, 2)]


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
    K1ResidentPlan: "k1_resident",
    k1.K1DecoupledPlan: "k1_decoupled",
    k1.K1NormPlan: "k1_combine_norm",
    k1.K1ReducePlan: "k1_reduce",
}


def every_plan(arch: str) -> list[Any]:
    one_pass = [*fused_plans(arch), *split_k_plans(arch), *resident_plans(arch)]
    return [*one_pass, *decoupled_plans(arch), *other_plans(arch)]


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
    """The innermost loop around the barriers, in the order of the text, which may start in its middle."""
    barriers = [i for i, line in enumerate(lines) if line == "s_barrier"]
    labels = {line[:-1]: i for i, line in enumerate(lines) if line.endswith(":")}
    # A loop may be left for a block behind it that branches back.
    ends: dict[int, int] = {}
    for i, line in enumerate(lines):
        branch = re.match(r"s_c?branch\S*\s+(\S+)", line)
        if branch and labels[branch[1]] <= barriers[0] and i > barriers[-1]:
            ends[labels[branch[1]]] = i
    start, end = min(ends.items(), key=lambda span: span[1] - span[0])
    return lines[start : end + 1]


def halves_of(loop: list[str]) -> tuple[list[str], list[str]]:
    """A two-step loop as executed: from the barrier that row loads follow to the next, and from there on."""
    first, second = (i for i, line in enumerate(loop) if line == "s_barrier")
    halves = loop[first + 1 : second], loop[second + 1 :] + loop[:first]
    loads = [sum(line.startswith("global_load_dwordx4") for line in half) for half in halves]
    return halves if loads[0] > loads[1] else (halves[1], halves[0])


def waits_of(lines: list[str]) -> list[int]:
    """The vmcnt of every wait, in order."""
    return [int(match[1]) for line in lines if (match := re.search(r"vmcnt\((\d+)\)", line))]


def test_every_plan_here_is_within_the_limits_that_are_told() -> None:
    for name, arch in ARCHS.items():
        for fused in fused_plans(name):
            assert not list(k1_limits.fused_problems(fused, arch))
        for split_k in split_k_plans(name):
            assert not list(k1_limits.split_k_problems(split_k, arch))
        for resident in resident_plans(name):
            assert not list(k1_limits.resident_problems(resident, arch))
        for decoupled in decoupled_plans(name):
            assert not list(k1_limits.decoupled_problems(decoupled, arch))


@each(every_plan)
def test_no_spill_no_scratch_no_descriptor(arch: str, plan: Any) -> None:
    built = build(arch)[plan]
    for field in ("vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size"):
        assert built["metadata"][field] == "0", field
    assert not [line for line in built["instructions"] if re.match(r"(buffer|flat|scratch)_(load|store)", line)]


@each(fused_plans, split_k_plans, resident_plans, decoupled_plans)
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
    assert waits_of(loop) == [plan.pending_loads]
    # The stage that the wait is for is only overwritten behind the barrier.
    order = [line for line in loop if "vmcnt" in line or line == "s_barrier" or line.startswith(dma)]
    assert "vmcnt" in order[0]
    assert order[1] == "s_barrier"


@each(lambda arch: [p for p in (*fused_plans(arch), *split_k_plans(arch)) if p.dma_bytes])
def test_weights_by_lds_dma_wait_for_all_but_the_prefetched_rows(arch: str, plan: Any) -> None:
    """Between a weight stage's LDS-DMA and its wait there are the row loads, and no store that may be skipped."""
    tile = getattr(plan, "tile", plan)
    first, second = halves_of(loop_of(build(arch)[plan]["instructions"]))
    for half in (first, second):
        assert sum(line.startswith("global_load_lds_dwordx4") for line in half) == tile.slots
    # In the first half the LDS-DMA is followed by the row loads alone, and all of those may be in flight.
    sent = max(i for i, line in enumerate(first) if line.startswith("global_load_lds_dwordx4"))
    younger = [line for line in first[sent + 1 :] if line.startswith("global_")]
    gains = 2 * (2 if plan.norm_f32 else 1) if isinstance(plan, k1.K1SplitKPlan) else 0
    rows = 2 * plan.row_tiles * (2 if getattr(plan, "combine", False) else 1)
    assert len(younger) == rows + gains
    assert all(line.startswith("global_load_dwordx4") for line in younger)
    assert waits_of(first[sent + 1 :]) == [len(younger)]
    # In the second half it is the youngest, so its wait leaves nothing.
    sent = max(i for i, line in enumerate(second) if line.startswith("global_load_lds_dwordx4"))
    assert not [line for line in second[sent + 1 :] if line.startswith("global_")]
    assert 0 in waits_of(second[sent + 1 :])


@each(resident_plans)
def test_resident_registers_are_within_the_estimate_that_limits_plans(arch: str, plan: K1ResidentPlan) -> None:
    vgprs = int(build(arch)[plan]["metadata"]["vgpr_count"])
    assert vgprs <= k1_limits.resident_vgprs(plan)
    # One row tile of the production width leaves room for a second workgroup: one loads while the other multiplies.
    if (plan.row_tiles, plan.hs, plan.n_pad) == (1, 2560, 336):
        assert ARCHS[arch].waves_per_simd(vgprs) * k1_limits.SIMDS >= 2 * plan.waves


@each(resident_plans)
def test_resident_loads_stores_and_matrix_instructions(arch: str, plan: K1ResidentPlan) -> None:
    """Of the text: slots are unrolled, and the last pair of steps of a stream, which fetches no weights, is apart."""
    count = mnemonics(build(arch)[plan]["instructions"])
    steps, rows = 2 * plan.owned_tiles, 2 * plan.row_tiles * plan.slots
    assert sum(n for name, n in count.items() if name.startswith("v_mfma")) == (
        (plan.slots + 1) * steps * plan.row_tiles * (32 // plan.mfma_k)
    )
    gains = 2 * plan.slots * (2 if plan.norm_f32 else 1)
    assert count["global_load_dwordx4"] == rows * (2 if plan.combine else 1) + gains + (plan.slots + 1) * steps
    partials = 0 if plan.splits == 1 else plan.row_tiles * plan.owned_tiles
    assert count["global_store_dwordx4"] == (rows if plan.combine else 0) + partials
    # Around the sums of squares and around each slot.
    assert count["s_barrier"] == 2 + 2 * plan.slots


@each(fused_plans)
def test_residual_is_read_once_and_r2_written_once(arch: str, plan: Any) -> None:
    count = mnemonics(loop_of(build(arch)[plan]["instructions"]))
    rows = 2 * plan.row_tiles * (2 if plan.combine else 1)
    weights = 0 if plan.dma_bytes else 2 * plan.slots
    assert count["global_load_dwordx4"] == rows + weights
    assert count["global_store_dwordx4"] == (2 * plan.row_tiles if plan.combine else 0)
