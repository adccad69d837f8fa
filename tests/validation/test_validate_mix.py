"""HCGR's mixing entry points: what the default grid holds, which rows run, and cases end to end in the emulator."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hcgr.dispatch import Launch
from hcgr.plan import choose, k1_limits
from hcgr.plan.k1 import K1DecoupledPlan, K1FusedPlan
from oracle.guards import poison, unwritten
from validation.devices import emulator
from validation.devices.pool import Pool
from validation.kit import check_form, check_written, contiguous_spans, neighbours
from validation.operation import EntryPoint, load_operation
from validation.ops import k1_contract, k2_contract, mix_contract
from validation.ops.allocations import own_allocations, poison_rows
from validation.ops.axes import PRODUCTION, SMALL
from validation.ops.chosen import BLOCK, MOST_ELEMENTS, Recorder, choose_rows, workgroups_of
from validation.ops.contract_rows import COMBINE_AND_MIX_CONTRACT, K1_CONTRACT, K2_CONTRACT, MIX_CONTRACT
from validation.ops.planning import decoupled_table, planned
from validation.ops.staged import check_wiring, k1_calls
from validation.stages import STAGES, Request, correctness

OPERATION = load_operation("hcgr")
BF16 = torch.bfloat16
#: What the issue asks of a default run on each arch.
LEAST_CASES, LEAST_A_PATH = 300, 20


def covers() -> list[tuple[EntryPoint, Any]]:
    return [(entry, case) for entry in OPERATION.entry_points for case in entry.grid.pairwise(0)]


def test_default_grid_is_large_enough_and_takes_every_path() -> None:
    executed = [(entry, case) for entry, case in covers() if entry.launches(case.params)]
    paths = Counter(path for entry, case in executed for path in entry.paths(case.params))
    assert len(executed) >= LEAST_CASES
    assert set(paths) == set(OPERATION.kernel_paths.values())
    assert min(paths.values()) >= LEAST_A_PATH, paths


@pytest.mark.parametrize("seed", [1, 2])
def test_every_cover_is_a_cover(seed: int) -> None:
    for entry in OPERATION.entry_points:
        cases = entry.grid.pairwise(seed)
        # pairs that only a third axis makes illegal are the grid's to drop, none of these grids has any
        assert entry.grid.uncovered(cases) == [], entry.name
        for case in cases:
            assert entry.grid.decode(case.name).params == case.params


def test_grid_holds_what_the_published_suite_leaves_open() -> None:
    cases = [case.params for entry, case in covers() if entry.name == "combine_and_mix"]
    assert any(p["shape"] == PRODUCTION and p["fold"] and p["m"] > 8192 for p in cases)
    assert {p["plan"] for p in cases} == {"heuristic", "shipped", "decoupled", "cus80"}
    assert any(p["layers"] == 3 for p in cases)
    assert any(p["m"] * p["shape"].width * 2 > 1 << 32 for p in cases)
    assert {p["shape"].hs for p in cases} >= {512, 2560, 8192, 40960}
    assert {p["shape"].hc for p in cases} == {2, 4, 8}
    direct = [case.params for entry, case in covers() if entry.name == "k1"]
    assert {8, 336, 384} <= {p["shape"].n_pad for p in direct}
    assert {p["request"].get("stages") for p in direct} >= {2, 3, 4}


@pytest.mark.parametrize(
    ("rows", "calls"),
    [
        (COMBINE_AND_MIX_CONTRACT, mix_contract.ROWS),
        (K1_CONTRACT, k1_contract.ROWS),
        (K2_CONTRACT, k2_contract.ROWS),
    ],
)
def test_every_contract_row_has_its_call(rows: Any, calls: frozenset[str]) -> None:
    names = [row.name for row in rows]
    assert len(names) == len(set(names))
    assert set(names) == calls


def test_rows_of_mix_are_those_without_combine() -> None:
    names = {row.name for row in MIX_CONTRACT}
    assert names < mix_contract.ROWS
    assert not any("block_output" in name or "injection" in name for name in names)


@pytest.mark.parametrize("m", [1, 512, 8193, 65536, 1048577])
@pytest.mark.parametrize("shape", [PRODUCTION, SMALL])
def test_chosen_rows_hold_the_edges(m: int, shape: Any) -> None:
    rows = choose_rows(m, shape)
    if rows is None:
        assert m * shape.width <= MOST_ELEMENTS
        return
    assert choose_rows(m, shape, whole=True) is None
    assert {0, m // 2, m - 1} <= set(rows)
    for edge in (1 << 31, 1 << 32):
        crossing = edge // (2 * shape.width)
        assert crossing >= m or crossing in rows
    for span in contiguous_spans(rows):
        assert span.start % BLOCK == 0
        assert span.stop % BLOCK == 0 or span.stop == m
    assert not set(neighbours(rows, m)) & set(rows)


def launch(kernel: str, plan: Any) -> Launch:
    return Launch(f"hcgr.kernels.{kernel}", plan, "gfx942", {}, (), None)


def test_workgroups_of_rows() -> None:
    spans = [slice(0, 128), slice(256, 300)]
    plan = K1FusedPlan(4, 512, 48, 36, splits=2, row_tiles=1, waves=8)
    assert workgroups_of(launch("k1_fused", plan), spans, (6, 1, 1)) == [(x, 0, 0) for x in (0, 1, 4, 5)]
    reduce = k1_limits.reduce_plan(plan)
    # 128 rows of 6 vectors are three workgroups of 256
    assert workgroups_of(launch("k1_reduce", reduce), spans, (8, 1, 1)) == [(x, 0, 0) for x in (0, 1, 2, 6, 7)]
    k2 = SimpleNamespace(block_rows=64)
    assert workgroups_of(launch("k2_up_gate_mix", k2), [slice(128, 192)], (5, 2, 1)) == [(2, 0, 0), (2, 1, 0)]
    with pytest.raises(LookupError, match="no rule from rows to workgroups"):
        workgroups_of(launch("new", plan), spans, (1, 1, 1))


class Memory:
    """A bench of plain tensors."""

    sparse = True
    whole = False

    def __init__(self) -> None:
        self.made: list[tuple[tuple[int, ...], str]] = []
        self.names: list[str] = []

    def empty(self, shape: Any, dtype: torch.dtype, name: str) -> torch.Tensor:
        self.made.append((tuple(shape), name))
        return torch.zeros(shape, dtype=dtype)

    def named(self, tensor: torch.Tensor, name: str) -> None:
        self.names.append(name)


def test_only_the_package_gets_poison_from_the_bench() -> None:
    bench: Any = Memory()
    made: dict[str, Any] = {"__name__": "somepackage.module", "torch": torch}
    with own_allocations(bench, "somepackage", 8, [slice(2, 4)]):
        exec("a = torch.empty(8, 3)\nb = a.new_empty(2, 8, 5)\nc = torch.empty(8, dtype=torch.int32)", made)
        mine = torch.empty(4)
    assert [shape for shape, _ in bench.made] == [(8, 3), (2, 8, 5), (8,)]  # counters too, without poison
    assert mine.shape == (4,)
    assert sorted({int(i[0]) for i in unwritten(made["a"])}) == [2, 3]
    assert {int(i[1]) for i in unwritten(made["b"])} == {2, 3}


def test_poison_without_spans_is_whole() -> None:
    tensor = torch.zeros(3, 5, dtype=BF16)
    poison_rows(tensor, 3, None)
    assert len(unwritten(tensor)) == 15


def test_forms_and_foreign_rows_are_noticed() -> None:
    out = poison(torch.empty(8, 16, dtype=BF16))
    out[2:5] = 1.0
    assert check_written("x", out, [2, 3, 4], [1, 5])["passed"]
    assert "were never written" in check_written("x", out, None, [])["message"]
    out[5, 15] = 0.0
    assert "row 5 was written" in check_written("x", out, [2, 3, 4], [1, 5])["message"]
    assert check_form("x", out, (8, 16), BF16, 16, out)["passed"]
    assert "must have (24, 1)" in check_form("x", out, (8, 16), BF16, 24)["message"]
    assert "is not the caller's tensor" in check_form("x", out, (8, 16), BF16, 16, out.clone())["message"]
    assert "r2 is not what" in check_wiring("launches", {"r2": (out, out.clone()), "x": (out, out)})["message"]


def test_a_k1_without_a_known_kernel_is_an_error() -> None:
    bench: Any = Memory()
    recorder = Recorder(bench, None)
    recorder(launch("k1_combine_norm", None))
    with pytest.raises(LookupError, match="a K1 must have one of k1_skinny"):
        k1_calls(recorder)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("fold", [True, False])
def test_forced_plans(arch: str, fold: bool) -> None:
    shape = PRODUCTION
    (entry,) = decoupled_table(arch, shape, 324, fold)[arch]["k1"].values()
    call = (shape.hc, shape.hs, shape.n_pad, 324, arch, entry["cus"], fold)
    with planned("decoupled", arch, shape, 324, fold):
        assert isinstance(choose.k1(64, *call), K1DecoupledPlan)
        assert not isinstance(choose.k1(17, *call), K1DecoupledPlan)
    with planned("heuristic", arch, shape, 324, fold):
        assert not isinstance(choose.k1(64, *call), K1DecoupledPlan)


#: ``hcgr-validate`` runs all of them, and many more, on both architectures.
CASES = {
    "gfx942": (
        "combine_and_mix.m16.s48.unfolded.wf32.normal.injview.rowsdense.merged.decoupled.three",
        "k1.m100.s48.folded.split2.pad128.wbf16.exact.injdense.rowsdense.buffers",
    ),
    "gfx950": (
        "mix.m4g.s48.unfolded.wbf16.normal.rowsdense.unmerged.heuristic.one",
        "k2.m48.s48.wf32.exact.h16.loraview.rowspadded.outgiven",
    ),
}


@pytest.mark.parametrize("arch", CASES)
def test_cases_end_to_end_in_the_emulator(arch: str) -> None:
    request = Request(OPERATION, "hcgr", arch, 0)
    tasks = [correctness.find(request, f"correctness.{name}") for name in CASES[arch]]
    with Pool(1, arch, emulator.__name__, emulator.worker_environment(arch)) as pool:
        outcomes = [(task, outcome) for task, outcome in pool.run(tasks, STAGES)]
    for task, outcome in outcomes:
        assert outcome.value is not None, outcome.detail
        assert (outcome.value["status"], outcome.value["reason"]) == ("pass", ""), task.id
        assert set(outcome.value["facts"]["built_for"]) <= set(outcome.value["facts"]["paths"])
        tiers = {check["tier"] for check in outcome.value["comparisons"]}
        assert {"form", "written", "wiring", "bound"} <= tiers
        assert ("exact" in tiers) is (task.params["values"] == "exact")
