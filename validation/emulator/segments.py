"""Memory that the command processor provides for a launch: kernarg segment and dispatch packet, each on its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .memory.space import AddressSpace, Allocation

#: Unregistered bytes around a segment: an overread must not reach anything else.
GUARD_BYTES = 4096
ALIGNMENT = 64


class Segments:
    """Read-only allocations of one launch in ``space``; :meth:`close` takes them out."""

    def __init__(self, space: AddressSpace) -> None:
        self.space = space
        self._made: list[Allocation] = []

    def place(self, content: bytes, name: str, granule: int = 4) -> int:
        """Make ``content`` readable, rounded up to ``granule`` bytes, and nothing beside it; returns its address, 0 for
        nothing."""
        if not content:
            return 0
        size = -(-len(content) // granule) * granule
        area: NDArray[np.uint8] = np.zeros(size + 2 * GUARD_BYTES + ALIGNMENT, np.uint8)
        start = GUARD_BYTES + (-(area.ctypes.data + GUARD_BYTES)) % ALIGNMENT
        area[start : start + len(content)] = np.frombuffer(content, np.uint8)
        base = int(area.ctypes.data) + start
        self._made.append(self.space.add(Allocation(base, size, name, owner=area, writable=False)))
        return base

    def close(self) -> None:
        for allocation in self._made:
            self.space.remove(allocation)
        self._made.clear()
