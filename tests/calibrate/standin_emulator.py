"""The device module that stands for the emulator in the kernel cases of the tiny operation."""

from __future__ import annotations

from tests.calibrate import tiny
from validation.devices import Claim

LEVEL = "emulated"
COVERS = {"checks": ["none"], "schedules": "none", "memory": "none"}


def claim(arch: str) -> Claim:
    return Claim("tiny", LEVEL, True, "always there")


def worker_environment(arch: str) -> dict[str, str]:
    return {"ARCH": arch}


def open_bench(arch: str) -> tiny.Bench:
    return tiny.Bench(arch, LEVEL)
