"""initcheck: a load of bytes that neither host nor kernel has written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..memory.access import Access, Kind, Space

if TYPE_CHECKING:
    from ..machine.waves import Waves
    from ..memory.hierarchy import MemoryPort


class InitCheck:
    """Keeps a shadow byte for each byte of LDS and of allocations that started uninitialised."""

    def observe(self, port: MemoryPort, w: Waves, access: Access) -> None:
        if access.space is Space.SCRATCH:
            return
        if access.space is Space.LDS:
            self._lds(port, w, access)
        else:
            self._global(port, w, access)

    def _lds(self, port: MemoryPort, w: Waves, access: Access) -> None:
        memory = port.spaces[Space.LDS]
        shadow = w.extra.get("lds_shadow")
        if shadow is None:
            shadow = w.extra["lds_shadow"] = np.zeros(len(memory.content), np.uint8)
        base = memory.bank_base if w.sel is None else memory.bank_base[w.sel]
        inside = access.mask & (access.address >= 0) & (access.address + access.nbytes <= memory.size)
        offset = access.address + base
        self._apply(port, w, access, shadow, offset, inside, None)

    def _global(self, port: MemoryPort, w: Waves, access: Access) -> None:
        if not access.mask.any():
            return
        memory = port.spaces[Space.GLOBAL]
        low, high = int(access.address[access.mask].min()), int(access.address[access.mask].max())
        for allocation in memory.space.allocations:
            if allocation.shadow is None or allocation.end <= low or allocation.base > high:
                continue
            offset = access.address - allocation.base
            inside = access.mask & (offset >= 0) & (offset + access.nbytes <= allocation.size)
            self._apply(port, w, access, allocation.shadow, offset, inside, allocation)

    def _apply(
        self, port: MemoryPort, w: Waves, access: Access, shadow: Any, offset: Any, inside: Any, allocation: Any
    ) -> None:
        if not inside.any():
            return
        where = offset[inside]
        if access.kind is not Kind.STORE:
            written = np.ones(len(where), bool)
            for i in range(access.nbytes):
                written &= shadow[where + i] != 0
            if not written.all():
                bad = np.zeros(access.mask.shape, bool)
                bad[inside] = ~written
                row, lane = (int(x[0]) for x in np.nonzero(bad))
                name = (allocation.name or None) if allocation else None
                index = allocation.index_of(int(access.address[row, lane])) if allocation else None
                place = f" of LDS byte {int(access.address[row, lane]):#x}" if allocation is None else ""
                port.log.add("initcheck", f"read{place} before anything was written there", w, access.inst, bad, name, index)
        if access.kind is not Kind.LOAD:
            for i in range(access.nbytes):
                shadow[where + i] = 1
