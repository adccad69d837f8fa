"""What a calibration may say in a report, and how it is shown in lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from validation.calibrate.differ import DIFFERENT, EQUAL, KINDS, LOST, NOT_COMPARED, SHOWN, counted

_LISTED = 6
_NOUNS = {"vector": "instruction vectors", "kernel": "kernel cases"}


def calibration_problems(report: Mapping[str, Any]) -> Iterator[str]:
    """Every way in which the calibration contradicts the report, or itself."""
    part = report.get("calibration")
    if part is None:
        return
    claims = report["evidence"]["claims"]
    if report["evidence"]["level"] != "runtime" or part["device"] not in [claim["reason"] for claim in claims]:
        yield "calibration: there was no GPU that it could have run on"
    added = counted(part["entries"])
    for kind in KINDS:
        if added[kind][EQUAL]:
            yield f"calibration: entries are what is not equal, and {added[kind][EQUAL]} of {kind}s are"
        for status in (DIFFERENT, LOST, NOT_COMPARED):
            said = part["counts"][kind][status]
            if said != added[kind][status]:
                yield f"calibration: {said} {kind}s {status}, its entries give {added[kind][status]}"
    for entry in part["entries"]:
        yield from (f"calibration: {entry['id']}: {what}" for what in _entry(entry))


def _entry(entry: Mapping[str, Any]) -> Iterator[str]:
    if entry["status"] == DIFFERENT:
        if not 1 <= entry["differing"] <= entry["elements"]:
            yield f"{entry['differing']} of {entry['elements']} elements differ"
        if len(entry["worst"]) != min(SHOWN, entry["differing"]):
            yield f"shows {len(entry['worst'])} of {entry['differing']} elements"
        for element in entry["worst"]:
            if element["emulator"] == element["device"]:
                yield f"{element['where']} is equal on both"
            if element["ulps"] is not None and (entry["max_ulps"] is None or element["ulps"] > entry["max_ulps"]):
                yield f"{element['where']} differs by more ULPs than the most that are"
    else:
        if not entry["reason"]:
            yield f"{entry['status']} without a reason"
        if entry["elements"] or entry["differing"] or entry["worst"]:
            yield f"{entry['status']}, and yet elements were compared"
    if entry["times"] > 1 and entry["status"] != NOT_COMPARED:
        yield f"{entry['status']} {entry['times']} times in one entry"


def calibration_lines(report: Mapping[str, Any]) -> list[str]:
    """The calibration in words; none for a report without one."""
    part = report.get("calibration")
    return [] if part is None else list(_lines(part))


def _lines(part: Mapping[str, Any]) -> Iterator[str]:
    yield f"calibration of the emulator against {part['device']} ({part['runner']})"
    for kind, counts in part["counts"].items():
        yield f"  {_NOUNS[kind]}: " + ", ".join(f"{count} {status}" for status, count in counts.items())
    for status in (DIFFERENT, LOST, NOT_COMPARED):
        of_status = [entry for entry in part["entries"] if entry["status"] == status]
        yield from (f"  {_line(entry)}" for entry in of_status[:_LISTED])
        if len(of_status) > _LISTED:
            yield f"  {len(of_status) - _LISTED} more {status}, in the report"


def _line(entry: Mapping[str, Any]) -> str:
    what = " / ".join(line.strip() for line in entry["what"].splitlines())
    if entry["status"] == NOT_COMPARED:
        return f"not compared, {entry['times']} x: {entry['reason']}"
    if entry["status"] == LOST:
        return f"lost: {what}: {entry['reason']} ({entry['id']})"
    worst = entry["worst"][0]
    ulps = f", at most {entry['max_ulps']} ulp" if entry["max_ulps"] is not None else ""
    return (
        f"different: {what}: {entry['differing']} of {entry['elements']} elements{ulps}; {worst['where']} is "
        f"{worst['emulator']} in the emulator, {worst['device']} on the GPU ({entry['id']})"
    )
