"""A device without memory or emulator: it notes the launches that the tiny operation says it makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from validation.devices import Claim, receipt

LEVEL = "emulated"
COVERS = {"checks": ["none"], "schedules": "none", "memory": "none"}


class Session:
    """Launches, and never a finding."""

    def __init__(self) -> None:
        self.launches: list[dict[str, Any]] = []
        self.findings: list[dict[str, Any]] = []


class Bench:
    """One session at a time."""

    level, sparse, whole = LEVEL, True, False

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.current = Session()

    @contextmanager
    def session(self, workgroups: Any = None) -> Iterator[Session]:
        self.current = Session()
        yield self.current

    def launch(self, kernel: str, instructions: int) -> None:
        self.current.launches.append(receipt(kernel, self.arch, (1, 1, 1), (64, 1, 1), 1, instructions))

    def guard_damage(self) -> list[str]:
        return []

    def blame(self, error: BaseException) -> None:
        return None

    def close(self) -> None:
        pass


def claim(arch: str) -> Claim:
    return Claim("tiny", LEVEL, True, "always there")


def worker_environment(arch: str) -> dict[str, str]:
    return {"ARCH": arch}


def open_bench(arch: str) -> Bench:
    return Bench(arch)
