"""What a run shows: a progress bar and a table on a terminal, plain lines everywhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress
from rich.table import Table

from validation.operation import JsonDict
from validation.report.base import base_lines
from validation.report.calibration import calibration_lines
from validation.report.coverage import cost_lines, credit_lines, path_line
from validation.report.executor import executor_lines
from validation.report.protocol import protocol_lines
from validation.report.receipts import launch_lines, shape_lines

_STYLES = {
    "pass": "green",
    "fail": "bold red",
    "error": "bold magenta",
    "skip": "yellow",
    "PASS": "bold green",
    "FAIL": "bold red",
    "INCONCLUSIVE": "bold yellow",
}
#: Findings of one case that are printed; one broken guard shows at every access behind it.
_FINDINGS_SHOWN = 4
_COLUMNS = ("stage", "status", "evidence", "pass", "fail", "error", "skip", "seconds", "reason")


def is_plain(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether to do without colours and redrawing: no terminal, ``NO_COLOR``, ``CI`` or ``TERM=dumb``."""
    return (
        not stream.isatty()
        or bool(environment.get("NO_COLOR") or environment.get("CI"))
        or environment.get("TERM") == "dumb"
    )


def complaint(record: Mapping[str, Any]) -> list[str]:
    """Lines about a case that did not pass: what is wrong, where in the source, and how to run it again alone."""
    lines = [f"{record['status'].upper()} {record['id']}: {record['reason']}"]
    for finding in record["findings"][:_FINDINGS_SHOWN]:
        place = f"{finding['source_file']}:{finding['source_line']}" if finding["source_file"] else "no source line"
        place += f" (in {finding['via']})" if finding["via"] else ""
        target = (
            f" [{finding['argument']}{list(finding['index']) if finding['index'] else ''}]"
            if finding["argument"]
            else ""
        )
        lines.append(f"  {finding['check']}: {finding['message']}{target} at {place}: {finding['instruction']}")
    hidden = len(record["findings"]) - _FINDINGS_SHOWN
    if hidden > 0:
        lines.append(f"  {hidden} more finding{'' if hidden == 1 else 's'}, listed in the report")
    if record["status"] in ("fail", "error"):
        lines.append(f"  replay: {record['replay']}")
    return lines


def stage_rows(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The final table: a row a stage, in the order of :data:`_COLUMNS`."""
    rows: list[tuple[str, ...]] = []
    for stage in report["stages"]:
        counts = stage["counts"]
        rows.append(
            (
                stage["name"],
                stage["status"],
                stage["evidence"],
                str(counts["pass"]),
                str(counts["fail"]),
                str(counts["error"]),
                str(counts["skip"]),
                f"{stage['duration_s']:.1f}",
                stage["reason"],
            )
        )
    return rows


def summary_lines(report: Mapping[str, Any]) -> list[str]:
    """Verdict first, then why, what was covered, what it costs, the worst error, and what was not run."""
    verdict = report["verdict"]
    lines = [f"{report['arch']}: {verdict['text']}"]
    lines += [f"  because {reason}" for reason in verdict["reasons"]]
    lines += [f"  {line}" for line in executor_lines(report["workers"].get("executor"))]
    lines += [f"  {line}" for line in base_lines(report)]
    lines += [f"  {line}" for line in calibration_lines(report)]
    if report["coverage"]["kernel_cases"]:
        lines += [f"  {line}" for line in (path_line(report), *shape_lines(report), *credit_lines(report))]
    lines += [f"  {line}" for line in (*launch_lines(report), *cost_lines(report))]
    lines += [f"  {line}" for line in protocol_lines(report)]
    worst = report["worst"]
    if worst is not None:
        ratio = worst["max_ratio"]
        shown = f"{ratio:.3f}" if isinstance(ratio, (int, float)) else ratio
        lines.append(f"  worst error/bound {shown}: {worst['output']}{worst['worst_index'] or ''} in {worst['case']}")
    missing = report["not_run"]
    lines += [f"  not run: {entry['what']}: {entry['reason']}" for entry in missing[:8]]
    if len(missing) > 8:
        lines.append(f"  not run: {len(missing) - 8} more, listed in the report")
    return lines


class PlainView:
    """One line a case, fit for a log."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._total = 0
        self._ended: set[str] = set()

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stream.flush()

    def say(self, line: str) -> None:
        """Print one line now."""
        print(line, file=self._stream, flush=True)

    def stage_started(self, arch: str, title: str, total: int) -> None:
        """See :class:`validation.runner.Progress`."""
        self._total = total
        self._ended.clear()
        self.say(f"[{arch}] {title}: {total} case{'' if total == 1 else 's'}")

    def stage_skipped(self, arch: str, title: str, reason: str) -> None:
        """See :class:`validation.runner.Progress`."""
        self.say(f"[{arch}] {title}: skipped: {reason}")

    def case_done(self, arch: str, record: JsonDict) -> None:
        """See :class:`validation.runner.Progress`."""
        revised = record["id"] in self._ended
        self._ended.add(record["id"])
        count = f"{len(self._ended):>{len(str(self._total))}}/{self._total}{' revised:' if revised else ''}"
        if record["status"] == "pass":
            self.say(f"[{arch}] {count} pass {record['id']} {record['duration_s']:.2f} s")
            return
        first, *rest = complaint(record)
        self.say(f"[{arch}] {count} {first}")
        for line in rest:
            self.say(line)

    def table(self, report: Mapping[str, Any]) -> None:
        """The final table and summary."""
        rows = [_COLUMNS, *stage_rows(report)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
        for row in rows:
            self.say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        for line in summary_lines(report):
            self.say(line)


class RichView:
    """A live progress bar; cases that did not pass stay on screen above it."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream)
        self._progress = RichProgress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[last]}", style="dim"),
            console=self._console,
        )
        self._bar: Any = None
        self._ended: set[str] = set()

    def __enter__(self) -> RichView:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def say(self, line: str) -> None:
        """Print one line above the bar."""
        self._console.print(escape(line), highlight=False, soft_wrap=True)

    def stage_started(self, arch: str, title: str, total: int) -> None:
        """See :class:`validation.runner.Progress`."""
        self._bar = self._progress.add_task(f"{arch} {title}", total=total, last="")
        self._ended.clear()

    def stage_skipped(self, arch: str, title: str, reason: str) -> None:
        """See :class:`validation.runner.Progress`."""
        self.say(f"{arch} {title}: skipped: {reason}")

    def case_done(self, arch: str, record: JsonDict) -> None:
        """See :class:`validation.runner.Progress`."""
        self._ended.add(record["id"])
        self._progress.update(self._bar, completed=len(self._ended), last=record["id"])
        if record["status"] != "pass":
            first, *rest = complaint(record)
            self._console.print(escape(first), style=_STYLES[record["status"]], highlight=False, soft_wrap=True)
            for line in rest:
                self.say(line)

    def table(self, report: Mapping[str, Any]) -> None:
        """The final table and summary."""
        table = Table(title=f"{report['operation']['title']} on {report['arch']}", title_justify="left")
        for name in _COLUMNS:
            table.add_column(name, justify="right" if name in _COLUMNS[3:8] else "left")
        for name, status, *rest in stage_rows(report):
            table.add_row(name, f"[{_STYLES[status]}]{status}[/]", *map(escape, rest))
        self._console.print(table)
        first, *rest = summary_lines(report)
        self._console.print(escape(first), style=_STYLES[report["verdict"]["result"]], highlight=False)
        for line in rest:
            self.say(line)


def view(stream: TextIO | None = None) -> PlainView | RichView:
    """The view that fits ``stream`` (standard output by default)."""
    stream = stream or sys.stdout
    return PlainView(stream) if is_plain(stream) else RichView(stream)


def listing(stages: Sequence[tuple[str, str, Sequence[tuple[str, Sequence[str]]]]]) -> list[str]:
    """Lines of ``--list``: each stage, its cases, and why each case is there."""
    lines = []
    for name, title, cases in stages:
        lines.append(f"{name}: {title}, {len(cases)} case{'' if len(cases) == 1 else 's'}")
        for case_id, why in cases:
            lines.append(f"  {case_id}")
            lines += [f"      {reason}" for reason in why]
    return lines
