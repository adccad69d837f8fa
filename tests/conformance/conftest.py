"""Records which mnemonics the conformance tests execute, and fails a complete run that left one out.

``pytest tests/conformance --instruction-list docs/instructions.md`` also writes the list of covered mnemonics.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from validation.emulator.isa import TABLE

from . import coverage

KEY = "executed_mnemonics"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--instruction-list", type=Path, help="write the covered mnemonics with their tests to this file")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A worker hands its record to the controller; the controller (or a run without workers) judges."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[KEY] = json.dumps(coverage.as_rows())
        return
    target = session.config.getoption("--instruction-list")
    if target is not None:
        missing = coverage.missing(TABLE)
        if missing:
            print(f"\nnot executed by any conformance test: {', '.join(missing)}")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        else:
            target.write_text(coverage.markdown(TABLE))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object, error: object) -> None:
    rows = getattr(node, "workeroutput", {}).get(KEY)
    if rows:
        coverage.merge(json.loads(rows))
