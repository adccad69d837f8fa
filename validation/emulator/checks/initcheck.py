"""initcheck of memory: a load of bytes that neither host nor kernel has written. Registers: ``registers.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..memory.access import Access, Kind, Space
from ..memory.space import Allocation, sparse_bytes
from ..memory.views import TypedViews

if TYPE_CHECKING:
    from ..machine.waves import Waves
    from ..memory.hierarchy import MemoryPort

#: A shadow byte of 1 says that the byte was written; so this is a shadow word of written bytes, by access size.
_WRITTEN = {1: np.uint32(0x01), 2: np.uint32(0x0101)}
_WRITTEN_WORD = np.uint32(0x01010101)


#: Bytes of a block of a shadow that is looked at as a whole, of global memory and of LDS.
_GLOBAL_BLOCK, _LDS_BLOCK = 4096, 256
#: Most blocks that one access is looked up in: waves of workgroups far apart span gigabytes, though they touch little.
_MOST_BLOCKS = 1024
#: Most accesses that pass between two looks in vain.
_MOST_PATIENCE = 64


class _Shadow:
    """Shadow bytes of an allocation, or of the LDS of several workgroups (one row each), and which blocks of columns
    are known to be written to the last byte: bytes never become unwritten, so most accesses need not look at theirs."""

    def __init__(self, shadow: NDArray[np.uint8], rows: int, stride: int, columns: int, block: int) -> None:
        self.views = TypedViews(shadow)
        self._rows, self._columns, self._block = shadow[: rows * stride].reshape(rows, stride), columns, block
        self._done = sparse_bytes(columns // block + 1)
        self._patience = self._wait = 0

    def covers(self, low: int, high: int) -> bool:
        """Is every byte of the columns ``[low, high)`` known to be written?"""
        first, end = low // self._block, (high - 1) // self._block + 1
        if end - first > _MOST_BLOCKS:
            return False
        done = self._done[first:end]
        if done.all():
            return True
        if self._wait:
            self._wait -= 1
            return False
        for i in np.flatnonzero(done == 0):
            start = (first + int(i)) * self._block
            if not self._rows[:, start : min(start + self._block, self._columns)].all():
                self._wait = self._patience = min(2 * self._patience + 1, _MOST_PATIENCE)
                return False
            done[i] = 1
        self._patience = 0
        return True


class InitCheck:
    """Keeps a shadow byte for each byte of LDS and of allocations that started uninitialised."""

    def __init__(self) -> None:
        self._shadows: dict[int, tuple[Allocation, _Shadow]] = {}

    def observe(self, port: MemoryPort, w: Waves, access: Access) -> None:
        if access.space is Space.GLOBAL:
            self._global(port, w, access)
        elif access.space is Space.LDS:
            self._lds(port, w, access)

    def _lds(self, port: MemoryPort, w: Waves, access: Access) -> None:
        memory = port.spaces[Space.LDS]
        shadow: _Shadow | None = w.extra.get("lds_shadow")
        if shadow is None:
            content = np.zeros(len(memory.content), np.uint8)
            shadow = w.extra["lds_shadow"] = _Shadow(content, memory.banks, memory.stride, memory.size, _LDS_BLOCK)
        (low, high), mask = access.bounds(), access.mask
        if low < 0 or high > memory.size:
            address, limit = access.address.astype(np.int64), memory.size - access.nbytes
            mask = mask & (address <= limit) & (address >= 0)
            place = np.where(mask, address + memory.base_of(w), 0)
            self._apply(port, w, access, shadow.views, place, mask, False, None)
        elif not shadow.covers(low, high):
            place = access.address + memory.base_of(w)
            self._apply(port, w, access, shadow.views, place, mask, access.everywhere, None)

    def _global(self, port: MemoryPort, w: Waves, access: Access) -> None:
        space = port.spaces[Space.GLOBAL].space
        low, high = access.bounds()
        holder = space.find(low)
        if holder is not None and high <= holder.end:
            if holder.shadow is None:
                return
            shadow = self._shadow_of(holder, holder.shadow)
            if shadow.covers(low - holder.base, high - holder.base):
                return
            form = None if access.grid is None else access.grid.form
            if form is not None and access.everywhere and access.kind is Kind.STORE:
                shadow.views.fill_strided(low - form.low - holder.base, form, access.nbytes, 1)
                return
            offset = access.address - holder.base
            self._apply(port, w, access, shadow.views, offset, access.mask, access.everywhere, holder)
            return
        address = access.address
        for allocation in space.allocations:
            if allocation.shadow is None or allocation.end <= low or allocation.base >= high:
                continue
            offset = address - allocation.base
            inside = access.mask & (offset >= 0) & (offset + access.nbytes <= allocation.size)
            if not inside.any():  # an inactive lane's address; the allocation may be smaller than the access
                continue
            views = self._shadow_of(allocation, allocation.shadow).views
            self._apply(port, w, access, views, np.where(inside, offset, 0), inside, False, allocation)

    def _shadow_of(self, allocation: Allocation, shadow: NDArray[np.uint8]) -> _Shadow:
        known = self._shadows.get(id(allocation))
        if known is None:
            known = allocation, _Shadow(shadow, 1, len(shadow), len(shadow), _GLOBAL_BLOCK)
            self._shadows[id(allocation)] = known
        return known[1]

    def _apply(
        self, port: MemoryPort, w: Waves, access: Access, views: TypedViews, offset: NDArray[np.int64],
        inside: NDArray[np.bool_], everywhere: bool, allocation: Allocation | None,
    ) -> None:  # fmt: skip
        written = _WRITTEN.get(access.nbytes, _WRITTEN_WORD)
        if access.kind is not Kind.STORE:
            words = views.read(offset, access.nbytes)
            state: Any = words[0]
            for word in words[1:]:
                state = state & word
            if np.bitwise_and.reduce(state, axis=None) != written:
                bad = inside & (state != written)
                if bad.any():
                    self._report(port, w, access, bad, allocation)
        if access.kind is not Kind.LOAD:
            flat = offset.reshape(-1) if everywhere else offset[inside]
            words = [np.broadcast_to(written, flat.shape)] * max(1, access.nbytes // 4)
            views.write(flat, access.nbytes, words)

    @staticmethod
    def _report(
        port: MemoryPort, w: Waves, access: Access, bad: NDArray[np.bool_], allocation: Allocation | None
    ) -> None:
        row, lane = (int(x[0]) for x in np.nonzero(bad))
        address = int(access.address[row, lane])
        if allocation is None:
            message = f"read of LDS byte {address:#x} before anything was written there"
            port.log.add("initcheck", message, w, access.inst, bad)
            return
        message = "read before anything was written there"
        port.log.add("initcheck", message, w, access.inst, bad, allocation.name or None, allocation.index_of(address))
