"""Host time of a call at M = 1, up to its last launch: ``python -m tests.hcgr.bench_host [--rounds N]``.

Kernels are replaced by a device that does nothing, so what is left is hcgr itself: operator dispatch, contract, plan,
allocations, counters and argument passing. Printed beside two yardsticks of the same run: an addition of two small
tensors, and a do-nothing operator registered with ``torch.library``. Nothing is judged.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch

import hcgr
from hcgr import dispatch

HC, HS, R, N_PAD = 4, 2560, 320, 336
#: Calls of one sample.
CALLS = 200


@torch.library.custom_op("hcgr_bench::nothing", mutates_args=())
def nothing(x: torch.Tensor) -> torch.Tensor:
    """The cost of an operator alone."""
    return x.new_empty(x.shape)


class NoDevice:
    """Replaces the compiler: launches are noted and not carried out."""

    def __init__(self) -> None:
        self.launches = 0
        self.last = 0.0

    def compile(self, *_: Any) -> Callable[..., None]:
        """A handle that notes the time of its call."""
        return self.launch

    def launch(self, *_: Any) -> None:
        """One launch."""
        self.launches += 1
        self.last = time.perf_counter()


def calls() -> dict[str, Callable[[], Any]]:
    """The calls to time: production shape, one row, weights merged and folded beforehand."""

    def zeros(*shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=torch.bfloat16)

    width = HC * HS
    residual, norm, one = zeros(1, width), zeros(HS), torch.zeros(8)
    pending = (residual, zeros(1, HS), zeros(1, N_PAD)[:, R : R + HC])
    weights: Any = (norm, zeros(R, width), zeros(width, R), zeros(HC, width), HC)
    folded: Any = {"w_down_merged": zeros(N_PAD, width), "fold_w": True}
    return {
        "torch add": lambda: one + one,
        "empty operator": lambda: nothing(one),
        "combine": lambda: hcgr.flydsl_gr_two_stage_combine(*pending, norm, HC),
        "mix": lambda: hcgr.flydsl_gr_two_stage_mix(residual, *weights, **folded),
        "combine_and_mix": lambda: hcgr.flydsl_gr_two_stage_combine_and_mix(*pending, *weights, **folded),
    }


def sample(device: NoDevice, call: Callable[[], Any], launches: bool) -> float:
    """Microseconds from a call to its last launch, or to its return without one; the mean of :data:`CALLS`."""
    total = 0.0
    for _ in range(CALLS):
        start = time.perf_counter()
        call()
        total += (device.last if launches else time.perf_counter()) - start
    return 1e6 * total / CALLS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="interleaved samples (default 15)")
    options = parser.parse_args()
    os.environ.update(ARCH="gfx942", FLYDSL_GPU_ARCH="gfx942", FLYDSL_COMPILE_BACKEND="emulator")
    device = NoDevice()
    found: dict[str, list[float]] = {}
    launched: dict[str, int] = {}
    with mock.patch.object(dispatch, "_compile", device.compile):
        timed = calls()
        for name, call in timed.items():
            before = device.launches
            call()
            launched[name] = device.launches - before
        for _ in range(options.rounds):
            for name, call in timed.items():
                found.setdefault(name, []).append(sample(device, call, launched[name] > 0))
    yardstick = min(found["empty operator"])
    print(f"{'call':18} {'launches':>8} {'us best':>8} {'us median':>9} {'x empty operator':>16}")
    for name, values in found.items():
        best, middle = min(values), statistics.median(values)
        print(f"{name:18} {launched[name]:8} {best:8.1f} {middle:9.1f} {best / yardstick:16.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
