"""The streams of a session: what waits for what, what is captured, when it runs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .errors import EmulatorError
from .executor import Executor
from .schedule import parse_schedule
from .work import HostWork, Work

if TYPE_CHECKING:
    from .streams import Stream

#: Handle of the legacy default stream.
DEFAULT_STREAM = 0
#: Times that a host asks whether queued work has ended before it has: late is not never.
PATIENCE = 64
#: Streams made by :class:`~validation.emulator.streams.Stream`, by handle.
streams: weakref.WeakValueDictionary[int, Stream] = weakref.WeakValueDictionary()

Make = Callable[[], Work]


def is_blocking(handle: int) -> bool:
    """Does a stream synchronise with the default stream? One of unknown origin does, as hipStreamCreate makes it."""
    stream = streams.get(handle)
    return True if stream is None else stream.blocking


@dataclass(eq=False)
class Captured(Work):
    """Work that a graph has recorded: never run itself, made anew at each replay."""

    make: Make = field(default=Work)  # type: ignore[assignment]
    graph: Graph | None = None


class Graph:
    """Recorded work; ``WorkQueue.capture`` fills it, ``WorkQueue.replay`` runs it with the memory as it is then."""

    def __init__(self) -> None:
        self.nodes: list[Captured] = []
        self.tails: dict[int, Captured] = {}
        self.capturing = True

    def record(self, make: Make, stream: int, after: Iterable[Work]) -> Captured:
        """Append a node. Raises EmulatorError when it would wait for work outside of the graph."""
        node = Captured("captured", stream, make=make, graph=self)
        for other in after:
            if not isinstance(other, Captured) or other.graph is not self:
                raise EmulatorError("captured work cannot wait for an event that was recorded outside of the capture")
            node.after.append(other)
        if stream in self.tails:
            node.after.append(self.tails[stream])
        self.nodes.append(node)
        self.tails[stream] = node
        return node


class WorkQueue:
    """Work in stream order.

    concurrent: work is kept until :meth:`drain`, which runs it interleaved; else it runs when it is added.
    schedule: name of the schedule under which it runs.

    The default stream waits for all blocking streams, and blocking streams for it (HIP and CUDA, "legacy default
    stream"). PyTorch's streams are non-blocking: nothing orders them with the default stream.
    """

    def __init__(self, concurrent: bool, schedule: str) -> None:
        parse_schedule(schedule)
        self.concurrent, self.schedule = concurrent, schedule
        self.pending: list[Work] = []
        self._ranks = 0
        self._settled = 0
        self._tails: dict[int, Work] = {}
        self._captures: dict[int, Graph] = {}
        self._questions = 0

    # -- adding --------------------------------------------------------------------------------------------------------
    def add(self, make: Make, stream: int, after: Sequence[Work] = ()) -> Work:
        """Put work on a stream, or into the graph that captures it.

        make: gives a fresh piece of work. after: what it waits for besides the stream's earlier work.
        Returns the work; what was captured is returned as :class:`Captured`.
        """
        graph = self._captures.get(stream)
        if graph is None:
            graph = next((w.graph for w in after if isinstance(w, Captured) and w.graph and w.graph.capturing), None)
            if graph is not None:
                self._captures[stream] = graph
        if graph is not None:
            return graph.record(make, stream, after)
        if any(isinstance(w, Captured) for w in after):
            raise EmulatorError("an event that was recorded in a finished capture can only be waited for inside of it")
        work = make()
        self._place(work, stream, [*after, *self._stream_order(stream)])
        self._tails[stream] = work
        if not self.concurrent:
            self.drain()
        return work

    def _place(self, work: Work, stream: int, after: Iterable[Work]) -> None:
        work.stream, work.rank, work.queue = stream, self._ranks, self
        self._ranks += 1
        # what an earlier session has run has no rank here, and nothing to be ordered with
        work.order_after(w for w in after if w.queue is self or not w.done)
        work.before |= self._settled
        self.pending.append(work)

    def _stream_order(self, stream: int) -> list[Work]:
        found = [self._tails[stream]] if stream in self._tails else []
        if stream == DEFAULT_STREAM:
            found += [tail for handle, tail in self._tails.items() if handle != stream and is_blocking(handle)]
        elif is_blocking(stream) and DEFAULT_STREAM in self._tails:
            found.append(self._tails[DEFAULT_STREAM])
        return found

    # -- graphs --------------------------------------------------------------------------------------------------------
    def begin_capture(self, stream: int) -> Graph:
        if stream == DEFAULT_STREAM:
            raise EmulatorError("the default stream cannot be captured; capture a Stream")
        if stream in self._captures:
            raise EmulatorError("this stream is being captured already")
        graph = self._captures[stream] = Graph()
        return graph

    def is_captured(self, stream: int) -> bool:
        """Is work on this stream being recorded into a graph?"""
        return stream in self._captures

    def end_capture(self, graph: Graph) -> None:
        graph.capturing = False
        self._captures = {handle: g for handle, g in self._captures.items() if g is not graph}

    def replay(self, graph: Graph, stream: int) -> None:
        """Run a graph's work again, after the stream's earlier work and before its later work."""
        if graph.capturing:
            raise EmulatorError("a graph can be replayed only after its capture has ended")
        if stream in self._captures:
            raise EmulatorError("replaying a graph inside of a capture is not supported")
        start = HostWork("start of a graph")
        self._place(start, stream, self._stream_order(stream))
        made: dict[Work, Work] = {}
        for node in graph.nodes:
            made[node] = node.make()
            self._place(made[node], stream, [made[other] for other in node.after] or [start])
        end = HostWork("end of a graph")
        self._place(end, stream, [start, *made.values()])
        self._tails[stream] = end
        if not self.concurrent:
            self.drain()

    # -- running -------------------------------------------------------------------------------------------------------
    def settle(self, stream: int | None = None) -> None:
        """The host has waited for a stream (None: for all): what it asks for from now on comes after that work."""
        if stream is None:
            self._settled = (1 << self._ranks) - 1
        elif stream in self._tails:
            self.settle_work(self._tails[stream])

    def settle_work(self, work: Work) -> None:
        """The host has waited for this piece of work, and so for what is ordered before it."""
        if work.queue is self:
            self._settled |= work.before | 1 << work.rank

    def asked(self) -> bool:
        """The host has asked for the end of work that has not run. True: so often by now that it must get its end."""
        self._questions += 1
        return self._questions > PATIENCE

    def drain(self) -> None:
        """Run all that is pending. Raises what it raises; then the rest of it is dropped."""
        works, self.pending, self._questions = self.pending, [], 0
        try:
            Executor(works, parse_schedule(self.schedule)).run()
        finally:
            for work in works:
                work.done = True
                work.after.clear()
