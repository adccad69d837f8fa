"""Tells waves that only poll from waves that work, in a chunk whose loops have run long.

A wave polls in a turn (up to a taken backward branch) when it has read memory that another wave could write, and only
where it has read before. A turn without reads is neither: it may belong to a delay. Nothing can come of polling while
no memory changes, however much the wave counts in registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..memory.access import Access, Kind, Space

if TYPE_CHECKING:
    from ..memory.hierarchy import MemoryPort
    from .waves import Waves

#: (wave, instruction, addresses) remembered before it starts afresh: a loop over more is one that works.
MOST_PLACES = 1 << 16
#: Odd numbers that spread sums of products over 64 bits.
_WAVE, _INST, _LANE = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0xD6E8FEB86659FD93)
_LANES = (np.arange(1, 65, dtype=np.uint64) * _LANE) | np.uint64(1)


class PollWatch:
    """Observer of one chunk. Arrays are [waves].

    revisits: turns of polling since the wave last did something else, or passed a barrier. still: the same since memory
    last changed, or a wave ended; barriers do not count, since a dead loop may hold one.
    """

    def __init__(self, port: MemoryPort, count: int) -> None:
        self.port = port
        self.revisits, self.still = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self._read, self._fresh = np.zeros(count, bool), np.zeros(count, bool)
        self._places: set[int] = set()
        self._effects = port.effects

    def observe(self, port: MemoryPort, w: Waves, access: Access) -> None:
        if access.kind is Kind.STORE or access.space is Space.SCRATCH or _constant(port, access):
            return
        rows = np.arange(w.count) if w.sel is None else w.sel
        mask = np.broadcast_to(access.mask, (len(rows), access.mask.shape[1]))
        reads = mask.any(axis=1)
        if not reads.any():
            return
        lanes = np.where(mask, access.address.astype(np.int64).view(np.uint64) + np.uint64(1), np.uint64(0))
        key = (lanes * _LANES[: mask.shape[1]]).sum(axis=1, dtype=np.uint64)
        key += rows.astype(np.uint64) * _WAVE + np.uint64(access.inst.index) * _INST
        found, active = key[reads].tolist(), rows[reads]
        self._read[active] = True
        fresh = [k not in self._places for k in found]
        if any(fresh):
            self._fresh[active[fresh]] = True
            if len(self._places) > MOST_PLACES:
                self._places.clear()
            self._places.update(found)

    def turn(self, rows: Any) -> None:
        """The waves ``rows`` (an index, None for all) take a backward branch."""
        here = slice(None) if rows is None else rows
        if self.port.effects != self._effects:
            self._effects = self.port.effects
            self.still[:] = 0
        read, fresh = self._read[here], self._fresh[here]
        for count in (self.revisits, self.still):
            count[here] = np.where(fresh, 0, count[here] + read)
        self._read[here] = self._fresh[here] = False

    def passed(self, rows: Any) -> None:
        """The waves ``rows`` (an index, None for all) pass a barrier."""
        self.revisits[slice(None) if rows is None else rows] = 0

    def progress(self) -> None:
        """Something happened that may free any wave."""
        self.still[:] = 0


def _constant(port: MemoryPort, access: Access) -> bool:
    """Does it read what no wave can write, such as kernel arguments? (Judged by the first lane.)"""
    if access.space is not Space.GLOBAL or not access.mask.any():
        return False
    address = np.broadcast_to(access.address, access.mask.shape)[access.mask][0]
    holder = port.spaces[Space.GLOBAL].space.find(int(address))
    return holder is not None and not holder.writable
