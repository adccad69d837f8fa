"""Cases on the workers of a real Dask cluster: the same outcomes, and none is lost with a worker."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import validation_fakes as fakes
from test_validate_runner import Quiet

from validation import cli
from validation.cases import Outcome, Task
from validation.devices.pool import PoolError, latest
from validation.executors import ExecutorError, Local, cluster, identity, opened, site, spread
from validation.executors.cluster import Dask
from validation.mutation.edit import Edit
from validation.mutation.engine import Settings
from validation.mutation.engine import run as mutate
from validation.mutation.manifest import Mutant
from validation.mutation.state import State
from validation.mutation.trials import Trial
from validation.report.check import problems
from validation.report.console import summary_lines
from validation.report.executor import contradictions
from validation.report.show import FORMATS
from validation.runner import Plan, run_arch

MODULES = {"fake": "tests.devices.pool_tasks"}
DEVICE = "validation.devices.emulator"
WORKER = {"name": "tcp://host:2", "machine": "host", "slots": 1, "cases": 8, "lost": False}
FAKE = ("validation_fakes",)
CASES = (
    "environment.worker",
    "compile.fake.good",
    *(f"correctness.fake.{mode}.s1" for mode in ("good", "wrong", "finding", "raises", "abort", "skip")),
)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster of two worker processes, as somebody else may have started it."""
    os.environ["AWS_SECRET_ACCESS_KEY"] = "hunter2"
    try:
        with cluster._own(2) as made:
            yield made.scheduler_address
    finally:
        del os.environ["AWS_SECRET_ACCESS_KEY"]


@pytest.fixture
def dask(address: str) -> Iterator[Dask]:
    with opened("dask", 1, address, ("validation_fakes",)) as executor:
        assert isinstance(executor, Dask)
        yield executor


def tasks(*made: tuple[str, dict[str, Any]]) -> list[Task]:
    return [Task(name, "fake", payload) for name, payload in made]


def outcomes(executor: Dask | Local, given: list[Task]) -> dict[str, Outcome]:
    with executor.pool("gfx942", DEVICE, {"ARCH": "gfx942"}) as pool:
        return {name: outcome for name, (_, outcome) in latest(pool.run(given, MODULES)).items()}


def test_a_report_differs_from_a_local_one_in_times_alone(dask: Dask) -> None:
    reports = {}
    for name, executor in (("local", Local(2)), ("dask", dask)):
        plan = Plan(
            fakes.BAD,
            "validation_fakes:BAD",
            3,
            2,
            cases=CASES,
            device_modules=("validation_fakes",),
            executor=executor,
        )
        reports[name] = run_arch(plan, "gfx942", Quiet())
        assert problems(reports[name]) == []
    local, remote = reports["local"], reports["dask"]
    records = [[case for stage in report["stages"] for case in stage["cases"]] for report in (local, remote)]
    for case in (case for side in records for case in side):
        case["duration_s"] = 0
    for each in records:
        (worker,) = [case for case in each if case["id"] == "environment.worker"]
        worker["facts"] = {name: fact for name, fact in worker["facts"].items() if name != "pid"}
    assert records[0] == records[1]
    assert len(records[0]) == len(CASES)
    assert local["verdict"] == remote["verdict"]
    assert local["workers"]["replaced"] == remote["workers"]["replaced"] == 1
    assert local["workers"]["executor"] == Local().record()
    who = remote["workers"]["executor"]
    assert (who["name"], who["machines"], who["lost"], len(who["workers"])) == ("dask", 1, 0, 2)
    assert sum(worker["cases"] for worker in who["workers"]) == len(CASES)
    assert all(worker["cases"] for worker in who["workers"])
    assert any("run by 2 Dask workers on 1 machine (tcp://127.0.0.1:" in line for line in summary_lines(remote))
    assert not any("Dask" in line for line in summary_lines(local))
    for form in ("html", "markdown"):
        assert "run by 2 Dask workers on 1 machine" in FORMATS[form](remote)


CONTRADICTIONS = {
    "a machine too many": ({"machines": 2}, "2 machines took part, its workers are of 1"),
    "a lost worker hidden": ({"lost": 1}, "1 workers were lost, 0 are listed"),
    "cases that nobody ran": ({"workers": [WORKER | {"cases": 9}]}, "its workers ended 9 cases, the run has 8"),
    "a local run elsewhere": ({"name": "local"}, "local is this machine alone"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_an_edited_executor_does_not_hold_together(name: str) -> None:
    change, words = CONTRADICTIONS[name]
    record = Local().record() | {"name": "dask", "scheduler": "tcp://host:1", "workers": [WORKER]}
    assert list(contradictions(record, 8)) == []
    assert [problem for problem in contradictions(record | change, 8) if words in problem]


def test_processes_stay_between_tasks_and_their_environment_is_scrubbed(dask: Dask) -> None:
    given = tasks(*((f"{i}", {"do": "who"}) for i in range(6)))
    facts = {name: outcome.value["facts"] for name, outcome in outcomes(dask, given).items() if outcome.value}
    assert len(facts) == 6
    assert len({fact["pid"] for fact in facts.values()}) == 2  # they stay, and what they have compiled
    assert len({fact["dask"] for fact in facts.values()}) == 2
    assert not any("hunter2" in str(fact["environment"]) for fact in facts.values())
    for fact in facts.values():
        assert not alive(fact["pid"])  # the pool is closed, and the cluster goes on


def alive(pid: int) -> bool:
    for _ in range(500):
        if not os.path.exists(f"/proc/{pid}") or " Z " in Path(f"/proc/{pid}/stat").read_text():
            return False
        time.sleep(0.01)
    return True


def test_a_lost_worker_loses_no_case_and_a_case_that_loses_them_all_is_named(
    dask: Dask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "MOST_LOSSES", 2)
    given = tasks(
        ("once", {"do": "loses_its_dask_worker", "times": 1, "tries": str(tmp_path / "once")}),
        *((f"more{i}", {"do": "nothing"}) for i in range(6)),
        ("crash", {"do": "segfault"}),
        ("always", {"do": "loses_its_dask_worker", "times": 99, "tries": str(tmp_path / "always")}),
        ("last", {"do": "nothing"}),
    )
    dask.begin()
    ended = outcomes(dask, given)
    assert set(ended) == {task.id for task in given}
    passed = {name for name, outcome in ended.items() if outcome.value}
    assert passed == {task.id for task in given} - {"crash", "always"}
    assert "SIGSEGV" in ended["crash"].error
    assert "the Dask worker that ran it was lost 2 times (tcp://127.0.0.1:" in ended["always"].error
    assert len((tmp_path / "always").read_text().splitlines()) == 2
    assert dask.record()["lost"] == 3
    for note in tmp_path.glob("*.daemon*"):
        assert not alive(int(note.read_text()))


def test_an_answer_after_the_last_task_is_loud(dask: Dask, tmp_path: Path) -> None:
    begin = tmp_path / "begin"
    with (  # noqa: PT012
        pytest.raises(PoolError, match="answered after its last task"),
        dask.pool("gfx942", DEVICE, {}) as pool,
    ):
        (ended,) = pool.run(tasks(("late", {"do": "answers_later", "begin": str(begin)})), MODULES)
        assert ended[1].value is not None
        begin.touch()
        while not Path(f"{begin}.said").exists():
            time.sleep(0.01)


class Silent:
    """Nobody wants to know how the mutants are getting on."""

    def phase(self, arch: str, title: str, total: int) -> None: ...
    def done(self, name: str, outcome: str, what: str) -> None: ...


def loosened(value: str) -> Mutant:
    """The oracle's bounds for another LAMBDA, which a control must see."""
    edit = Edit("oracle/rounding.py", "LAMBDA = 8.0", f"LAMBDA = {value}")
    name = f"loosened-tolerance/{value}"
    trials = (Trial("bounds", "control.bounds"),)
    kind, checks = "tolerance", ("tolerance-control",)
    return Mutant(name, "t", "w", kind, ("all",), ("gfx942",), checks, trials, (edit,), digest=name)


class FakePool:
    """A pool in the place of a slot's, whose cases pass; what its worker does beside is for the tests to say."""

    def __init__(self, *arguments: Any) -> None:
        self.replaced = 0
        site.IDLE_S = 60.0

    def __enter__(self) -> FakePool:
        return self

    def __exit__(self, *exception: object) -> None: ...

    def stop(self) -> None: ...

    def run(self, given: list[Task], modules: Any, revise: bool) -> Iterator[tuple[Task, Outcome]]:
        yield from ((task, Outcome({})) for task in given)


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> site.Spec:
    """Of slots in this process."""
    monkeypatch.setattr(site, "get_worker", lambda: SimpleNamespace(local_directory=str(tmp_path)))
    monkeypatch.setattr(site, "_same_sources", lambda spec: None)
    monkeypatch.setattr(site, "IDLE_S", 60.0)
    return site.Spec("token", "gfx942", DEVICE, {}, (), "")


def test_what_was_wrong_with_a_slot_that_ended_itself_is_raised_once(
    spec: site.Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Spoken(FakePool):
        def __exit__(self, *exception: object) -> None:
            raise PoolError("a worker answered after its last task")

        def run(self, *arguments: Any, **options: Any) -> Iterator[tuple[Task, Outcome]]:
            site.IDLE_S = 0.0  # it has no other work
            return super().run(*arguments, **options)

    monkeypatch.setattr(site, "Pool", Spoken)
    (case,) = tasks(("one", {}))
    assert site.run_task(spec, 0, 1, case, MODULES).ended[0][1].value == {}
    site._SLOTS["token", 0].join()
    with pytest.raises(PoolError, match="answered after its last task"):
        site.run_task(spec, 0, 1, case, MODULES)
    assert site.run_task(spec, 0, 1, case, MODULES).ended[0][1].value == {}
    assert site.close("token") == ["PoolError: a worker answered after its last task"]
    assert site.close("token") == []


def test_a_closed_slot_refuses_what_waits(spec: site.Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = [], threading.Event()

    class Slow(FakePool):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            go.wait()

        def run(self, *arguments: Any, **options: Any) -> Iterator[tuple[Task, Outcome]]:
            begun.append(arguments)
            return super().run(*arguments, **options)

    monkeypatch.setattr(site, "Pool", Slow)
    slot = site._Slot(spec, 1, "")
    slot.start()
    answers = [slot.ask(case, MODULES) for case in tasks(("one", {}), ("two", {}))]
    slot.close()
    go.set()
    for answer in answers:
        assert answer is not None
        with pytest.raises(ExecutorError, match=r"the pool was closed before '(one|two)' began"):
            answer.result(60)
    assert slot.failure(60) is None
    assert begun == []


def test_a_slot_that_does_not_end_is_reported(spec: site.Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    running, go = threading.Event(), threading.Event()

    class Stuck(FakePool):
        def run(self, *arguments: Any, **options: Any) -> Iterator[tuple[Task, Outcome]]:
            running.set()
            go.wait()
            return super().run(*arguments, **options)

    monkeypatch.setattr(site, "Pool", Stuck)
    monkeypatch.setattr(site, "CLOSE_S", 0.1)
    slot = site._SLOTS["token", 0] = site._Slot(spec, 1, "")
    slot.start()
    slot.ask(tasks(("one", {}))[0], MODULES)
    running.wait()
    assert site.close("token") == ["PoolError: a worker process did not end within 0.1 s"]
    go.set()
    assert slot.failure(60) is None


def closed(used: str, said: Any, there: str | Exception, lost: str = "") -> list[str]:
    """What closing a pool comes to that has ``used`` these workers, of which ``there`` are there and say ``said``."""

    def present() -> dict[str, int]:
        if isinstance(there, Exception):
            raise there
        return dict.fromkeys(there, 1)

    def run(what: Any, token: str, workers: list[str], on_error: str) -> dict[str, Any]:
        assert (what, on_error) == (site.close, "return")
        return {address: said[address] for address in workers if address in said}

    fake: Any = SimpleNamespace(
        packages=(),
        ours={"sources": ""},
        members=dict.fromkeys(sorted(set(used) - set(lost))),
        there=present,
        client=SimpleNamespace(run=run),
    )
    pool = spread.DaskPool(fake, "gfx942", DEVICE, {})
    pool._used |= set(used)
    return pool.close()


def test_a_worker_that_does_not_say_whether_its_outcomes_hold_is_named() -> None:
    unknown = "the worker {} could not be asked whether its outcomes hold: {}"
    assert closed("ab", {"a": [], "b": []}, "abc") == []
    assert closed("ab", {"a": ["wrong"], "b": OSError("no comm")}, "abc") == [
        "wrong (on a)",
        unknown.format("b", "no comm"),
    ]
    assert closed("ab", {"a": []}, "a") == [unknown.format("b", "it has gone")]
    assert closed("ab", {"a": []}, "a", lost="b") == []  # the report says so
    assert closed("ab", {}, ExecutorError("no scheduler")) == [unknown.format(name, "no scheduler") for name in "ab"]
    assert closed("", {}, ExecutorError("no scheduler")) == []


def test_a_worker_process_that_cannot_be_believed_ends_the_run() -> None:
    fake: Any = SimpleNamespace(packages=(), ours={"sources": ""}, members={"a": cluster.Member("a", "host", 1)})
    pool = spread.DaskPool(fake, "gfx942", DEVICE, {})
    future: Any = SimpleNamespace(status="error", exception=lambda: PoolError("it answered"))
    (case,) = tasks(("one", {}))
    pool._running["a", 0] = spread._Running(case, future, 0.0)
    pool._done.put((("a", 0), future))
    with pytest.raises(PoolError, match=r"on host \(a\): it answered"):
        pool._wait([])


@pytest.mark.parametrize("silent", ["exception", "result"])
def test_a_worker_that_goes_with_what_it_is_takes_no_part(silent: str) -> None:
    class Asked:
        def exception(self, timeout: float) -> None:
            self._no_answer("exception", timeout)

        def result(self, timeout: float) -> None:
            self._no_answer("result", timeout)

        def _no_answer(self, name: str, timeout: float) -> None:
            assert timeout == cluster.CONNECT_S
            if name == silent:
                raise TimeoutError("no answer")

    nobody: Any = None
    executor = Dask(nobody, "tcp://host:1", ())
    executor._judge("tcp://host:2", 1, Asked())
    assert executor.members == {}
    assert executor.record()["refused"] == [
        {"name": "tcp://host:2", "reason": "it cannot say what it is: TimeoutError: no answer"}
    ]


def test_a_report_has_the_jobs_of_its_beginning() -> None:
    class Shrinking:
        """Its workers go with the first pool."""

        begin, record = Local().begin, Local().record
        jobs = 5

        def pool(self, *arguments: Any) -> Any:
            self.jobs = 1
            return Local(1).pool(*arguments)

    plan = Plan(
        fakes.GOOD,
        "validation_fakes:GOOD",
        cases=("environment.worker",),
        device_modules=FAKE,
        executor=Shrinking(),
    )
    assert run_arch(plan, "gfx942", Quiet())["workers"]["jobs"] == 5


def test_mutants_are_killed_by_its_workers(dask: Dask) -> None:
    settings = Settings("gfx942", today=date(2026, 6, 1), executor=dask)
    state = State(None, "sources", "gfx942", False)
    found = mutate([loosened("80.0")], loosened("70.0"), settings, state, Silent())
    (record,) = found.mutants
    assert (found.sentinel["outcome"], record["outcome"], record["checks"]) == (
        "killed",
        "killed",
        ["tolerance-control"],
    )
    assert (found.executor["name"], sum(worker["cases"] for worker in found.executor["workers"])) == ("dask", 3)


def test_a_worker_with_other_sources_takes_no_part(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = identity.identify(())
    monkeypatch.setattr(identity, "identify", lambda packages: ours | {"sources": "0" * 16})
    words = r"no Dask worker can take part at tcp.* are refused: tcp://.*: sources: .*, here 0000"
    with pytest.raises(ExecutorError, match=words), opened("dask", 1, address):
        pass


def test_identity_follows_every_source_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_op"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('not to be imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    digests, stamps = [identity.digest(("some_op",))], [identity.stamp(("some_op",))]
    (package / "kernel.py").write_text("1\n")
    for text in ("", "22\n"):
        (package / "kernel.py").write_text(text)
        digests.append(identity.digest(("some_op",)))
        stamps.append(identity.stamp(("some_op",)))
    assert len(set(digests)) == len(set(stamps)) == 3
    assert identity.digest(("some_op",)) == digests[-1]


def run(*arguments: str) -> int:
    return cli.main(["--op", "validation_fakes:GOOD", "--arch", "gfx942", *arguments], FAKE)


def test_without_dask_one_line_names_the_extra(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "distributed"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "validation.executors.cluster")
    assert run("--executor", "dask") == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "--executor dask needs Dask distributed, which is not installed: pip install -e '.[dask]'" in line


def test_a_scheduler_that_is_not_there_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 0.5)
    monkeypatch.setenv("HCGR_SCHEDULER", "tcp://127.0.0.1:9")
    assert run("--executor", "dask") == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in line


def test_a_scheduler_for_local_workers_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--scheduler", "tcp://127.0.0.1:9") == 2
    assert "--scheduler is for --executor dask" in capsys.readouterr().err
