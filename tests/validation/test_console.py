"""What a run shows while it goes on: a case that is told again, with a revised outcome, counts once."""

from __future__ import annotations

import io
import re
from typing import Any

from validation.mutation.console import Console
from validation.report.console import PlainView, RichView


def record(name: str, status: str) -> dict[str, Any]:
    text = {"reason": "" if status == "pass" else f"it ended with {status}", "replay": "replay it"}
    return {"id": name, "status": status, "duration_s": 1.0, "findings": []} | text


RECORDS = [record("a", "pass"), record("b", "pass"), record("a", "error"), record("c", "pass")]


def test_a_revised_case_counts_once_in_a_log() -> None:
    stream = io.StringIO()
    view = PlainView(stream)
    for _ in range(2):  # the second stage starts from nothing
        view.stage_started("gfx942", "Stage", 3)
        for each in RECORDS:
            view.case_done("gfx942", each)
    lines = [line for line in stream.getvalue().splitlines() if "/3" in line]
    assert [line.split()[1] for line in lines] == ["1/3", "2/3", "2/3", "3/3"] * 2
    assert [line for line in lines if "revised" in line] == ["[gfx942] 2/3 revised: ERROR a: it ended with error"] * 2


def test_a_revised_case_counts_once_on_a_terminal() -> None:
    view = RichView(io.StringIO())
    for bar in range(2):
        view.stage_started("gfx942", "Stage", 3)
        for each in RECORDS:
            view.case_done("gfx942", each)
        assert view._progress.tasks[bar].completed == 3


def test_a_revised_mutant_counts_once() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    console = Console(stream)
    console.phase("gfx942", "mutants", 2)
    for name, outcome in (("a", "killed"), ("b", "killed"), ("a", "crashed")):
        console.done(name, outcome, "")
    assert re.findall(r"\d/\d", stream.getvalue()) == ["1/2", "2/2", "2/2"]
