"""The protocol stage in a report: what it must satisfy, and its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_SCENARIO_HEAD = ("scenario", "status", "runs", "launches", "memory", "completion", "schedules (seeds)")
_TOOTH_HEAD = ("broken variant", "status", "aims at", "caught by", "under")


def protocol_cases(stages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The cases that ran a scenario, or a broken variant of one."""
    return [case for stage in stages for case in stage["cases"] if case.get("protocol") is not None]


def protocol_problems(case: Mapping[str, Any]) -> Iterator[str]:
    """How a case's protocol record contradicts itself, or the case's status."""
    record = case["protocol"]
    runs, tooth = record["runs"], record["tooth"]
    launched = sum(run["launches"] for run in runs)
    if launched != len(case["launches"]):
        yield f"its runs launched {launched} kernels, {len(case['launches'])} are listed"
    ran = sum(launch["workgroups_run"] for launch in case["launches"])
    if ran != sum(run["workgroups"] for run in runs):
        yield f"its runs ran {sum(run['workgroups'] for run in runs)} workgroups, the launches add up to {ran}"
    for run in runs:
        kind, _, seed = run["schedule"].partition(":")
        if run["seed"] != (int(seed) if kind == "random" else None):
            yield f"schedule {run['schedule']} does not have seed {run['seed']}"
    if tooth is not None:
        caught = sorted({check for run in runs for check in run["caught"]})
        if tooth["caught_by"] != caught:
            yield f"caught by {', '.join(tooth['caught_by'])}, its runs say {', '.join(caught)}"
    if case["status"] == "pass":
        yield from _passing(record)


def _passing(record: Mapping[str, Any]) -> Iterator[str]:
    runs, tooth = record["runs"], record["tooth"]
    if not runs:
        yield "passes without a run"
    if tooth is None:
        for run in runs:
            name = f"{run['schedule']}/{run['memory']}/{run['completion']}"
            if run["caught"]:
                yield f"passes, and {', '.join(run['caught'])} noticed something under {name}"
            if not run["workgroups"] or not run["compared"]:
                yield f"passes with nothing launched or compared under {name}"
        return
    if not any(run["workgroups"] for run in runs):
        yield "passes with nothing launched"
    if tooth["aims_at"] not in tooth["caught_by"]:
        yield f"passes, and {tooth['aims_at']} did not catch it"
    if tooth["kernel"] and not tooth["changed_kernels"]:
        yield "passes with a broken variant whose machine code is the original's"


def protocol_lines(report: Mapping[str, Any]) -> list[str]:
    """Two tables: what each scenario ran under, and what caught each broken variant."""
    cases = protocol_cases(report["stages"])
    real = [case for case in cases if case["protocol"]["tooth"] is None]
    broken = [case for case in cases if case["protocol"]["tooth"] is not None]
    lines = _table(_SCENARIO_HEAD, [_scenario_row(case) for case in real])
    if broken:
        caught = sum(case["status"] == "pass" for case in broken)
        lines += _table(_TOOTH_HEAD, [_tooth_row(case) for case in broken])
        lines.append(f"{caught} of {len(broken)} broken variants caught by the check that they aim at")
    return lines


def _kinds(runs: Sequence[Mapping[str, Any]], name: str, separator: str) -> str:
    """Distinct values, a schedule's without its seed or position, with how many of each there are."""
    counts = Counter(str(run[name]).partition(":")[0] for run in runs)
    return separator.join(kind if count in (1, len(runs)) else f"{count} {kind}" for kind, count in counts.items())


def _spans(numbers: Sequence[int]) -> str:
    """Ascending numbers, neighbours as ``3-7``."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and spans[-1][-1] == number - 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    return ", ".join(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in spans)


def _scenario_row(case: Mapping[str, Any]) -> tuple[str, ...]:
    runs = case["protocol"]["runs"]
    seeds = _spans([run["seed"] for run in runs if run["seed"] is not None])
    return (
        case["protocol"]["scenario"],
        case["status"],
        str(len(runs)),
        str(sum(run["launches"] for run in runs)),
        _kinds(runs, "memory", "/"),
        _kinds(runs, "completion", "/"),
        _kinds(runs, "schedule", ", ") + (f" ({seeds})" if seeds else ""),
    )


def _tooth_row(case: Mapping[str, Any]) -> tuple[str, ...]:
    tooth = case["protocol"]["tooth"]
    return (
        f"{case['protocol']['scenario']}.{tooth['name']}",
        "caught" if case["status"] == "pass" else "SURVIVED" if case["status"] == "fail" else case["status"],
        tooth["aims_at"],
        ", ".join(tooth["caught_by"]) or "nothing",
        tooth["caught_under"] or "none",
    )


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    table = [head, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
