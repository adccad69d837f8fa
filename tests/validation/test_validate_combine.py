"""HCGR's COMBINE driver: which rows it runs, what it fills them with, and what it notices in an output."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hcgr.plan import CombinePlan, plan_combine
from oracle.guards import poison, unwritten
from validation.devices import emulator
from validation.devices.pool import Pool
from validation.kit import check_written
from validation.operation import load_operation
from validation.ops.combine import MOST_ELEMENTS, CombineDriver, choose_rows, contiguous_spans
from validation.ops.combine_contract import _ILLEGAL
from validation.ops.common import fill, poisoned_allocations
from validation.ops.hcgr import COMBINE_CONTRACT, COMBINE_GRID
from validation.stages import STAGES, Request, correctness

BF16 = torch.bfloat16


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)


@pytest.mark.parametrize("case", COMBINE_GRID.pairwise(0), ids=lambda case: case.name)
def test_chosen_rows_hold_the_edges_and_match_their_workgroups(case: Any) -> None:
    m, width = case.params["m"], case.params["hc"] * case.params["hs"]
    plan = plan_combine(m, case.params["hc"], case.params["hs"], 304) if m else None
    rows, workgroups = choose_rows(m, width, plan, generator())
    assert rows == sorted(set(rows))
    if workgroups is None:
        assert rows == list(range(m))
        assert m * width <= MOST_ELEMENTS
        return
    assert plan is not None
    assert {0, m - 1} <= set(rows)
    for limit in (1 << 31, 1 << 32):
        crossing = limit // (2 * width)
        if crossing < m:
            assert crossing in rows, f"the row that crosses {limit} bytes does not run"
    assert len(rows) <= max(MOST_ELEMENTS // width, 8 * plan.rows)
    assert len(set(workgroups)) == len(workgroups)
    owned = {g[0] // plan.column_tiles for g in workgroups}
    assert {row // plan.rows for row in rows} == owned
    assert all(0 <= g[0] < plan.workgroups(m) for g in workgroups)


def test_rows_of_the_last_workgroup_stop_at_m() -> None:
    plan = CombinePlan(8, 40960, 4)
    rows, workgroups = choose_rows(8193, 8 * 40960, plan, generator())
    assert workgroups is not None
    assert rows[-1] == 8192
    assert (2048 * plan.column_tiles, 0, 0) in workgroups


def test_spans() -> None:
    assert contiguous_spans([0, 1, 2, 5, 7, 8]) == [slice(0, 3), slice(5, 6), slice(7, 9)]
    assert contiguous_spans([]) == []


@pytest.mark.parametrize("hc", [2, 4, 8])
def test_exact_values_are_exact(hc: int) -> None:
    tensors = {name: torch.empty(64, 32) for name in ("residual", "block_output", "injection")}
    for name, tensor in tensors.items():
        fill(tensor, "exact", name, generator())
    weight = 2.0 / (1.0 + torch.exp(-tensors["injection"] / hc))
    assert set(weight.flatten().tolist()) == {0.0, 1.0, 2.0}
    reach = tensors["residual"].abs().max() + 2 * tensors["block_output"].abs().max()
    assert reach <= 256  # integers up to 2^8 are bf16 numbers


def test_special_values_are_there() -> None:
    tensor = torch.empty(256, 256, dtype=BF16)
    fill(tensor, "specials", "residual", generator())
    assert tensor.isnan().any()
    assert tensor.isinf().any()
    assert ((tensor == 0) & tensor.signbit()).any()
    assert ((tensor != 0) & (tensor.abs() < 1.1e-38)).any()


def test_allocations_are_poisoned_within_the_block_only() -> None:
    originals = torch.empty, torch.Tensor.new_empty
    like = torch.zeros(4, 4)
    with poisoned_allocations():
        made = [
            torch.empty(1000, dtype=BF16),
            torch.empty_like(like),
            torch.empty_strided((4, 4), (5, 1)),
            like.new_empty(7),
            like.new_empty_strided((2, 2), (3, 1)),
        ]
        assert torch.empty(3, dtype=torch.int32).shape == (3,)
    assert all(len(unwritten(tensor)) == tensor.numel() for tensor in made)
    assert (torch.empty, torch.Tensor.new_empty) == originals


def test_unwritten_elements_and_foreign_rows_are_noticed() -> None:
    out = poison(torch.empty(8, 16, dtype=BF16))
    out[2:5] = 1.0
    assert check_written("r2", out, [2, 3, 4], [1, 5])["passed"]
    poison(out[3, 7:9])
    missed = check_written("r2", out, [2, 3, 4], [1, 5])
    assert (missed["passed"], "2 elements of rows 2..4 were never written, first [3, 7]" in missed["message"]) == (
        False,
        True,
    )
    out[3, 7:9] = 1.0
    out[5, 15] = 0.0
    assert "row 5 was written" in check_written("r2", out, [2, 3, 4], [1, 5])["message"]


def test_inputs_follow_from_the_seed() -> None:
    class Bench:
        sparse = True

        def empty(self, shape: tuple[int, ...], dtype: torch.dtype, name: str) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype)

        def filled(self, tensor: torch.Tensor) -> None:
            pass

        def named(self, tensor: torch.Tensor, name: str) -> None:
            pass

    case = COMBINE_GRID.decode("m0.hc4.hs2560.injodd.rowspadded.wf32.wfull.wide.outgiven")
    empty = CombineDriver().prepare(case, Bench(), 5)  # type: ignore[arg-type]
    assert empty.residual.shape == (0, 10240)
    assert empty.residual.stride() == (10248, 1)
    assert empty.injection.stride() == (13, 1)
    assert empty.norm_weight.shape == (10240,)


def test_every_contract_row_has_its_call() -> None:
    assert {row.name for row in COMBINE_CONTRACT} == set(_ILLEGAL)


#: ``hcgr-validate`` runs both, and many more, on both architectures.
CASES = {
    "gfx942": "m3.hc2.hs2560.injodd.rowspadded.wf32.wfull.exact.outgiven",
    "gfx950": "m4ge.hc8.hs40960.inj336.rowsdense.wbf16.wshared.normal.outgiven",
}


@pytest.mark.parametrize("arch", CASES)
def test_a_case_end_to_end_in_the_emulator(arch: str) -> None:
    request = Request(load_operation("hcgr"), "hcgr", arch, 0)
    tasks = [correctness.find(request, f"correctness.combine.{CASES[arch]}")]
    with Pool(1, arch, emulator.__name__, emulator.worker_environment(arch)) as pool:
        outcomes = [outcome for _, outcome in pool.run(tasks, STAGES)]
    for outcome in outcomes:
        assert outcome.value is not None, outcome.detail
        assert (outcome.value["status"], outcome.value["reason"]) == ("pass", "")
        (launch,) = outcome.value["launches"]
        assert launch["arch"] == arch
        assert launch["workgroups_run"] > 0
        assert launch["instructions"] > 0
