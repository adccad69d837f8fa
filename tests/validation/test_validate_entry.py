"""The console script: Ctrl-C at any moment, and report paths that cannot be written, with one architecture or all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from validation import cli

ROOT = Path(__file__).parents[2]
#: The moment is counted from where the script's first line runs: before, Python itself is starting.
SCRIPT = "import sys; print('on', flush=True); from validation.entry import main; sys.exit(main())"


@pytest.mark.parametrize("delay", [0.03, 0.06, 0.1, 0.15, 0.25, 0.4, 0.7])
def test_ctrl_c_is_one_line_and_130(delay: float, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    command = [sys.executable, "-c", SCRIPT, "--arch", "all", "--only", "correctness", "--jobs", "1"]
    process = subprocess.Popen(
        [*command, "--report", str(target)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "on\n"
    time.sleep(delay)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert err.startswith("hcgr-validate: interrupted")
    assert err.count("\n") == 1, err
    assert list(tmp_path.iterdir()) == []


def refused(capsys: pytest.CaptureFixture[str], arch: str, path: Path) -> str:
    assert cli.main(["--arch", arch, "--report", str(path)], ("no_such_device_is_ever_asked",)) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "all"])
def test_report_paths(arch: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    assert "is a directory; give a file name" in refused(capsys, arch, folder)
    assert "is a directory; give a file name" in refused(capsys, arch, Path("."))
    assert "is not a regular file" in refused(capsys, arch, Path("/dev/null"))
    assert "does not exist; create it first" in refused(capsys, arch, tmp_path / "no" / "out.json")
    (tmp_path / "file").write_text("")
    assert "does not exist" in refused(capsys, arch, tmp_path / "file" / "out.json")
    assert "is not writable" in refused(capsys, arch, Path("/proc/out.json"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "reports"]
    assert list(folder.iterdir()) == []


def test_a_folder_under_a_derived_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out.gfx950.json").mkdir()
    assert "out.gfx950.json' is a directory" in refused(capsys, "all", tmp_path / "out.json")


def test_links_that_lead_in_a_circle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out.json").symlink_to("out.json")
    assert "leads nowhere" in refused(capsys, "gfx942", tmp_path / "out.json")
