"""The three memories that instructions reach: global (host memory), LDS (a workgroup's), scratch (a lane's).

Each turns byte addresses into offsets of typed views. What is out of bounds goes to the port's fault handler and is
then treated as an inactive lane: loads give 0, stores are dropped.
"""

from __future__ import annotations

import bisect
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..machine.options import XCDS, MachineOptions
from ..program.program import Instruction, Program
from .access import Access, Kind
from .grids import Grid
from .shared_words import SharedWords
from .space import AddressSpace, Allocation
from .views import TypedViews, Words

if TYPE_CHECKING:
    from ..machine.waves import Waves
    from .hierarchy import MemoryPort
    from .weak import Caches

__all__ = ["BankedMemory", "GlobalMemory", "Memory", "Resolved", "Words"]

#: Offsets into the typed views, the lanes that may really touch them, and whether that is every lane.
Resolved = tuple[NDArray[np.int64], NDArray[np.bool_], bool]


class GlobalMemory:
    """Host memory at its own addresses, restricted to the allocations of an :class:`AddressSpace`.

    caches: what stands between waves and memory; None for flat memory. views: where an allocation holds any, only those
    bytes of it may be touched. nulls: names of the kernel's null pointers, for messages. shared_words: instructions
    that may touch all of a dword of which they may touch some bytes.
    """

    def __init__(
        self,
        space: AddressSpace,
        caches: Caches | None = None,
        views: Sequence[Allocation] = (),
        nulls: Sequence[str] = (),
        shared_words: Container[Instruction] = (),
    ) -> None:
        self.space, self.caches, self.shared_words = space, caches, shared_words
        self.parts, self.nulls = tuple(views), tuple(nulls)
        self.xcds = XCDS
        self._version = -1
        self.base = 0
        self.starts = self.ends = np.zeros(0, np.int64)
        #: the same, for looking up one address, and which of them only loads may touch
        self._starts: list[int] = []
        self._ends: list[int] = []
        #: how far device addresses are from host addresses in each range
        self._moves = np.zeros(0, np.int64)
        self._frozen: dict[int, int] = {}
        self.views = TypedViews(np.zeros(16, np.uint8))

    def refresh(self) -> None:
        """Follow changes of the address space."""
        if self._version == self.space.version:
            return
        allocations = self.space.allocations
        self._version = self.space.version
        ranges = [(*r, a.device - a.base) for a in allocations for r in self._accessible(a)]
        self._starts, self._ends = [r[0] for r in ranges], [r[1] for r in ranges]
        self._moves = np.array([r[2] for r in ranges], np.int64)
        self._frozen = {a.base: a.end for a in allocations if not a.writable}
        self.starts, self.ends = np.array(self._starts, np.int64), np.array(self._ends, np.int64)
        if not allocations:
            return
        self.base = allocations[0].base & ~15
        # one view over the span of all allocations: only offsets that were checked against them are ever used
        span = allocations[-1].end - self.base
        span += -span % 4  # a dword of which some bytes are in range, see ``shared_words``
        interface = {"version": 3, "typestr": "|u1", "shape": (span,), "data": (self.base, False)}
        holder = type("HostSpan", (), {"__array_interface__": interface})()
        self.views = TypedViews(np.asarray(holder))

    def _accessible(self, allocation: Allocation) -> list[tuple[int, int]]:
        """Byte ranges of an allocation that the kernel may touch, in order and apart."""
        ranges: list[tuple[int, int]] = []
        for part in sorted(self.parts, key=lambda p: p.base):
            if part.base < allocation.base or part.end > allocation.end:
                continue
            if ranges and part.base <= ranges[-1][1]:
                ranges[-1] = (ranges[-1][0], max(ranges[-1][1], part.end))
            else:
                ranges.append((part.base, part.end))
        return ranges or [(allocation.base, allocation.end)]

    def resolve(self, port: MemoryPort, w: Waves, access: Access) -> Resolved:
        """Faults are reported; lanes that do not take part get an offset that is safe to read."""
        self.refresh()
        address, mask = access.address, access.mask
        slot = self._slot(address, access.nbytes)
        if slot >= 0 and (access.kind is Kind.LOAD or self._starts[slot] not in self._frozen):
            return address - self.base, mask, access.everywhere
        if access.kind is not Kind.LOAD:
            mask = self._writable(port, w, access)
            if mask is not access.mask:
                access = replace(access, located=access.address, mask=mask, everywhere=False, grid=None)
        everywhere = access.everywhere or bool(mask.all())
        if not mask.any():
            return np.zeros(address.shape, np.int64), mask, False
        if everywhere or self._slot(address[mask], access.nbytes) < 0:
            bad = self._outside(address, access.nbytes) & mask
            if bad.any() and access.inst in self.shared_words:
                bad &= ~self._some_of_a_word(address, access.nbytes)
            if bad.any():
                port.fault(w, access, bad)
                mask = mask & ~bad
                everywhere = False
                if not mask.any():
                    return np.zeros(address.shape, np.int64), mask, False
        offset = address - self.base
        if not everywhere:
            offset = np.where(mask, offset, offset[mask][0])
        return offset, mask, everywhere

    def within(self, w: Waves, access: Access, grid: Grid) -> Grid | None:
        """The places of an access in ``views``, where every lane may be there."""
        self.refresh()
        slot = bisect.bisect_right(self._starts, grid.low) - 1
        if slot < 0 or grid.high + access.nbytes > self._ends[slot]:
            return None
        if access.kind is not Kind.LOAD and self._starts[slot] in self._frozen:
            return None
        return grid.moved(-self.base)

    def end(self) -> None:
        """The kernel has ended: release."""
        if self.caches is not None:
            self.caches.end(self)

    def device(self, address: NDArray[np.int64]) -> NDArray[np.int64]:
        """Device addresses [k] of host addresses that the kernel may touch."""
        if not len(address):
            return address
        slot = self._slot(address, 1)
        if slot >= 0:
            return address + self._moves[slot]
        slot_of = np.maximum(np.searchsorted(self.starts, address, side="right") - 1, 0)
        # a dword may begin before the range in which it ends, see ``shared_words``
        slot_of = np.minimum(slot_of + (address >= self.ends[slot_of]), len(self.ends) - 1)
        moved: NDArray[np.int64] = address + self._moves[slot_of]
        return moved

    def line(self, device: int, count: int) -> NDArray[np.uint8]:
        """``count`` bytes from a device address; 0 where no allocation is."""
        self.refresh()
        start = self.space.device_map.host(device)
        raw = self.views.by_width[1]
        holder = self.space.find(start)
        if holder is not None and start + count <= holder.end:
            return raw[start - self.base : start + count - self.base]
        content = np.zeros(count, np.uint8)
        for i in np.flatnonzero((self.starts < start + count) & (self.ends > start)):
            # whole dwords: see ``shared_words``
            low, high = max(start, int(self.starts[i]) & ~3), min(start + count, int(self.ends[i]) + 3 & ~3)
            content[low - start : high - start] = raw[low - self.base : high - self.base]
        return content

    def _slot(self, address: NDArray[np.int64], nbytes: int) -> int:
        """The accessible range in which all these addresses lie (the usual case, and cheap to see), else -1."""
        slot = bisect.bisect_right(self._starts, int(address.min())) - 1
        return slot if slot >= 0 and int(address.max()) + nbytes <= self._ends[slot] else -1

    def _writable(self, port: MemoryPort, w: Waves, access: Access) -> NDArray[np.bool_]:
        """The mask without lanes that write to memory which is only for reading; those are reported."""
        mask, low, high = access.mask, int(access.address.min()), int(access.address.max()) + access.nbytes
        for start, end in self._frozen.items():
            if start < high and low < end:
                bad = (access.address < end) & (access.address > start - access.nbytes) & mask
                if bad.any():
                    port.fault(w, access, bad)
                    mask = mask & ~bad
        return mask

    def _outside(self, address: NDArray[np.int64], nbytes: int) -> NDArray[np.bool_]:
        if not len(self.starts):
            return np.ones(address.shape, bool)
        slot = np.searchsorted(self.starts, address, side="right") - 1
        return (slot < 0) | (address > self.ends[np.maximum(slot, 0)] - nbytes)

    def _some_of_a_word(self, address: NDArray[np.int64], nbytes: int) -> NDArray[np.bool_]:
        """Where an access is of an aligned dword that has bytes in a range."""
        slot = np.searchsorted(self.starts, address + 3, side="right") - 1
        inside: NDArray[np.bool_] = (slot >= 0) & (address < self.ends[np.maximum(slot, 0)])
        return inside & (address % 4 == 0) & (nbytes == 4)


def make_global_memory(
    space: AddressSpace,
    options: MachineOptions,
    program: Program,
    views: Sequence[Allocation] = (),
    nulls: Sequence[str] = (),
) -> GlobalMemory:
    """Memory of one kernel that begins now."""
    caches = space.device(options.xcds, options.cus(program.arch)) if options.memory == "weak" else None
    memory = GlobalMemory(space, caches, views, nulls, SharedWords(program.instructions))
    memory.xcds = options.xcds
    if memory.caches is not None:
        memory.caches.begin()
    return memory


class BankedMemory:
    """LDS of the chunk's workgroups, or scratch of its lanes: banks of equal size, one after the other.

    ``bank``: int64 array that broadcasts to [waves, 64] and says which bank a lane uses. Every bank starts at a
    multiple of 16 bytes.
    """

    caches: None = None

    def __init__(self, banks: int, size: int, bank: NDArray[np.int64]) -> None:
        self.banks, self.size = banks, size
        self.stride = -(-max(size, 16) // 16) * 16
        self.content = np.zeros(banks * self.stride + 16, np.uint8)
        self.views = TypedViews(self.content)
        self.bank_base = bank * self.stride

    def base_of(self, w: Waves) -> NDArray[np.int64]:
        """First byte of each lane's bank, broadcastable to [n, 64]."""
        return self.bank_base if w.sel is None else self.bank_base[w.sel]

    def within(self, w: Waves, access: Access, grid: Grid) -> Grid | None:
        """The places of an access in ``views``, where every lane may be there."""
        if grid.low < 0 or grid.high + access.nbytes > self.size:
            return None
        return Grid.of(grid.rows + self.base_of(w)[:, 0], grid.lanes)

    def resolve(self, port: MemoryPort, w: Waves, access: Access) -> Resolved:
        address, mask = access.address, access.mask
        everywhere = access.everywhere
        limit = self.size - access.nbytes
        if limit < 0 or int(address.max()) > limit or (address.dtype.kind == "i" and int(address.min()) < 0):
            bad = (address.astype(np.int64) > limit) | (address.astype(np.int64) < 0)
            outside = bad & mask
            if outside.any():
                port.fault(w, access, outside)
                mask = mask & ~outside
                everywhere = False
            return np.where(bad, 0, address + self.base_of(w)), mask, everywhere
        return address + self.base_of(w), mask, everywhere


Memory = Any  # GlobalMemory | BankedMemory: both have ``views`` and ``resolve``
