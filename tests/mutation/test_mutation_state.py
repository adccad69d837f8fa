"""What a run leaves behind for the next one: whole lines of its own, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from validation.mutation.state import PACKAGES, State, sources_digest, stamp


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
    ["[1, 2]", "null", "3", '"x"', "{}", '{"key": 1, "item": "x"}', "not json", "", "[" * 100_000, "\xff\xfe", '"\xe9"',
     '{"key": {"sources": "s", "arch": "gfx942"}, "item": "x", "answer": {"ended": "done"}}'],
)  # fmt: skip
def test_a_line_that_is_not_ours_costs_no_result(tmp_path: Path, line: str) -> None:
    path = tmp_path / "state.jsonl"
    State(path, "s", "gfx942", False).add("x", KEPT)
    damaged = line.encode("latin-1") + b"\n"
    path.write_bytes(damaged + path.read_bytes() + damaged)
    assert State(path, "s", "gfx942", True).known("x") == KEPT


def test_an_edited_line_is_run_again(tmp_path: Path) -> None:
    """A kill that nobody saw must not be taken up."""
    path = tmp_path / "state.jsonl"
    State(path, "s", "gfx942", False).add("x", KEPT)
    path.write_text(path.read_text().replace('"pass"', '"fail"').replace("[]", '["oracle"]'))
    assert State(path, "s", "gfx942", True).known("x") is None


@pytest.mark.parametrize("resume", [True, False])
def test_what_is_void_is_run_again(tmp_path: Path, resume: bool) -> None:
    """What an earlier run added stays, unless this one has added it anew."""
    path = tmp_path / "state.jsonl"
    earlier = State(path, "s", "gfx942", False)
    for item in ("earlier", "again"):
        earlier.add(item, KEPT)
    state = State(path, "s", "gfx942", resume)
    for item in ("again", "x", "y"):
        state.add(item, KEPT)
    state.void(["x", "earlier", "unknown"])
    stands = {"earlier": KEPT, "again": KEPT, "x": None, "y": KEPT, "unknown": None}
    assert {item: State(path, "s", "gfx942", True).known(item) for item in stands} == stands
    state.add("x", KEPT)
    assert State(path, "s", "gfx942", True).known("x") == KEPT
    state.void()
    stands = dict.fromkeys(stands) | {"earlier": KEPT}
    assert {item: State(path, "s", "gfx942", True).known(item) for item in stands} == stands
    assert state.known("y") is None


@pytest.mark.parametrize("name", ["hcgr", "hcgr_examples", "oracle", "validation", "schemas", "tests", "tests/below"])
@pytest.mark.parametrize("suffix", [".py", ".json"])
def test_sources_digest_sees_every_change(tmp_path: Path, name: str, suffix: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    file = tmp_path / name / f"a{suffix}"
    seen = [(sources_digest(tmp_path), stamp(tmp_path))]
    for text in ("1", "22"):
        file.write_text(text)
        seen.append((sources_digest(tmp_path), stamp(tmp_path)))
    assert (sources_digest(tmp_path), stamp(tmp_path)) == seen[-1]
    assert [len(set(kind)) for kind in zip(*seen, strict=True)] == [3, 3]


def test_what_a_run_writes_by_itself_is_no_source(tmp_path: Path) -> None:
    before = sources_digest(tmp_path)
    for folder in ("tests/__pycache__", "tests/.hypothesis/examples", "hcgr/below/__pycache__"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.py").write_text("1")
    assert (sources_digest(tmp_path), stamp(tmp_path)) == (before, frozenset())


def test_every_folder_that_decides_is_there() -> None:
    """One that is renamed would be left out in silence."""
    root = Path(__file__).parents[2]
    assert [name for name in PACKAGES if not (root / name).is_dir()] == []
