"""Whatever code under test does, it costs its own case; and what it says in the worker's name is never a pass."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from validation.cases import Outcome, Task
from validation.devices import pool as pools
from validation.devices import process
from validation.devices.keeper import children, resident
from validation.devices.pool import Pool, PoolError

MODULES = {"fake": "tests.devices.pool_tasks"}
LIMIT = 150 << 20


def task(do: str, timeout_s: float = 30.0, **payload: Any) -> Task:
    return Task(do, "fake", {"do": do, **payload}, timeout_s=timeout_s)


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(1, "gfx942", "validation.devices.emulator", {"ARCH": "gfx942"}, limit=LIMIT) as made:
        yield made


def outcomes(pool: Pool, *tasks: Task) -> dict[str, Outcome]:
    return {name: outcome for name, (_, outcome) in pools.latest(pool.run(tasks, MODULES)).items()}


def gone(pid: int) -> bool:
    """Whether a process has ended; it must do so within a moment."""
    for _ in range(200):
        if not os.path.exists(f"/proc/{pid}") or " Z " in Path(f"/proc/{pid}/stat").read_text():
            return True
        time.sleep(0.01)
    return False


def test_nothing_of_the_caller_is_seen_but_what_is_listed(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ("AWS_SECRET_ACCESS_KEY", "TOKEN", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "PYTHONSTARTUP", "LD_PRELOAD")
    for name in secrets:
        monkeypatch.setenv(name, "/nonexistent-hunter2")
    with Pool(2, "gfx942", "validation.devices.emulator", {"ARCH": "gfx942"}) as own:
        tasks = [Task(name, "fake", {"do": "surroundings", "name": name}) for name in ("one", "two")]
        facts = [outcome.value["facts"] for outcome in outcomes(own, *tasks).values() if outcome.value]
        assert len(facts) == 2
        for seen in facts:
            assert not set(secrets) & set(seen["environment"])
            assert "hunter2" not in str(seen["environment"])
            assert set(seen["environment"]) <= {
                "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "ROCM_PATH", "PYTHONPATH",
                "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "PYTHONHASHSEED",
                "PYTHONDONTWRITEBYTECODE", "PYTHONNOUSERSITE", "PYTHONUNBUFFERED", "HOME", "TMPDIR", "XDG_CACHE_HOME",
                "FLYDSL_RUNTIME_CACHE_DIR", "TRITON_CACHE_DIR", "ARCH",
            }  # fmt: skip
            assert seen["core"] == [0, 0]
            assert seen["oom"] == 1000  # no other process is taken for the memory that a case eats
        by_worker = {seen["environment"]["TMPDIR"]: seen["tmp"] for seen in facts}
        assert sorted(name for names in by_worker.values() for name in names) == ["one", "two"]
        for folder, names in by_worker.items():
            assert own.home in Path(folder).parents
            assert len(names) == 1 or len(by_worker) == 1  # one's files are not in the other's directory
        assert len({seen["environment"]["FLYDSL_RUNTIME_CACHE_DIR"] for seen in facts}) == 1  # what is compiled stays


@pytest.mark.parametrize(
    ("do", "words"),
    [
        ("segfault", "worker killed by SIGSEGV"),
        ("aborts", "worker killed by SIGABRT"),
        ("closes_pipes", "worker closed its answer pipe"),
        ("eats_memory", "used more than 150 MiB of memory"),
        ("child_eats_memory", "used more than 150 MiB of memory"),
        ("hangs", "timed out after 0."),
        ("stops_itself", "timed out after 0."),
        ("floods", "wrote more than 24 MiB to standard output or error"),
        ("answers_first", "worker answered twice for this case"),
        ("answers_and_waits", "answered again for this case, after its end"),
        ("answers_for_another", "answered 'after', which it was not asked"),
        ("answers_without_the_number", "which it was not asked"),
        ("answers_no_outcome", "answered what is no outcome"),
        ("says_ready", "what is not an answer"),
        ("says_a_number", "what is not an answer: b'5'"),
        ("answers_and_crashes", "worker killed by SIGABRT, after it had answered"),
    ],
)
def test_each_costs_its_own_case_and_none_is_a_pass(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, do: str, words: str
) -> None:
    monkeypatch.setattr(process, "OUTPUT_LIMIT", 24 << 20)
    monkeypatch.setattr(process, "DEATH_S", 0.3)
    quick = do in ("hangs", "stops_itself")
    ended = outcomes(
        pool, task("nothing"), task(do, 0.5 if quick else 30.0, other="after"), Task("after", "fake", {"do": "nothing"})
    )
    assert ended[do].value is None
    assert words in ended[do].error
    assert ended["nothing"].value is not None
    assert ended["after"].value is not None


def test_much_on_stderr_is_no_fault_and_little_of_it_is_kept(pool: Pool) -> None:
    ended = outcomes(pool, task("talks"))
    assert ended["talks"].value is not None
    (worker,) = pool._workers
    assert len(worker.words()) == process.STDERR_KEPT


@pytest.mark.parametrize("do", ["leaves_a_daemon", "leaves_a_daemon_and_crashes", "leaves_a_daemon_and_hangs"])
def test_a_process_that_a_case_left_behind_is_ended(pool: Pool, tmp_path: Path, do: str) -> None:
    note = tmp_path / "pid"
    ended = outcomes(pool, task(do, 4.0 if do.endswith("hangs") else 30.0, note=str(note)), task("nothing"))
    assert (ended[do].value is not None) == (do == "leaves_a_daemon")
    assert ended["nothing"].value is not None
    assert gone(int(note.read_text()))


def test_closing_the_pool_ends_all_below_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with Pool(1, "gfx942", "validation.devices.emulator", {}) as own:
        worker = own._start()
        assert own._send(worker, task("leaves_a_daemon_and_hangs", note=str(note)), MODULES)
        while not (note.exists() and note.read_text()):
            assert own._wait(0.05) == []
        keeper = worker.process.pid
        (below,) = children(keeper)
        assert resident(keeper) > resident(below) > 0
    assert gone(keeper)
    assert gone(below)
    assert gone(int(note.read_text()))
    assert not own.home.exists()


def late(begin: Path) -> Task:
    return task("answers_later", begin=str(begin))


def heard(pool: Pool) -> None:
    """Wait for words of the pool's only worker."""
    (worker,) = pool._workers
    assert select.select([worker.answers], [], [], 30)[0]


def test_an_answer_after_the_end_takes_the_pass_back(pool: Pool, tmp_path: Path) -> None:
    while_waiting = pool.run([late(tmp_path / "begin")], MODULES)
    assert next(while_waiting)[1].value is not None
    (tmp_path / "begin").touch()
    heard(pool)
    ((revised, outcome),) = while_waiting
    assert (revised.id, outcome.value) == ("answers_later", None)
    assert "the outcome that it gave first does not count" in outcome.error


def test_an_answer_for_the_case_before_costs_that_one_and_not_the_next(pool: Pool, tmp_path: Path) -> None:
    begin = tmp_path / "begin"
    ended = pool.run([late(begin), task("begins_once", begin=str(begin))], MODULES)
    told = [(done.id, outcome.value is not None) for done, outcome in ended]
    assert told == [("answers_later", True), ("answers_later", False), ("begins_once", True)]


def test_a_pass_of_an_earlier_run_is_taken_back_where_that_is_asked_for(pool: Pool, tmp_path: Path) -> None:
    begin = tmp_path / "begin"
    assert outcomes(pool, late(begin))["answers_later"].value is not None
    again = pool.run([task("begins_once", begin=str(begin))], MODULES, revise=True)
    assert [(done.id, outcome.value is not None) for done, outcome in again] == [
        ("answers_later", False),
        ("begins_once", True),
    ]


def test_an_answer_for_a_case_before_the_last_one_costs_that_one(pool: Pool, tmp_path: Path) -> None:
    begin = tmp_path / "begin"
    ended = pool.run([late(begin), task("nothing"), task("begins_once", begin=str(begin))], MODULES)
    told = [(done.id, outcome.value is not None) for done, outcome in ended]
    assert told == [("answers_later", True), ("nothing", True), ("answers_later", False), ("begins_once", True)]


def test_an_answer_for_a_case_of_an_earlier_run_is_loud_and_costs_no_other(tmp_path: Path) -> None:
    begin = tmp_path / "begin"
    with Pool(1, "gfx942", "validation.devices.emulator", {}) as own:
        assert outcomes(own, late(begin), task("nothing"))["answers_later"].value is not None
        words = "was running 'begins_once' answered again for 'answers_later', whose outcome is out"
        with pytest.raises(PoolError, match=words):
            outcomes(own, task("begins_once", begin=str(begin)))
        assert own._workers == []


def test_a_stopped_pool_ends_also_the_worker_that_it_starts_just_then(monkeypatch: pytest.MonkeyPatch) -> None:
    start = process.Worker.start

    def stopped_meanwhile(*arguments: Any) -> process.Worker:
        own.stop()
        return start(*arguments)

    monkeypatch.setattr(process.Worker, "start", stopped_meanwhile)
    with Pool(1, "gfx942", "validation.devices.emulator", {}) as own:
        ended = outcomes(own, task("hangs"), task("nothing"))
        assert [outcome.value for outcome in ended.values()] == [None, None]
        assert "the pool was stopped before this case began" in ended["nothing"].error
        assert own._workers == []


def test_an_answer_between_two_runs_is_loud(tmp_path: Path) -> None:
    with Pool(1, "gfx942", "validation.devices.emulator", {}) as own:
        assert outcomes(own, late(tmp_path / "begin"))["answers_later"].value is not None
        (tmp_path / "begin").touch()
        heard(own)
        with pytest.raises(PoolError, match="nothing to do answered again for 'answers_later'"):
            outcomes(own)
        assert own._workers == []


def test_an_answer_after_the_last_task_is_loud(tmp_path: Path) -> None:
    with (  # noqa: PT012
        pytest.raises(PoolError, match="answered after its last task"),
        Pool(1, "gfx942", "validation.devices.emulator", {}) as own,
    ):
        outcomes(own, late(tmp_path / "begin"))
        (tmp_path / "begin").touch()
        heard(own)
    assert not own.home.exists()


def test_a_request_that_is_not_taken_is_an_error(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "REQUEST_S", 0.2)
    outcomes(pool, task("nothing"))
    (worker,) = pool._workers
    os.kill(children(worker.process.pid)[0], 19)  # SIGSTOP: it reads no more
    ended = outcomes(pool, task("surroundings", name="x", padding="p" * (1 << 20)), task("nothing"))
    assert "did not take its request within 0.2 s" in ended["surroundings"].error
    assert ended["nothing"].value is not None
