"""Checkers that look at every memory access of a launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .counts import TrafficCounter
from .initcheck import InitCheck

#: Name -> what it finds. memcheck lives in the memory spaces themselves: bounds are always checked.
CHECKS = {
    "memcheck": "every address inside an allocation, LDS and scratch bounds, use after free",
    "initcheck": "reads of bytes that nobody wrote, in global memory and LDS",
    "counts": "bytes, 128-byte lines, LDS bytes and bank conflicts",
}


def make_observers(checks: Sequence[str]) -> list[Any]:
    table = {"initcheck": InitCheck, "counts": TrafficCounter}
    return [table[name]() for name in checks if name in table]
