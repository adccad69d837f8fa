"""What a run leaves behind for the next one: whole lines of its own, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from validation.mutation.state import State, sources_digest


def test_a_crash_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    state = State(path, "s", "gfx942", False)
    state.add("x", {"ended": "crashed"})
    state.add("y", {"ended": "done"})
    again = State(path, "s", "gfx942", True)
    assert again.known("x") is None
    assert again.known("y") == {"ended": "done"}


KEPT = {"ended": "done", "trials": [{"status": "pass", "checks": []}]}


@pytest.mark.parametrize(
    "line",
    ["[1, 2]", "null", "3", '"x"', "{}", '{"key": 1, "item": "x"}', "not json", "", "[" * 100_000,
     '{"key": {"sources": "s", "arch": "gfx942"}, "item": "x", "answer": {"ended": "done"}}'],
)  # fmt: skip
def test_a_line_that_is_not_ours_costs_no_result(tmp_path: Path, line: str) -> None:
    path = tmp_path / "state.jsonl"
    State(path, "s", "gfx942", False).add("x", KEPT)
    path.write_text(f"{line}\n{path.read_text()}{line}\n")
    assert State(path, "s", "gfx942", True).known("x") == KEPT


def test_an_edited_line_is_run_again(tmp_path: Path) -> None:
    """A kill that nobody saw must not be taken up."""
    path = tmp_path / "state.jsonl"
    State(path, "s", "gfx942", False).add("x", KEPT)
    path.write_text(path.read_text().replace('"pass"', '"fail"').replace("[]", '["oracle"]'))
    assert State(path, "s", "gfx942", True).known("x") is None


def test_sources_digest_sees_every_change(tmp_path: Path) -> None:
    for package in ("hcgr", "oracle", "validation"):
        (tmp_path / package).mkdir()
    (tmp_path / "hcgr" / "a.py").write_text("1")
    before = sources_digest(tmp_path)
    assert sources_digest(tmp_path) == before
    (tmp_path / "hcgr" / "a.py").write_text("2")
    assert sources_digest(tmp_path) != before
