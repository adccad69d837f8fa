"""The engine: forks that end in every way there is, order, resuming."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from mutation_fakes import FakePool

from validation.devices.pool import PoolError
from validation.mutation import engine, result
from validation.mutation.edit import Edit
from validation.mutation.engine import EngineError, Settings, run
from validation.mutation.forked import ending
from validation.mutation.manifest import Mutant, digest, load_corpus
from validation.mutation.state import State
from validation.mutation.trials import Trial

CORPUS = load_corpus()
TODAY = date(2026, 6, 1)
BOUNDS = Trial("bounds", "control.bounds")
LAMBDA = ("oracle/rounding.py", "LAMBDA = 8.0")


class Silent:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def phase(self, arch: str, title: str, total: int) -> None:
        self.lines.append(("phase", title))

    def done(self, name: str, outcome: str, what: str) -> None:
        self.lines.append((name, outcome))


def made(name: str, replace: str, file: str = LAMBDA[0], find: str = LAMBDA[1], **more: Any) -> Mutant:
    given: dict[str, Any] = {"kind": "tolerance", "checks": ("tolerance-control",), "trials": (BOUNDS,)} | more
    edits = (Edit(file, find, replace),)
    whole = f"loosened-tolerance/{name}"
    return Mutant(whole, name, "w", paths=("all",), archs=("gfx942",), changes=edits, digest=digest(whole), **given)


def named(name: str) -> Mutant:
    return next(mutant for mutant in CORPUS.mutants if mutant.name == name)


# -- real forks -----------------------------------------------------------------------------------------------------

SMALL = CORPUS.names["combine-small"]
#: One mutant for each way to end, and the real thing: a kernel that is wrong, and one that only looks different.
REAL = {
    "killed": made("killed", "LAMBDA = 80.0"),
    "survived": made("survived", "LAMBDA = 8.0 + 0.0"),
    "crashed": made("crashed", "import os\nos._exit(3)\nLAMBDA = 8.0"),
    "murdered": made("murdered", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\nLAMBDA = 8.0"),
    "timeout": made("timeout", "import time\nwhile True:\n    time.sleep(1)\nLAMBDA = 8.0"),
    "invalid": made("invalid", "import no_such_module\nLAMBDA = 8.0"),
    "no-fit": made("no-fit", "LAMBDA = 9.0", find="LAMBDA = 7.0"),
    "error": made("error", "LAMBDA = 'eight'"),
    "kernel": named("strided-view/combine-residual"),
    "same-isa": made(
        "same-isa", "(lanes * LANE_COLUMNS) * (tile % column_tiles)", file="hcgr/kernels/combine.py",
        find="(tile % column_tiles) * (lanes * LANE_COLUMNS)", kind="kernel", checks=("oracle",), trials=(SMALL,),
    ),
}  # fmt: skip
ENDS = {
    "killed": "killed", "survived": "survived", "crashed": "crashed", "murdered": "crashed", "timeout": "timeout",
    "invalid": "invalid", "no-fit": "invalid", "error": "crashed", "kernel": "killed", "same-isa": "same-isa",
}  # fmt: skip


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[engine.Result, Path, Silent]:
    path = tmp_path_factory.mktemp("state") / "state.jsonl"
    state, heard = State(path, "sources", "gfx942", False), Silent()
    # the one that never ends has the deadline to itself: the others' clean runs are short
    settings = Settings("gfx942", 1, today=TODAY, least_timeout_s=8.0)
    sentinel = made("sentinel", "LAMBDA = 800.0")
    return run(list(REAL.values()), sentinel, settings, state, heard), path, heard


@pytest.mark.parametrize("end", ENDS)
def test_every_end_has_its_outcome(real: tuple[engine.Result, Path, Silent], end: str) -> None:
    records = {record["name"]: record for record in real[0].mutants}
    record = records[REAL[end].name]
    assert record["outcome"] == ENDS[end], record
    if ENDS[end] == "killed":
        assert record["right_check"] is True
        assert record["case"]
    else:
        assert record["reason"]


def test_reasons_say_what_happened(real: tuple[engine.Result, Path, Silent]) -> None:
    said = {record["title"]: record["reason"] for record in real[0].mutants}
    assert "exit code 3" in said["crashed"]
    assert "SIGKILL" in said["murdered"]
    assert "no end after" in said["timeout"]
    assert "no_such_module" in said["invalid"]
    assert "occurs 0 times" in said["no-fit"]


def test_clean_run_and_forced_failure_come_first(real: tuple[engine.Result, Path, Silent]) -> None:
    phases = [what for name, what in real[2].lines if name == "phase"]
    assert phases == ["clean run", "forced failure", "mutants"]
    assert {record["status"] for record in real[0].clean} == {"pass"}
    assert real[0].sentinel["outcome"] == "killed"


def test_the_result_holds_together(real: tuple[engine.Result, Path, Silent], tmp_path: Path) -> None:
    header = {
        "arch": "gfx942", "command": ["x"], "started": "t", "duration_s": 1.0, "jobs": 1, "environment": {},
        "source": {"digest": "d"}, "selection": {"mutants": [], "classes": [], "generated": False, "seed": 0,
                                                  "sample": None, "every_trial": False},
    }  # fmt: skip
    for record in (real[0].sentinel, *real[0].mutants):
        record["in_default_run"] = None
    document = result.build(header, real[0], 1.0, 0, TODAY)
    assert document["verdict"] == {"result": "FAIL", "exit_code": 1}
    path = tmp_path / "out.json"
    result.write(path, document, TODAY)
    assert json.loads(path.read_text()) == document
    for broken in (
        document | {"verdict": {"result": "PASS", "exit_code": 0}},
        document | {"counts": document["counts"] | {"killed": 9}},
        document | {"mutants": []},
        document | {"sentinel": document["sentinel"] | {"outcome": "survived"}},
        document | {"gate": document["gate"] | {"reasons": []}},
        document | {"mutants": [document["mutants"][0] | {"right_check": None}, *document["mutants"][1:]]},
        document | {"mutants": [document["mutants"][0] | {"trials": []}, *document["mutants"][1:]]},
    ):
        with pytest.raises(result.InvalidResultError):
            result.write(path, broken, TODAY)
    assert json.loads(path.read_text()) == document
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


@pytest.mark.parametrize(
    ("lines", "timed_out", "status", "words", "ended", "reason"),
    [
        ([{"record": {}}, {"done": True}], "", 0, "", "done", ""),
        ([{"done": True}], "no end after 3 s", 9, "", "timeout", "no end after 3 s"),
        ([{"invalid": "no import"}], "", 0, "", "invalid", "no import"),
        ([{"record": {}}], "", 0, "", "crashed", "exit code 0"),
        ([{"done": True}], "", 1 << 8, "Error: x\n\n", "crashed", "exit code 1; last words: Error: x"),
        ([], "", 6, "LLVM ERROR: Cannot select\n", "invalid", "SIGABRT"),
        ([], "", 11, "", "crashed", "SIGSEGV; no words"),
    ],
)
def test_endings(lines: list[dict[str, Any]], timed_out: str, status: int, words: str, ended: str, reason: str) -> None:
    got = ending(lines, timed_out, status, words)
    assert got[0] == ended
    assert reason in got[1]


# -- order and resuming, with a pool that answers by itself ---------------------------------------------------------


SENTINEL = made("sentinel", "LAMBDA = 800.0")
THREE = [made(name, f"LAMBDA = {10 + i}.0") for i, name in enumerate(("a", "b", "c"))]
SETTINGS = Settings("gfx942", 1, today=TODAY)


def go(path: Path | None = None, resume: bool = False, sources: str = "s", settings: Settings = SETTINGS) -> Any:
    return run(THREE, SENTINEL, settings, State(path, sources, settings.arch, resume), Silent())


def test_no_mutant_is_an_error() -> None:
    with pytest.raises(EngineError, match="no mutant was selected"):
        run([], SENTINEL, SETTINGS, State(None, "s", "gfx942", False), Silent())


@pytest.mark.parametrize("status", ["fail", "error", "skip"])
def test_nothing_is_concluded_from_code_that_fails_unchanged(pool: type[FakePool], status: str) -> None:
    pool.answers = {"clean.0": status}
    with pytest.raises(EngineError, match="the unchanged code does not pass bounds"):
        go()
    assert pool.asked == ["clean.0"]


def test_nothing_is_concluded_when_the_forced_failure_is_not_seen(pool: type[FakePool]) -> None:
    pool.answers = {SENTINEL.name: "pass"}
    with pytest.raises(EngineError, match="the forced failure was not seen"):
        go()
    assert pool.asked == ["clean.0", SENTINEL.name]


def test_an_interrupted_run_goes_on_where_it_stopped(pool: type[FakePool], tmp_path: Path) -> None:
    path = tmp_path / "kept" / "state.jsonl"
    pool.answers = {THREE[2].name: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        go(path)
    with path.open("a") as stream:
        stream.write('{"key": {"sources"')  # the line that a kill cut off
    pool.answers, pool.asked = {}, []
    resumed = go(path, resume=True)
    assert pool.asked == [THREE[2].name]
    assert [record["outcome"] for record in resumed.mutants] == ["killed"] * 3
    assert resumed.resumed == 4
    pool.asked = []
    assert go(path, resume=True).resumed == 5  # nor is the result lost that came after the broken line
    assert pool.asked == []


def test_results_of_other_sources_or_arch_are_not_taken_up(pool: type[FakePool], tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    go(path)
    for again in (
        lambda: go(path, resume=True, sources="changed"),
        lambda: go(path, resume=True, settings=Settings("gfx950", 1, today=TODAY)),
        lambda: go(path, resume=False),
    ):
        pool.asked = []
        again()
        assert len(pool.asked) == 5
    pool.asked = []
    go(path, resume=True)
    assert pool.asked == []


@pytest.mark.parametrize(
    ("what", "again"),
    [
        ("clean.0", ["clean.0", SENTINEL.name, *(mutant.name for mutant in THREE)]),
        (SENTINEL.name, [SENTINEL.name, *(mutant.name for mutant in THREE)]),
        (THREE[1].name, [THREE[1].name]),
    ],
)
def test_an_answer_that_was_taken_back_is_not_taken_up(
    pool: type[FakePool], tmp_path: Path, what: str, again: list[str]
) -> None:
    path = tmp_path / "state.jsonl"
    pool.revised = [what]
    if what == THREE[1].name:
        assert [record["outcome"] for record in go(path).mutants] == ["killed", "crashed", "killed"]
    else:
        with pytest.raises(EngineError, match="answered again"):
            go(path)
    pool.revised, pool.asked = [], []
    assert [record["outcome"] for record in go(path, resume=True).mutants] == ["killed"] * 3
    assert pool.asked == again


@pytest.mark.parametrize("at_exit", [True, False])
def test_a_pool_that_cannot_be_believed_leaves_nothing_to_take_up(
    pool: type[FakePool], tmp_path: Path, at_exit: bool
) -> None:
    """What an earlier run's workers answered stands."""
    path, error = tmp_path / "state.jsonl", PoolError("answered after its last task")
    pool.answers = {THREE[1].name: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        go(path)
    pool.answers = {} if at_exit else {THREE[2].name: error}
    pool.at_exit = [error] if at_exit else []
    with pytest.raises(PoolError):
        go(path, resume=True)
    pool.answers, pool.at_exit, pool.asked = {}, [], []
    assert go(path, resume=True).resumed == 3
    assert pool.asked == [THREE[1].name, THREE[2].name]


@pytest.mark.parametrize("when", ["clean.0", "loosened-tolerance/sentinel", "loosened-tolerance/b"])
def test_sources_that_change_meanwhile_prove_nothing(pool: type[FakePool], tmp_path: Path, when: str) -> None:
    for package in ("hcgr", "oracle", "validation"):
        (tmp_path / package).mkdir()
    (tmp_path / "oracle" / "rounding.py").write_text("LAMBDA = 8.0\n")

    def edit() -> None:
        (tmp_path / "hcgr" / "new.py").write_text("x = 1\n")

    pool.before = {when: edit}
    settings = Settings("gfx942", 1, today=TODAY, root=tmp_path)
    with pytest.raises(EngineError, match=r"sources changed during the run \(.*new\.py\)"):
        go(tmp_path / "state", settings=settings)
    kept = (tmp_path / "state").read_text().splitlines() if (tmp_path / "state").exists() else []
    assert len(kept) == pool.asked.index(when)


def test_a_changed_test_is_another_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from validation.mutation import trials

    monkeypatch.setattr(trials, "ROOT", tmp_path)
    (tmp_path / "t.py").write_text("def test_x(): pass")
    trial = Trial("t", "pytest:t.py::test_x")
    before = engine._clean_item(trial)
    assert engine._clean_item(trial) == before
    (tmp_path / "t.py").write_text("def test_x(): assert 1")
    assert engine._clean_item(trial) != before
