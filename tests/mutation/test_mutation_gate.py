"""Outcomes and the gate: only a kill counts, and a claim of equivalence has an end."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from validation.mutation import summary
from validation.mutation.coverage import DefaultRun
from validation.mutation.gate import judge
from validation.mutation.manifest import Equivalence, Mutant
from validation.mutation.outcome import classify, invalid_answer, record_of
from validation.mutation.trials import Trial

TODAY = date(2026, 6, 1)
TRIAL = Trial("t", "control.bounds")
MUTANT = Mutant("tail-guard/one", "t", "w", "kernel", ("combine",), ("gfx942",), ("oracle",), (TRIAL,), ())
CLEAN = {TRIAL.settings: ("aaaa",)}


def answer(status: str = "pass", code: str = "bbbb", ended: str = "done", **more: Any) -> dict[str, Any]:
    checks = ["memcheck"] if status == "fail" else []
    trial = {"trial": "t", "case": "control.bounds", "status": status, "reason": "r", "checks": checks, "seconds": 1.0}
    trial |= {"code": [code], "invalid": False} | more
    return {"trials": [trial], "ended": ended, "reason": "why", "cpu_s": 1.0}


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        (answer("fail"), "killed"),
        (answer("pass"), "survived"),
        (answer("pass", "aaaa"), "same-isa"),
        (answer("fail", "aaaa"), "same-isa"),
        (answer("pass", ended="timeout"), "timeout"),
        (answer("pass", ended="crashed"), "crashed"),
        (answer("error"), "crashed"),
        (answer("skip"), "crashed"),
        (answer("error", invalid=True), "invalid"),
        (invalid_answer("no fit"), "invalid"),
        (answer() | {"trials": []}, "crashed"),
    ],
)
def test_outcomes(given: dict[str, Any], outcome: str) -> None:
    assert classify(MUTANT, given, CLEAN, TODAY)["outcome"] == outcome


def test_a_host_mutant_is_judged_by_behaviour() -> None:
    host = replace(MUTANT, kind="host")
    assert classify(host, answer("fail", "aaaa"), CLEAN, TODAY)["outcome"] == "killed"
    assert classify(host, answer("pass", "aaaa"), CLEAN, TODAY)["outcome"] == "survived"


def test_a_trial_without_kernels_says_nothing_about_code() -> None:
    assert classify(MUTANT, answer("fail", code="x") | {}, {TRIAL.settings: ()}, TODAY)["outcome"] == "killed"


def test_a_claim_of_equivalence_ends() -> None:
    claim = replace(MUTANT, equivalent=Equivalence("r", date(2026, 6, 1)))
    assert classify(claim, answer("pass"), CLEAN, TODAY)["outcome"] == "equivalent"
    assert classify(claim, answer("pass", "aaaa"), CLEAN, TODAY)["outcome"] == "equivalent"
    assert classify(claim, answer("pass"), CLEAN, date(2026, 6, 2))["outcome"] == "survived"
    assert classify(claim, answer("fail"), CLEAN, TODAY)["outcome"] == "killed"


def record(status: str = "fail", mutant: Mutant = MUTANT, **more: Any) -> dict[str, Any]:
    return record_of(mutant, "gfx942", answer(status), CLEAN, TODAY) | more


RIGHT = {"checks": ["oracle"], "right_check": True}


def test_all_killed_by_their_own_checks_passes() -> None:
    verdict = judge([record(**RIGHT)], 1.0, 0, TODAY)
    assert (verdict.result, verdict.kill_rate, verdict.warnings) == ("PASS", 1.0, [])


@pytest.mark.parametrize("outcome", ["survived", "timeout", "crashed", "invalid", "same-isa"])
def test_nothing_but_a_kill_counts(outcome: str) -> None:
    verdict = judge([record(**RIGHT), record("pass", outcome=outcome)], 1.0, 0, TODAY)
    assert (verdict.result, verdict.kill_rate) == ("FAIL", 0.5)
    assert f"tail-guard/one ({outcome})" in verdict.reasons[0]
    assert judge([record(**RIGHT), record("pass", outcome=outcome)], 0.5, 0, TODAY).result == "PASS"


def test_no_mutant_is_no_success() -> None:
    assert judge([], 0.0, 0, TODAY).result == "FAIL"
    only = [record("pass", outcome="equivalent", expires="2026-06-01")]
    assert judge(only, 0.0, 0, TODAY).result == "FAIL"


def test_wrong_checks_are_warnings_up_to_a_limit() -> None:
    records = [record(), record()]
    assert [r["right_check"] for r in records] == [False, False]
    verdict = judge(records, 1.0, 2, TODAY)
    assert (verdict.result, len(verdict.warnings)) == ("PASS", 2)
    assert "killed by memcheck, not by oracle" in verdict.warnings[0]
    assert judge(records, 1.0, 1, TODAY).result == "FAIL"


def test_an_expired_or_refuted_equivalence_fails_the_gate() -> None:
    good = record(**RIGHT)
    claimed = record("pass", outcome="equivalent", expires="2026-06-01")
    assert judge([good, claimed], 1.0, 0, TODAY).result == "PASS"
    expired = record("pass", outcome="survived", expires="2026-05-31")
    verdict = judge([good, expired], 0.0, 0, TODAY)
    assert verdict.result == "FAIL"
    assert "reviewed until 2026-05-31" in verdict.reasons[0]
    refuted = record(**RIGHT, expires="2026-06-01")
    assert "called equivalent" in judge([good, refuted], 0.0, 0, TODAY).reasons[0]


def test_generated_mutants_that_mean_nothing_are_left_out() -> None:
    records = [record(**RIGHT), record("pass", outcome="invalid"), record("pass", outcome="same-isa")]
    verdict = judge(records, 1.0, 0, TODAY, generated=True)
    assert (verdict.result, verdict.counted) == ("PASS", 1)


@pytest.fixture(scope="module")
def default() -> DefaultRun:
    return DefaultRun("hcgr", "gfx942")


@pytest.mark.parametrize(
    ("case", "more", "checks", "seen"),
    [
        ("control.bounds", {}, ["tolerance-control"], None),
        ("correctness.combine.m1.hc4.hs2560.inj336.rowsdense.wbf16.wshared.normal.outalloc", {}, ["oracle"], True),
        ("correctness.combine.m1.hc4.hs2560.inj336.rowsdense.wbf16.wshared.normal.outalloc", {}, ["memcheck"], True),
        ("correctness.combine.m1.hc4.hs2560.inj336.rowsdense.wbf16.wshared.normal.outalloc", {"memory": "weak"},
         ["oracle"], False),
        ("correctness.combine.m3.hc4.hs40960.inj336.rowsdense.wbf16.wfull.normal.outalloc", {}, ["oracle"], False),
        ("contract.combine.out_dtype", {}, ["contract"], True),
        ("protocol.hc_switch", {}, ["protocol"], True),
        ("protocol.path_k2@in-order/weak/earliest", {}, ["racecheck"], True),
        ("protocol.path_k2@random:1/flat/earliest", {}, ["racecheck"], False),
    ],
)  # fmt: skip
def test_kills_of_a_default_run_are_told_apart(
    default: DefaultRun, case: str, more: dict[str, str], checks: list[str], seen: bool | None
) -> None:
    trial = Trial("t", case, **more)  # type: ignore[arg-type]
    record = {"outcome": "killed", "trial": "t", "checks": checks}
    assert default.sees(replace(MUTANT, trials=(trial,)), record) is seen
    assert default.sees(replace(MUTANT, trials=(trial,)), record | {"outcome": "survived"}) is None


def test_figures() -> None:
    records = [record(**RIGHT), record(checks=["memcheck", "oracle"], right_check=True), record("pass")]
    assert summary.count(records)["killed"] == 2
    assert summary.checks(records) == [
        {"check": "oracle", "kills": 2, "alone": 1},
        {"check": "memcheck", "kills": 1, "alone": 0},
    ]
    row = next(row for row in summary.classes(records) if row["class"] == "tail-guard")
    assert (row["mutants"], row["killed"], row["least"]) == (3, 2, 12)
    lines = summary.matrix_lines(records)
    assert lines[0].split() == ["mutant", "oracle", "memcheck"]
    assert lines[2].split() == ["tail-guard/one", "X", "x"]
    assert lines[-2].split() == ["kills", "2", "1"]


def test_markdown_tables_of_two_architectures() -> None:
    def result(arch: str, *found: dict[str, Any]) -> dict[str, Any]:
        records = list(found)
        return {
            "arch": arch,
            "mutants": records,
            "classes": summary.classes(records),
            "counts": summary.count(records),
            "gate": {"counted": len(records)},
        }

    def mutant(name: str, *fired: str) -> dict[str, Any]:
        return {
            "name": name, "class": name.partition("/")[0], "checks": list(fired), "expected": ["oracle"],
            "outcome": "killed" if fired else "survived",
        }  # fmt: skip

    first = result("gfx942", mutant("tail-guard/a", "oracle"), mutant("tail-guard/b", "memcheck", "oracle"))
    second = result("gfx950", mutant("tail-guard/a", "memcheck"), mutant("tail-guard/b"))
    lines = summary.class_table([first, second])
    assert lines[0] == "| class | mutants | killed on gfx942 | killed on gfx950 | memcheck | oracle |"
    assert lines[2] == "| dropped tail guard | 2 | 2 of 2 | 1 of 2 | 2 | 2 |"
    assert lines[-1] == "| **all** | 2 | 2 of 2 | 1 of 2 | 2 | 2 |"
    assert summary.mutant_table([first, second])[2:] == ["| tail-guard/a | x | X |", "| tail-guard/b | x | X |"]
