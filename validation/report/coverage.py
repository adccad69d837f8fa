"""What the executed cases covered: how many took each path, and how often each axis value was run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from validation.grid_control import ROW as CONTROL
from validation.operation import JsonDict


def _ran(case: Mapping[str, Any]) -> bool:
    return case["status"] in ("pass", "fail") and any(launch["workgroups_run"] for launch in case["launches"])


def coverage(stages: Sequence[Mapping[str, Any]]) -> JsonDict:
    """Counts over cases that ran a kernel; a path is taken only by a case whose receipts name it.

    ``axes`` counts by entry point, axis and label. Contract cases run no kernel and are counted apart.
    """
    kernel_cases = [case for stage in stages if stage["name"] == "correctness" for case in stage["cases"] if _ran(case)]
    paths = Counter(path for case in kernel_cases for path in case["facts"].get("paths", ()))
    axes: dict[str, dict[str, Counter[str]]] = {}
    for case in kernel_cases:
        entry = axes.setdefault(case["id"].split(".")[1], {})
        for axis, label in case["facts"].get("axes", {}).items():
            entry.setdefault(axis, Counter())[label] += 1
    contract = [case for stage in stages if stage["name"] == "contract" for case in stage["cases"]]
    return {
        "kernel_cases": len(kernel_cases),
        "contract_cases": sum(case["status"] in ("pass", "fail") for case in contract),
        "paths": dict(paths),
        "axes": {name: {axis: dict(counts) for axis, counts in entry.items()} for name, entry in axes.items()},
    }


def uncredited(stages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Entry points whose kernel cases are no credit to their grid, and why: no control shows that it reaches them."""
    cases = [case for stage in stages for case in stage["cases"]]
    entries = dict.fromkeys(case["id"].split(".")[1] for case in cases if case["stage"] == "correctness" and _ran(case))
    found = {}
    for entry in entries:
        control = next((case for case in cases if case["id"] == f"contract.{entry}.{CONTROL}"), None)
        if control is None:
            found[entry] = "its control was not run"
        elif control["status"] != "pass":
            found[entry] = f"its control ended with {control['status']}: {control['reason']}"
    return found


def cost_rows(stages: Sequence[Mapping[str, Any]]) -> list[JsonDict]:
    """The cost record of every case that has one."""
    return [case["cost"] for stage in stages for case in stage["cases"] if case["cost"] is not None]


def path_line(report: Mapping[str, Any]) -> str:
    """Executed cases by path, in one line."""
    found = report["coverage"]
    shown = ", ".join(f"{path} {count}" for path, count in found["paths"].items())
    return (
        f"{found['kernel_cases']} kernel cases ({shown or 'no path named'}), {found['contract_cases']} contract cases"
    )


def credit_lines(report: Mapping[str, Any]) -> list[str]:
    """The grids that are not credited, in words, those of one reason together."""
    by_reason: dict[str, list[str]] = {}
    for entry, why in uncredited(report["stages"]).items():
        by_reason.setdefault(why, []).append(entry)
    return [f"grid of {', '.join(entries)} not credited: {why}" for why, entries in by_reason.items()]


def cost_lines(report: Mapping[str, Any]) -> list[str]:
    """A table of costs: traffic against the compulsory, and a projection beside the published figures."""
    rows = cost_rows(report["stages"])
    if not rows:
        return []
    head = (
        "case",
        "path",
        "x compulsory",
        "limit",
        "five-stage",
        "projection us (five-stage)",
        "published us (five-stage)",
    )
    table = [head, *(_cost_row(row) for row in rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    part = rows[0]["part"]
    note = (
        f"projection: roofline of counted lines and matrix instructions at {part}'s peak rates; a model, not measured"
    )
    return [*lines, note]


def _cost_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    published = row["published_us"]
    return (
        row["case"],
        row["path"],
        f"{row['ratio']:.4f}",
        "none" if row["limit"] is None else f"{row['limit']:.2f}",
        f"{row['five_stage']['ratio']:.4f}",
        f"{row['projection']['total_us']:.1f} ({row['five_stage']['projection']['total_us']:.1f})",
        f"{published['two_stage']} ({published['five_stage']})" if published else "none for this part and shape",
    )
