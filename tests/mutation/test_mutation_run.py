"""Trials that are tests: only a test that fails in its call has seen something."""

from __future__ import annotations

from pathlib import Path

import pytest

from validation.mutation import edit
from validation.mutation.run import run_trial
from validation.mutation.trials import Trial

TESTS = """
import pytest

@pytest.fixture
def broken():
    raise RuntimeError("no set-up")

@pytest.fixture
def leaking():
    yield
    raise RuntimeError("no teardown")

def test_passes(): pass
def test_fails(): assert 1 == 2
def test_never_set_up(broken): assert 1 == 2
def test_never_torn_down(leaking): pass
def test_fails_and_is_never_torn_down(leaking): assert 1 == 2
@pytest.mark.skip(reason="not today")
def test_skipped(): assert 1 == 2
@pytest.mark.parametrize("number", [1, 2, 3])
def test_second_fails(number): assert number != 2
"""


@pytest.mark.parametrize(
    ("node", "status", "checks", "words"),
    [
        ("::test_passes", "pass", [], ""),
        ("::test_fails", "fail", ["tests"], "assert 1 == 2"),
        ("::test_never_set_up", "error", [], "its setup failed"),
        ("::test_never_torn_down", "error", [], "its teardown failed"),
        ("::test_fails_and_is_never_torn_down", "fail", ["tests"], "assert 1 == 2"),
        ("::test_skipped", "error", [], "no test ran to its end"),
        ("::test_second_fails", "fail", ["tests"], "assert 2 != 2"),
        ("::test_of_nobody", "error", [], "pytest ended with"),
    ],
)
def test_only_a_failed_call_is_a_kill(
    node: str, status: str, checks: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edit, "ROOT", tmp_path)
    name = f"test_made_{abs(hash(node))}.py"
    (tmp_path / name).write_text(TESTS)
    record = run_trial(Trial("t", f"pytest:{name}{node}"), "gfx942", "hcgr", tmp_path / "stderr")
    assert (record["status"], record["checks"]) == (status, checks), record
    assert words in record["reason"]


def test_a_file_that_cannot_be_imported_is_no_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit, "ROOT", tmp_path)
    (tmp_path / "test_unimportable.py").write_text("import no_such_module\n\ndef test_x(): assert 1 == 2\n")
    record = run_trial(Trial("t", "pytest:test_unimportable.py::test_x"), "gfx942", "hcgr", tmp_path / "stderr")
    assert (record["status"], record["checks"]) == ("error", []), record
