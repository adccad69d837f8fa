"""Runs trials in this process, which serves one mutant and then ends.

Imported after the overlay is in place, so that every stage, driver and oracle is the mutated one where it is mutated.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from validation.cases import fragment
from validation.mutation import controls
from validation.mutation.bench import TrialContext, recorded_code
from validation.mutation.fired import checks_fired
from validation.mutation.trials import Trial
from validation.operation import load_operation
from validation.stages import Request, stage

#: Modules whose exceptions mean that a kernel could not be built.
_COMPILERS = ("flydsl",)


def run_trial(trial: Trial, arch: str, operation: str, stderr: Path) -> dict[str, Any]:
    """Run one trial and say what became of it.

    Returns:
        ``status`` pass, fail, error or skip; ``reason``; ``checks`` that fired; ``code`` digests of the machine code
        launched; ``seconds`` of CPU time; ``invalid``: an error that says that the mutant cannot be built.
    """
    begun = time.process_time()
    kind = trial.case.partition(":")[0].partition(".")[0]
    record: dict[str, Any] = {"trial": trial.name, "case": trial.case, "checks": [], "code": [], "invalid": False}
    try:
        with recorded_code() as code:
            outcome, checks = _RUN.get(kind, _stage_case)(trial, arch, operation, stderr)
        record |= {"status": outcome["status"], "reason": outcome["reason"], "checks": checks, "code": list(code)}
    except Exception as error:
        invalid = isinstance(error, ImportError) or _raised_by_compiler(error)
        record |= {"status": "error", "reason": f"{type(error).__name__}: {error}", "invalid": invalid}
    record["reason"] = record["reason"][:2000]
    record["seconds"] = round(time.process_time() - begun, 3)
    return record


def _raised_by_compiler(error: BaseException) -> bool:
    trace, name = error.__traceback__, ""
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next
    return name.partition(".")[0] in _COMPILERS


Outcome = tuple[dict[str, Any], list[str]]


def _stage_case(trial: Trial, arch: str, operation: str, stderr: Path) -> Outcome:
    name = trial.case.partition(".")[0]
    module = stage(name)
    context = TrialContext(arch, "validation.devices.emulator", stderr)
    context.trial = trial
    context.begin()
    task = module.find(Request(load_operation(operation), operation, arch, 0), trial.case)
    outcome = module.execute(task.payload, context)
    return outcome, checks_fired(name, outcome)


def _control(trial: Trial, arch: str, operation: str, stderr: Path) -> Outcome:
    control = controls.CONTROLS[trial.case.partition(".")[2]]
    problems = control.run(arch)
    if problems:
        return fragment("fail", "; ".join(problems)), [control.check]
    return fragment("pass"), []


def _pytest(trial: Trial, arch: str, operation: str, stderr: Path) -> Outcome:
    """A test of the project's suite, in this process: it must need no other process and no plugin."""
    import pytest  # only a checkout has tests

    from validation.mutation.edit import ROOT

    said, phases = io.StringIO(), _Phases()
    node = str(ROOT / trial.case.partition(":")[2])
    options = ["-q", "-x", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts="]
    with redirect_stdout(said), redirect_stderr(said):
        code = pytest.main([*options, "--rootdir", str(ROOT), node], plugins=[phases])
    last = said.getvalue().strip()[-200:]
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return fragment("error", f"pytest ended with {code!r}: {last}"), []
    if "call" in phases.failed:
        return fragment("fail", f"{trial.case}: {phases.failed['call']}"), ["tests"]
    for phase, told in phases.failed.items():
        return fragment("error", f"{trial.case}: its {phase} failed, which says nothing: {told}"), []
    if not phases.passed:
        return fragment("error", f"{trial.case}: no test ran to its end: {last}"), []
    return fragment("pass"), []


class _Phases:
    """A pytest plugin: tests whose call passed, and the first failure by phase. Only a call's sees a mutant."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Called by pytest for set-up, call and teardown of each test."""
        self.passed += report.when == "call" and report.outcome == "passed"
        if report.outcome == "failed":
            lines = [line for line in report.longreprtext.splitlines() if line.startswith("E  ")]
            self.failed.setdefault(report.when, lines[0].removeprefix("E").strip() if lines else report.longreprtext)


_RUN: dict[str, Callable[[Trial, str, str, Path], Outcome]] = {"control": _control, "pytest": _pytest}
