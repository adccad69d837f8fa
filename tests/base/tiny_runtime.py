"""A stand-in for a GPU: it launches as :mod:`tiny_device` does, and has a clock that goes with what is launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tiny_device

from validation.devices import Claim

LEVEL = "runtime"
COVERS = {"checks": ["guard bytes"], "schedules": "as the hardware chose", "memory": "hardware"}
#: Seconds of one instruction, and of the control.
INSTRUCTION_S, CONTROL_S = 1e-6, 5e-6


class Bench(tiny_device.Bench):
    """See :class:`validation.operation.TimedBench`; its control runs no code of the operation."""

    level = LEVEL

    def control(self) -> Callable[[], Any]:
        return lambda: None

    def seconds(self, call: Callable[[], Any]) -> float:
        with self.session() as session:
            call()
        return CONTROL_S + INSTRUCTION_S * sum(launch["instructions"] for launch in session.launches)


def claim(arch: str) -> Claim:
    return Claim("hip", LEVEL, True, "a stand-in")


def worker_environment(arch: str) -> dict[str, str]:
    return {"ARCH": arch}


def open_bench(arch: str) -> Bench:
    return Bench(arch)
