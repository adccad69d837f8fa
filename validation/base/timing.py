"""Times cases on both revisions: turns between a worker with the head's code and one with the base's, on one device.

What follows from the seconds is :mod:`.perf`'s. Both workers stay; each turn prepares the case anew, so that no side
keeps what the other has to make.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from validation.base import case, compare, perf
from validation.base.revision import SHORT
from validation.cases import Outcome, Task, fragment
from validation.operation import JsonDict, resolve_reference

MODULE = "validation.base.timing"
STAGE = "correctness"


class TimingError(RuntimeError):
    """A turn that has no time; the message says why."""


class Pool(Protocol):
    """What runs a task: :class:`validation.executors.TaskPool`."""

    def run(self, tasks: Sequence[Task], modules: Mapping[str, str]) -> Any:
        """Tasks with their outcomes."""


@dataclass(frozen=True)
class Bed:
    """Both revisions on one device: a worker each, and how tasks reach the base's code."""

    head: Pool
    base: Pool
    wrapped: Callable[[Task], Task]
    started: Callable[[str, int], None]
    done: Callable[[JsonDict], None]
    commit: str


def chosen(heads: Sequence[Mapping[str, Any]], bases: Sequence[Mapping[str, Any]]) -> list[str]:
    """The cases to time: for each path (or entry point without one) the one with most lanes, of those that both passed.

    A case that need not run on the base, for its code is the same there, has no time of its own.
    """
    ran = {each["id"] for each in bases if each["how"] == compare.RUN and each["status"] == "pass"}
    largest: dict[str, tuple[int, str]] = {}
    for head in heads:
        lanes = sum(launch["workgroups_run"] * math.prod(launch["block"]) for launch in head["launches"])
        if head["stage"] == STAGE and head["status"] == "pass" and head["id"] in ran and lanes:
            group = "+".join(head["facts"].get("paths", ())) or head["id"].split(".")[1]
            largest[group] = max(largest.get(group, (0, "")), (lanes, head["id"]))
    return [identity for _, identity in largest.values()]


def timed(names: Sequence[str], tasks: Mapping[str, Task], bed: Bed) -> JsonDict:
    """The report's ``perf``: each of ``names``, whose tasks are given, timed in turns."""
    if not names:
        return perf.joined([], [], "no case that launches a kernel ran and passed on both revisions")
    bed.started(f"Wall time against the base {bed.commit[:SHORT]}", len(names))
    records: list[JsonDict] = []
    failed: list[JsonDict] = []
    for name in names:
        try:
            records.append(perf.record(name, perf.time_sides(_timers(tasks[name], bed))))
            said = records[-1]["outcome"]
        except (TimingError, ValueError) as error:
            failed.append({"id": name, "reason": str(error)})
            said = f"not timed: {error}"
        bed.done({"id": f"{name} (wall time: {said})", "status": "pass", "duration_s": 0.0})
    return perf.joined(records, failed, f"no case could be timed: {failed[0]['reason']}" if failed else "")


def _timers(task: Task, bed: Bed) -> dict[str, perf.Timer]:
    base = bed.wrapped(task)
    control = replace(task, payload={"control": True})
    return {
        perf.HEAD: partial(_seconds, bed.head, replace(task, payload={"case": task.payload})),
        perf.BASE: partial(_seconds, bed.base, replace(base, payload={"case": task.payload, "base": base.payload})),
        perf.CONTROL: partial(_seconds, bed.head, control),
    }


def _seconds(pool: Pool, task: Task) -> float:
    outcomes: list[Outcome] = [outcome for _, outcome in pool.run([task], {STAGE: MODULE})]
    value = outcomes[-1].value
    if value is None or value["status"] != "pass":
        raise TimingError(outcomes[-1].error if value is None else str(value["reason"]))
    return float(value["facts"]["seconds"])


# -- in a worker -------------------------------------------------------------------------------------------------------


def execute(payload: JsonDict, context: Any) -> JsonDict:
    """Time one call: of a case, or of the control, which no code under test reaches."""
    if "base" in payload:
        case.require_code(payload["base"], context)
    with context.bench() as bench:
        if not hasattr(bench, "seconds"):
            return fragment("skip", "this device times nothing")
        call = bench.control() if payload.get("control") else _call(payload["case"], context, bench)
        return fragment("pass", facts={"seconds": bench.seconds(call)})


def _call(payload: JsonDict, context: Any, bench: Any) -> Callable[[], Any]:
    entry = context.operation(payload["op"]).entry_point(payload["entry"])
    driver = resolve_reference(entry.driver)()
    return partial(driver.run, driver.prepare(entry.grid.decode(payload["case"]), bench, payload["seed"]))
