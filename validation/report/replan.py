"""Whether the cases of a report are those that were to run: the plan is made again, where the code is the same commit.

A report that lost cases, and says that fewer were planned, contradicts nothing in itself. But the plan follows from the
operation, arch, seed, cover and level alone, so whoever has the sources can make it again and hold against it: which
cases there are and why, their parameters and seeds, the launches and paths that are demanded of each, how they are
replayed, and which paths the launched kernels stand for.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from validation.cases import Outcome, Task, case_record, cut, fragment, replay_command, sanitise
from validation.near import hint
from validation.operation import Operation, UnknownOperationError, load_operation
from validation.report.shards import Shard, chosen_cases
from validation.runner import Plan, SelectionError
from validation.stages.environment import source_state

#: Its plan is a result of ``hcgr-mutate``, which a report does not hold.
_NOT_PLANNED = ("mutants",)


def not_plannable(report: Mapping[str, Any]) -> str:
    """Why the plan cannot be made again here; empty if it can."""
    here = source_state(Path(__file__).parents[1])
    if here["commit"] is None or report["source"]["commit"] is None:
        return f"nothing shows that these are its sources ({here['reason'] or report['source']['reason']})"
    if here["commit"] != report["source"]["commit"]:
        return f"these sources are of commit {here['commit']}"
    if here["dirty"] or report["source"]["dirty"]:
        return "sources have changes that the commit does not hold, here or where it was made"
    return ""


def unplanned(report: Mapping[str, Any]) -> Iterator[str]:
    """Every way in which the cases of ``report`` are not those of its plan."""
    name = _operation_name(report)
    try:
        operation = load_operation(name)
    except UnknownOperationError as error:
        yield f"the plan cannot be made again: {error.args[0]}"
        return
    chosen, shard = report["selection"], Shard.of(report)
    plan = Plan(
        operation,
        name,
        seed=report["seed"],
        cases=chosen_cases(chosen),
        cover=chosen["cover"],
        level=chosen["level"],
        shard=shard,
    )
    for stage in report["stages"]:
        if not stage["deselected"] and stage["name"] not in _NOT_PLANNED and (stage["cases"] or stage["planned"]):
            yield from _stage(stage, plan, report, operation)
    wanted = {"name": operation.name, "title": operation.title}
    if {key: report["operation"][key] for key in wanted} != wanted:
        yield f"plan: the operation called {name} is {operation.title}, not {report['operation']['title']}"


def _operation_name(report: Mapping[str, Any]) -> str:
    """The name that loads the operation, as the replay commands have it."""
    for stage in report["stages"]:
        for case in stage["cases"]:
            words = shlex.split(case["replay"])
            return words[words.index("--op") + 1] if "--op" in words else "hcgr"
    return str(report["operation"]["name"])


def _stage(stage: Mapping[str, Any], plan: Plan, report: Mapping[str, Any], operation: Operation) -> Iterator[str]:
    where = f"stage {stage['name']}"
    try:
        tasks, planned = plan.tasks(stage["name"], report["arch"])
    except SelectionError as error:
        yield f"{where}: the plan cannot be made again: {error.args[0]}"
        return
    if planned != stage["planned"]:
        yield f"{where}: says that {stage['planned']} cases were planned, the plan has {planned}"
    found, due = [case["id"] for case in stage["cases"]], [task.id for task in tasks]
    for name in [each for each in due if each not in set(found)][:1]:
        yield f"{where}: case {name} of the plan is not there"
    for name in [each for each in found if each not in set(due)][:1]:
        yield f"{where}: case {name} is not of the plan{hint(name, due)}"
    by_id = {task.id: task for task in tasks}
    for case in stage["cases"]:
        if case["id"] in by_id:
            yield from (
                f"case {case['id']}: {what}" for what in _case(case, by_id[case["id"]], plan, report, operation)
            )


def _case(
    case: Mapping[str, Any], task: Task, plan: Plan, report: Mapping[str, Any], operation: Operation
) -> Iterator[str]:
    replay = replay_command(plan.operation_name, report["arch"], task.id, plan.seed, plan.level, task.options)
    made = case_record(task, Outcome(fragment("pass")), replay)
    for part in ("why", "params", "seed", "replay"):
        if case[part] != made[part]:
            yield f"{part} is {_short(case[part])}, the plan has {_short(made[part])}"
    if case["stage"] == "correctness" and case["status"] == "pass":
        yield from _demanded(case, task, operation)


def _demanded(case: Mapping[str, Any], task: Task, operation: Operation) -> Iterator[str]:
    """What the operation demands of the launches of a case, and what these are."""
    entry = operation.entry_point(task.payload["entry"])
    launches = entry.launches(task.params)
    ran: Sequence[str] = [each["kernel"] for each in case["launches"] if each["workgroups_run"]]
    due = {
        "launch_expected": launches,
        "built_for": list(entry.paths(task.params)) if launches else [],
        "paths": operation.paths_of(ran),
        "shapes": entry.shapes_due(task.params),
        "axes": entry.grid.labels(task.payload["case"]),
    }
    for name, value in due.items():
        if case["facts"].get(name) != sanitise(value):
            yield f"{name} is {_short(case['facts'].get(name))}, by the plan and its launches {_short(value)}"


def _short(value: Any) -> str:
    return cut(str(value), 120)
