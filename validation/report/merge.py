"""Joins the reports of all shards of one run into the report that the whole run would have given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from validation import devices
from validation.base import compare, perf
from validation.operation import JsonDict
from validation.report.builder import StageRun, build_report
from validation.report.check import require_valid
from validation.report.shards import Shard, interleave, left_out

#: What must be the same in all shards: its name in messages, and how to find it.
SAME: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "operation": lambda r: r["operation"],
    "arch": lambda r: r["arch"],
    "seed": lambda r: r["seed"],
    "commit": lambda r: r["source"]["commit"],
    "level": lambda r: r["selection"]["level"],
    "cover": lambda r: r["selection"]["cover"],
    "selected stages": lambda r: r["selection"]["stages"],
    "required evidence": lambda r: r["evidence"]["required"],
    "device": lambda r: r["evidence"]["device"],
    "checks covered": lambda r: r["evidence"]["covers"],
    "Python": lambda r: r["environment"]["python"],
    "packages": lambda r: r["environment"]["packages"],
    "base": lambda r: _base_identity(r),
    "planned cases": lambda r: {stage["name"]: stage["planned"] for stage in r["stages"]},
}


class MergeError(ValueError):
    """Reports that do not belong together, or do not make a whole; the message says which and why."""


def merge(reports: Sequence[Mapping[str, Any]], command: Sequence[str] = ()) -> JsonDict:
    """One report out of the ``reports`` of all shards, given in any order.

    Every count, status and the verdict are derived from the whole, as in a run. ``duration_s`` is the sum over the
    shards. The environment is that of the first shard; ``parts`` holds what else differs.

    Errors
        MergeError: no reports, one that is no shard, shards of different runs, doubled or missing shards.
        InvalidReportError: a shard that is not valid by itself, or whose cases another shard holds too.
    """
    ordered = _complete(reports)
    for report in ordered:
        require_valid(report)
        if report["source"]["commit"] is None:
            raise MergeError(
                f"shard {Shard.of(report)} names no commit ({report['source']['reason']}): nothing shows that the "
                "shards are of one revision"
            )
        if report["source"]["dirty"] and not report.get("base"):  # a comparison names the head's files by a digest
            raise MergeError(
                f"shard {Shard.of(report)} is of a checkout with changes that commit {report['source']['commit']} does "
                "not hold: nothing shows that the shards are of the same; commit them, and validate again"
            )
    first = ordered[0]
    for other in ordered[1:]:
        for what, find in SAME.items():
            if find(first) != find(other):
                raise MergeError(
                    f"shards {Shard.of(first)} and {Shard.of(other)} differ in {what}: {find(first)!r} and "
                    f"{find(other)!r}; shards of one run agree"
                )
    claims = [devices.Claim(**claim) for claim in first["evidence"]["claims"]]
    stage_runs = [_stage(stages) for stages in zip(*(report["stages"] for report in ordered), strict=True)]
    merged = build_report(
        header={key: first[key] for key in ("operation", "arch", "seed", "selection", "environment")}
        | {
            "source": first["source"] | {"dirty": any(report["source"]["dirty"] for report in ordered)},
            "command": list(command),
            "shard": None,
            "parts": [_part(report) for report in ordered],
            "started": min(report["started"] for report in ordered),
            "duration_s": round(sum(report["duration_s"] for report in ordered), 3),
        },
        stage_runs=stage_runs,
        claims=claims,
        claimed=next((claim for claim in claims if claim.available), None),
        required=first["evidence"]["required"],
        partial=left_out(first["selection"], [stage["name"] for stage in first["stages"]], None),
        covers=first["evidence"]["covers"],
        workers={
            "jobs": max(report["workers"]["jobs"] for report in ordered),
            "replaced": sum(report["workers"]["replaced"] for report in ordered),
        },
        base=_base(ordered, stage_runs),
    )
    require_valid(merged)
    return merged


def _base_identity(report: Mapping[str, Any]) -> JsonDict | None:
    """What all shards must say of the base: all that is not of single cases."""
    base = report.get("base")
    return base and {key: base[key] for key in ("revision", "commit", "head_tree", "notes", "policy")}


def _base(ordered: Sequence[Mapping[str, Any]], stage_runs: Sequence[StageRun]) -> JsonDict | None:
    """The comparison over all shards; what follows from the cases is derived anew."""
    identity = _base_identity(ordered[0])
    if identity is None:
        return None
    by_id = {case["id"]: case for report in ordered for case in report["base"]["cases"]}
    names = [record["id"] for run in stage_runs if run.name in compare.STAGES for record in run.records]
    times = _times([report["base"]["perf"] for report in ordered])
    return identity | {"cases": [by_id[name] for name in names], "perf": times}


def _times(parts: Sequence[Mapping[str, Any]]) -> JsonDict:
    """The times of all shards, each of which has compared its own cases on one machine."""
    cases = [case for part in parts for case in part.get("cases", ())]
    failed = [each for part in parts for each in part.get("not_timed", ())]
    return perf.joined(cases, failed, "") if cases else dict(parts[0])


def _complete(reports: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The reports by index, if they are the shards of one count, each once."""
    if not reports:
        raise MergeError("nothing to merge: give the report of each shard")
    found: dict[Shard, Mapping[str, Any]] = {}
    for report in reports:
        shard = Shard.of(report)
        if shard is None:
            raise MergeError("a report on all cases is no shard: there is nothing to merge it with")
        if shard in found:
            raise MergeError(f"shard {shard} was given twice")
        found[shard] = report
    counts = sorted({shard.count for shard in found})
    if len(counts) > 1:
        raise MergeError(f"shards of {' and of '.join(map(str, counts))} are no parts of one run")
    missing = [str(shard) for i in range(counts[0]) if (shard := Shard(i + 1, counts[0])) not in found]
    if missing:
        raise MergeError(f"missing: shard {', '.join(missing)}; a part of a run has no verdict on the whole")
    return [found[shard] for shard in sorted(found, key=lambda shard: shard.index)]


def _stage(parts: Sequence[Mapping[str, Any]]) -> StageRun:
    first = parts[0]
    executed = [part for part in parts if part["cases"]]
    levels = [part["evidence"] for part in executed if part["counts"]["pass"] + part["counts"]["fail"]]
    return StageRun(
        name=first["name"],
        title=first["title"],
        settles=first["settles"],
        evidence=devices.weakest(levels),
        records=interleave([part["cases"] for part in parts]),
        duration_s=sum(part["duration_s"] for part in parts),
        reason="" if executed else first["reason"],
        deselected=first["deselected"],
        planned=first["planned"],
    )


def _part(report: Mapping[str, Any]) -> JsonDict:
    return {
        "shard": report["shard"],
        "digest": report["digest"],
        "command": report["command"],
        "started": report["started"],
        "duration_s": report["duration_s"],
        "jobs": report["workers"]["jobs"],
        **({"executor": report["workers"]["executor"]} if "executor" in report["workers"] else {}),
        "platform": report["environment"]["platform"],
        "cpu": report["environment"]["cpu"],
    }
