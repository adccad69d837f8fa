"""Paths: a case built for one must have its receipt, and the report counts cases by path and axis."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import validation_fakes as fakes
from test_validate_runner import case, run

from validation.report.check import problems
from validation.report.console import summary_lines
from validation.report.coverage import coverage
from validation.stages import cost


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return run("PATHS", only=("correctness",))


def test_a_case_that_leaves_its_path_fails(report: dict[str, Any]) -> None:
    straight, astray = (case(report, f"correctness.fake.{mode}.s1") for mode in ("straight", "astray"))
    assert (straight["status"], straight["facts"]["paths"]) == ("pass", ["straight"])
    assert astray["status"] == "fail"
    assert "built for straight, which no launch took (launched: fake_other_r4)" in astray["reason"]
    assert astray["facts"]["paths"] == ["other"]


def test_coverage_counts_what_ran(report: dict[str, Any]) -> None:
    found = report["coverage"]
    assert found["paths"] == {"straight": 1, "other": 1}
    assert (found["kernel_cases"], found["contract_cases"]) == (3, 0)  # the empty case runs no kernel
    assert found["axes"] == {"fake": {"mode": {"straight": 1, "astray": 1, "good": 1}, "size": {"s1": 3}}}
    assert "  3 kernel cases (straight 1, other 1), 0 contract cases" in summary_lines(report)


def test_a_receipt_of_no_workgroup_is_none() -> None:
    launch = {"kernel": "fake_straight_r4", "workgroups_run": 0}
    record = {"id": "correctness.fake.x", "status": "pass", "launches": [launch], "facts": {"paths": ["straight"]}}
    assert coverage([{"name": "correctness", "cases": [record]}])["kernel_cases"] == 0


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (lambda r: r["coverage"]["paths"].update(straight=20), "coverage is not what"),
        (lambda r: r["coverage"].update(kernel_cases=300), "coverage is not what"),
        (lambda r: case(r, "correctness.fake.straight.s1")["facts"].update(paths=[]), "without a receipt of straight"),
    ],
)
def test_tampered_coverage_is_refused(report: dict[str, Any], tamper: Any, words: str) -> None:
    assert problems(report) == []
    changed = copy.deepcopy(report)
    tamper(changed)
    assert any(words in problem for problem in problems(changed)), problems(changed)


def test_level_full_reaches_the_worker_and_the_replay() -> None:
    report = run("PATHS", cases=("correctness.fake.straight.s1",), level="full")
    assert problems(report) == []
    assert report["selection"]["level"] == "full"
    assert case(report, "correctness.fake.straight.s1")["replay"].endswith("--seed 0 --level full")


def test_each_end_of_a_cost_case() -> None:
    report = run("BAD", only=("cost",))
    assert problems(report) == []
    ends = {c["id"]: (c["status"], c["reason"], c["cost"] is not None) for c in report["stages"][4]["cases"]}
    assert ends["cost.steady"] == ("pass", "", True)
    assert ends["cost.dear"] == ("fail", "traffic: 1.5 x compulsory, at most 1.2", True)
    assert ends["cost.broken"] == ("error", "RuntimeError: the counter is broken", False)
    assert ends["cost.refused"][0] == "fail"
    assert "refused a legal call: ValueError: size must be even" in ends["cost.refused"][1]
    lines = summary_lines(report)
    assert any(line.split()[:3] == ["steady", "straight", "1.0240"] for line in lines), lines
    assert any("a model, not measured" in line for line in lines)
    assert report["verdict"]["result"] == "FAIL"


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("invented", "error", "no launch of fake_never_launched was observed: the counts did not come from a kernel"),
        ("unnamed", "error", "no kernel is named, and no launch was observed"),
        ("steady", "pass", ""),
    ],
)
def test_counts_of_what_was_not_launched_are_no_pass(
    name: str, status: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "_LAUNCHED", set())
    operation = fakes.operation("good", costs=(name,))
    context = SimpleNamespace(
        arch="gfx942", operation=lambda reference: operation, bench=lambda: nullcontext(fakes.FakeBench("gfx942"))
    )
    ended = cost.execute({"op": "fake", "case": name}, context)
    assert (ended["status"], words in ended["reason"]) == (status, True), ended["reason"]


def test_a_cost_case_without_its_record_is_refused() -> None:
    report = run("GOOD", only=("cost",))
    report["stages"][4]["cases"][0]["cost"] = None
    assert any("passes without cost" in problem for problem in problems(report))
    assert fakes.COST_ROW["case"] == "steady"
