"""A report in the formats that people and machines read."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from validation.report.check import require_valid
from validation.report.console import PlainView
from validation.report.junit import junit
from validation.report.markdown import markdown
from validation.report.sarif import sarif


def text(report: Mapping[str, Any]) -> str:
    """The table and summary that end a run on a terminal."""
    stream = io.StringIO()
    PlainView(stream).table(report)
    return stream.getvalue()


def html(report: Mapping[str, Any]) -> str:
    """One self-contained page, see :mod:`validation.report.page`; its template engine is loaded when it is wanted."""
    from validation.report.page import html as page

    return page(report)


#: By the name that ``hcgr-report show --format`` takes.
FORMATS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "text": text,
    "junit": junit,
    "sarif": sarif,
    "html": html,
    "markdown": markdown,
}


def write(path: Path, report: Mapping[str, Any], name: str) -> None:
    """Write ``report`` to ``path`` in the format called ``name``, whole or not at all.

    A report that does not hold together raises :class:`validation.report.check.InvalidReportError`: what is derived
    from it must not look better than it is.
    """
    require_valid(report)
    shown = FORMATS[name](report)
    with tempfile.TemporaryDirectory(dir=path.resolve().parent, prefix=f".{path.name}.") as folder:
        draft = Path(folder) / path.name
        draft.write_text(shown, encoding="utf-8")
        os.replace(draft, path.resolve())
