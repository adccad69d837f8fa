"""Two host threads that call at once, each on a stream of its own.

Whose call comes first is the operating system's choice: a setting repeats the device's part of a run, not that.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from validation.emulator.streams import Stream
from validation.ops.protocol.host import Host, Shape, exact_case, hosting, op
from validation.protocol import Trial

PATIENCE_S = 60.0


def _work(host: Host, number: int, stream: Stream, both: threading.Barrier, failures: list[BaseException]) -> None:
    """Both threads have made their streams current before either calls; inputs are copied in stream order."""
    cases = [exact_case(Shape(), 1, 10 * number + turn) for turn in range(2)]
    try:
        with op("dispatch").on_stream(stream), host.allocating():
            both.wait(PATIENCE_S)
            for turn, case in enumerate(cases):
                residual = host.allocator.empty(case.combine.residual.shape, case.combine.residual.dtype, stream)
                stream.copy_(residual, case.combine.residual)
                arrived = replace(case, combine=replace(case.combine, residual=residual))
                host.expect(host.issue(Shape(), arrived, None, f"thread {number}, turn {turn}"))
    except BaseException as error:
        failures.append(error)
        both.abort()


def two_threads(trial: Trial) -> None:
    """Nothing that one thread does (its stream, its counters, its workspace) may reach the other."""
    with hosting(trial) as host:
        streams = [Stream(name=f"stream of thread {i}") for i in range(2)]
        both = threading.Barrier(2)
        failures: list[BaseException] = []
        threads = [
            threading.Thread(target=_work, args=(host, i, stream, both, failures)) for i, stream in enumerate(streams)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise next((e for e in failures if not isinstance(e, threading.BrokenBarrierError)), failures[0])
