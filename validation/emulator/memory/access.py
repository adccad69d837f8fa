"""One memory operation of a group of waves, as the checkers and the memory models see it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from ..program.program import Instruction


class Space(Enum):
    GLOBAL = "global"
    LDS = "lds"
    SCRATCH = "scratch"


class Kind(Enum):
    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"


@dataclass(frozen=True, slots=True)
class CacheBits:
    """Scope and stream bits of a vector memory instruction (gfx942 memory model)."""

    sc0: bool = False
    sc1: bool = False
    nt: bool = False


@dataclass(slots=True)
class Access:
    """``address``: int64 [n, 64], bytes: virtual for global, from the workgroup's LDS base, from the lane's scratch base.
    ``mask``: bool [n, 64], lanes that take part (EXEC applied, descriptor-clamped lanes removed).
    ``nbytes``: bytes a lane. ``clamped``: lanes that a buffer descriptor dropped, or None.
    """

    space: Space
    kind: Kind
    address: NDArray[np.int64]
    mask: NDArray[np.bool_]
    nbytes: int
    inst: Instruction
    cache: CacheBits = CacheBits()
    clamped: NDArray[np.bool_] | None = None
