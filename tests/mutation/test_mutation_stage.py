"""Results of hcgr-mutate in the report of hcgr-validate."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from validation import cli, devices, runner
from validation.cases import Outcome, fragment
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


def request(*paths: str, arch: str = "gfx942") -> Request:
    return Request(load_operation("hcgr"), "hcgr", arch, 0, mutants=paths)


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


def gate_payload(**changes: Any) -> dict[str, Any]:
    gate = {"min_kill_rate": 1.0, "kill_rate": 1.0, "counted": 3, "reasons": [], "warnings": []}
    return {"gate": gate, "partial": False, "outcome": "PASS", "sources": sources_digest(ROOT)} | changes


def test_the_gate_is_a_case_of_its_own() -> None:
    """Kills by wrong checks and ended equivalences are in no mutant's outcome."""
    assert mutants.execute(gate_payload(), None)["status"] == "pass"
    reasons = ["5 mutants were killed by another check than their own, 3 may be", "x: review it again"]
    failed = gate_payload(outcome="FAIL", gate=gate_payload()["gate"] | {"reasons": reasons})
    judged = mutants.execute(failed, None)
    assert (judged["status"], judged["reason"]) == ("fail", "; ".join(reasons))
    assert mutants.execute(failed | {"sources": "0" * 16}, None)["status"] == "error"


def whole_result(**changes: Any) -> dict[str, Any]:
    whole = {"mutants": [], "classes": [], "generated": False, "seed": 0, "sample": None, "every_trial": False}
    return {
        "arch": "gfx942", "mutants": [], "selection": whole, "source": {"digest": "d"},
        "gate": gate_payload()["gate"], "verdict": {"result": "PASS"},
    } | changes  # fmt: skip


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        ({}, "the whole"),
        ({"classes": ["tail-guard"]}, "a part"),
        ({"sample": 3}, "a part"),
        ({"generated": True}, "a part"),
    ],
)
def test_a_result_on_a_part_of_the_corpus_says_so(
    selection: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = whole_result()
    result["selection"] |= selection
    monkeypatch.setattr(mutants, "_load", lambda path: result)
    (task,) = mutants.plan(request("result.json"))
    assert (task.id, words in task.why[0]) == ("mutants.gate", True)


@pytest.mark.parametrize("arch", devices.ARCHES)
def test_the_replay_of_a_mutant_finds_it_again(
    arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the result that holds it, and on the arch that it is of."""
    path = str(tmp_path / "my result.json")
    survivor = task_payload(outcome="survived") | {"title": "t", "class": "tail-guard"}
    other = whole_result(arch=next(name for name in devices.ARCHES if name != arch))
    results = {path: whole_result(arch=arch, mutants=[survivor]), "other.json": other}
    monkeypatch.setattr(mutants, "_load", results.__getitem__)
    tasks = mutants.plan(request("other.json", path, arch=arch))
    assert [task.id for task in tasks] == ["mutants.gate", "mutants.tail-guard.x"]
    plan = Plan(load_operation("hcgr"), "hcgr", mutants=("other.json", path))
    for task in tasks:
        replay = runner._record(plan, arch, task, Outcome(fragment("fail", "r")))["replay"]
        command, *words = shlex.split(replay)
        assert (command, words[-2:]) == ("hcgr-validate", ["--mutants", path])
        assert cli.main([*words, "--list"]) == 0
        assert task.id in capsys.readouterr().out
        assert cli.main([*words[:-2], "--list"]) == 2
        assert "--mutants RESULT" in capsys.readouterr().err
