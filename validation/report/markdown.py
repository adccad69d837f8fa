"""Markdown for a CI step summary: the verdict, what it rests on, and what to do about what is red."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from validation.report.base import base_lines, title
from validation.report.calibration import calibration_lines
from validation.report.console import stage_rows
from validation.report.coverage import cost_rows, credit_lines, path_line
from validation.report.executor import executor_lines

_ICONS = {"PASS": "✅", "FAIL": "❌", "INCONCLUSIVE": "⚠️"}
_CASES_SHOWN = 20
_COLUMNS = ("stage", "status", "evidence", "pass", "fail", "error", "skip", "seconds", "reason")


def markdown(report: Mapping[str, Any]) -> str:
    """The summary; a few kilobytes however large the report is."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    verdict, source = report["verdict"], report["source"]
    yield f"## {_ICONS[verdict['result']]} {_text(report['operation']['title'])} on {report['arch']}: {verdict['text']}"
    yield ""
    commit = f"commit `{source['commit']}`" if source["commit"] else f"no commit ({_text(source['reason'])})"
    yield f"{commit}{', with changes' if source['dirty'] else ''}; seed {report['seed']}; {report['started']}"
    yield ""
    yield from (f"- **because** {_text(reason)}" for reason in verdict["reasons"])
    yield from (f"- {_text(line.strip())}" for line in executor_lines(report["workers"].get("executor")))
    yield from (f"- left out: {_text(what)}" for what in verdict["left_out"])
    missing = [entry for entry in report["not_run"] if entry["what"] not in verdict["left_out"]]
    yield from (f"- not run: {_text(entry['what'])}: {_text(entry['reason'])}" for entry in missing[:8])
    if len(missing) > 8:
        yield f"- not run: {len(missing) - 8} more, listed in the report"
    yield ""
    yield from _table(_COLUMNS, stage_rows(report))
    yield ""
    yield path_line(report)
    yield from (f"\n{_text(line)}" for line in credit_lines(report))
    yield from _red(report)
    if report.get("base"):
        yield f"\n### Against base {_text(title(report['base']))}\n"
        yield from (f"- {_text(line)}" for line in base_lines(report))
    if report.get("calibration"):
        yield "\n### Calibration\n"
        yield from (f"- {_text(line.strip())}" for line in calibration_lines(report))
    rows = cost_rows(report["stages"])
    if rows:
        yield "\n<details><summary>Cost</summary>\n"
        head = ("case", "path", "x compulsory", "limit", "five-stage x")
        yield from _table(head, [_cost(row) for row in rows])
        yield "\n</details>"


def _red(report: Mapping[str, Any]) -> Iterator[str]:
    red = [c for stage in report["stages"] for c in stage["cases"] if c["status"] in ("fail", "error")]
    if not red:
        return
    yield f"\n### {len(red)} case{'s' if len(red) > 1 else ''} did not pass\n"
    for case in red[:_CASES_SHOWN]:
        yield f"- **{case['status']}** `{case['id']}`: {_text(case['reason'])}"
        for finding in case["findings"][:2]:
            yield f"  - {finding['check']}: {_text(finding['message'])} at `{_place(finding)}`"
        yield f"  - replay: `{case['replay']}`"
    if len(red) > _CASES_SHOWN:
        yield f"- {len(red) - _CASES_SHOWN} more, listed in the report"


def _place(finding: Mapping[str, Any]) -> str:
    return f"{finding['source_file']}:{finding['source_line']}" if finding["source_file"] else "no source line"


def _cost(row: Mapping[str, Any]) -> tuple[str, ...]:
    limit = "none" if row["limit"] is None else f"{row['limit']:.2f}"
    return (row["case"], row["path"], f"{row['ratio']:.4f}", limit, f"{row['five_stage']['ratio']:.4f}")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(_text, row))} |"


def _text(text: str) -> str:
    """``text`` in one line, with what Markdown and HTML would take for markup escaped."""
    flat = " ".join(text.split())
    for character in "\\`*_[]<>|":
        flat = flat.replace(character, f"&#{ord(character)};" if character in "<>|" else f"\\{character}")
    return flat if len(flat) <= 500 else f"{flat[:500]}..."
