"""The frame of the four console commands: usage, interrupt, internal error, and a reader that has gone away."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from validation import cli as validate
from validation.command_line import CommandLine, UsageError
from validation.mutation import cli as mutate
from validation.report import cli as report
from validation.width_scan import cli as width_scan

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {
    "hcgr-validate": validate,
    "hcgr-report": report,
    "hcgr-mutate": mutate,
    "hcgr-width-scan": width_scan,
}
#: Module of each command, and arguments that print more than a pipe that nobody reads takes.
PIPED = {
    "validation.cli": ["--list"],
    "validation.report.cli": ["show", str(ROOT / "reports" / "hcgr.gfx942.json"), "--format", "html"],
    "validation.mutation.cli": ["--list"],
    "validation.width_scan": ["--limits"],
}


def _raising(error: BaseException) -> Callable[..., int]:
    def work(*arguments: object) -> int:
        raise error

    return work


@pytest.mark.parametrize("name", COMMANDS)
def test_bad_arguments_are_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert COMMANDS[name].main(["--no-such-option"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"{name}: error: ")
    assert said.err.endswith(f"(see {name} --help)\n")
    assert said.err.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full, the disk that is always full")
@pytest.mark.parametrize(
    ("module", "arguments"), [("validation.cli", ["--list"]), ("validation.mutation.cli", ["--list"])]
)
def test_a_full_disk_under_the_output_is_one_line(module: str, arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 3
    assert "cannot be written: No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_an_interrupt_is_said(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(COMMANDS[name], "_run", _raising(KeyboardInterrupt()))
    assert COMMANDS[name].main([]) == 130
    assert capsys.readouterr().err.startswith(f"{name}: interrupted")


@pytest.mark.parametrize("name", COMMANDS)
def test_our_own_failure_is_no_verdict(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(COMMANDS[name], "_run", _raising(ZeroDivisionError("oops")))
    assert COMMANDS[name].main([]) == 3
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert f"{name}: internal error: ZeroDivisionError: oops; this says nothing about" in said


@pytest.mark.parametrize("module", PIPED)
def test_a_reader_that_has_gone_away_is_no_traceback(module: str) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(
        [sys.executable, "-m", module, *PIPED[module]],
        stdout=writes,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        timeout=120,
    )
    os.close(writes)
    assert (done.returncode, done.stderr) == (3, "")


class _Refused(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UsageError("no PATH"), 2, "it: error: no PATH (see it --help)\n"),
        (LookupError("no case 'x'"), 2, "it: error: no case 'x' (see it --help)\n"),
        (FileNotFoundError(2, "No such file", "x"), 2, "it: error: [Errno 2] No such file: 'x' (see it --help)\n"),
        (_Refused("a", "b"), 1, "it: a\nit: b\n"),
    ],
)
def test_what_ends_a_command(error: Exception, code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    frame = CommandLine(
        "it", usage=(LookupError, FileNotFoundError), refusals={_Refused: lambda error: list(error.args)}
    )
    assert frame.run(_raising(error)) == code
    assert capsys.readouterr().err == said
    assert frame.run(lambda: 7) == 7
