"""Reports reach the disk whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from validation.report.check import require_valid


class ReportPathError(OSError):
    """A report cannot be written there; the message says why and is fit for the command line."""


def report_paths(path: Path, arches: Sequence[str]) -> dict[str, Path]:
    """Where each arch's report goes: ``path`` itself for one, ``out.gfx942.json`` and so on for several.

    Raises :class:`ReportPathError` when ``path`` is there and is no file: names beside it are not what was asked for.
    """
    _require_file_name(path)
    if len(arches) == 1:
        return {arches[0]: path}
    return {arch: path.with_name(f"{path.stem}.{arch}{path.suffix}") for arch in arches}


def probe(path: Path) -> None:
    """Raise :class:`ReportPathError` unless a report can be written to ``path``; leaves nothing behind."""
    _require_file_name(path)
    try:
        parent = path.resolve().parent
    except (OSError, RuntimeError) as error:  # a loop of links: RuntimeError up to Python 3.12
        raise ReportPathError(f"report path {str(path)!r} leads nowhere: {error}") from error
    if not parent.is_dir():
        raise ReportPathError(f"report path {str(path)!r}: the folder {str(parent)!r} does not exist; create it first")
    try:
        with tempfile.NamedTemporaryFile(dir=parent, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise ReportPathError(f"report path {str(path)!r} is not writable: {error.strerror or error}") from error


def _require_file_name(path: Path) -> None:
    try:
        if path.is_dir():
            raise ReportPathError(f"report path {str(path)!r} is a directory; give a file name")
        if path.exists() and not path.is_file():
            raise ReportPathError(f"report path {str(path)!r} is not a regular file; give a file name")
    except ReportPathError:
        raise
    except OSError as error:
        raise ReportPathError(f"report path {str(path)!r} cannot be looked at: {error.strerror or error}") from error


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Check ``report``, write it beside ``path`` and move it there. On any failure ``path`` stays as it was."""
    require_valid(report)
    text = json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    target = path.resolve()
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
