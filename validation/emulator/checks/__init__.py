"""Checkers that look at every memory access of a launch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from .clamp import ClampCheck
from .counts import TrafficCounter
from .initcheck import InitCheck

#: Name -> what it finds. Bounds, use after free and alignment are looked at by the memory port itself, always.
CHECKS = {
    "memcheck": "every address inside an allocation, LDS and scratch bounds, use after free, undeclared clamps",
    "initcheck": "reads of bytes that nobody wrote, in global memory and LDS",
    "waits": "registers and LDS bytes touched while a memory operation that an s_waitcnt should have retired is in flight",
    "counts": "bytes, 128-byte lines, LDS bytes and bank conflicts",
}


def make_observers(checks: Sequence[str], arch: str, declared_clamps: Collection[str] = ()) -> list[Any]:
    """The observers that these checks need.

    ``declared_clamps``: source places (``file.py:12`` or ``file.py``) that rely on the range check of a buffer
    descriptor; elsewhere a clamped lane is a finding of memcheck.
    """
    observers: list[Any] = []
    if "memcheck" in checks:
        observers.append(ClampCheck(declared_clamps))
    if "initcheck" in checks:
        observers.append(InitCheck())
    if "counts" in checks:
        observers.append(TrafficCounter(arch))
    return observers
