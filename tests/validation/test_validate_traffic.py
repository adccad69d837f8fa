"""Arithmetic of the cost stage, its judgement, and the committed budget."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import validation_fakes as fakes

from schemas import load_schema
from validation import devices
from validation.ops import cost_cases, make_budget, traffic
from validation.ops.axes import PRODUCTION
from validation.ops.cost import BUDGET, CostDriver


def test_compulsory_traffic_is_what_the_specification_says() -> None:
    per_token = traffic.compulsory_bytes(2, PRODUCTION) - traffic.compulsory_bytes(1, PRODUCTION)
    # R, y, R2 twice, packed, rrms, x
    assert per_token == 2 * (10240 + 2560 + 2 * 10240 + 336 + 2560) + 16
    assert 72_000 < per_token < 73_000
    weights = traffic.compulsory_bytes(0, PRODUCTION)
    assert weights == 2 * 10240 * (336 + 320)
    assert weights / 1e6 == pytest.approx(13.4, abs=0.05)


def test_only_residual_streams_count_by_workgroup() -> None:
    numbers = {
        "lines_read": 10,
        "lines_read_by_workgroups": 30,
        "lines_written": 4,
        "lines_written_by_workgroups": 5,
    }
    counts = {"arguments": dict.fromkeys(("rows", "w_up", "kernarg"), numbers)}
    lines = traffic.launch_lines(counts, {"rows": "r2", "w_up": "w_up"})
    assert lines == {"r2": {"read": 30, "written": 5}, "w_up": {"read": 10, "written": 4}}
    assert traffic.moved_bytes(lines) == 128 * (30 + 5 + 10 + 4)
    assert traffic.scale_lines(lines, 3) == {"r2": {"read": 90, "written": 15}, "w_up": {"read": 10, "written": 4}}
    twice = traffic.add_lines([lines, lines])
    assert twice["w_up"] == {"read": 20, "written": 8}


def test_work_is_what_instructions_ask_for() -> None:
    counts = {"global_bytes_read": 640, "global_bytes_written": 64, "lds_bytes_read": 8, "lds_cycles": 12}
    mnemonics = {"v_add_f32": 3, "v_mfma_f32_16x16x16_bf16": 5, "v_accvgpr_read": 1, "s_add": 7, "ds_read": 1}
    work = traffic.launch_work(counts, mnemonics)
    assert work == {"bytes_requested": 704, "valu": 4, "lds_cycles": 12}
    assert traffic.launch_work({}, {}) == dict.fromkeys(traffic.WORK, 0)
    assert traffic.add_work([work, work], 3) == {"bytes_requested": 4224, "valu": 24, "lds_cycles": 72}


@pytest.mark.parametrize(
    ("by_workgroups", "asked", "again"), [(10, 1280, 0), (12, 1280, 2), (10, 2560, 10), (10, 1281, 1), (12, 640, 2)]
)
def test_lines_read_again_count_within_a_workgroup_too(by_workgroups: int, asked: int, again: int) -> None:
    numbers = {"lines_read": 10, "lines_read_by_workgroups": by_workgroups, "bytes_read": asked}
    assert traffic.lines_again(numbers) == again


@pytest.mark.parametrize(("mfma_k", "k1", "k2"), [(16, 107520, 102400), (32, 53760, 51200)])
def test_matrix_instructions_of_the_production_shape(mfma_k: int, k1: int, k2: int) -> None:
    # 128 rows: 8 row tiles, 21 column tiles of K1 over K = 10240; K2: 640 column tiles over r = 320
    assert traffic.k1_matrix(128, 128, PRODUCTION, 324, mfma_k).due == k1
    assert traffic.k2_matrix(128, 64, PRODUCTION, mfma_k).due == k2


def test_padding_has_a_name_and_a_size() -> None:
    assert traffic.k1_matrix(100, 128, PRODUCTION, 324, 16).padding == pytest.approx(
        {"rows": 0.28, "columns": 336 / 324 - 1}
    )
    assert traffic.k2_matrix(16, 16, PRODUCTION._replace(r=24), 16).padding == pytest.approx(
        {"rows": 0, "rank": 8 / 24}
    )


def test_projection_takes_the_slower_unit_of_each_launch() -> None:
    found = traffic.projection([(2_000_000, 1_000), (1_000, 8_000_000)], 1e12, 1e12)
    assert found["total_us"] == pytest.approx(10.0)
    assert found["memory_us"] == pytest.approx(2.001)
    assert found["kind"] == "projection"


@pytest.mark.parametrize(("m", "most"), [(511, None), (512, 1.35), (2047, 1.35), (2048, 1.20)])
def test_limits_by_rows(m: int, most: float | None) -> None:
    assert cost_cases.limit(m) == most


WORK: dict[str, int] = fakes.COST_ROW["work"]  # type: ignore[assignment]


def row(**changes: Any) -> dict[str, Any]:
    budget = {"path": "straight", "bytes_moved": 8192, "mfma": 16, "launches": 1} | WORK
    return fakes.COST_ROW | {"budget": budget} | changes


@pytest.mark.parametrize(
    ("changes", "output", "words"),
    [
        ({"budget": None}, "budget", "no row for gfx942 steady"),
        ({"path": "longer"}, "budget", "the budget is for straight"),
        ({"bytes_moved": 8320}, "budget", "bytes_moved is 8320, budget 8192"),
        ({"kernels": ["a", "b"]}, "budget", "launches is 2, budget 1"),
        ({"mfma": 17}, "mfma", "17 matrix instructions, 16 due"),
        ({"work": WORK | {"bytes_requested": 9001}}, "budget", "bytes_requested is 9001, budget 9000"),
        ({"work": WORK | {"valu": 401}}, "budget", "valu is 401, budget 400"),
        ({"work": WORK | {"lds_cycles": 51}}, "budget", "lds_cycles is 51, budget 50"),
        ({"ratio": 1.21, "limit": 1.2}, "traffic", "at most 1.2"),
        ({"spills": 1}, "registers", "1 spills"),
        ({"scratch_bytes": 64}, "registers", "64 bytes of scratch"),
        ({"lds_bytes": 65537}, "lds", "65537 bytes of LDS, 65536 there are"),
        ({"blocks_agree": False}, "scaling", "two blocks"),
        ({"path": "skinny+k2", "kernels": ["a", "b", "c"]}, "launches", "3 launches, 2 due"),
        ({"path": "skinny+k2", "weight_lines_reread": 3}, "weights", "3 lines of weights"),
    ],
)
def test_each_regression_fails(changes: dict[str, Any], output: str, words: str) -> None:
    good = {check["output"]: check for check in CostDriver().judge(row())}
    assert all(check["passed"] for check in good.values())
    found = {check["output"]: check for check in CostDriver().judge(row(**changes))}
    assert (found[output]["passed"], words in found[output]["message"]) == (False, True), found[output]


def test_a_gain_passes_and_says_so() -> None:
    (check,) = [c for c in CostDriver().judge(row(bytes_moved=8064)) if c["output"] == "budget"]
    assert check["passed"]
    assert "below budget: bytes_moved" in check["message"]


def test_committed_budget_is_whole() -> None:
    table = json.loads(BUDGET.read_text())
    jsonschema.validate(table, load_schema("budget"))
    held = [(entry["arch"], entry["case"]) for entry in table["rows"]]
    assert held == [(arch, case.name) for arch in devices.ARCHES for case in cost_cases.cases(arch)]
    for entry in table["rows"]:
        case = next(c for c in cost_cases.cases(entry["arch"]) if c.name == entry["case"])
        most = cost_cases.limit(case.params["m"])
        assert most is None or case.params["split_k"] != "auto" or entry["ratio"] <= most, entry
        least = traffic.compulsory_bytes(case.params["m"], case.params["shape"])
        assert entry["ratio"] == pytest.approx(entry["bytes_moved"] / least, abs=1e-4)


@pytest.mark.parametrize("case", cost_cases.cases("gfx942"), ids=lambda case: case.name)
def test_cost_cases_fit_into_a_report(case: Any) -> None:
    assert json.loads(json.dumps(case.params))["m"] == case.params["m"]


@pytest.mark.parametrize("arch", devices.ARCHES)
def test_every_path_has_a_budget(arch: str) -> None:
    rows = json.loads(BUDGET.read_text())["rows"]
    assert {entry["path"] for entry in rows if entry["arch"] == arch} == {
        f"{path}+k2" for path in ("skinny", "fused", "split_k", "resident", "decoupled")
    }


def test_budget_rows_that_grow_are_named(tmp_path: Any) -> None:
    new = make_budget.budget_row(row(bytes_moved=9000))
    old = {"rows": [new | {"bytes_moved": 8192}]}
    assert make_budget.changes(old, [new]) == ["gfx942 steady: bytes_moved grows from 8192 to 9000"]
    with pytest.raises(jsonschema.ValidationError):
        make_budget.write(tmp_path / "budget.json", {"schema": "hcgr-budget/1", "command": "x", "rows": []})
    assert list(tmp_path.iterdir()) == []
