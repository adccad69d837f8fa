"""Where cases run, and how strong the evidence is that a run there gives.

``runtime`` (ran on a GPU of the arch) > ``emulated`` (its machine code ran in the emulator) > ``compile-only`` >
``none``. :func:`claim_all` asks each kind of device in that order; the runner
takes the first that can, and the reasons of the others stay in the report.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from validation.launched import NULL

#: Weakest first.
LEVELS = ("none", "compile-only", "emulated", "runtime")

#: The archs that the op's kernels are built for.
ARCHES = ("gfx942", "gfx950")

#: Tried in this order.
DEVICES = ("validation.devices.hip", "validation.devices.emulator", "validation.devices.compile_only")

#: The one that can always turn kernels into assembly text.
COMPILER = "validation.devices.compile_only"

#: Where stages run on a machine with a GPU whose evidence is of this level, whatever the device.
BESIDE_A_GPU = {"compile-only": COMPILER, "emulated": "validation.devices.emulator"}


def rank(level: str) -> int:
    """Position of ``level`` in :data:`LEVELS`; raises ``ValueError`` naming the levels."""
    if level not in LEVELS:
        raise ValueError(f"evidence level is {level!r}, must be one of: {', '.join(LEVELS)}")
    return LEVELS.index(level)


def meets(level: str, required: str) -> bool:
    """Whether ``level`` is at least ``required``."""
    return rank(level) >= rank(required)


def weakest(levels: list[str]) -> str:
    """The lowest of ``levels``; ``none`` when there is none."""
    return min(levels, key=rank, default="none")


@dataclass(frozen=True)
class Claim:
    """One device's answer: the level it stands for, whether it can run kernels of the arch, and why (not)."""

    device: str
    level: str
    available: bool
    reason: str

    def __post_init__(self) -> None:
        rank(self.level)

    def as_json(self) -> dict[str, Any]:
        """The form the report holds."""
        return {"device": self.device, "level": self.level, "available": self.available, "reason": self.reason}


def receipt(
    kernel: str,
    arch: str,
    grid: Sequence[int],
    block: Sequence[int],
    workgroups_run: int,
    instructions: int | None,
    arguments: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Proof of one launch, written by the launch layer: ``instructions`` are wave-instructions, if counted.

    arguments: by name, the memory that each pointer led to, a :class:`validation.emulator.arguments.PointedTo`, or
    ``None`` for a null pointer; left out where the launch layer could not see them.
    """
    seen = {} if arguments is None else {"arguments": {n: NULL if a is None else str(a) for n, a in arguments.items()}}
    return {
        "kernel": kernel,
        "arch": arch,
        "grid": list(grid),
        "block": list(block),
        "workgroups_run": workgroups_run,
        "instructions": instructions,
    } | seen


class DeviceModule(Protocol):
    """What each module of this package that stands for a device offers."""

    LEVEL: str
    COVERS: dict[str, Any]

    def claim(self, arch: str) -> Claim:
        """Whether kernels of ``arch`` can run here. Runs in a worker process."""

    def worker_environment(self, arch: str) -> dict[str, str]:
        """Environment variables that a worker for this device needs."""

    def open_bench(self, arch: str) -> Any:
        """The :class:`validation.operation.Bench` of this device."""


def device(name: str) -> DeviceModule:
    """The device module called ``name``, which is a module path as :func:`claim_all` takes them."""
    module: DeviceModule = importlib.import_module(name)
    return module


def claim_all(arch: str, modules: Sequence[str] = DEVICES) -> list[tuple[str, Claim]]:
    """Every device module's answer for ``arch``, strongest evidence first."""
    return [(name, device(name).claim(arch)) for name in modules]
