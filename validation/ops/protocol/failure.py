"""A launch that breaks off half way leaves slots in the middle of a round: its set must not serve on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from validation.emulator.flydsl_plugin import runtime
from validation.emulator.streams import Stream
from validation.ops.protocol.host import CPU, Host, hosting
from validation.protocol import Trial


class BrokenOffError(RuntimeError):
    """Stands for a launch that the runtime reports as failed."""


@contextmanager
def half_launches(host: Host, fails: bool) -> Iterator[None]:
    """Launches of the block run every other workgroup only; with ``fails``, launching then raises."""

    def launch(asked: runtime.KernelLaunch) -> None:
        previous(asked)
        if fails:
            raise BrokenOffError(f"{asked.kernel}: the launch was aborted")

    previous = runtime.set_launcher(launch)
    host.session.workgroups = lambda kernel, grid: [
        (x, y, z) for z in range(grid[2]) for y in range(0, grid[1], 2) for x in range(grid[0])
    ]
    try:
        yield
    finally:
        runtime.set_launcher(previous)
        host.session.workgroups = None


def aborted(trial: Trial) -> None:
    """The launch raises half way: its set is dropped without anybody's help, and the next call is right."""
    with hosting(trial) as host:
        stream = Stream(name="launch stream")
        host.k1(stream, name="before")
        with half_launches(host, fails=True):
            try:
                host.k1(stream)
            except BrokenOffError:
                pass
            else:
                host.promise("a failed launch is reported", ["the call returned"])
        for turn in range(2):
            host.k1(stream, name=f"after, call {turn}")


def lost(trial: Trial) -> None:
    """The launch fails later, as asynchronous errors do: the caller discards the stream's sets, of this stream only."""
    with hosting(trial) as host:
        stream, other = Stream(name="broken stream"), Stream(name="other stream")
        host.k1(other, name="other stream, before")
        with half_launches(host, fails=False):
            host.k1(stream)
        host.expected.pop()
        host.session.synchronize()
        dropped = host.cache.discard(CPU, stream)
        host.promise("discard drops the stream's set", [f"it dropped {dropped} sets, not 1"] * (dropped != 1))
        for name, where in (("broken stream, after", stream), ("other stream, after", other)):
            host.k1(where, name=name)
