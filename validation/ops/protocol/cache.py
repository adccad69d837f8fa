"""The cache's bounds: eviction while launches are in flight, and captured sets that cannot be evicted."""

from __future__ import annotations

from validation.emulator.streams import Stream, capture
from validation.ops.protocol.host import Shape, hosting, op
from validation.protocol import Trial


def eviction(trial: Trial) -> None:
    """A cache of one set: every call evicts the set of a launch that has not run yet."""
    with hosting(trial, max_sets=1) as host:
        first, second = Stream(name="first stream"), Stream(name="second stream")
        for turn in range(2):
            host.k1(first, name=f"first stream, turn {turn}")
            host.k1(second, name=f"second stream, turn {turn}")
            host.k1(first, Shape(hc=2, live=6), name=f"HC=2, turn {turn}")
        held = host.cache.held()
        host.promise("eager sets are bounded", [f"{len(held)} sets are held, at most 1"] * (len(held) > 1))


def pinned(trial: Trial) -> None:
    """One captured set may be pinned: a second one is refused before any launch, and eager calls go on."""
    with hosting(trial, max_pinned=1) as host:
        streams = [Stream(name=f"capture stream {i}") for i in range(2)]
        refused = op("counters").PinnedCountersError
        problems = []
        with capture(streams[0]):
            host.k1(streams[0])
        with capture(streams[1]) as graph:
            try:
                host.k1(streams[1])
                problems.append("a second captured set was handed out")
            except refused:
                if any("skinny" in node.make().name for node in graph.nodes):
                    problems.append("the refused call had launched something")
        host.promise("captured sets are bounded", problems)
        host.k1(streams[1], name="eager, after the refusal")
        host.settle()
        released = host.cache.release_pinned()
        host.promise("captured sets can be released", [f"{released} were, not 1"] * (released != 1))
