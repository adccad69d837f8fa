"""Launches that a graph captured, replayed between and beside others."""

from __future__ import annotations

import torch

from validation.emulator.streams import Stream, capture, replay
from validation.ops.protocol.host import CPU, Shape, hosting
from validation.protocol import Trial

#: int32 of an allocator's block that holds a counter set of these shapes.
SLOT_BLOCK = 128
TWO = Shape(hc=2, live=6)


def replays(trial: Trial) -> None:
    """After a warm-up, two graphs that share a set, replayed in both orders, other whole rounds in between.

    The eager sets of the capture stream are discarded before the graphs are replayed, and one more is evicted.
    """
    with hosting(trial, max_sets=1) as host:
        stream, other = Stream(name="capture stream"), Stream(name="replay stream")
        for turn in range(2):
            host.k1(stream, name=f"warm-up {turn}")
            host.settle()
        graphs, calls = [], []
        for number in range(2):
            with capture(stream) as graph:
                calls.append(host.k1(stream, name=f"captured by graph {number}"))
            graphs.append(graph)
        host.cache.discard(CPU, stream)
        # what the cache has dropped belongs to somebody else from now on
        taken = [host.allocator.empty((SLOT_BLOCK,), torch.int32, stream) for _ in range(4)]
        for which in (1, 0):
            replay(graphs[which], stream)
            host.expect(calls[which])
            host.k1(stream, TWO, name=f"HC=2, after graph {which}")
        host.settle()
        replay(graphs[0], other)
        host.expect(calls[0])
        host.k1(stream, name="eager, beside a replay")
        host.settle()
        del taken


def cold_capture(trial: Trial) -> None:
    """Without any warm-up: the second graph must not rely on a fill that only the first one holds."""
    with hosting(trial) as host:
        stream = Stream(name="capture stream")
        graphs, calls = [], []
        for number in range(2):
            with capture(stream) as graph:
                calls.append(host.k1(stream, name=f"captured by graph {number}"))
            graphs.append(graph)
        for which in (1, 0, 1):
            replay(graphs[which], stream)
            host.expect(calls[which])
            host.settle()


def captures(trial: Trial) -> None:
    """Graphs of several streams, replayed at once: no two share a set, and none uses one whose fill may not have run.

    The first two are captured when a spare is known to be filled, the third right behind the fill of its spare.
    """
    with hosting(trial) as host:
        warm, streams = Stream(name="warm-up stream"), [Stream(name=f"capture stream {i}") for i in range(3)]
        for turn in range(2):
            host.k1(warm, name=f"warm-up {turn}")
            host.settle()
        host.k1(warm, TWO, name="HC=2, not waited for")
        graphs, calls = [], []
        for stream, shape in zip(streams, (Shape(), Shape(), TWO), strict=True):
            with capture(stream) as graph:
                calls.append(host.k1(stream, shape, name=f"captured on {stream.name}"))
            graphs.append(graph)
        for _ in range(2):
            for graph, stream in zip(graphs, streams, strict=True):
                replay(graph, stream)
            host.expect(*calls)
            host.settle()
