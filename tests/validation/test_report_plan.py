"""Where the sources of a report are there, its plan is made again: what was dropped from it is missed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_support import CLEAN, Report, case, run, sealed

from validation.cases import count
from validation.report import cli, replan
from validation.report.check import problems
from validation.report.coverage import coverage
from validation.report.shards import Shard


def checked(report: Report, tmp_path: Path, *options: str) -> int:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    return cli.main(["check", str(path), *options])


def _stage(report: Report, name: str) -> Report:
    return next(stage for stage in report["stages"] if stage["name"] == name)


def _good(report: Report) -> Report:
    return case(report, "correctness.fake.good.s1")


def _fewer_planned(report: Report) -> None:
    """As if the cases that went had never been planned."""
    for stage in report["stages"]:
        stage["planned"] = len(stage["cases"])
        stage["counts"] = count(stage["cases"])
    report["counts"] = count(each for stage in report["stages"] for each in stage["cases"])
    report["coverage"] = coverage(report["stages"])


#: Edits that leave a report at one with itself, and what the plan, made again from the sources, says of them.
PLANNED: dict[str, tuple[Callable[[Report], Any], str]] = {
    "nothing": (lambda r: None, ""),
    "a case": (lambda r: _stage(r, "correctness")["cases"].pop(), "stage correctness: says that 2 cases were planned"),
    "a broken variant": (lambda r: _stage(r, "protocol")["cases"].pop(), "protocol.good.caught of the plan is not"),
    "a demand": (lambda r: _good(r)["facts"].update(built_for=[], launch_expected=True, axes={}), "axes is {}"),
    "a path": (lambda r: _good(r)["facts"].update(paths=["straight"]), "paths is ['straight'], by the plan and its"),
    "a launch": (
        lambda r: (_good(r)["facts"].update(launch_expected=False), _good(r).update(launches=[])),
        "launch_expected is False, by the plan and its launches True",
    ),
    "parameters": (lambda r: _good(r)["params"].update(size=9), "'size': 9}, the plan has"),
    "a reason": (lambda r: _good(r).update(why=["because"]), "why is ['because'], the plan has"),
    "the operation": (lambda r: r["operation"].update(title="Another"), "is A fake operation, not Another"),
}


@pytest.mark.parametrize("name", PLANNED)
def test_what_was_planned_is_planned_again_where_the_sources_are_there(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(replan, "source_state", lambda folder: dict(CLEAN))
    edit, words = PLANNED[name]
    report = run("GOOD", skip=())
    edit(report)
    _fewer_planned(report)
    report = sealed(report)
    assert problems(report) == []
    assert checked(report, tmp_path, "--pass") == (1 if words else 0)
    out, err = capsys.readouterr()
    assert words in err
    assert "not made again" not in out


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"commit": "f" * 40}, f"these sources are of commit {'f' * 40}"),
        ({"dirty": True}, "sources have changes that the commit does not hold"),
        ({"commit": None, "reason": "no git here"}, "nothing shows that these are its sources (no git here)"),
    ],
)
def test_a_plan_that_cannot_be_made_again_is_said(
    state: Report, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(replan, "source_state", lambda folder: CLEAN | state)
    assert checked(run("GOOD", skip=()), tmp_path) == 0
    assert f"(its plan was not made again: {words}" in capsys.readouterr().out


def test_a_shard_and_a_named_case_are_planned_as_they_were_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = ("correctness.fake.good2.s1", "correctness.fake.good.s1")
    whole = run("GOOD", skip=())
    for report in (run("FINE", Shard(2, 2)), run("GOOD", skip=(), cases=chosen), whole):
        assert list(replan.unplanned(report)) == []
    (words,) = replan.unplanned(whole | {"operation": whole["operation"] | {"name": "other"}})
    assert words.startswith("plan: the operation called report_support:GOOD")
