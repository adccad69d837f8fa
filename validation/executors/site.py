"""What runs inside of a Dask worker: tasks, each in an isolated worker process of a pool of one.

The processes stay between tasks, so that kernels which one has compiled are there for the next of their group. Each
pool has a thread of its own, since the kernel of Linux ends a child with the thread that started it, and Dask's come
and go. A pool without work for :data:`IDLE_S` ends itself: whoever gave it work may have died.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from distributed import get_worker

from validation.cases import Outcome, Task
from validation.devices.pool import Pool, PoolError, memory_limit
from validation.devices.process import KEEPER_S
from validation.executors import ExecutorError, identity
from validation.operation import JsonDict

IDLE_S = 900.0
#: Seconds between two looks at the source files.
SOURCES_S = 2.0
#: Seconds that the worker processes of a pool may take to end, of which a keeper has half.
CLOSE_S = 2 * KEEPER_S


class SourcesChangedError(RuntimeError):
    """The sources on this machine are no longer those of the run."""


@dataclass(frozen=True)
class Spec:
    """What the worker processes of one pool are, on every machine. ``token`` names the pool."""

    token: str
    arch: str
    device: str
    environment: Mapping[str, str]
    packages: tuple[str, ...]
    sources: str


@dataclass(frozen=True)
class Answer:
    """What became of a task (and of the one before, if its outcome has to be taken back), and who says so."""

    ended: tuple[tuple[Task, Outcome], ...]
    replaced: int


class _Slot(threading.Thread):
    """One worker process, and the thread that feeds it."""

    def __init__(self, spec: Spec, sharing: int, folder: str) -> None:
        super().__init__(name=f"hcgr-{spec.token}", daemon=True)
        self._spec, self._sharing, self._folder = spec, sharing, folder
        self._jobs: queue.Queue[tuple[Task, Mapping[str, str], Future[Answer]] | None] = queue.Queue()
        self._pool: Pool | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._failed: Exception | None = None

    def ask(self, task: Task, modules: Mapping[str, str]) -> Future[Answer] | None:
        """Have ``task`` run; ``None`` when the slot has closed."""
        answer: Future[Answer] = Future()
        with self._lock:
            if self._closed:
                return None
            self._jobs.put((task, modules, answer))
        return answer

    def close(self) -> None:
        """End the worker process, also in the middle of a task; those that wait are refused."""
        with self._lock:
            self._closed = True
            self._jobs.put(None)
            if self._pool is not None:
                self._pool.stop()

    def failure(self, seconds: float) -> Exception | None:
        """What was wrong at the end of this slot, if nobody has been told; it has ``seconds`` to end."""
        self.join(max(0.0, seconds))
        if self.is_alive():
            return PoolError(f"a worker process did not end within {CLOSE_S:g} s")
        return self._failed

    def run(self) -> None:
        """See :class:`threading.Thread`."""
        try:
            self._serve()
        except Exception as error:  # of any kind: whoever waits for an answer must get one, and so must who closes us
            self._failed = error
            with self._lock:
                self._closed = True
            while not self._jobs.empty():
                job = self._jobs.get()
                if job is not None:
                    job[2].set_exception(error)
                    self._failed = None

    def _serve(self) -> None:
        spec, limit = self._spec, memory_limit(self._sharing)
        with Pool(1, spec.arch, spec.device, spec.environment, limit, self._folder) as pool:
            self._pool = pool
            while (job := self._next()) is not None:
                task, modules, answer = job
                with self._lock:
                    closed = self._closed
                if closed:
                    answer.set_exception(ExecutorError(f"the pool was closed before {task.id!r} began"))
                    continue
                before = pool.replaced
                try:
                    ended = tuple(pool.run([task], modules, revise=True))
                    answer.set_result(Answer(ended, pool.replaced - before))
                except Exception as error:  # of any kind: it is the task's answer, and raised where that is asked for
                    answer.set_exception(error)

    def _next(self) -> tuple[Task, Mapping[str, str], Future[Answer]] | None:
        try:
            return self._jobs.get(timeout=IDLE_S)
        except queue.Empty:
            with self._lock:
                self._closed = self._jobs.empty()
            return None if self._closed else self._jobs.get()


_SLOTS: dict[tuple[str, int], _Slot] = {}
#: By digest: when the sources were seen to have it last, and their stamp.
_SEEN: dict[str, tuple[float, int]] = {}
_LOCK = threading.Lock()


def identify(packages: tuple[str, ...]) -> JsonDict:
    """:func:`validation.executors.identity.identify` of this worker's machine."""
    return identity.identify(packages)


def run_task(spec: Spec, slot: int, sharing: int, task: Task, modules: Mapping[str, str]) -> Answer:
    """Run ``task`` in worker process ``slot`` of this Dask worker.

    sharing: worker processes on this machine, which share its memory.

    Raises:
        SourcesChangedError: the sources here are not those of the run (any more).
        PoolError, OSError: see :class:`Pool`; also of the worker process that was in this slot before.
    """
    _same_sources(spec)
    while True:
        with _LOCK:
            known = _SLOTS.get((spec.token, slot))
            if known is None:
                known = _SLOTS[spec.token, slot] = _Slot(spec, sharing, get_worker().local_directory)
                known.start()
        answer = known.ask(task, modules)
        if answer is not None:
            return answer.result()
        with _LOCK:
            if _SLOTS.get((spec.token, slot)) is known:
                del _SLOTS[spec.token, slot]
        failure = known.failure(CLOSE_S)
        if failure is not None:
            raise failure


def close(token: str) -> list[str]:
    """End the worker processes of the pool ``token`` on this Dask worker; what was wrong with them at their end."""
    with _LOCK:
        closing = [_SLOTS.pop(key) for key in list(_SLOTS) if key[0] == token]
    for slot in closing:
        slot.close()
    end = time.monotonic() + CLOSE_S
    failures = [slot.failure(end - time.monotonic()) for slot in closing]
    return [f"{type(failure).__name__}: {failure}" for failure in failures if failure is not None]


def _same_sources(spec: Spec) -> None:
    with _LOCK:
        when, stamp = _SEEN.get(spec.sources, (0.0, 0))
    if when and time.monotonic() - when < SOURCES_S:
        return
    now = identity.stamp(spec.packages)
    if not when or now != stamp:
        found = identity.digest(spec.packages)
        if found != spec.sources:
            raise SourcesChangedError(f"the sources on this machine are {found}, those of the run {spec.sources}")
    with _LOCK:
        _SEEN[spec.sources] = time.monotonic(), now
