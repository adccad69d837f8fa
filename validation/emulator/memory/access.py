"""One memory operation of a group of waves, as the checkers and the memory models see it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..program.program import Instruction
from .grids import Grid
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
    from the workgroup's LDS base, from the lane's scratch base. Made when asked for where ``grid`` says the same.
    ``mask``: bool, same shape: lanes that take part (EXEC applied, descriptor-clamped lanes removed).
    ``everywhere``: known to hold for every lane, so that nobody needs to look at ``mask``.
    ``nbytes``: bytes a lane. ``clamped``: lanes that a buffer descriptor dropped, or None.
    ``strict``: alignment is expected (LDS: of dwords; atomics: natural); global loads and stores take any address.
    """

    space: Space
    kind: Kind
    located: NDArray[Any] | None
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
    #: the same addresses as a few strides, where the mask is EXEC
    grid: Grid | None = None
    #: where the port has found the bytes of a lasting access with such addresses
    within: Grid | None = None

    @property
    def address(self) -> NDArray[Any]:
        """See above."""
        if self.located is None:
            assert self.grid is not None
            self.located = self.grid.addresses()
        return self.located

    def bounds(self) -> tuple[int, int]:
        """The first byte of the lowest lane, and the one behind the highest lane's last."""
        if self.grid is not None:
            return self.grid.low, self.grid.high + self.nbytes
        return int(self.address.min()), int(self.address.max()) + self.nbytes

    def rows(self, index: Any) -> Access:
        """The part of some of the waves."""
        clamped = None if self.clamped is None else self.clamped[index]
        located, mask = self.address[index], self.mask[index]
        return self._copied(located, mask, clamped)

    def detached(self, count: int) -> Access:
        """A copy that shares no array with the registers, one row for each of ``count`` waves."""
        located, mask = (np.array(np.broadcast_to(x, (count, x.shape[1]))) for x in (self.address, self.mask))
        return self._copied(located, mask, self.clamped)

    def _copied(self, located: Any, mask: Any, clamped: Any) -> Access:
        return replace(
            self, located=located, mask=mask, clamped=clamped, lasting=False, place=None, grid=None, within=None
        )
