"""initcheck of memory: a load of bytes that neither host nor kernel has written. Registers: ``registers.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..memory.access import Access, Kind, Space
from ..memory.space import Allocation
from ..memory.views import TypedViews

if TYPE_CHECKING:
    from ..machine.waves import Waves
    from ..memory.hierarchy import MemoryPort

#: A shadow byte of 1 says that the byte was written; so this is a shadow word of written bytes, by access size.
_WRITTEN = {1: np.uint32(0x01), 2: np.uint32(0x0101)}
_WRITTEN_WORD = np.uint32(0x01010101)


class InitCheck:
    """Keeps a shadow byte for each byte of LDS and of allocations that started uninitialised."""

    def __init__(self) -> None:
        self._views: dict[int, tuple[Allocation, TypedViews]] = {}

    def observe(self, port: MemoryPort, w: Waves, access: Access) -> None:
        if access.space is Space.GLOBAL:
            self._global(port, w, access)
        elif access.space is Space.LDS:
            self._lds(port, w, access)

    def _lds(self, port: MemoryPort, w: Waves, access: Access) -> None:
        memory = port.spaces[Space.LDS]
        views = w.extra.get("lds_shadow")
        if views is None:
            views = w.extra["lds_shadow"] = TypedViews(np.zeros(len(memory.content), np.uint8))
        address, mask = access.address, access.mask
        limit = memory.size - access.nbytes
        if int(address.max()) > limit or int(address.min()) < 0:
            mask = mask & (address.astype(np.int64) <= limit) & (address.astype(np.int64) >= 0)
            self._apply(port, w, access, views, np.where(mask, address + memory.base_of(w), 0), mask, False, None)
        else:
            self._apply(port, w, access, views, address + memory.base_of(w), mask, access.everywhere, None)

    def _global(self, port: MemoryPort, w: Waves, access: Access) -> None:
        space, address = port.spaces[Space.GLOBAL].space, access.address
        low, high = int(address.min()), int(address.max()) + access.nbytes
        holder = space.find(low)
        if holder is not None and high <= holder.end:
            if holder.shadow is not None:
                views = self._views_of(holder)
                self._apply(port, w, access, views, address - holder.base, access.mask, access.everywhere, holder)
            return
        for allocation in space.allocations:
            if allocation.shadow is None or allocation.end <= low or allocation.base >= high:
                continue
            offset = address - allocation.base
            inside = access.mask & (offset >= 0) & (offset + access.nbytes <= allocation.size)
            if not inside.any():  # an inactive lane's address; the allocation may be smaller than the access
                continue
            views = self._views_of(allocation)
            self._apply(port, w, access, views, np.where(inside, offset, 0), inside, False, allocation)

    def _views_of(self, allocation: Allocation) -> TypedViews:
        known = self._views.get(id(allocation))
        if known is None:
            assert allocation.shadow is not None
            known = self._views[id(allocation)] = (allocation, TypedViews(allocation.shadow))
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
