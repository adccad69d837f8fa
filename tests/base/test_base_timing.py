"""Wall times of both revisions on a GPU, for which a stand-in with a clock of its own is put."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import tiny_device
import tiny_repository as tiny
import torch
from here import HerePool
from tiny_repository import Repository

from validation import cli, executors
from validation.base import compare, perf, timing
from validation.devices.hip import HipBench
from validation.report.check import problems
from validation.report.digest import digest
from validation.report.merge import _times
from validation.report.show import FORMATS

Report = dict[str, Any]
SLOWER = {"tiny/host.py": tiny.HOST.replace("instructions=10", "instructions=20 if kernel == 'scale' else 10")}


def validate(out: Path) -> Report:
    given = ["--op", tiny.REFERENCE, "--arch", "gfx942", "--jobs", "1", "--only", "correctness", "--base", "HEAD"]
    with mock.patch.object(executors, "Pool", HerePool):  # what processes do, test_base_run looks at
        cli.main([*given, "--report", str(out)], ("tiny_runtime",))
    report: Report = json.loads(out.read_text())
    assert problems(report) == []
    return report


@pytest.fixture(scope="module")
def timed(shared_repository: Repository, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report on a head whose scaling launches take twice the instructions."""
    shared_repository.write(SLOWER)
    return validate(tmp_path_factory.mktemp("out") / "out.json")


def test_one_case_of_each_path_is_timed_in_turns(timed: Report) -> None:
    part = timed["base"]["perf"]
    assert (part["evidence"], part["reason"], part["rounds"]) == ("runtime", perf.TIMED, perf.ROUNDS)
    assert part["not_timed"] == []
    by_path = {case["id"].split(".")[2]: case for case in part["cases"]}
    assert {path: case["outcome"] for path, case in by_path.items()} == {"scale": "slower", "shift": "within noise"}
    scale = by_path["scale"]
    assert scale["best"] == pytest.approx({"base": 15e-6, "head": 25e-6, "control": 5e-6})
    assert scale["ratio"] == pytest.approx(25 / 15)
    assert [len(scale["times"][side]) for side in perf.SIDES] == [perf.ROUNDS] * 3
    green = {each["id"] for each in timed["base"]["cases"] if each["status"] == "pass"}
    assert {case["id"] for case in part["cases"]} <= green
    assert not any(entry["what"].startswith("wall time") for entry in timed["not_run"])


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_every_form_shows_the_times(timed: Report, form: str) -> None:
    shown = FORMATS[form](timed)
    assert "15.0 us" in shown
    assert "25.0 us" in shown
    assert "slower" in shown


FORGERIES: dict[str, tuple[Any, str]] = {
    "a ratio": (lambda p: p["cases"][0].update(ratio=0.5), "are not what its rounds give"),
    "a round": (lambda p: p["cases"][0]["times"]["head"].pop(), "has not 9 rounds"),
    "an outcome": (lambda p: p["cases"][0].update(outcome="faster"), "are not what its rounds give"),
    "another case": (lambda p: p["cases"][0].update(id="correctness.tiny.scale.v3"), "did not pass on both"),
    "no evidence": (lambda p: p.update(evidence="none"), "none evidence with 2 cases timed"),
    "evidence of nothing": (lambda p: p["cases"].clear(), "runtime evidence with 0 cases timed"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_edited_times_do_not_hold_together(timed: Report, name: str) -> None:
    forged = copy.deepcopy(timed)
    edit, words = FORGERIES[name]
    edit(forged["base"]["perf"])
    forged["digest"] = digest(forged)
    assert any(words in problem for problem in problems(forged)), problems(forged)


def test_times_of_a_device_without_a_clock_are_forged(timed: Report) -> None:
    forged = copy.deepcopy(timed)
    forged["evidence"]["level"] = "emulated"
    forged["digest"] = digest(forged)
    assert any("timed on a device that gives emulated" in problem for problem in problems(forged))


def test_a_device_without_a_clock_times_nothing_and_says_so() -> None:
    class Context:
        @contextmanager
        def bench(self) -> Iterator[tiny_device.Bench]:
            yield tiny_device.Bench("gfx942")

    assert timing.execute({"control": True}, Context())["reason"] == "this device times nothing"
    part = perf.not_timed("emulated")
    assert perf.not_run(part) == [{"what": "wall time against the base", "reason": part["reason"]}]
    assert "times need a GPU" in part["reason"]


def test_shards_are_timed_each_on_its_own_machine(timed: Report) -> None:
    part = timed["base"]["perf"]
    first, second = (part | {"cases": [case]} for case in part["cases"])
    nothing = perf.joined([], [], "no case was there")
    assert _times([first, nothing, second]) == part
    assert _times([nothing, nothing]) == nothing


def test_a_turn_without_a_time_costs_its_case_only() -> None:
    """Also when the worker dies with it."""

    class Dying:
        def __init__(self, *dead: str) -> None:
            self.dead = dead

        def run(self, tasks: Any, modules: Any) -> Any:
            for task in tasks:
                value = {"status": "pass", "facts": {"seconds": 1.0}}
                failed = task.id in self.dead
                yield task, timing.Outcome(None, "killed") if failed else timing.Outcome(value)

    tasks = {name: timing.Task(name, timing.STAGE, {}) for name in ("a", "b")}
    told: list[str] = []
    bed = timing.Bed(Dying(), Dying("a"), lambda task: task, lambda *_: None, lambda r: told.append(r["id"]), "0" * 40)
    part = timing.timed(["a", "b"], tasks, bed)
    assert ([case["id"] for case in part["cases"]], part["not_timed"]) == (["b"], [{"id": "a", "reason": "killed"}])
    assert told == ["a (wall time: not timed: killed)", "b (wall time: within noise)"]


def test_only_what_ran_and_passed_on_both_is_chosen() -> None:
    def head(name: str, lanes: int, status: str = "pass", path: str = "p", stage: str = "correctness") -> Report:
        launch = {"workgroups_run": lanes, "block": [64, 1, 1]}
        facts = {"paths": [path]} if path else {}
        return {"id": f"{stage}.e.{name}", "stage": stage, "status": status, "launches": [launch], "facts": facts}

    def base(each: Report, how: str = compare.RUN, status: str | None = "pass") -> Report:
        return {"id": each["id"], "how": how, "status": status}

    heads = [head("small", 1), head("large", 9), head("red", 99, "fail"), head("same", 99), head("worse", 99)]
    heads += [head("none", 0, path="q"), head("cost", 99, stage="cost"), head("unnamed", 2, path="")]
    how = {"same": (compare.SAME_CODE, None), "worse": (compare.RUN, "fail")}
    bases = [base(each, *how.get(each["id"].rpartition(".")[2], (compare.RUN, "pass"))) for each in heads]
    assert timing.chosen(heads, bases) == ["correctness.e.large", "correctness.e.unnamed"]


def test_a_gpu_is_timed_between_events_of_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """The part that needs HIP, with torch's calls noted: nobody could run it on silicon."""
    calls: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            calls.append("record")

        def synchronize(self) -> None:
            calls.append("wait")

        def elapsed_time(self, other: Any) -> float:
            return 2.5

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: calls.append("synchronize"))
    bench: Any = SimpleNamespace(device="cpu")
    assert HipBench.seconds(bench, lambda: calls.append("call")) == 2.5e-3
    assert calls == ["call", "synchronize", "record", "call", "record", "wait"]
    monkeypatch.setattr("validation.devices.hip.CONTROL_BYTES", 16)
    assert HipBench.control(bench)().numel() == 16
