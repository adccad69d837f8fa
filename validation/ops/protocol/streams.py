"""Two streams at once: neither may disturb the other's counters, nor the zero-fill of its own."""

from __future__ import annotations

from validation.emulator.streams import Stream
from validation.ops.protocol.host import hosting
from validation.protocol import Trial


def two_streams(trial: Trial) -> None:
    """The first call of all is on a side stream; then both streams launch, and nothing orders one with the other."""
    with hosting(trial) as host:
        side, main = Stream(name="side stream"), Stream(name="main stream")
        host.k1(side, name="first call, side stream")
        for turn in range(2):
            host.k1(main, name=f"main stream, turn {turn}")
            host.k1(side, name=f"side stream, turn {turn}")
