"""The comparison of two reports: what it lists, and when the second is worse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_support import Report, case, run, sealed

from validation.report import cli
from validation.report.diff import Change, DiffError, compare, is_worse


def _cost(report: Report, **figures: Any) -> None:
    row = case(report, "cost.steady")["cost"]
    row.update(figures)
    row["ratio"] = row["bytes_moved"] / row["bytes_compulsory"]


def _ratio(report: Report, value: float) -> None:
    case(report, "correctness.fake.good.s1")["comparisons"][0]["max_ratio"] = value


def _skip(report: Report) -> None:
    case(report, "correctness.fake.good.s1").update(status="skip", reason="no memory")


#: What was done to the second report; kind, words and whether it is worse.
CHANGES: dict[str, tuple[Callable[[Report], Any], str, str, bool]] = {
    "removed": (lambda r: r["stages"][2]["cases"].pop(0), "removed", "correctness.fake.good.s1 (pass)", True),
    "skipped": (_skip, "no longer run", "pass -> skip: no memory", True),
    "red": (
        lambda r: case(r, "correctness.fake.good.s1").update(status="fail", reason="wrong"),
        "newly red",
        "pass -> fail: wrong",
        True,
    ),
    "error": (
        lambda r: case(r, "correctness.fake.good.s1").update(status="error", reason="lost"),
        "newly red",
        "pass -> error: lost",
        True,
    ),
    "evidence": (lambda r: r["stages"][2].update(evidence="none"), "evidence", "correctness: emulated -> none", True),
    "better evidence": (lambda r: r["stages"][2].update(evidence="runtime"), "evidence", "-> runtime", False),
    "checks": (lambda r: r["evidence"]["covers"].update(checks=[]), "evidence", "checks: ['fake'] -> []", True),
    "more checks": (lambda r: r["evidence"]["covers"]["checks"].append("waits"), "evidence", "'waits'", False),
    "traffic": (lambda r: _cost(r, bytes_moved=8320), "cost", "bytes_moved 8192 -> 8320 (1.0156 x)", True),
    "less traffic": (lambda r: _cost(r, bytes_moved=8064), "cost", "bytes_moved 8192 -> 8064", False),
    "spills": (lambda r: _cost(r, spills=4), "cost", "spills 0 -> 4", True),
    "registers": (lambda r: _cost(r, vgprs=120), "cost", "vgprs 100 -> 120", False),
    "path": (lambda r: _cost(r, path="other"), "cost", "path straight -> other", False),
    "error within its bound": (lambda r: _ratio(r, 0.75), "error/bound", "0.5 -> 0.75", False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_is_listed_and_judged(name: str) -> None:
    edit, kind, words, worse = CHANGES[name]
    before, after = run("FINE"), run("FINE")
    edit(after)
    (change,) = compare(before, after)
    assert (change.kind, change.worse) == (kind, worse)
    assert words in change.text


def test_equal_reports_do_not_differ() -> None:
    assert compare(run("MIXED"), run("MIXED")) == []


@pytest.mark.parametrize(
    ("first", "second", "worse"),
    [("PASS", "FAIL", True), ("PASS", "INCONCLUSIVE", True), ("INCONCLUSIVE", "FAIL", True), ("FAIL", "PASS", False)],
)
def test_a_worse_verdict_is_worse(first: str, second: str, worse: bool) -> None:
    reports = [run("FINE"), run("FINE")]
    for report, result in zip(reports, (first, second), strict=True):
        report["verdict"].update(result=result, text=result)
    assert compare(*reports) == [Change("verdict", f"{first} -> {second}", worse)]


def test_two_real_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fine, mixed = tmp_path / "fine.json", tmp_path / "mixed.json"
    fine.write_text(json.dumps(run("FINE")))
    mixed.write_text(json.dumps(run("MIXED")))
    assert cli.main(["diff", str(fine), str(mixed)]) == 1
    out = capsys.readouterr().out
    assert "worse  verdict: PASS (emulated, partial) -> FAIL (emulated, partial)" in out
    assert "worse  newly red: correctness.fake.wrong.s1: absent -> fail: out: error/bound 7.5 at [1, 2]" in out
    assert "worse  removed: correctness.fake.good2.s1 (pass)" in out
    assert out.splitlines()[-1].startswith("B is worse: ")
    assert cli.main(["diff", str(fine), str(fine)]) == 0
    assert "B is not worse (0 changes)" in capsys.readouterr().out


def test_a_cured_case_is_newly_green_and_not_worse() -> None:
    before, after = run("MIXED"), run("MIXED")
    case(after, "correctness.fake.wrong.s1").update(status="pass", reason="")
    changes = compare(before, after)
    assert [(c.kind, c.text) for c in changes] == [("newly green", "correctness.fake.wrong.s1: fail -> pass")]
    assert not is_worse(changes)


def test_long_lists_are_cut_and_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = run("FINE"), run("FINE")
    for i in range(40):
        extra = dict(case(before, "correctness.fake.good.s1"), id=f"correctness.fake.extra{i}.s1")
        after["stages"][2]["cases"].append(extra)
    from validation.report.diff import lines

    shown = lines(before, after, compare(before, after))
    assert sum("added: " in line for line in shown) == 26
    assert any("added: 15 more" in line for line in shown)


@pytest.mark.parametrize("what", ["arch", "operation"])
def test_reports_on_different_things_are_not_compared(what: str, tmp_path: Path) -> None:
    other = run("FINE")
    other.update({"arch": "gfx950"} if what == "arch" else {"operation": other["operation"] | {"name": "other"}})
    with pytest.raises(DiffError, match=f"on {what} "):
        compare(run("FINE"), other)


def test_an_invalid_report_is_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(run("FINE")))
    bad.write_text(json.dumps(sealed(run("FINE") | {"seed": 3})))
    assert cli.main(["diff", str(good), str(bad)]) == 1
    assert capsys.readouterr().out == ""
