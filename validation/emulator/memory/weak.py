"""Caches of a device under the most-stale policy: what survives here survives the hardware.

Lines are those of the device's addresses (``device_map``), so that the host's alignment of tensors changes nothing.

Sources: CDNA3 ISA, "Memory scopes and temporal hints"; AMDGPUUsage, "Memory Model GFX942"; SIMemoryLegalizer.
{sc1, sc0} is the scope: 0 wave, 1 workgroup, 2 agent, 3 system.

* L1 of each CU: write-through. Loads of wave and workgroup scope hit it; agent and system scope miss and drop the line.
* L2 of each XCD: keeps dirty bytes. With several XCDs, loads and stores of agent and system scope bypass it.
* Atomics bypass L1 and are performed where all XCDs see them; their sc0 means "return", their sc1 system scope.
* ``buffer_wbl2`` of agent scope (several XCDs) or system scope writes the XCD's dirty bytes back; ``buffer_inv`` of
  these scopes empties the CU's L1 and drops the clean bytes of its XCD's L2 when there are several. Of wave and
  workgroup scope both do nothing, as workgroups are not split over CUs (tgsplit off).
* The scalar cache sees neither vector stores nor ``buffer_inv``; ``s_dcache_inv`` and the start of a kernel empty it.
* A kernel begins with an acquire and ends with a release of the whole device.

*Inferred*: nothing is ever evicted; a line that is fetched is valid as a whole (128 bytes) until dropped; dirty masks
are by byte; a bypassing load still sees the dirty bytes of its own XCD, and a bypassing store or an atomic updates a
copy that its own L2 holds, because one wave's accesses to one address stay in order; an invalidation keeps dirty bytes;
all memory is non-coherent between XCDs (as memory of the own device is); each CU has a scalar cache of its own, which
only makes it see less of the others; ``s_load`` with glc bypasses it. Workgroups go round robin to the XCDs, and within
one round robin to the CUs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .access import Access, CacheBits, Kind, Maintenance
from .lines import LINE, SHIFT, Cache, LinePool, unique_keys
from .views import Words

if TYPE_CHECKING:
    from ..machine.waves import Waves
    from .spaces import GlobalMemory

AGENT, SYSTEM = 2, 3


@dataclass(slots=True)
class _Lanes:
    """The lanes of one access: device address, place in the memory's views, CU and XCD of each, int64 [lanes]."""

    address: NDArray[np.int64]
    place: NDArray[np.int64]
    cu: NDArray[np.int64]
    xcd: NDArray[np.int64]

    def __getitem__(self, which: Any) -> _Lanes:
        return _Lanes(self.address[which], self.place[which], self.cu[which], self.xcd[which])

    def moved(self, distance: int) -> _Lanes:
        return _Lanes(self.address + distance, self.place + distance, self.cu, self.xcd)


class Caches:
    """All caches of one device. ``xcds``: how many L2 there are; ``cus``: CUs of each."""

    def __init__(self, xcds: int, cus: int) -> None:
        self.xcds, self.cus = xcds, cus
        self.pool = LinePool()
        self.l1: dict[int, Cache] = {}
        self.scalar: dict[int, Cache] = {}
        self.l2: dict[int, Cache] = {x: Cache() for x in range(xcds)}

    # -- where waves are ---------------------------------------------------------------------------------------------
    def _places(self, w: Waves) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """CU (numbered over the device) and XCD of each selected wave."""
        if "places" not in w.extra:
            xcd = w.ident.linear % self.xcds
            w.extra["places"] = (w.ident.linear // self.xcds % self.cus * self.xcds + xcd, xcd)
        cu, xcd = w.extra["places"]
        return (cu, xcd) if w.sel is None else (cu[w.sel], xcd[w.sel])

    def _lanes(self, memory: GlobalMemory, w: Waves, address: NDArray[np.int64], mask: NDArray[np.bool_]) -> _Lanes:
        row, column = mask.nonzero()
        host = address[row, column]
        cu, xcd = self._places(w)
        return _Lanes(memory.device(host), host - memory.base, cu[row], xcd[row])

    def _scope(self, access: Access) -> int:
        """An atomic's sc0 is no scope bit. Where there is one L2, agent scope ends there."""
        scope = 2 * access.cache.sc1 + (access.cache.sc0 and access.kind is not Kind.ATOMIC)
        return max(scope, AGENT) if access.kind is Kind.ATOMIC else scope

    def _bypasses_l2(self, scope: int) -> bool:
        return scope == SYSTEM or (scope == AGENT and self.xcds > 1)

    # -- the port's operations; ``address`` int64 [n, 64] or [n, 1] --------------------------------------------------
    def read(self, memory: GlobalMemory, w: Waves, access: Access, address: Any, mask: Any) -> Words:
        lanes, scope = self._lanes(memory, w, address, mask), self._scope(access)
        values = _unbroken(lanes, access.nbytes, lambda part, n: self._load(memory, part, n, scope, access))
        words = [np.zeros(address.shape, np.uint32) for _ in values]
        for word, value in zip(words, values, strict=True):
            word[mask] = value
        return words

    def write(self, memory: GlobalMemory, w: Waves, access: Access, address: Any, mask: Any, words: Words) -> None:
        lanes, scope = self._lanes(memory, w, address, mask), self._scope(access)
        if not len(lanes.address):
            return
        if not _crosses_line(lanes.address, access.nbytes):
            self._store(memory, lanes, access.nbytes, words, scope)
            return
        for i in range(access.nbytes):
            part = [(words[i // 4] >> np.uint32(8 * (i % 4))) & np.uint32(0xFF)]
            self._store(memory, lanes.moved(i), 1, part, scope)

    def before_atomic(self, memory: GlobalMemory, w: Waves, access: Access, address: Any, mask: Any) -> None:
        """The atomic is performed in memory: what its own XCD holds of it must be there, and no L1 line survives it."""
        lanes = self._lanes(memory, w, address, mask)
        self._drop(self.l1, lanes)
        held = self._held(lanes)
        for i in range(access.nbytes):
            part, slot = lanes[held >= 0].moved(i), held[held >= 0]
            dirty = self.pool.dirty[slot, part.address & (LINE - 1)] != 0
            where, column = slot[dirty], part.address[dirty] & (LINE - 1)
            memory.views.by_width[1][part.place[dirty]] = self.pool.content[where, column]
            self.pool.dirty[where, column] = 0

    def after_atomic(self, memory: GlobalMemory, w: Waves, access: Access, address: Any, mask: Any) -> None:
        lanes = self._lanes(memory, w, address, mask)
        held = self._held(lanes)
        here = held >= 0
        if here.any():
            words = memory.views.read(lanes.place[here], access.nbytes)
            self.pool.write(held[here], lanes.address[here], access.nbytes, words, False)

    def maintain(self, memory: GlobalMemory, w: Waves, what: Maintenance, cache: CacheBits) -> None:
        scope = 2 * cache.sc1 + cache.sc0
        cu, xcd = (set(x.tolist()) for x in self._places(w))
        if what is Maintenance.INVALIDATE_SCALAR:
            self._empty(self.scalar, cu)
        elif scope >= AGENT and what is Maintenance.INVALIDATE:
            self._empty(self.l1, cu)
            if self.xcds > 1:
                self._drop_clean(xcd)
        elif what is Maintenance.WRITE_BACK and self._bypasses_l2(scope):
            self._write_back(memory, xcd)

    def seen_by(self, memory: GlobalMemory, workgroup: int, address: NDArray[np.int64], nbytes: int) -> Words:
        """What a workgroup (its number in the grid) has stored, or would load past the caches, at ``address`` [k]."""
        xcd = np.full_like(address, workgroup % self.xcds)
        lanes = _Lanes(memory.device(address), address - memory.base, np.zeros_like(address), xcd)
        return _unbroken(lanes, nbytes, lambda part, n: self._past_l2(memory, part, n))

    def begin(self) -> None:
        """A kernel starts: acquire."""
        self._empty(self.l1, set(self.l1))
        self._empty(self.scalar, set(self.scalar))
        self._drop_clean(set(self.l2))

    def end(self, memory: GlobalMemory) -> None:
        """A kernel has ended: release."""
        self._write_back(memory, set(self.l2))

    # -- loads -------------------------------------------------------------------------------------------------------
    def _load(self, memory: GlobalMemory, lanes: _Lanes, nbytes: int, scope: int, access: Access) -> Words:
        is_scalar = access.address.shape[1] == 1
        if is_scalar and not access.cache.sc0:
            return self._through(memory, self.scalar, lanes, nbytes)
        if not is_scalar and scope < AGENT:
            return self._through(memory, self.l1, lanes, nbytes)
        self._drop(self.scalar if is_scalar else self.l1, lanes)
        if is_scalar or not self._bypasses_l2(scope):
            keys, inverse = unique_keys(lanes.xcd, lanes.address >> SHIFT)
            slots = np.array([self._l2_line(memory, xcd, line) for xcd, line in keys], np.int64)
            return self.pool.read(slots[inverse], lanes.address, nbytes)
        return self._past_l2(memory, lanes, nbytes)

    def _past_l2(self, memory: GlobalMemory, lanes: _Lanes, nbytes: int) -> Words:
        """A load that bypasses L2, but for the dirty bytes of its own XCD."""
        words = memory.views.read(lanes.place, nbytes)
        held = self._held(lanes)
        if not (held >= 0).any():
            return words
        return self._own_dirty(words, lanes, held, nbytes)

    def _own_dirty(self, words: Words, lanes: _Lanes, held: NDArray[np.int64], nbytes: int) -> Words:
        """Memory words with the dirty bytes of the lanes' own L2 laid over them."""
        here = held >= 0
        where = held[here] * LINE + (lanes.address[here] & (LINE - 1))
        content, dirty = self.pool.views.read(where, nbytes), self.pool.dirty_views.read(where, nbytes)
        merged = [np.array(word) for word in words]
        for word, new, mask in zip(merged, content, dirty, strict=True):
            word[here] = (word[here] & ~mask) | (new & mask)
        return merged

    def _through(self, memory: GlobalMemory, caches: dict[int, Cache], lanes: _Lanes, nbytes: int) -> Words:
        """A load that the CU's cache serves; what misses is fetched through L2."""
        keys, inverse = unique_keys(lanes.cu, lanes.address >> SHIFT)
        slots = np.empty(len(keys), np.int64)
        for i, (cu, line) in enumerate(keys):
            cache = caches.setdefault(cu, Cache())
            slot = cache.slots.get(line)
            if slot is None:
                source = self._l2_line(memory, cu % self.xcds, line)
                slot = cache.slots[line] = self.pool.take()
                self.pool.content[slot] = self.pool.content[source]
                self.pool.filled[slot] = True
            slots[i] = slot
        return self.pool.read(slots[inverse], lanes.address, nbytes)

    def _l2_line(self, memory: GlobalMemory, xcd: int, line: int) -> int:
        """Slot of a line of the XCD's L2 whose bytes are all valid."""
        slot = self._l2_slot(xcd, line)
        if not self.pool.filled[slot]:
            fresh = memory.line(line * LINE, LINE)
            np.copyto(self.pool.content[slot], fresh, where=self.pool.dirty[slot] == 0)
            self.pool.filled[slot] = True
        return slot

    def _l2_slot(self, xcd: int, line: int) -> int:
        slots = self.l2[xcd].slots
        slot = slots.get(line)
        if slot is None:
            slot = slots[line] = self.pool.take()
        return slot

    # -- stores ------------------------------------------------------------------------------------------------------
    def _store(self, memory: GlobalMemory, lanes: _Lanes, nbytes: int, words: Words, scope: int) -> None:
        if scope >= AGENT:
            self._drop(self.l1, lanes)
        else:
            self._update(self._find(self.l1, lanes.cu, lanes.address), lanes, nbytes, words)
        if self._bypasses_l2(scope):
            memory.views.write(lanes.place, nbytes, words)
            self._update(self._held(lanes), lanes, nbytes, words)
            return
        keys, inverse = unique_keys(lanes.xcd, lanes.address >> SHIFT)
        slots = np.empty(len(keys), np.int64)
        for i, (xcd, line) in enumerate(keys):
            slots[i] = self._l2_slot(xcd, line)
            self.l2[xcd].dirty.add(line)
        self.pool.write(slots[inverse], lanes.address, nbytes, words, True)

    def _update(self, slot: NDArray[np.int64], lanes: _Lanes, nbytes: int, words: Words) -> None:
        """Write to the copies that a cache holds; these bytes are in the next level too."""
        here = slot >= 0
        if here.any():
            self.pool.write(slot[here], lanes.address[here], nbytes, [word[here] for word in words], False)

    # -- lines -------------------------------------------------------------------------------------------------------
    @staticmethod
    def _find(caches: dict[int, Cache], owner: NDArray[np.int64], address: NDArray[np.int64]) -> NDArray[np.int64]:
        """Slot of each lane's line, -1 where its cache does not hold it."""
        keys, inverse = unique_keys(owner, address >> SHIFT)
        slots = [caches[o].slots.get(line, -1) if o in caches else -1 for o, line in keys]
        return np.array(slots, np.int64)[inverse]

    def _held(self, lanes: _Lanes) -> NDArray[np.int64]:
        return self._find(self.l2, lanes.xcd, lanes.address)

    def _drop(self, caches: dict[int, Cache], lanes: _Lanes) -> None:
        """Evict the lanes' lines from the caches of their CUs."""
        for cu, line in unique_keys(lanes.cu, lanes.address >> SHIFT)[0]:
            if cu in caches and (slot := caches[cu].slots.pop(line, None)) is not None:
                self.pool.release(slot)

    def _empty(self, caches: dict[int, Cache], owners: set[int]) -> None:
        for owner in owners & caches.keys():
            for slot in caches.pop(owner).slots.values():
                self.pool.release(slot)

    def _drop_clean(self, xcds: set[int]) -> None:
        for xcd in xcds:
            cache = self.l2[xcd]
            for line, slot in list(cache.slots.items()):
                if line in cache.dirty:
                    self.pool.filled[slot] = False
                else:
                    del cache.slots[line]
                    self.pool.release(slot)

    def _write_back(self, memory: GlobalMemory, xcds: set[int]) -> None:
        memory.refresh()
        target = memory.views.by_width[1]
        for xcd in sorted(xcds):
            cache = self.l2[xcd]
            if not cache.dirty:
                continue
            lines = np.array(sorted(cache.dirty), np.int64)
            slots = np.array([cache.slots[int(line)] for line in lines], np.int64)
            row, column = np.nonzero(self.pool.dirty[slots])
            where = memory.space.device_map.hosts(lines * LINE)[row] + column - memory.base
            target[where] = self.pool.content[slots[row], column]
            self.pool.dirty[slots] = 0
            cache.dirty.clear()


def _crosses_line(address: NDArray[np.int64], nbytes: int) -> bool:
    """Does any of these ranges reach into a second line?"""
    return bool(((address & (LINE - 1)) + nbytes > LINE).any())


def _unbroken(lanes: _Lanes, nbytes: int, load: Callable[[_Lanes, int], Words]) -> Words:
    """Load words; byte by byte where a lane's access crosses a line."""
    if not len(lanes.address):
        return [np.zeros(0, np.uint32) for _ in range(max(1, nbytes // 4))]
    if not _crosses_line(lanes.address, nbytes):
        return load(lanes, nbytes)
    octets = [load(lanes.moved(i), 1)[0] << np.uint32(8 * (i % 4)) for i in range(nbytes)]
    return [np.bitwise_or.reduce(octets[i : i + 4]) for i in range(0, nbytes, 4)]
