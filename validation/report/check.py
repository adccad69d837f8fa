"""Whether a report may be believed: its schema, and what a schema cannot say.

``problems`` is run on every report before it is written, and on any report that is read back. Everything derived
is derived again, so that an edited count, status or verdict does not survive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema

from schemas import load_schema
from validation import cases
from validation.report.builder import not_run_stages, worst_ratio
from validation.report.coverage import coverage
from validation.report.verdict import decide


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
    broken = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(report)]
    return broken or list(_contradictions(report))


def _contradictions(report: Mapping[str, Any]) -> Iterator[str]:
    records = [case for stage in report["stages"] for case in stage["cases"]]
    identities = [case["id"] for case in records]
    for identity in sorted({i for i in identities if identities.count(i) > 1}):
        yield f"case {identity} appears more than once"
    if report["counts"] != cases.count(records):
        yield f"counts are {report['counts']}, the cases add up to {cases.count(records)}"
    for stage in report["stages"]:
        yield from _stage(stage, report)
    if report["worst"] != worst_ratio(records):
        yield "worst is not the largest error ÷ bound of the cases"
    if report["coverage"] != coverage(report["stages"]):
        yield "coverage is not what the executed cases add up to"
    skipped = not_run_stages(report["stages"])
    listed = [entry["what"] for entry in report["not_run"]]
    for entry in skipped:
        if entry["what"] not in listed:
            yield f"{entry['what']} was skipped but is not listed under not_run"
    expected = decide(report["stages"], report["evidence"]["required"], report["verdict"]["left_out"])
    if report["verdict"] != expected:
        yield f"verdict is {report['verdict']['text']!r}, the stages give {expected['text']!r}"


def _stage(stage: Mapping[str, Any], report: Mapping[str, Any]) -> Iterator[str]:
    name, counts = stage["name"], cases.count(stage["cases"])
    if stage["counts"] != counts:
        yield f"stage {name}: counts are {stage['counts']}, its cases add up to {counts}"
    status, _ = cases.stage_status(counts)
    if stage["status"] != status:
        yield f"stage {name}: status is {stage['status']}, its cases give {status}"
    executed = counts["pass"] + counts["fail"]
    if not executed and stage["evidence"] != "none":
        yield f"stage {name}: claims {stage['evidence']} evidence and executed nothing"
    if executed and stage["settles"] and stage["evidence"] != report["evidence"]["level"]:
        yield f"stage {name}: claims {stage['evidence']} evidence on a device that gives {report['evidence']['level']}"
    if stage["deselected"] and stage["cases"]:
        yield f"stage {name}: deselected, and yet it has cases"
    for case in stage["cases"]:
        yield from _case(case, name, report)


def _case(case: Mapping[str, Any], stage: str, report: Mapping[str, Any]) -> Iterator[str]:
    where = f"case {case['id']}"
    if case["stage"] != stage or not case["id"].startswith(f"{stage}."):
        yield f"{where}: belongs to stage {case['stage']}, stands in {stage}"
    if case["status"] != "pass" and not case["reason"]:
        yield f"{where}: {case['status']} without a reason"
    if case["id"] not in case["replay"] or report["arch"] not in case["replay"]:
        yield f"{where}: its replay command does not name it"
    for launch in case["launches"]:
        if launch["arch"] != report["arch"]:
            yield f"{where}: launched code for {launch['arch']} in a report on {report['arch']}"
    if case["status"] != "pass":
        return
    if case["findings"]:
        yield f"{where}: passes with {len(case['findings'])} findings"
    if any(not check["passed"] for check in case["comparisons"]):
        yield f"{where}: passes with a failed comparison"
    needed = {
        "correctness": "comparisons",
        "contract": "comparisons",
        "compile": "resources",
        "environment": "facts",
        "cost": "cost",
    }.get(stage)
    if needed and not case[needed]:
        yield f"{where}: passes without {needed}"
    missing = [path for path in case["facts"].get("built_for", ()) if path not in case["facts"].get("paths", ())]
    if missing:
        yield f"{where}: passes without a receipt of {', '.join(missing)}, for which it was built"
    if stage == "correctness" and case["facts"].get("launch_expected") is not (_workgroups(case) > 0):
        yield f"{where}: passes with {_workgroups(case)} workgroups run, which is not what it expected"


def _workgroups(case: Mapping[str, Any]) -> int:
    return sum(int(launch["workgroups_run"]) for launch in case["launches"])
