"""The device that runs nothing: kernels are compiled, their resources read, and that is all.

Its evidence cannot reach further than INCONCLUSIVE.
"""

from __future__ import annotations

import importlib.util
from typing import Any

from validation.devices import Claim, emulator

LEVEL = "compile-only"

#: What a clean run on this device covered; see the report.
COVERS = {"checks": [], "schedules": "none", "memory": "none"}


def claim(arch: str) -> Claim:
    """Available as soon as FlyDSL can be found."""
    found = importlib.util.find_spec("flydsl") is not None
    reason = "FlyDSL is installed" if found else "flydsl is not installed"
    return Claim("compile-only", LEVEL, found, reason)


def worker_environment(arch: str) -> dict[str, str]:
    """The emulator's backend compiles to assembly text with neither ROCm nor a linker; nothing is launched."""
    return emulator.worker_environment(arch)


def open_bench(arch: str) -> Any:
    """There is no bench: stages that need one are skipped before they get here."""
    raise RuntimeError("the compile-only device runs nothing; a stage that executes kernels must be skipped")
