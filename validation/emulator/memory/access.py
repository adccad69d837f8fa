"""One memory operation of a group of waves, as the checkers and the memory models see it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..program.program import Instruction
from .views import Place


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


class Maintenance(Enum):
    """Cache operations that move no data of their own."""

    WRITE_BACK = "write back"
    INVALIDATE = "invalidate"
    INVALIDATE_SCALAR = "invalidate the scalar cache"


@dataclass(slots=True)
class Access:
    """``address``: int64 [n, 64] (uint32 for LDS and scratch; [n, 1] for scalar loads), bytes: virtual for global,
    from the workgroup's LDS base, from the lane's scratch base.
    ``mask``: bool, same shape: lanes that take part (EXEC applied, descriptor-clamped lanes removed).
    ``everywhere``: known to hold for every lane, so that nobody needs to look at ``mask``.
    ``nbytes``: bytes a lane. ``clamped``: lanes that a buffer descriptor dropped, or None.
    ``strict``: alignment is expected (LDS: of dwords; atomics: natural); global loads and stores take any address.
    """

    space: Space
    kind: Kind
    address: NDArray[Any]
    mask: NDArray[np.bool_]
    nbytes: int
    inst: Instruction
    cache: CacheBits = CacheBits()
    clamped: NDArray[np.bool_] | None = None
    everywhere: bool = False
    strict: bool = False
    #: with ``strict``: bytes to which the address must be aligned, where that is not the access's own width
    alignment: int = 0
    #: the words that a store writes, set by the port for its observers
    data: Any = None
    #: the same addresses will be used again, for every lane of the same waves, while the instruction's registers stand
    lasting: bool = False
    #: where the port has found the bytes of a lasting access that nothing is wrong with
    place: Place | None = None

    def rows(self, index: Any) -> Access:
        """The part of some of the waves."""
        clamped = None if self.clamped is None else self.clamped[index]
        return replace(
            self, address=self.address[index], mask=self.mask[index], clamped=clamped, lasting=False, place=None
        )

    def detached(self, count: int) -> Access:
        """A copy that shares no array with the registers, one row for each of ``count`` waves."""
        address, mask = (np.array(np.broadcast_to(x, (count, x.shape[1]))) for x in (self.address, self.mask))
        return replace(self, address=address, mask=mask, lasting=False, place=None)
