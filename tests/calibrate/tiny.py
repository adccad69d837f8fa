"""An operation without a kernel, on two devices: a stand-in for a GPU, and one that stands for the emulator.

Its case names say what goes wrong on the stand-in.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from validation.cases import comparison
from validation.devices import receipt
from validation.grid import Axis, AxisValue, Case, Grid
from validation.operation import EntryPoint, Operation, SkipCase

MODES = ("fine", "off", "nan", "dead", "stuck", "sparse", "unseen", "shorter")


class Session:
    def __init__(self) -> None:
        self.launches: list[dict[str, Any]] = []
        self.findings: list[dict[str, Any]] = []


class Bench:
    """Notes launches, and knows whether it stands for a GPU."""

    whole = False

    def __init__(self, arch: str, level: str) -> None:
        self.arch, self.level, self.sparse = arch, level, level != "runtime"
        self.current = Session()

    @contextmanager
    def session(self, workgroups: Any = None) -> Iterator[Session]:
        self.current = Session()
        yield self.current

    def launch(self) -> None:
        self.current.launches.append(receipt("tiny", self.arch, (1, 1, 1), (64, 1, 1), 1, 10))

    def guard_damage(self) -> list[str]:
        return []

    def blame(self, error: BaseException) -> None:
        return None

    def close(self) -> None:
        pass


class Driver:
    def prepare(self, case: Case, bench: Bench, seed: int) -> Any:
        mode = str(case.params["mode"])
        if mode == "sparse" and not bench.sparse:
            raise SkipCase("this needs sparse memory")
        return mode, bench, seed

    def workgroups(self, inputs: Any) -> None:
        return None

    def run(self, inputs: Any) -> Any:
        mode, bench, seed = inputs
        on_gpu = bench.level == "runtime"
        if mode == "stuck" and on_gpu and calibrating():
            time.sleep(1000)
        import torch

        if not (mode == "unseen" and on_gpu):
            bench.launch()
        x = torch.randn(3, 50, generator=torch.Generator().manual_seed(seed)).bfloat16()
        if calibrating() and on_gpu:
            if mode == "dead":
                os.abort()
            if mode == "off":
                x.view(torch.int16)[1, 7] += 2
                x.view(torch.int16)[2, 0] += 1
            if mode == "nan":
                x[0, 3] = float("nan")
            if mode == "shorter":
                return x[:2]
        return x

    def results(self, inputs: Any, outputs: Any) -> Any:
        return {"x": outputs}

    def check(self, inputs: Any, outputs: Any) -> list[dict[str, Any]]:
        return [comparison("x", "exact", True, "always right", elements=1, max_ratio=0.5)]


def calibrating() -> bool:
    """The correctness stage runs the same cases, and is to pass."""
    import inspect

    return any(frame.filename.endswith("calibrate/kernels.py") for frame in inspect.stack())


def operation(*modes: str) -> Operation:
    axis = Axis("mode", tuple(AxisValue(mode, mode, "production") for mode in modes))
    other = Axis("size", (AxisValue("s1", 1, "tiny", "one"),))
    entry = EntryPoint("tiny", "tiny_function", Grid((axis, other)), f"{__name__}:Driver", (), lambda params: "tiny")
    return Operation("tiny", "Tiny", ("tests",), (entry,))


OPERATION = operation(*MODES)
FINE = operation("fine")
