"""Runs mutants on one arch: first the clean code, then a defect that must be seen, then every mutant.

Each runs in a fork of a prepared worker (:mod:`validation.mutation.forked`); the workers are those of
:mod:`validation.devices.pool`, which watches their deaths and their deadlines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Protocol

from validation import devices
from validation.cases import Outcome, Task
from validation.devices.pool import PoolError
from validation.executors import Executor, Local, TaskPool
from validation.mutation.edit import ROOT, EditError
from validation.mutation.manifest import Mutant, digest, distinct_trials
from validation.mutation.outcome import Clean, clean_trials, crashed_answer, invalid_answer, record_of
from validation.mutation.state import State, stamp
from validation.mutation.trials import Trial, content
from validation.operation import JsonDict

#: Where the work of a task is done.
MODULES = {"mutant": "validation.mutation.forked"}
EMULATOR = "validation.devices.emulator"
#: FlyDSL's cache for what no mutant changes, below the caches of a worker's pool.
CACHE = "mutants"
#: Trials of one clean child: they share its imports, and kernels that they have in common.
CLEAN_CHUNK = 5
#: Seconds that a child may take, at least, and as a multiple of the CPU time of its trials' clean runs.
LEAST_TIMEOUT_S, TIMEOUT_FACTOR = 60.0, 20.0
#: What the pool grants beyond that: importing torch and FlyDSL in a worker's first task.
STARTUP_S = 120.0


class EngineError(Exception):
    """A run that can prove nothing: the message says why, and what to do."""


@dataclass(frozen=True)
class Settings:
    """How to run. ``every_trial``: also those after the first that kills, which completes the kill matrix.

    ``executor`` has the mutants run, if it is given; ``jobs`` local workers do so otherwise.
    """

    arch: str
    jobs: int = 1
    operation: str = "hcgr"
    root: Path = ROOT
    every_trial: bool = False
    today: date = date.min
    least_timeout_s: float = LEAST_TIMEOUT_S
    executor: Executor | None = None


class Progress(Protocol):
    """Who wants to know how a run is getting on."""

    def phase(self, arch: str, title: str, total: int) -> None:
        """``total`` things follow."""

    def done(self, name: str, outcome: str, what: str) -> None:
        """One of them has its outcome."""


@dataclass(frozen=True)
class Result:
    """``clean``: records of the clean trials; ``sentinel`` and ``mutants``: records of :func:`outcome.record_of`.

    ``executor``: who ran them, as the report has it.
    """

    clean: list[JsonDict]
    sentinel: JsonDict
    mutants: list[JsonDict]
    resumed: int
    executor: JsonDict


def run(mutants: Sequence[Mutant], sentinel: Mutant, settings: Settings, state: State, progress: Progress) -> Result:
    """Run ``mutants``, all of which apply to the arch.

    Raises:
        EngineError: there is no mutant, the clean code fails a trial, or the sentinel is not killed.
        PoolError: some answer of this run is wrong, and nobody knows which: none is kept.
    """
    if not mutants:
        raise EngineError(f"no mutant was selected for {settings.arch}: nothing would be measured")
    executor = settings.executor or Local(settings.jobs)
    executor.begin()
    try:
        return _run(executor, mutants, sentinel, settings, state, progress)
    except PoolError:
        state.void()
        raise


def _run(
    executor: Executor,
    mutants: Sequence[Mutant],
    sentinel: Mutant,
    settings: Settings,
    state: State,
    progress: Progress,
) -> Result:
    with executor.pool(settings.arch, EMULATOR, devices.device(EMULATOR).worker_environment(settings.arch)) as pool:
        runner = _Runner(pool, settings, state, progress)
        clean = runner.clean(distinct_trials([sentinel, *mutants]))
        seen = runner.mutants("forced failure", [sentinel])[0]
        if seen["outcome"] != "killed":
            raise EngineError(
                f"the forced failure was not seen ({seen['outcome']}: {seen['reason']}): what survives here may "
                f"only be unseen. Replay: {seen['replay']}"
            )
        records = runner.mutants("mutants", mutants)
        return Result(clean, seen, records, runner.resumed, executor.record())


class _Runner:
    def __init__(self, pool: TaskPool, settings: Settings, state: State, progress: Progress) -> None:
        self._pool, self._settings, self._state, self._progress = pool, settings, state, progress
        self._clean: Clean = {}
        self._seconds: dict[tuple[Any, ...], float] = {}
        self._stamp = stamp(settings.root)
        self.resumed = 0

    def _keep(self, item: str, answer: JsonDict) -> None:
        """Keep an answer, unless somebody has changed the sources: children import them from where they are."""
        changed = sorted({path for path, *_ in stamp(self._settings.root) ^ self._stamp})
        if changed:
            raise EngineError(
                f"the sources changed during the run ({changed[0]}): nothing can be concluded; run it on a copy of "
                "the tree, or again"
            )
        self._state.add(item, answer)

    # -- clean -------------------------------------------------------------------------------------------------

    def clean(self, trials: Sequence[Trial]) -> list[JsonDict]:
        """Run every trial on the unchanged sources; all must pass."""
        arch = self._settings.arch
        self._progress.phase(arch, "clean run", len(trials))
        by_name = {trial.name: trial for trial in trials}
        known = {t.name: self._state.known(_clean_item(t)) for t in trials}
        records = [answer["trials"][0] for answer in known.values() if answer]
        waiting = [trial for trial in trials if not known[trial.name]]
        self.resumed += len(records)
        chunks = [waiting[i : i + CLEAN_CHUNK] for i in range(0, len(waiting), CLEAN_CHUNK)]
        tasks = [self._task(f"clean.{i}", {}, chunk, private=False, stop=False) for i, chunk in enumerate(chunks)]
        wrong: list[str] = []
        for task, outcome in self._pool.run(tasks, MODULES):
            answer = outcome.value or crashed_answer(outcome.error)
            asked = [trial["name"] for trial in task.payload["trials"]]
            self._state.void(_clean_item(by_name[name]) for name in asked)  # a second outcome replaces the first
            for record in answer["trials"]:
                records.append(record)
                self._progress.done(record["trial"], record["status"], record["reason"])
                if record["status"] == "pass":
                    kept = {"trials": [record], "ended": "done", "reason": "", "cpu_s": record["seconds"]}
                    self._keep(_clean_item(by_name[record["trial"]]), kept)
                else:
                    wrong.append(f"{record['trial']} ({record['case']}): {record['status']}: {record['reason']}")
            missing = asked[len(answer["trials"]) :]
            wrong += [f"{name} ({by_name[name].case}): {answer['reason'] or 'not run'}" for name in missing[:1]]
        if wrong:
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            raise EngineError(f"the unchanged code does not pass {wrong[0]}{more}: no mutant was run")
        self._clean = clean_trials(records, by_name)
        self._seconds = {by_name[record["trial"]].settings: record["seconds"] for record in records}
        return sorted(records, key=lambda record: record["trial"])

    # -- mutants -----------------------------------------------------------------------------------------------

    def mutants(self, title: str, mutants: Sequence[Mutant]) -> list[JsonDict]:
        """Run mutants, in any order; the records come in the order given."""
        self._progress.phase(self._settings.arch, title, len(mutants))
        records: dict[str, JsonDict] = {}
        for mutant, answer in self._answers(mutants):
            record = record_of(mutant, self._settings.arch, answer, self._clean, self._settings.today)
            records[mutant.name] = record
            what = ", ".join(record["checks"]) if record["outcome"] == "killed" else record["reason"]
            self._progress.done(mutant.name, record["outcome"], what)
        return [records[mutant.name] for mutant in mutants]

    def _answers(self, mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, JsonDict]]:
        by_name = {mutant.name: mutant for mutant in mutants}
        tasks: list[Task] = []
        for mutant in mutants:
            item = self._item(mutant)
            known = self._state.known(item)
            if known is not None:
                self.resumed += 1
                yield mutant, known
                continue
            try:
                sources = mutant.edited(self._settings.root)
            except EditError as error:
                yield mutant, invalid_answer(str(error))
                continue
            private = any(file.startswith("hcgr/kernels/") for file in sources)
            tasks.append(
                self._task(
                    mutant.name,
                    sources,
                    mutant.trials,
                    private=True,
                    stop=not self._settings.every_trial,
                    cache="" if private else CACHE,
                )
            )
        for task, outcome in self._pool.run(tasks, MODULES):
            answer = _answer(outcome)
            item = self._item(by_name[task.id])
            self._state.void([item])  # a second outcome replaces the first, also if it cannot be kept
            self._keep(item, answer)
            yield by_name[task.id], answer

    def _item(self, mutant: Mutant) -> str:
        """Key of a mutant's answer: which trials run is part of it."""
        return f"{mutant.digest}{'+' if self._settings.every_trial else ''}"

    def _task(
        self,
        name: str,
        sources: dict[str, str],
        trials: Iterable[Trial],
        *,
        private: bool,
        stop: bool,
        cache: str = "",
    ) -> Task:
        chosen = list(trials)
        expected = sum(self._seconds.get(trial.settings, 10.0) for trial in chosen)
        timeout = max(self._settings.least_timeout_s, TIMEOUT_FACTOR * expected)
        payload = {
            "sources": sources,
            "trials": [trial.as_json() for trial in chosen],
            "operation": self._settings.operation,
            "timeout_s": timeout,
            "stop": stop,
            "private": private,
            "cache": cache or ("" if private else CACHE),
            "root": "" if self._settings.root == ROOT else str(self._settings.root),  # it is elsewhere elsewhere
        }
        return Task(name, "mutant", payload, timeout_s=timeout + STARTUP_S)


def _clean_item(trial: Trial) -> str:
    return f"clean.{digest(trial.as_json(), content(trial))}"


def _answer(outcome: Outcome) -> JsonDict:
    return outcome.value if outcome.value is not None else crashed_answer(outcome.error)
