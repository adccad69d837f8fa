"""The command line: usage errors, interruption, what is written and what is left alone, plain and rich output."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from validation import cli
from validation.report.check import problems

FAKE_DEVICE = ("validation_fakes",)
HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def fake(name: str, *arguments: str) -> int:
    return cli.main(["--op", f"validation_fakes:{name}", *arguments], FAKE_DEVICE)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--arch is needed: gfx942, gfx950 or all"),
        (("--arch", "gfx90a"), "unknown arch 'gfx90a' (known: gfx942, gfx950, all)"),
        (("--arch", "gfx942", "--only", "perf"), "unknown stage 'perf' (stages: environment, compile, correctness"),
        (("--arch", "gfx942", "--skip", "everything"), "unknown stage 'everything'"),
        (("--arch", "gfx942", "--report", "/"), "is a directory"),
        (("--arch", "gfx942", "--report", "/dev/null"), "is not a regular file"),
        (("--arch", "gfx942", "--report", "/no/such/folder/out.json"), "does not exist"),
        (("--arch", "gfx942", "--report", "/proc/out.json"), "is not writable"),
        (("--arch", "gfx942", "--report", 300 * "a"), "cannot be looked at: File name too long"),
        (("--arch", "gfx942", "--report", "x.out", "--html", "./x.out"), "--report and --html both write 'x.out'"),
        (("--arch", "all", "--junit", "x.out", "--sarif", "x.out"), "--junit and --sarif both write 'x.gfx942.out'"),
        (("--arch", "gfx942", "--require", "silicon"), "--require: invalid choice: 'silicon'"),
        (("--arch", "gfx942", "--seed", "-1"), "must be a whole number"),
        (("--arch", "gfx942", "--jobs", "0"), "must be from 1 to 1024"),
        (("--arch", "gfx942", "--case", "nonsense"), "must start with a stage and a dot"),
        (("--arch", "gfx942", "--case", "environment.source", "--only", "compile"), "does not go together"),
        (
            ("--arch", "gfx942", "--case", "compile.k1.hc4.hs2560.r320.n336.skiny"),
            "mean compile.k1.hc4.hs2560.r320.n336.sk",
        ),
        (("--arch", "gfx942", "--case", "protocol.two_stream"), "did you mean two_streams?"),
        (("--arch", "gfx942", "--case", "environment.source", "--case", "environment.source"), "is given twice"),
        (("--arch", "gfx942", "--op", "nothing"), "unknown operation 'nothing' (known: add_rms_norm, hcgr"),
        (("--arch", "gfx942", "--op", "json:loads"), "is a function, not an Operation"),
        (("--arch", "gfx942", "--op", "no_such_module:OP"), "cannot be loaded"),
        (("--arch", "gfx942", "--frobnicate"), "unrecognized arguments: --frobnicate"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(list(arguments), ("no_such_device_is_ever_asked",)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("hcgr-validate: error: ")
    assert words in err
    assert err.count("\n") == 1


def test_unwritable_folder_is_refused_before_any_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "absent" / "out.json"
    assert fake("GOOD", "--arch", "gfx942", "--report", str(missing)) == 2
    assert str(missing.parent) in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_one_report_for_each_arch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.json"
    assert fake("GOOD", "--arch", "all", "--report", str(path), "--only", "correctness") == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.gfx942.json", "out.gfx950.json"]
    for arch in ("gfx942", "gfx950"):
        report = json.loads((tmp_path / f"out.{arch}.json").read_text())
        assert report["arch"] == arch
        assert problems(report) == []
    out = capsys.readouterr().out
    assert "gfx950: PASS (emulated, partial)" in out
    assert "\x1b" not in out


def test_failing_run_prints_source_line_and_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.json"
    assert fake("BAD", "--arch", "gfx942", "--report", str(path), "--only", "correctness", "--seed", "5") == 1
    out = capsys.readouterr().out
    assert "memcheck: store outside of every allocation [out[4, 0]] at fake_kernel.py:34" in out
    assert (
        "replay: hcgr-validate --op validation_fakes:BAD --arch gfx942 --case correctness.fake.wrong.s1 --seed 5" in out
    )
    assert json.loads(path.read_text())["verdict"]["result"] == "FAIL"


def test_replay_of_a_passing_case_exits_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert fake("BAD", "--arch", "gfx942", "--case", "correctness.fake.good.s1") == 0
    assert "1/1 pass correctness.fake.good.s1" in capsys.readouterr().out


def test_every_case_that_is_named_is_replayed(tmp_path: Path) -> None:
    names = ["correctness.fake.garbage.s1", "correctness.fake.good.s1"]
    for given in (names, names[::-1]):
        path = tmp_path / "out.json"
        code = fake("GOOD", "--arch", "gfx942", "--report", str(path), *(w for name in given for w in ("--case", name)))
        report = json.loads(path.read_text())
        assert (code, problems(report)) == (0, [])
        assert [record["id"] for stage in report["stages"] for record in stage["cases"]] == given


def test_list_names_stages_cases_and_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    assert fake("GOOD", "--list") == 0
    out = capsys.readouterr().out
    assert "correctness: Correctness grid, 3 cases" in out
    assert "  correctness.fake.good.s1\n      first to pair good with s1\n      s1: tiny, one row\n" in out


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    for words in ("exit codes:", "examples:", "stages:", "INCONCLUSIVE", "--case ID --seed N", "oracle"):
        assert words in out


def test_report_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("validation.report.writer.os.replace", full)
    assert fake("GOOD", "--arch", "gfx942", "--report", str(path), "--only", "correctness") == 3
    assert "No space left on device" in capsys.readouterr().err
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


def test_internal_error_is_not_exit_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr(cli, "run_arch", broken)
    assert fake("GOOD", "--arch", "gfx942") == 3
    assert "internal error: ZeroDivisionError: a bug of ours" in capsys.readouterr().err


def _children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append(int(entry.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks the workers up in /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_interruption_ends_workers_and_leaves_the_old_report(tmp_path: Path, number: int, code: int) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    program = (
        "import sys; from validation.cli import main; sys.exit(main(['--op', 'validation_fakes:SLOW', '--arch', "
        f"'gfx942', '--report', {str(path)!r}, '--jobs', '2', '--only', 'correctness'], {FAKE_DEVICE!r}))"
    )
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}", "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    workers = _await(lambda: _children(process.pid))
    time.sleep(0.5)  # let the worker enter its endless case
    process.send_signal(number)
    _, err = process.communicate(timeout=20)
    assert process.returncode == code
    if code == 130:
        assert err == "hcgr-validate: interrupted while validating gfx942; no report was written\n"
        assert [p.name for p in tmp_path.iterdir()] == ["out.json"]
    assert path.read_text() == "old"
    _await(lambda: not any(_alive(pid) for pid in workers))


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _await(condition: Any) -> Any:
    end = time.monotonic() + 15
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError("condition did not come true within 15 s")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_terminal_gets_a_bar_and_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "150")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert fake("BAD", "--arch", "gfx942", "--only", "correctness") == 1
    shown = terminal.getvalue()
    assert "A fake operation on gfx942" in shown
    assert "\x1b[" in shown
    assert "fake_kernel.py:34" in shown


@pytest.mark.parametrize("name", ["CI", "NO_COLOR"])
def test_ci_and_no_color_get_plain_lines(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv(name, "1")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert fake("GOOD", "--arch", "gfx942", "--only", "correctness") == 0
    assert "\x1b" not in terminal.getvalue()
