"""Streams, events and graphs for CPU tensors, in the current emulator session.

A :class:`Stream` can be passed wherever a program takes a stream with ``device`` and ``cuda_stream``. Torch operations
on CPU tensors happen at once, whatever stream is current: use :meth:`Stream.fill_` and :meth:`Stream.copy_` for what a
program does on a stream between launches, the zero-fill of counters above all; ``CachingAllocator.intercept`` does so
for programs that call torch.

    with emulate(concurrent=True, schedule="random:3", checks=("racecheck",)) as session:
        side = Stream()
        side.fill_(counters, 0)
        program(x, y, counters, stream=side)       # queued
        other.wait_event(side.record_event())
    # everything has run, interleaved; session.findings
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from .checks.host_spans import Footprint, span_of
from .checks.race_history import RaceHistory
from .session import Session, current_session
from .work import HostWork, Work
from .work_queue import Captured, Graph, streams

if TYPE_CHECKING:
    import torch

__all__ = ["Event", "Stream", "capture", "replay"]

_handles = itertools.count(0x57000100, 0x100)


class Event:
    """A point in a stream's work. Waiting for an event that was never recorded is no wait, as in HIP."""

    def __init__(self) -> None:
        self.work: Work | None = None

    def record(self, stream: Stream) -> None:
        self.work = current_session().mark(stream.cuda_stream)

    def wait(self, stream: Stream) -> None:
        stream.wait_event(self)

    def query(self) -> bool:
        """Has all work before it run? Who hears so may rely on it, as if it had waited.

        Queued work has not, until the host has asked so often that it can be waiting for nothing else.
        """
        return self.work is None or _has_run(self.work)

    def synchronize(self) -> None:
        if self.work is not None:
            current_session().wait_for(self.work)


class Stream:
    """A stream of a CPU device; work on it runs in order.

    cuda_stream: its integer handle. device: a torch device. blocking: does it synchronise with the default stream?
    PyTorch's own streams do not, which is the default here.
    """

    def __init__(self, *, blocking: bool = False, name: str = "") -> None:
        self.cuda_stream = next(_handles)
        self.blocking = blocking
        self.name = name or f"stream {self.cuda_stream:#x}"
        streams[self.cuda_stream] = self

    @property
    def device(self) -> torch.device:
        import torch

        return torch.device("cpu")

    @property
    def capturing(self) -> bool:
        """Is work on it being recorded into a graph of the current session?"""
        return current_session().queue.is_captured(self.cuda_stream)

    def __repr__(self) -> str:
        return f"Stream({self.name!r}, handle={self.cuda_stream:#x})"

    # -- order ---------------------------------------------------------------------------------------------------------
    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        if event.work is not None:
            current_session().mark(self.cuda_stream, event.work)

    def wait_stream(self, other: Stream) -> None:
        self.wait_event(other.record_event())

    def synchronize(self) -> None:
        """Run everything that is queued in the session (of every stream)."""
        current_session().synchronize(self.cuda_stream)

    def query(self) -> bool:
        """Has all its work run? As :meth:`Event.query`."""
        session = current_session()
        last = next((w for w in reversed(session.queue.pending) if w.stream == self.cuda_stream), None)
        if last is not None:
            return _has_run(last)
        session.queue.settle(self.cuda_stream)
        return True

    # -- memory --------------------------------------------------------------------------------------------------------
    def fill_(self, tensor: torch.Tensor, value: float) -> None:
        """``tensor.fill_(value)`` in stream order; captured by graphs."""
        self._access(f"fill on {self.name}", lambda t: t.fill_(value), (), tensor)

    def copy_(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """``target.copy_(source)`` in stream order; captured by graphs."""
        self._access(f"copy on {self.name}", lambda t, s: t.copy_(s), (source,), target)

    def _access(
        self, name: str, act: Callable[..., Any], reads: tuple[torch.Tensor, ...], writes: torch.Tensor
    ) -> None:
        session = current_session()
        reads, writes = tuple(_alias(session, t) for t in reads), _alias(session, writes)

        def action(work: Work) -> None:
            history: RaceHistory | None = session.history
            if history is not None:
                touched = [*(Footprint.of(t, write=False) for t in reads), Footprint.of(writes, write=True)]
                session.host_races.extend(history.host_access(work.rank, work.before, name, touched))
            act(writes, *reads)
            session.space.mark_written(writes)

        with session.lock:
            session.queue.add(lambda: HostWork(name, action=action), self.cuda_stream)


def _has_run(work: Work) -> bool:
    """What the host hears when it asks for the end of ``work``."""
    session = current_session()
    if not work.done and (isinstance(work, Captured) or not session.queue.asked()):
        return False
    session.wait_for(work)
    return True


def _alias(session: Session, tensor: torch.Tensor) -> torch.Tensor:
    """The same memory in a tensor that does not keep it from being freed, where the session's space keeps it."""
    import torch

    address, nbytes = span_of(tensor)
    if not nbytes or session.space.find(address) is None:
        return tensor
    raw = torch.from_numpy(np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address)))
    return raw.view(tensor.dtype).as_strided(tensor.shape, tensor.stride())


@contextmanager
def capture(stream: Stream) -> Iterator[Graph]:
    """Record what the enclosed code puts on ``stream`` (and on streams that wait for its events) instead of running it.

    Work on other streams, and torch operations, happen as ever and are not part of the graph.
    """
    session = current_session()
    with session.lock:
        graph = session.queue.begin_capture(stream.cuda_stream)
    try:
        yield graph
    finally:
        with session.lock:
            session.queue.end_capture(graph)


def replay(graph: Graph, stream: Stream | None = None) -> None:
    """Put a graph's work on a stream (default: the default stream) with the memory contents at that time."""
    current_session().replay(graph, 0 if stream is None else stream.cuda_stream)
