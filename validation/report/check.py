"""Whether a report may be believed: its schema, and what a schema cannot say.

``problems`` is run on every report before it is written, and on any report that is read back. Everything derived
is derived again, so that an edited count, status or verdict does not survive. What is not derived (a launch, a
figure) is held against what it must agree with, and the whole against its digest; :mod:`.digest` says what that is
worth.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jsonschema

from schemas import load_schema
from validation import cases, devices, stages
from validation.base import perf
from validation.report.base import base_problems
from validation.report.builder import not_run_devices, not_run_stages, worst_ratio
from validation.report.calibration import calibration_problems
from validation.report.coverage import coverage
from validation.report.digest import digest
from validation.report.executor import executor_problems
from validation.report.protocol import protocol_problems
from validation.report.receipts import impossible, shapeless, speaks_of_shapes
from validation.report.shards import Shard, ShardError, chosen_cases, left_out
from validation.report.verdict import decide
from validation.stages import STAGES, correctness

#: Stages whose cases draw their inputs from the run's seed and their own name.
_SEEDED = ("correctness", "contract")
_MESSAGE_LENGTH = 300
#: What a case has that was executed.
_EXECUTED = ("comparisons", "launches", "findings", "resources")
#: Options that a replay may hold beside arch, case, seed and level.
_REPLAY_OPTIONS = {"--op", "--mutants"}


class InvalidReportError(ValueError):
    """A report that contradicts its schema or itself; ``problems`` lists every contradiction found."""

    def __init__(self, problems: list[str]) -> None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"invalid report: {problems[0]}{more}")
        self.problems = problems


def require_valid(report: Mapping[str, Any]) -> None:
    """Raise :class:`InvalidReportError` unless ``report`` holds together."""
    found = problems(report)
    if found:
        raise InvalidReportError(found)


def problems(report: Mapping[str, Any]) -> list[str]:
    """Every way in which ``report`` breaks its schema or, if it does not, contradicts itself."""
    validator = jsonschema.Draft202012Validator(load_schema("report"))
    broken = [f"{error.json_path}: {_short(error.message)}" for error in validator.iter_errors(report)]
    return broken or list(_contradictions(report))


def _short(message: str) -> str:
    """The message of a schema error, which quotes the whole offending value, in a readable length."""
    half = _MESSAGE_LENGTH // 2
    return message if len(message) <= _MESSAGE_LENGTH else f"{message[:half]} ... {message[-half:]}"


def _contradictions(report: Mapping[str, Any]) -> Iterator[str]:
    if report["digest"] != digest(report):
        yield "digest does not fit the content: the report was changed after it was written"
    records = [case for stage in report["stages"] for case in stage["cases"]]
    for identity, times in Counter(case["id"] for case in records).items():
        if times > 1:
            yield f"case {identity} appears more than once"
    try:
        shard = Shard.of(report)
    except ShardError as error:
        yield str(error)
        return
    yield from _scope(report, shard)
    if report["counts"] != cases.count(records):
        yield f"counts are {report['counts']}, the cases add up to {cases.count(records)}"
    for stage in report["stages"]:
        yield from _stage(stage, report, shard)
    if report["worst"] != worst_ratio(records):
        yield "worst is not the largest error ÷ bound of the cases"
    if report["coverage"] != coverage(report["stages"]):
        yield "coverage is not what the executed cases add up to"
    claims = [devices.Claim(**claim) for claim in report["evidence"]["claims"]]
    yield from _device(report["evidence"], claims)
    wall = report["base"]["perf"] if "base" in report else None
    missing = not_run_devices(claims) + not_run_stages(report["stages"]) + perf.not_run(wall)
    for entry in missing:
        if entry not in report["not_run"]:
            yield f"{entry['what']} was not run ({entry['reason']}), which not_run does not say"
    if len(report["not_run"]) != len(missing):
        yield f"not_run lists {len(report['not_run'])} things, {len(missing)} were not run"
    yield from base_problems(report)
    yield from calibration_problems(report)
    yield from executor_problems(report)
    expected = decide(report["stages"], report["evidence"]["required"], _left_out(report, shard), report.get("base"))
    if report["verdict"] != expected:
        yield f"verdict is {report['verdict']['text']!r}, the stages give {expected['text']!r}"


def _device(evidence: Mapping[str, Any], claims: Sequence[devices.Claim]) -> Iterator[str]:
    """The device that is named, against what the devices have answered: the first that is there is taken."""
    taken = next((claim for claim in claims if claim.available), None)
    due = (taken.device, taken.level) if taken else (None, "none")
    if (evidence["device"], evidence["level"]) != due:
        yield (
            f"evidence: {evidence['device']} gives {evidence['level']}, "
            f"by the claims {due[0] or 'no device'} gives {due[1]}"
        )


def _left_out(report: Mapping[str, Any], shard: Shard | None) -> tuple[str, ...]:
    return left_out(report["selection"], tuple(STAGES), shard)


def _scope(report: Mapping[str, Any], shard: Shard | None) -> Iterator[str]:
    """What was chosen, against the stages that there are and what they did."""
    names = [stage["name"] for stage in report["stages"]]
    if names != list(STAGES):
        yield f"stages are {', '.join(names)}; a report has {', '.join(STAGES)}"
    chosen = [stage["name"] for stage in report["stages"] if not stage["deselected"]]
    if sorted(chosen) != sorted(report["selection"]["stages"]):
        yield f"stages {', '.join(report['selection']['stages'])} were selected, {', '.join(chosen)} were run"
    yield from _named(report)
    if tuple(report["verdict"]["left_out"]) != _left_out(report, shard):
        yield f"left_out is {report['verdict']['left_out']}, the selection leaves out {list(_left_out(report, shard))}"
    parts = [Shard(**part["shard"]) for part in report["parts"]]
    if parts and (shard or parts != [Shard(i + 1, len(parts)) for i in range(len(parts))]):
        yield f"parts are {', '.join(map(str, parts))}; a merged report has each shard once and is none itself"


def _named(report: Mapping[str, Any]) -> Iterator[str]:
    """The cases that were asked for by name, against those that are there."""
    cases = chosen_cases(report["selection"])
    for stage in report["stages"] if cases else ():
        wanted = [case for case in cases if case.partition(".")[0] == stage["name"]]
        found = [case["id"] for case in stage["cases"]]
        if found != wanted and (found or stage["planned"]):
            chosen = ", ".join(wanted) or "none"
            yield f"stage {stage['name']}: cases {chosen} were selected, {', '.join(found)} were run"


def _stage(stage: Mapping[str, Any], report: Mapping[str, Any], shard: Shard | None) -> Iterator[str]:
    name, counts = stage["name"], cases.count(stage["cases"])
    if stage["counts"] != counts:
        yield f"stage {name}: counts are {stage['counts']}, its cases add up to {counts}"
    status, _ = cases.stage_status(counts)
    if stage["status"] != status:
        yield f"stage {name}: status is {stage['status']}, its cases give {status}"
    due = shard.share(stage["planned"]) if shard else stage["planned"]
    if counts["total"] != due:
        yield f"stage {name}: has {counts['total']} cases, {due} were planned"
    module = stages.stage(name) if name in STAGES else None
    if module is not None and stage["settles"] is not module.SETTLES:
        yield f"stage {name}: settles is {stage['settles']}, for this stage it is {module.SETTLES}"
    executed = counts["pass"] + counts["fail"]
    if not executed and stage["evidence"] != "none":
        yield f"stage {name}: claims {stage['evidence']} evidence and executed nothing"
    gives = (module and module.LEVEL) or report["evidence"]["level"]
    if executed and stage["evidence"] != gives:
        yield f"stage {name}: claims {stage['evidence']} evidence on a device that gives {gives}"
    if stage["deselected"] and stage["cases"]:
        yield f"stage {name}: deselected, and yet it has cases"
    for case in stage["cases"]:
        yield from _case(case, stage, report)
    if name == correctness.NAME and speaks_of_shapes(stage["cases"]):
        for case in stage["cases"]:
            if case["status"] == "pass":
                yield from (f"case {case['id']}: {what}" for what in shapeless(case, stage["evidence"]))


def _case(case: Mapping[str, Any], record: Mapping[str, Any], report: Mapping[str, Any]) -> Iterator[str]:
    where, stage = f"case {case['id']}", record["name"]
    if case["stage"] != stage or not case["id"].startswith(f"{stage}."):
        yield f"{where}: belongs to stage {case['stage']}, stands in {stage}"
    if case["status"] != "pass" and not case["reason"]:
        yield f"{where}: {case['status']} without a reason"
    yield from (f"{where}: {what}" for what in _replay(case, report))
    if stage in _SEEDED and case["seed"] != cases.case_seed(report["seed"], case["id"]):
        yield f"{where}: seed {case['seed']} is not that of a run with seed {report['seed']}"
    if case["protocol"] is not None:
        yield from (f"{where}: {what}" for what in protocol_problems(case))
    if case["status"] == "skip" and any(case[part] for part in _EXECUTED):
        yield f"{where}: skipped, and yet it was executed"
    if case["status"] != "pass":
        return
    broken_variant = (case.get("protocol") or {}).get("tooth")  # its launches may end anyhow
    for launch in () if broken_variant else case["launches"]:
        yield from (f"{where}: {what}" for what in impossible(launch, report["arch"], record["evidence"]))
    if case["findings"]:
        yield f"{where}: passes with {len(case['findings'])} findings"
    if any(not check["passed"] for check in case["comparisons"]):
        yield f"{where}: passes with a failed comparison"
    for check in case["comparisons"]:
        if check["passed"] and check["max_ratio"] is not None and not 0.0 <= float(check["max_ratio"]) <= 1.0:
            yield f"{where}: {check['output']} passes with an error {check['max_ratio']} times its bound"
    if case["cost"]:
        yield from (f"{where}: {what}" for what in _cost(case["cost"]))
    needed = {
        "correctness": "comparisons",
        "contract": "comparisons",
        "compile": "resources",
        "environment": "facts",
        "cost": "cost",
        "protocol": "protocol",
    }.get(stage)
    if needed and not case[needed]:
        yield f"{where}: passes without {needed}"
    missing = [path for path in case["facts"].get("built_for", ()) if path not in case["facts"].get("paths", ())]
    if missing:
        yield f"{where}: passes without a receipt of {', '.join(missing)}, for which it was built"
    if stage == correctness.NAME and case["facts"].get("workgroups") == correctness.ALL:
        for launch in correctness.unfinished(case["launches"]):
            yield f"{where}: passes with {launch['workgroups_run']} workgroups of {launch['kernel']}, all were to run"
    if stage == correctness.NAME and case["launches"] and not any(c["elements"] for c in case["comparisons"]):
        yield f"{where}: passes with no element compared"
    if stage == "contract" and case["launches"]:
        yield f"{where}: passes, and yet the call launched {case['launches'][0]['kernel']}"
    if stage == "correctness" and case["facts"].get("launch_expected") is not (_workgroups(case) > 0):
        yield f"{where}: passes with {_workgroups(case)} workgroups run, which is not what it expected"


def _replay(case: Mapping[str, Any], report: Mapping[str, Any]) -> Iterator[str]:
    """The command that is to run a case again: one of ours, for this case, arch, seed and level, and nothing more."""
    try:
        words = shlex.split(case["replay"])
    except ValueError as error:
        yield f"its replay command is none: {error}"
        return
    given = dict(zip(words[1::2], words[2::2], strict=False))
    level = report["selection"]["level"]
    due = {"--arch": report["arch"], "--case": case["id"], "--seed": str(report["seed"])}
    due |= {"--level": level} if level != "default" else {}
    if words[0] != cases.COMMAND or len(words) != 2 * len(given) + 1 or any(given.get(k) != v for k, v in due.items()):
        yield f"its replay command does not name it, or not as it was run: {case['replay']}"
    if set(given) - set(due) - _REPLAY_OPTIONS:
        yield f"its replay command holds what no replay has: {case['replay']}"


def _cost(cost: Mapping[str, Any]) -> Iterator[str]:
    if cost["ratio"] != cost["bytes_moved"] / cost["bytes_compulsory"]:
        yield f"ratio {cost['ratio']} is not {cost['bytes_moved']} over {cost['bytes_compulsory']} bytes"
    if cost["limit"] is not None and cost["ratio"] > cost["limit"]:
        yield f"passes with {cost['ratio']} times the compulsory traffic, at most {cost['limit']}"


def _workgroups(case: Mapping[str, Any]) -> int:
    return sum(int(launch["workgroups_run"]) for launch in case["launches"])
