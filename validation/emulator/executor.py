"""Runs pieces of work to their end: admits chunks, interleaves them as the schedule says, finds deadlocks."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .deadlock import describe, endless, polling
from .errors import DeadlockError
from .machine.engine import POLLS, Chunk, Outcome
from .schedule import Schedule
from .work import HostWork, KernelWork, Running, Work

#: Resident chunks are bounded by their register memory.
RESIDENT_BYTES = 2 << 30
#: Rounds over all resident chunks without any change of state before a deadlock is declared.
STALL_ROUNDS = 3


@dataclass(eq=False)
class Resident:
    """A chunk that runs, and the launch that it belongs to.

    ``digest``: its registers when it yielded last, ``repeats``: whether these were the same as when it yielded before,
    both None if it has not yielded since something happened.
    """

    chunk: Chunk
    running: Running
    digest: int | None = None
    repeats: bool | None = None

    def yields(self) -> None:
        digest = zlib.crc32(self.chunk.w.S.tobytes(), zlib.crc32(self.chunk.w.V.tobytes()))
        self.repeats = None if self.digest is None else self.digest == digest
        self.digest = digest


class Executor:
    """One execution of some work under one schedule."""

    def __init__(self, works: Sequence[Work], schedule: Schedule) -> None:
        self.waiting = list(works)
        self.schedule = schedule
        self.running: list[Running] = []
        self.resident: deque[Resident] = deque()
        self.stalled = 0
        #: times that a chunk has yielded since one began or ended: memory may change all the while
        self.yielded = 0
        self.last_changes = -1
        self.most = 2

    def run(self) -> None:
        """To the end of all work. Raises what the kernels raise; the launches are closed in any case."""
        try:
            with np.errstate(all="ignore"):
                while self._turn():
                    pass
        finally:
            for running in self.running:
                running.launch.close()
                running.work.finished()

    def _turn(self) -> bool:
        full = len(self.resident) >= self.most
        starved = not self.resident or (self.yielded >= len(self.resident) and not full)
        if (starved or (not full and self.schedule.admits())) and self._admit():
            return True
        if not self.resident:
            if self.waiting:
                names = ", ".join(w.name for w in self.waiting)
                raise DeadlockError(f"work waits for events that nothing will record: {names}")
            return False
        self.resident.rotate(-self.schedule.next_chunk(len(self.resident)))
        here = self.resident[0]
        outcome = here.chunk.run(self.schedule.budget())
        if outcome is Outcome.FINISHED:
            self.resident.popleft()
            self.yielded = 0
            self._progress()
            here.running.chunks -= 1
            self._finish(here.running)
            return True
        if outcome is Outcome.ENDLESS:
            raise DeadlockError(describe(self._chunks(), endless(here.chunk)))
        self.resident.rotate(-1)
        if outcome is Outcome.PAUSED:
            return True
        self._after_yield(here)
        return True

    def _after_yield(self, here: Resident) -> None:
        changes = sum(r.chunk.w.port.changes for r in self.resident)
        if changes != self.last_changes:
            self._progress()
        self.stalled += 1
        self.yielded += 1
        self.last_changes = changes
        stuck = self.stalled > STALL_ROUNDS * len(self.resident)
        waits = len(self.resident) >= self.most or not self._available()
        if not (stuck and waits):
            return
        for resident in self.resident:
            resident.chunk.watch_polls()
        # Each is asked when it yields itself: one that computes for long has not run between the yields of others.
        here.yields()
        repeats = [r.repeats for r in self.resident]
        if None in repeats:
            return
        if all(repeats):
            raise DeadlockError(describe(self._chunks(), "deadlock: no wave can make progress"))
        if all(r.chunk.only_polls() for r in self.resident):
            raise DeadlockError(describe(self._chunks(), polling(POLLS)))

    def _progress(self) -> None:
        """A chunk began or ended, or memory changed: whoever polls may find something new."""
        self.stalled = 0
        for resident in self.resident:
            resident.digest = resident.repeats = None
            if resident.chunk.watch is not None:
                resident.chunk.watch.progress()

    def _chunks(self) -> list[tuple[Running, Chunk]]:
        return [(r.running, r.chunk) for r in self.resident]

    # -- starting and ending -------------------------------------------------------------------------------------------
    def _available(self) -> bool:
        return any(r.more() for r in self.running) or any(w.ready for w in self.waiting)

    def _admit(self) -> bool:
        """Start the next chunk or piece of work; False when there is none."""
        candidates = [r for r in self.running if r.more()]
        ready = [w for w in self.waiting if w.ready]
        if not candidates and not ready:
            return False
        # a launch that has begun goes on before another begins, unless the schedule draws otherwise
        at = self.schedule.next_work(len(candidates) + len(ready))
        if at < len(candidates):
            self._start_chunk(candidates[at])
        else:
            self._start(ready[at - len(candidates)])
        return True

    def _start(self, work: Work) -> None:
        self.waiting.remove(work)
        self._progress()
        if isinstance(work, HostWork):
            work.action(work)
            work.done = True
        elif isinstance(work, KernelWork):
            launch = work.begin(work)
            running = Running(work, launch, iter(self.schedule.groups(work.chosen())))
            self.running.append(running)
            self.most = max(2, RESIDENT_BYTES // max(1, *(r.launch.chunk_bytes for r in self.running)))
            if running.more():
                self._start_chunk(running)
            else:
                self._finish(running)
        else:
            raise TypeError(f"cannot run {type(work).__name__}")

    def _start_chunk(self, running: Running) -> None:
        chunk = running.launch.chunk(running.take(), self.schedule)
        running.chunks += 1
        self.resident.appendleft(Resident(chunk, running))
        self.yielded = 0
        self._progress()

    def _finish(self, running: Running) -> None:
        """Collect the result of a launch whose last workgroup has ended."""
        if running.chunks or running.more():
            return
        self.running.remove(running)
        running.launch.close()
        running.work.finished()
        running.work.result = running.launch.result(self.schedule)
        running.work.done = True
