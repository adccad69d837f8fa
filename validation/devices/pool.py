"""A pool of worker processes: start, feed, time, watch and replace.

One process, one thread, one ``select``: whatever a task does (abort, hang, eat memory, close its pipes, leave processes
behind), the pool notices, blames that task alone, and puts a new worker in the place of the old one. A worker that says
what it was not asked is not believed: see :meth:`Pool.run`.
"""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import tempfile
import termios
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from validation.cases import Outcome, Task
from validation.devices.affinity import Affinity
from validation.devices.process import Worker
from validation.operation import JsonDict

STARTUP_TIMEOUT_S = 120.0
TICK_S = 0.2

Ended = list[tuple[Task, Outcome]]


class PoolError(RuntimeError):
    """A worker answered for a task whose outcome cannot be taken back any more, or between two runs of its pool."""


def memory_limit(jobs: int) -> int:
    """Bytes of resident memory that one of ``jobs`` workers may use: its share of four fifths of the machine."""
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 0.8 / max(jobs, 1))


class Pool:
    """Worker processes for one arch and device. Use as a context manager: leaving it ends every worker.

    ``limit``: bytes of memory that a worker and all that it starts may use. ``folder``: where its private directory is
    made. One thread may use it, which must live as long as its workers do: they are ended with it.
    """

    def __init__(
        self,
        jobs: int,
        arch: str,
        device: str,
        environment: Mapping[str, str],
        limit: int = 0,
        folder: str | None = None,
    ) -> None:
        self.jobs = jobs
        self.arch = arch
        self.device = device
        self.replaced = 0
        self._extra = dict(environment)
        self._limit = limit or memory_limit(jobs)
        self._folder = tempfile.TemporaryDirectory(prefix="hcgr-validate-", dir=folder, ignore_cleanup_errors=True)
        self.home = Path(self._folder.name)
        self._selector = selectors.DefaultSelector()
        self._workers: list[Worker] = []
        self._affinity: Affinity[int] = Affinity()
        self._again: list[Task] = []
        self._serial = 0
        self._looked = 0.0
        self._stopped = False

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        said = kind is None and self.spoken()
        self.close()
        if said:
            raise PoolError("a worker answered after its last task; no outcome of it can be believed")

    def spoken(self) -> bool:
        """Whether a worker that has no task has said something that nobody has read."""
        return any(
            worker.task is None and worker.ready and _has_bytes(worker.answers) for worker in list(self._workers)
        )

    def close(self) -> None:
        """End every worker of this pool, and only those, and remove its private directory."""
        self.stop()
        for worker in list(self._workers):
            self._end(worker)
        self._selector.close()
        self._folder.cleanup()

    def stop(self) -> None:
        """Have the workers ended, for good: tasks that run or wait become errors soon. The one method for other
        threads."""
        self._stopped = True
        for worker in list(self._workers):
            worker.stop()

    def run(
        self, tasks: Sequence[Task], modules: Mapping[str, str], revise: bool = False
    ) -> Iterator[tuple[Task, Outcome]]:
        """Run ``tasks`` and yield each with its outcome, in the order they end. ``modules``: stage to module.

        A task whose worker answers for it again after its end is yielded a second time, as an error that replaces its
        first outcome. With ``revise`` that holds for tasks of earlier runs too.

        Raises:
            PoolError: a worker answered again for a task of an earlier run, or for none while it had none.
        """
        waiting = list(tasks)
        for worker in [] if revise else self._workers:
            worker.settle()
        while waiting or any(worker.task for worker in self._workers):
            if self._stopped:
                yield from ((task, Outcome(None, "the pool was stopped before this case began")) for task in waiting)
                waiting.clear()
            for worker in self._idle(min(self.jobs, len(waiting))):
                at = self._affinity.best(id(worker), waiting)
                if self._send(worker, waiting[at], modules):
                    self._affinity.take(id(worker), waiting.pop(at).group)
            yield from self._wait(TICK_S)
            waiting += self._again
            self._again.clear()
        yield from self._wait(0)  # what an idle worker has said since

    # -- workers -----------------------------------------------------------------------------------------------

    def _idle(self, wanted: int) -> list[Worker]:
        idle = [worker for worker in self._workers if worker.task is None][:wanted]
        while len(idle) < wanted and len(self._workers) < self.jobs:
            idle.append(self._start())
        return idle

    def _start(self) -> Worker:
        self._serial += 1
        worker = Worker.start(self._serial, self.home, self.arch, self.device, self._extra)
        self._workers.append(worker)
        self._selector.register(worker.answers, selectors.EVENT_READ, worker)
        if self._stopped:
            worker.stop()  # it was not in the list yet
        return worker

    def _end(self, worker: Worker) -> None:
        self._selector.unregister(worker.answers)
        self._workers.remove(worker)
        self._affinity.forget(id(worker))
        worker.end()

    # -- tasks -------------------------------------------------------------------------------------------------

    def _send(self, worker: Worker, task: Task, modules: Mapping[str, str]) -> bool:
        """Hand ``task`` over; ``False`` when the worker had died between two tasks (another one gets it then)."""
        sent = worker.send(task, modules[task.stage], task.timeout_s if worker.ready else STARTUP_TIMEOUT_S)
        if not sent:
            self._end(worker)
            self.replaced += 1
        return sent

    def _wait(self, seconds: float) -> Ended:
        done: Ended = []
        for key, _ in self._selector.select(seconds):
            worker: Worker = key.data
            data = os.read(worker.answers, 1 << 20)
            if not data:
                done += self._lost(worker, worker.cause_of_death())
                continue
            worker.buffer += data
            *lines, worker.buffer = worker.buffer.split(b"\n")
            for line in lines:
                done += self._message(worker, line)
                if worker not in self._workers:
                    break  # what it says beyond that is worth nothing
        now = time.monotonic()
        if now - self._looked >= TICK_S:
            self._looked = now
            for worker in [worker for worker in self._workers if worker.task is not None]:
                cause = worker.fault(now, self._limit)
                done += self._lost(worker, cause) if cause else []
        return done

    def _message(self, worker: Worker, line: bytes) -> Ended:
        message = _parsed(line)
        task = worker.task
        if message is None or ("ready" in message and worker.ready):
            return self._stray(worker, f"wrote to the answer pipe what is not an answer: {line[:80]!r}")
        if "ready" in message:
            worker.ready = True
            if task is not None:
                worker.task_started = time.monotonic()
                worker.deadline = worker.task_started + task.timeout_s
            return []
        if task is None or (message.get("id"), message.get("nonce")) != (task.id, worker.nonce):
            return self._stray(worker, f"answered {str(message.get('id'))[:80]!r}, which it was not asked", message)
        if "idle" not in message:
            if worker.answer is not None:
                return self._lost(worker, "worker answered twice for this case")
            worker.answer = self._outcome(worker, message)
            return [] if worker.answer else self._lost(worker, f"answered what is no outcome: {line[:80]!r}")
        if worker.answer is None:
            return self._lost(worker, "worker says that it waits again, and has not answered")
        outcome = worker.answer
        worker.finish()
        return [(task, outcome)]

    def _outcome(self, worker: Worker, message: JsonDict) -> Outcome | None:
        duration = time.monotonic() - worker.task_started
        if isinstance(message.get("value"), dict):
            return Outcome(message["value"], duration_s=duration)
        if isinstance(message.get("error"), str) and message["error"]:
            return Outcome(None, message["error"], _join(str(message.get("detail", "")), worker.words()), duration)
        return None

    def _stray(self, worker: Worker, cause: str, message: Mapping[str, object] | None = None) -> Ended:
        """A worker said what it was not asked. Words for a task that it has answered take back that one's outcome,
        which is out already, and the task that it has is run again elsewhere; any others cost the task that it has, or
        the last one if it has none."""
        current, nonce = worker.task, str(message.get("nonce")) if message else ""
        earlier, again = worker.settled.get(nonce), worker.answered.get(nonce)
        if earlier is not None or (current is None and not worker.answered):
            self._end(worker)
            cause = f"answered again for {earlier!r}, whose outcome is out since an earlier run" if earlier else cause
            had = f"was running {current.id!r}" if current else "had nothing to do"
            raise PoolError(f"a worker that {had} {cause}; no outcome of it can be believed")
        revised: Ended = []
        if again is not None or current is None:
            back = again or next(reversed(worker.answered.values()))
            words = "answered again for this case, after its end" if again else cause
            revised = [(back, Outcome(None, f"worker {words}; the outcome that it gave first does not count"))]
        if again is not None and current is not None:
            self._again.append(current)
            worker.task = None
        return revised + self._lost(worker, cause)

    def _lost(self, worker: Worker, cause: str) -> Ended:
        task, words = worker.task, worker.words()
        duration = time.monotonic() - worker.task_started
        self._end(worker)
        self.replaced += 1
        if task is None:
            return []
        if worker.answer is not None:
            cause += ", after it had answered"
        last = next((line for line in reversed(words.splitlines()) if line.strip()), "")
        reason = f"{cause}; last words on stderr: {last.strip()[:300]}" if last else f"{cause}; stderr is empty"
        return [(task, Outcome(None, reason, words, duration))]


def latest(ended: Iterator[tuple[Task, Outcome]]) -> dict[str, tuple[Task, Outcome]]:
    """The outcome of each task that counts, by the task's name: the last one."""
    return {task.id: (task, outcome) for task, outcome in ended}


def _has_bytes(descriptor: int) -> bool:
    """Whether something can be read there; the end of a pipe is nothing."""
    count = array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, count)
    return count[0] > 0


def _parsed(line: bytes) -> JsonDict | None:
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def _join(*parts: str) -> str:
    return "\n".join(part.rstrip() for part in parts if part.strip())
