"""A real GPU, through torch. Nobody has yet run this module on silicon.

Claimed only when torch sees a device whose ``gcnArchName`` is the arch asked for; anything else is refused with
the reason. Launches are observed through torch's profiler, so a receipt lists what the driver was given.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from validation.devices import Claim, receipt
from validation.operation import Workgroups

LEVEL = "runtime"

#: What a clean run on this device covered; see the report.
COVERS = {"checks": ["guard bytes"], "schedules": "as the hardware chose", "memory": "hardware"}

#: Bytes kept on each side of a tensor, filled with a pattern and compared after each case.
GUARD_BYTES = 4096
GUARD_PATTERN = 0xA5


#: Device nodes of AMD's GPU driver (Linux; WSL). Without one there is no need to import torch to ask.
DRIVER_NODES = ("/dev/kfd", "/dev/dxg")


def _matching_device(arch: str) -> tuple[int | None, str]:
    if not any(os.path.exists(node) for node in DRIVER_NODES):
        return None, f"no AMD GPU driver: none of {', '.join(DRIVER_NODES)} exists"
    try:
        import torch
    except ImportError as error:
        return None, f"torch cannot be imported: {error}"
    if not torch.cuda.is_available():
        return None, "torch sees no GPU"
    names = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        name = str(getattr(properties, "gcnArchName", "")).partition(":")[0]
        if name == arch:
            return index, f"device {index} is {properties.name} ({name})"
        names.append(name or str(properties.name))
    return None, f"no GPU of arch {arch} (found: {', '.join(names)})"


def claim(arch: str) -> Claim:
    """A GPU of exactly ``arch``, or the reason why there is none."""
    index, reason = _matching_device(arch)
    return Claim("hip", LEVEL, index is not None, reason)


def worker_environment(arch: str) -> dict[str, str]:
    """FlyDSL's own backend compiles for ``arch``."""
    return {"ARCH": arch, "FLYDSL_GPU_ARCH": arch}


class Session:
    """Launches seen by the profiler. There are no findings: hardware does not look."""

    def __init__(self) -> None:
        self.launches: list[dict[str, Any]] = []
        self.findings: list[dict[str, Any]] = []


class HipBench:
    """Device memory with guard bytes, and sessions under torch's profiler."""

    level = LEVEL
    sparse = False
    whole = False

    def __init__(self, arch: str) -> None:
        import torch

        index, reason = _matching_device(arch)
        if index is None:
            raise RuntimeError(reason)
        self.arch = arch
        self.device = torch.device("cuda", index)
        self._guards: list[tuple[str, Any, int]] = []

    def empty(self, shape: Sequence[int], dtype: Any, name: str) -> Any:
        """A contiguous tensor between two guard regions of :data:`GUARD_BYTES`."""
        import torch

        size = math.prod(shape) * dtype.itemsize
        raw = torch.full((2 * GUARD_BYTES + size,), GUARD_PATTERN, dtype=torch.uint8, device=self.device)
        self._guards.append((name, raw, size))
        return raw[GUARD_BYTES : GUARD_BYTES + size].view(dtype).reshape(tuple(shape))

    def guard_damage(self) -> list[str]:
        """Names of tensors with a changed guard byte."""
        damaged = []
        for name, raw, size in self._guards:
            edges = (raw[:GUARD_BYTES], raw[GUARD_BYTES + size :])
            if any(bool((edge != GUARD_PATTERN).any()) for edge in edges):
                damaged.append(name)
        return damaged

    def blame(self, error: BaseException) -> None:
        """A GPU's exceptions say nothing precise enough to accuse the kernel."""
        return None

    def named(self, tensor: Any, name: str) -> None:
        """Nothing reports by address on hardware."""

    def filled(self, tensor: Any) -> None:
        """Nobody tracks initialisation on hardware."""

    @contextlib.contextmanager
    def session(self, workgroups: Workgroups = None) -> Iterator[Session]:
        """Profile the launches of the block; a GPU cannot run chosen workgroups only."""
        import torch
        from torch.profiler import ProfilerActivity, profile

        if workgroups is not None:
            raise RuntimeError("a GPU runs every workgroup; this case asks for chosen ones")
        session = Session()
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            yield session
            torch.cuda.synchronize(self.device)
        with tempfile.NamedTemporaryFile(suffix=".json") as trace:
            profiler.export_chrome_trace(trace.name)
            with open(trace.name) as stream:
                session.launches += kernel_receipts(json.load(stream), self.arch)

    def close(self) -> None:
        """Forget the tensors of the case."""
        self._guards.clear()


def kernel_receipts(trace: dict[str, Any], arch: str) -> list[dict[str, Any]]:
    """Receipts of the kernels in a profiler trace; copies and fills are not kernels of the operation."""
    receipts = []
    for event in trace.get("traceEvents", ()):
        if event.get("cat") != "kernel":
            continue
        arguments = event.get("args", {})
        grid = [int(n) for n in arguments["grid"]]
        receipts.append(receipt(event["name"], arch, grid, [int(n) for n in arguments["block"]], math.prod(grid), None))
    return receipts


def open_bench(arch: str) -> HipBench:
    """A bench on the GPU that :func:`claim` found."""
    return HipBench(arch)
