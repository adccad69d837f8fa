"""Tasks over the workers of a cluster: group by group, and once more elsewhere when a worker is lost.

A Dask worker with several threads runs several tasks, and when it is lost nobody knows with which of them. So each of
those runs again alone, its worker's other threads idle; only what is lost alone is held against a task.
"""

from __future__ import annotations

import queue
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distributed import Future, KilledWorker

from validation.cases import Outcome, Task
from validation.devices.affinity import Affinity
from validation.devices.pool import STARTUP_TIMEOUT_S, TICK_S, Ended, PoolError
from validation.executors import ExecutorError, site
from validation.executors.cluster import GONE, Dask, Member

#: A task whose worker is lost while it runs there alone is tried this often in all.
MOST_LOSSES = 3
#: Seconds without any worker after which what remains is given up.
NO_WORKER_S = 60.0
#: Seconds beyond a task's own limits after which its silent worker counts as lost.
SILENT_S = 60.0

_Slot = tuple[str, int]


@dataclass
class _Running:
    """``alone``: no other task has run on its worker since it began."""

    task: Task
    future: Future
    deadline: float
    alone: bool = True


class DaskPool:
    """A :class:`validation.executors.TaskPool` on a cluster. Nothing of a task stays behind when it is retried."""

    def __init__(self, dask: Dask, arch: str, device: str, environment: Mapping[str, str]) -> None:
        self.replaced = 0
        self._dask = dask
        self._spec = site.Spec(
            secrets.token_hex(8), arch, device, dict(environment), dask.packages, dask.ours["sources"]
        )
        self._affinity: Affinity[_Slot] = Affinity()
        self._running: dict[_Slot, _Running] = {}
        self._lost_with: dict[str, list[str]] = {}
        self._suspects: set[str] = set()
        self._done: queue.SimpleQueue[tuple[_Slot, Future]] = queue.SimpleQueue()
        self._used: set[str] = set()
        self._lost_at: set[str] = set()

    def __enter__(self) -> DaskPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: Any) -> None:
        wrong = self.close()
        if wrong and kind is None:
            raise PoolError("; ".join(wrong))

    def close(self) -> list[str]:
        """Call back what runs, and end the worker processes on every worker that is still there.

        Returns:
            What was wrong with them at their end; also that this is not known of a worker, unless it is known as lost.
        """
        for running in self._running.values():
            running.future.cancel()
        self._running.clear()
        said, why = self._closed() if self._used else ({}, "")
        wrong: list[str] = []
        for address in sorted(self._used):
            answer = said.get(address, why)
            if isinstance(answer, list):
                wrong += [f"{what} (on {address})" for what in answer]
            elif address in self._dask.members and address not in self._lost_at:
                wrong.append(f"the worker {address} could not be asked whether its outcomes hold: {answer}")
        return wrong

    def _closed(self) -> tuple[dict[str, Any], str]:
        """What each worker says, or the exception that came of asking; and why the others say nothing."""
        try:
            there = sorted(self._used & set(self._dask.there()))
            said = self._dask.client.run(site.close, self._spec.token, workers=there, on_error="return")
        except (ExecutorError, *GONE) as error:  # nobody can be told; what gets no work ends itself
            return {}, str(error) or type(error).__name__
        return said, "it has gone"

    def run(self, tasks: Sequence[Task], modules: Mapping[str, str]) -> Iterator[tuple[Task, Outcome]]:
        """See :class:`validation.executors.TaskPool`.

        Raises:
            ExecutorError: the scheduler does not answer.
            PoolError: a worker process answered for a task of an earlier run, or for none.
        """
        waiting, known = list(tasks), {task.id for task in tasks}
        seen = time.monotonic()
        while waiting or self._running:
            self._dask.look()
            yield from self._missing(waiting)
            if self._dask.members:
                seen = time.monotonic()
            elif time.monotonic() - seen > NO_WORKER_S:
                reason = f"no Dask worker was left for {NO_WORKER_S:g} s"
                yield from ((task, Outcome(None, reason)) for task in waiting)
                return
            for slot in self._idle():
                task = self._choice(slot, waiting)
                if task is not None:
                    waiting.remove(task)
                    self._submit(slot, task, modules)
            for task, outcome in self._wait(waiting):
                if task.id not in known:
                    raise PoolError(f"{outcome.error} (case {task.id}, whose outcome is reported already)")
                yield task, outcome

    # -- workers -----------------------------------------------------------------------------------------------

    def _idle(self) -> list[_Slot]:
        slots = [(member.address, i) for member in self._dask.members.values() for i in range(member.slots)]
        return [slot for slot in slots if slot not in self._running]

    def _beside(self, slot: _Slot) -> list[_Running]:
        """What runs on the same Dask worker."""
        return [running for (address, _), running in self._running.items() if address == slot[0]]

    def _choice(self, slot: _Slot, waiting: Sequence[Task]) -> Task | None:
        """The task for ``slot``, which is free: one that must run alone before all others, and with nothing beside."""
        beside = self._beside(slot)
        if any(running.task.id in self._suspects for running in beside):
            return None
        alone = [task for task in waiting if task.id in self._suspects]
        if alone and not beside:
            return alone[0]
        free = [task for task in waiting if task.id not in self._suspects]
        return free[self._affinity.best(slot, free)] if free else None

    def _missing(self, waiting: list[Task]) -> Ended:
        """Take back the tasks of workers that have gone, or that should have answered long ago."""
        done: Ended = []
        now = time.monotonic()
        for slot, running in list(self._running.items()):
            if now > running.deadline and slot[0] in self._dask.members:
                self._dask.strike(slot[0])
            if slot[0] not in self._dask.members:
                done += self._lost(slot, waiting)
        return done

    def _lost(self, slot: _Slot, waiting: list[Task]) -> Ended:
        """The worker of a task is lost: the task waits again, at the front, or has been lost too often alone."""
        running = self._running.pop(slot)
        running.future.cancel()
        self._affinity.forget(slot)
        self._lost_at.add(slot[0])
        task, losses = running.task, self._lost_with.setdefault(running.task.id, [])
        if not running.alone:
            self._suspects.add(task.id)
            self._dask.suspected += 1
            waiting.insert(0, task)
            return []
        losses.append(slot[0])
        if len(losses) < MOST_LOSSES:
            waiting.insert(0, task)
            return []
        reason = f"the Dask worker that ran it was lost {len(losses)} times ({', '.join(losses)})"
        return [(task, Outcome(None, reason))]

    # -- tasks -------------------------------------------------------------------------------------------------

    def _submit(self, slot: _Slot, task: Task, modules: Mapping[str, str]) -> None:
        address, index = slot
        member = self._dask.members[address]
        future = self._dask.client.submit(
            site.run_task,
            self._spec,
            index,
            self._dask.sharing(member),
            task,
            {task.stage: modules[task.stage]},
            key=f"hcgr-{self._spec.token}-{secrets.token_hex(8)}",
            workers=[address],
            allow_other_workers=False,
            pure=False,
        )
        deadline = time.monotonic() + task.timeout_s + STARTUP_TIMEOUT_S + SILENT_S
        beside = self._beside(slot)
        for running in beside:
            running.alone = False
        self._running[slot] = _Running(task, future, deadline, alone=not beside)
        self._affinity.take(slot, task.group)
        self._used.add(address)
        future.add_done_callback(lambda ended: self._done.put((slot, ended)))

    def _wait(self, waiting: list[Task]) -> Ended:
        try:
            slot, future = self._done.get(timeout=TICK_S)
        except queue.Empty:
            return []
        running = self._running.get(slot)
        if running is None or running.future is not future:
            return []  # called back meanwhile: it was lost, and runs elsewhere
        member = self._dask.members.get(slot[0])
        if future.status == "finished" and member is not None:
            return self._answered(slot, member, running, waiting)
        error = future.exception() if future.status == "error" else None
        if error is None or isinstance(error, KilledWorker):
            return self._lost(slot, waiting)
        where = f"on {member.machine} ({slot[0]})" if member else f"on {slot[0]}"
        if isinstance(error, site.SourcesChangedError):
            raise ExecutorError(f"{where}: {error}; nothing can be concluded; run it again")
        if isinstance(error, PoolError):
            raise PoolError(f"{where}: {error}")
        del self._running[slot]
        return [(running.task, Outcome(None, f"{type(error).__name__}: {error} {where}"))]

    def _answered(self, slot: _Slot, member: Member, running: _Running, waiting: list[Task]) -> Ended:
        try:
            answer: site.Answer = running.future.result(timeout=SILENT_S)
        except GONE:
            return self._lost(slot, waiting)  # the worker went with the answer
        del self._running[slot]
        member.cases += 1
        self.replaced += answer.replaced
        return list(answer.ended)
