"""Results of hcgr-mutate in the report of hcgr-validate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from validation.mutation.edit import ROOT
from validation.mutation.state import sources_digest
from validation.operation import load_operation
from validation.runner import Plan, SelectionError
from validation.stages import Request, mutants


def task_payload(**changes: Any) -> dict[str, Any]:
    record = {
        "name": "tail-guard/x", "outcome": "killed", "reason": "r", "checks": ["memcheck"], "expected": ["memcheck"],
        "case": "c", "paths": ["combine"], "rarity": "r", "reports": [], "replay": "hcgr-mutate --mutant tail-guard/x",
    }  # fmt: skip
    return record | {"sources": sources_digest(ROOT)} | changes


def request(*paths: str) -> Request:
    return Request(load_operation("hcgr"), "hcgr", "gfx942", 0, mutants=paths)


def test_without_a_result_the_stage_has_no_case_and_says_so() -> None:
    assert mutants.plan(request()) == []
    assert "--mutants RESULT" in mutants.EMPTY
    with pytest.raises(LookupError, match="--mutants RESULT"):
        mutants.find(request(), "mutants.tail-guard.x")


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({}, "pass", ""),
        ({"outcome": "survived"}, "fail", "replay: hcgr-mutate"),
        ({"outcome": "timeout"}, "fail", "timeout"),
        ({"outcome": "same-isa"}, "fail", "same-isa"),
        ({"outcome": "equivalent"}, "skip", "equivalent"),
        ({"sources": "0" * 16}, "error", "other sources"),
    ],
)
def test_only_a_kill_passes(changes: dict[str, Any], status: str, words: str) -> None:
    judged = mutants.execute(task_payload(**changes), None)
    assert judged["status"] == status
    assert words in judged["reason"]
    assert "sources" not in judged["facts"]


@pytest.mark.parametrize("text", ["", "{", json.dumps({"schema": "hcgr-mutation/1"})])
def test_a_result_that_cannot_be_believed_is_a_usage_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(text)
    plan = Plan(load_operation("hcgr"), "hcgr", mutants=(str(path),))
    with pytest.raises(SelectionError, match=r"--mutants .*result\.json"):
        plan.check()
