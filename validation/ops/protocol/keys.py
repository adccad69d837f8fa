"""Counter sets belong to what their key says: HC, n_pad, token groups, device."""

from __future__ import annotations

import torch

from validation.emulator.streams import Stream
from validation.ops.protocol.host import CPU, Shape, hosting
from validation.protocol import Trial

#: A device with no memory behind it: sets are handed out for it, and nothing is launched there.
ELSEWHERE = torch.device("meta")


def hc_switch(trial: Trial) -> None:
    """HC=4, then HC=8, then HC=4, through one cache: a set left in the middle of HC=8's round corrupts it."""
    with hosting(trial) as host:
        stream = Stream(name="launch stream")
        for hc in (4, 8, 4):
            host.k1(stream, Shape(hc=hc, n_pad=16, live=12), name=f"HC={hc}")


def shapes(trial: Trial) -> None:
    """Calls of different n_pad and token groups in turn on one stream, the smallest sets first."""
    small, wide = Shape(), Shape(n_pad=24, live=24)
    with hosting(trial) as host:
        stream = Stream(name="launch stream")
        for turn in range(2):
            host.k1(stream, small, tokens=2, name=f"n_pad 8, turn {turn}")
            host.k1(stream, wide, name=f"n_pad 24, turn {turn}")
            host.k1(stream, small, tokens=3, group=1, name=f"three token groups, turn {turn}")


def devices(trial: Trial) -> None:
    """A set is memory of the device that its launch runs on."""
    with hosting(trial) as host:
        stream = Stream(name="launch stream")
        host.k1(stream)
        wrong = []
        for device in (ELSEWHERE, CPU):
            with host.current(stream), host.cache.lease(device, 8, 1, 4) as counters:
                if counters.device != device:
                    wrong.append(f"a launch on {device} got a set on {counters.device}")
        host.promise("sets are on the launch's device", wrong)


def wrap(trial: Trial) -> None:
    """Slots that have counted up to the largest signed, then the largest unsigned number of 32 bits, and past them."""
    shape = Shape()
    with hosting(trial) as host:
        stream = Stream(name="launch stream")
        for last, name in ((1 << 31, "2^31"), (0, "2^32")):
            host.settle()
            with host.current(stream), host.cache.lease(CPU, shape.n_pad, 1, shape.hc) as counters:
                stream.fill_(counters, last - shape.hc)
            for turn in range(2):
                host.k1(stream, shape, name=f"{'up to' if turn == 0 else 'past'} {name} arrivals")
