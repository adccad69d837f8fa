"""Puts a report together from what a run saw. Every count, status and verdict is derived here, none is passed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from validation import cases, devices
from validation.base import compare, perf
from validation.operation import JsonDict
from validation.report.coverage import coverage
from validation.report.digest import FIELD, digest
from validation.report.verdict import decide

SCHEMA = "hcgr-report/3"


@dataclass(frozen=True)
class StageRun:
    """What the runner knows about one stage. ``reason`` is for a stage that did not execute.

    ``planned`` is how many cases the plan holds for it, those of other shards among them.
    """

    name: str
    title: str
    settles: bool
    evidence: str
    records: Sequence[JsonDict]
    duration_s: float
    reason: str = ""
    deselected: bool = False
    planned: int = 0


def stage_record(run: StageRun) -> JsonDict:
    """One stage of the report."""
    counts = cases.count(run.records)
    status, reason = cases.stage_status(counts, run.reason)
    executed = counts["pass"] + counts["fail"]
    return {
        "name": run.name,
        "title": run.title,
        "status": status,
        "reason": reason,
        "settles": run.settles,
        "deselected": run.deselected,
        "evidence": run.evidence if executed else "none",
        "planned": run.planned,
        "counts": counts,
        "duration_s": round(run.duration_s, 3),
        "cases": list(run.records),
    }


def worst_ratio(records: Sequence[Mapping[str, Any]]) -> JsonDict | None:
    """The comparison with the largest error ÷ bound in the whole run, and its case."""
    worst: JsonDict | None = None
    for record in records:
        for check in record["comparisons"]:
            ratio = check["max_ratio"]
            value = float(ratio) if ratio is not None else None
            if value is not None and (worst is None or not value <= float(worst["max_ratio"])):
                worst = {
                    "case": record["id"],
                    "output": check["output"],
                    "max_ratio": ratio,
                    "worst_index": check["worst_index"],
                }
    return worst


def not_run_stages(stages: Sequence[Mapping[str, Any]]) -> list[JsonDict]:
    """Stages and cases that were skipped, with their reasons."""
    missing = []
    for stage in stages:
        if stage["status"] == "skip":
            missing.append({"what": f"stage {stage['name']}", "reason": stage["reason"]})
        missing += [
            {"what": f"case {case['id']}", "reason": case["reason"]}
            for case in stage["cases"]
            if case["status"] == "skip"
        ]
    return missing


def not_run_devices(claims: Sequence[devices.Claim]) -> list[JsonDict]:
    """Evidence that no device here could give."""
    return [
        {"what": f"evidence level {claim.level} ({claim.device})", "reason": claim.reason}
        for claim in claims
        if not claim.available
    ]


def build_report(
    *,
    header: Mapping[str, Any],
    stage_runs: Sequence[StageRun],
    claims: Sequence[devices.Claim],
    claimed: devices.Claim | None,
    required: str | None,
    partial: Sequence[str],
    covers: Mapping[str, Any],
    workers: Mapping[str, Any],
    base: Mapping[str, Any] | None = None,
    calibration: Mapping[str, Any] | None = None,
) -> JsonDict:
    """The whole report. ``header`` holds operation, arch, seed, command, shard, parts, times, environment, source.

    ``base`` is what was seen of a base (:func:`validation.base.run.part`); all that follows from it is derived here.
    ``calibration`` is what :func:`validation.calibrate.run.calibrate` returned; no verdict depends on it.
    """
    stages = [stage_record(run) for run in stage_runs]
    records = [record for stage in stages for record in stage["cases"]]
    compared = None if base is None else dict(base) | compare.derive(stages, base["cases"])
    report = {
        "schema": SCHEMA,
        **header,
        "evidence": {
            "required": required,
            "device": claimed.device if claimed else None,
            "level": claimed.level if claimed else "none",
            "claims": [claim.as_json() for claim in claims],
            "covers": dict(covers),
        },
        "workers": dict(workers),
        "stages": stages,
        "counts": cases.count(records),
        "coverage": coverage(stages),
        "worst": worst_ratio(records),
        "not_run": not_run_devices(claims) + not_run_stages(stages) + perf.not_run(compared and compared["perf"]),
        "verdict": decide(stages, required, partial, compared),
    }
    if compared is not None:
        report["base"] = compared
    if calibration is not None:
        report["calibration"] = dict(calibration)
    finished = dict(cases.sanitise(report))
    return finished | {FIELD: digest(finished)}
