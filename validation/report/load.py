"""Reads a report back from a file, and takes nothing on trust."""

from __future__ import annotations

import json
from pathlib import Path

from validation.operation import JsonDict
from validation.report.check import InvalidReportError, require_valid


class UnreadableReportError(OSError):
    """There is no report to read at that path; the message is fit for the command line."""


def parse_report(path: Path) -> JsonDict:
    """The JSON object at ``path``, not yet checked.

    ``UnreadableReportError`` when there is no such file, ``InvalidReportError`` when it holds something else: a file
    that was cut short, say.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableReportError(f"report {str(path)!r} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InvalidReportError([f"not UTF-8: {error}"]) from error
    try:
        report = json.loads(text)
    except ValueError as error:
        raise InvalidReportError([f"not JSON, or not all of it: {error}"]) from error
    if not isinstance(report, dict):
        raise InvalidReportError([f"not a report: a JSON {type(report).__name__}, must be an object"])
    return report


def read_report(path: Path) -> JsonDict:
    """The report at ``path``, which passed every check of :mod:`validation.report.check`; errors as above."""
    report = parse_report(path)
    require_valid(report)
    return report
