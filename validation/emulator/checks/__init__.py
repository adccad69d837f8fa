"""Checkers that look at every memory access of a launch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from .clamp import ClampCheck
from .counts import TrafficCounter
from .initcheck import InitCheck

if TYPE_CHECKING:
    from ..program import Program
    from .race_history import RaceHistory

#: Name -> what it finds. Bounds, use after free and alignment are looked at by the memory port itself, always.
CHECKS = {
    "memcheck": "every address inside an allocation, LDS and scratch bounds, use after free, undeclared clamps",
    "initcheck": "bytes read, and registers used where it matters, that nobody wrote",
    "waits": "registers and LDS bytes touched while an operation that an s_waitcnt should have retired is in flight",
    "racecheck": "conflicting accesses of different waves that nothing orders, in LDS and global memory",
    "synccheck": "waves of a workgroup that meet at different barriers",
    "counts": "bytes, 128-byte lines, LDS bytes and bank conflicts",
}


def make_observers(checks: Sequence[str], program: Program, declared_clamps: Collection[str] = ()) -> list[Any]:
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
        observers.append(TrafficCounter(program.arch))
    return observers


def concurrency_observers(
    checks: Sequence[str],
    program: Program,
    kernel: str,
    history: RaceHistory | None,
    order: tuple[int, int],
    hits: list[int],
) -> list[Any]:
    """racecheck and synccheck of one launch.

    history: of the session, or None for one of its own; order: rank of the launch in it, and the set of earlier ones as
    bits; hits: executions of each instruction, counted by the engine.
    """
    from .race_history import RaceHistory
    from .racecheck import RaceCheck
    from .synccheck import SyncCheck

    observers: list[Any] = []
    if "racecheck" in checks:
        observers.append(RaceCheck(program, history or RaceHistory(), kernel, *order, hits))
    if "synccheck" in checks:
        observers.append(SyncCheck(program))
    return observers
