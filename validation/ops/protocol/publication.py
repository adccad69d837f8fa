"""Publication: what the workgroups of a launch hand to the last arriver must be visible to it, on any schedule."""

from __future__ import annotations

from validation.emulator.streams import Stream
from validation.ops.protocol.host import Shape, hosting
from validation.protocol import Trial

#: Two waves a workgroup, so that barriers matter; two column tiles and two token groups, so that slots do.
SHAPE = Shape(hs=1024)


def publication(trial: Trial) -> None:
    """Eight meetings of four workgroups, dealt to all XCDs, over two rounds of the counters."""
    with hosting(trial) as host:
        stream = Stream(name="launch stream")
        for turn in range(2):
            host.k1(stream, SHAPE, tokens=3, group=2, name=f"round {turn}")
