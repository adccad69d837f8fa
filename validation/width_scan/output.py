"""Renders a scan: plain text, JSON, SARIF 2.1.0."""

from __future__ import annotations

import json
import os
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from validation.width_scan.findings import Finding, ScanResult

RULES: dict[str, tuple[str, str]] = {
    "product": ("Int32Product", "A 32-bit product exceeds 2^31 within production limits and becomes an address."),
    "sum": ("Int32Sum", "A 32-bit sum exceeds 2^31 within production limits and becomes an address."),
    "shift": ("Int32Shift", "A 32-bit left shift exceeds 2^31 within production limits and becomes an address."),
    "increment": ("Int32Increment", "A 32-bit offset grows past 2^31 over a loop and becomes an address."),
    "narrowing": (
        "NarrowedIndex",
        "A 64-bit index is cut to 32 bits although it exceeds 2^31, and becomes an address.",
    ),
    "span": ("BufferSpan", "One buffer descriptor reaches over 4 GiB, but takes 32-bit byte offsets."),
    "suppression": ("SuppressionWithoutReason", "A width-scan comment that gives no reason suppresses nothing."),
}


def exit_code(result: ScanResult) -> int:
    """0 nothing found, 1 findings, 3 no findings but files that were asked for could not be scanned."""
    if result.errors:
        return 1
    return 3 if result.unread else 0


def _counts(result: ScanResult) -> dict[str, int]:
    statuses = [file.status for file in result.files]
    return {
        "findings": len(result.errors),
        "warnings": len(result.findings) - len(result.errors),
        "suppressed": len(result.suppressed),
        "files": len(statuses),
        "scanned": statuses.count("scanned"),
        "kernels": sum(file.kernels for file in result.files),
        "unread": len(result.unread),
    }


def plain(result: ScanResult) -> str:
    """For people: each finding with its witness and fix, then files not read, then one summary line."""
    lines: list[str] = []
    for f in result.findings:
        lines.append(f"{f.path}:{f.line}:{f.column + 1}: {f.level}: [{f.rule}] {f.message}")
        if f.function:
            lines.append(f"    in {f.function} ({f.dialect}); an address at line {_listed(f.addresses) or f.line}")
        if len(f.lines) > 1:
            lines.append(f"    all lines: {_listed(f.lines)}")
        lines.append(f"    fix: {f.fix.advice}" + (f": {f.fix.rewrite}" if f.fix.rewrite else ""))
    for file in result.files:
        if file.status not in ("scanned", "no device code"):
            lines.append(f"{file.path}: {file.status}: {file.detail}")
    for path, number in result.stale_suppressions:
        lines.append(f"{path}:{number}: note: this suppression suppresses nothing: remove it")
    counts = _counts(result)
    lines.append(", ".join(f"{value} {name}" for name, value in counts.items()))
    return "\n".join(lines) + "\n"


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def as_dict(result: ScanResult) -> dict[str, Any]:
    """The scan as plain data."""
    return {
        "tool": "hcgr-width-scan",
        "exit_code": exit_code(result),
        "summary": _counts(result),
        "findings": [finding.as_dict() for finding in result.findings],
        "suppressed": [finding.as_dict() for finding in result.suppressed],
        "stale_suppressions": [{"path": path, "line": line} for path, line in result.stale_suppressions],
        "files": [{"path": f.path, "status": f.status, "detail": f.detail, "kernels": f.kernels} for f in result.files],
    }


def _uri(path: str) -> str:
    return quote(PurePath(os.path.relpath(path)).as_posix())


def _location(path: str, line: int, column: int = 0, text: str = "") -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": max(line, 1), "startColumn": column + 1}
    if text:
        region["snippet"] = {"text": text}
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(path)}, "region": region}}


def _sarif_result(finding: Finding) -> dict[str, Any]:
    related = [
        (finding.fix.line, "value to widen"),
        *((line, "address") for line in finding.addresses),
        *((line, "same fix") for line in finding.lines if line != finding.line),
    ]
    out: dict[str, Any] = {
        "ruleId": RULES[finding.rule][0],
        "ruleIndex": list(RULES).index(finding.rule),
        "level": finding.level,
        "message": {
            "text": f"{finding.message}. Fix: {finding.fix.advice}"
            + (f": {finding.fix.rewrite}" if finding.fix.rewrite else "")
            + "."
        },
        "locations": [_location(finding.path, finding.line, finding.column, finding.expression)],
        "relatedLocations": [
            {"id": i, "message": {"text": what}, **_location(finding.path, line)}
            for i, (line, what) in enumerate(related)
        ],
        "properties": {
            "witness": finding.witness,
            "result": finding.result,
            "maximum": finding.maximum,
            "unit": finding.unit,
            "function": finding.function,
            "dialect": finding.dialect,
        },
    }
    if finding.suppressed:
        out["suppressions"] = [{"kind": "inSource", "justification": finding.suppressed}]
    return out


def sarif(result: ScanResult) -> dict[str, Any]:
    """A SARIF 2.1.0 log; files that could not be scanned are tool execution notifications."""
    notifications = [
        {
            "level": "warning" if file.status == "not scanned" else "error",
            "message": {"text": f"{file.status}: {file.detail}"},
            "locations": [_location(file.path, 1)],
        }
        for file in result.files
        if file.status not in ("scanned", "no device code")
    ]
    rules = [
        {"id": name, "name": name, "shortDescription": {"text": text}, "defaultConfiguration": {"level": "error"}}
        for name, text in RULES.values()
    ]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "hcgr-width-scan", "rules": rules}},
                "columnKind": "unicodeCodePoints",
                "results": [_sarif_result(finding) for finding in (*result.findings, *result.suppressed)],
                "invocations": [
                    {
                        "executionSuccessful": not result.unread,
                        "exitCode": exit_code(result),
                        "toolExecutionNotifications": notifications,
                    }
                ],
            }
        ],
    }


def render(result: ScanResult, form: str) -> str:
    """The report in a form: "plain", "json" or "sarif"."""
    if form == "plain":
        return plain(result)
    return json.dumps(as_dict(result) if form == "json" else sarif(result), indent=2) + "\n"
