"""The three memories that instructions reach: global (host memory), LDS (a workgroup's), scratch (a lane's).

Each turns byte addresses into indices of typed views and moves data; what is out of bounds goes to the port's fault
handler and is then treated as an inactive lane: loads give 0, stores are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .access import Access
from .space import AddressSpace

if TYPE_CHECKING:
    from ..machine.waves import Waves
    from .hierarchy import MemoryPort

U8, U16, U32, U64 = np.uint8, np.uint16, np.uint32, np.uint64
_WIDE = {1: U8, 2: U16, 4: U32, 8: U64, 16: np.complex128}
Words = list[NDArray[np.uint32]]


class TypedViews:
    """One byte range seen as 1, 2, 4, 8 and 16 byte elements; index = byte offset / width."""

    def __init__(self, content: NDArray[np.uint8]) -> None:
        self.by_width = {n: content[: len(content) // n * n].view(t) for n, t in _WIDE.items()}

    def read(self, offset: NDArray[np.int64], nbytes: int) -> Words:
        """Little-endian words of ``nbytes`` at each offset; 8 and 16 bit values are zero-extended."""
        width = _fitting_width(offset, nbytes)
        if width == nbytes and nbytes <= 4:
            return [self.by_width[nbytes].take(_index(offset, nbytes)).astype(U32, copy=False)]
        if width in (8, 16) and width == nbytes:
            parts = self.by_width[width].take(_index(offset, width)).view(U32).reshape(*offset.shape, width // 4)
            return [parts[..., i] for i in range(width // 4)]
        if width == 4:
            index = offset >> 2
            return [self.by_width[4].take(index + i) for i in range(nbytes // 4)]
        return self._read_bytes(offset, nbytes)

    def _read_bytes(self, offset: NDArray[np.int64], nbytes: int) -> Words:
        raw = [self.by_width[1].take(offset + i).astype(U32) for i in range(nbytes)]
        words = []
        for start in range(0, nbytes, 4):
            word = raw[start]
            for i, byte in enumerate(raw[start + 1 : start + 4], 1):
                word = word | (byte << U32(8 * i))
            words.append(word)
        return words

    def write(self, offset: NDArray[np.int64], nbytes: int, words: Words) -> None:
        """``offset`` 1-d, one word array of the same length for each dword (one for narrow data). Later lanes win."""
        width = _fitting_width(offset, nbytes)
        if width == nbytes and nbytes <= 4:
            self.by_width[nbytes][_index(offset, nbytes)] = words[0].astype(_WIDE[nbytes], copy=False)
        elif width in (8, 16) and width == nbytes:
            packed = np.stack(words, axis=-1)
            self.by_width[width][_index(offset, width)] = packed.view(_WIDE[width])[..., 0]
        elif width == 4:
            index = offset >> 2
            for i, word in enumerate(words):
                self.by_width[4][index + i] = word
        else:
            for i in range(nbytes):
                self.by_width[1][offset + i] = (words[i // 4] >> U32(8 * (i % 4))).astype(U8)


def _index(offset: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    return offset if width == 1 else offset >> (width.bit_length() - 1)


def _fitting_width(offset: NDArray[np.int64], nbytes: int) -> int:
    """The element width with which the access can be done: its own if aligned, dwords, or bytes."""
    if nbytes == 1:
        return 1
    low = int(np.bitwise_or.reduce(offset, axis=None)) if offset.size else 0
    natural = nbytes if nbytes in _WIDE else 4
    if low & (natural - 1) == 0:
        return natural
    return 4 if nbytes >= 4 and low & 3 == 0 else 1


class GlobalMemory:
    """Host memory at its own addresses, restricted to the allocations of an :class:`AddressSpace`."""

    def __init__(self, space: AddressSpace) -> None:
        self.space = space
        self._version = -1
        self.base = 0
        self.views = TypedViews(np.zeros(16, U8))

    def _refresh(self) -> None:
        if self._version == self.space.version:
            return
        allocations = self.space.allocations
        self._version = self.space.version
        self.starts = np.array([a.base for a in allocations], np.int64)
        self.ends = np.array([a.end for a in allocations], np.int64)
        if not allocations:
            return
        self.base = allocations[0].base & ~15
        # one view over the span of all allocations: only offsets that were checked against them are ever used
        span = int(self.ends.max()) - self.base
        interface = {"version": 3, "typestr": "|u1", "shape": (span,), "data": (self.base, False)}
        holder = type("HostSpan", (), {"__array_interface__": interface})()
        self.views = TypedViews(np.asarray(holder))

    def resolve(self, port: MemoryPort, w: Waves, access: Access) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Offsets into the span and the lanes that may really touch them; faults are reported."""
        self._refresh()
        address, mask = access.address, access.mask
        everywhere = bool(mask.all())
        if not everywhere and not mask.any():
            return np.zeros_like(address), mask
        active = address if everywhere else address[mask]
        low, high = int(active.min()), int(active.max()) + access.nbytes
        first = self.space.find(low)
        if first is None or high > first.end:
            bad = self._outside(address, access.nbytes) & mask
            if bad.any():
                port.fault(w, access, bad)
                mask = mask & ~bad
                everywhere = False
                if not mask.any():
                    return np.zeros_like(address), mask
        offset = address - self.base
        if not everywhere:
            safe = int(offset[mask][0])
            offset = np.where(mask, offset, safe)
        return offset, mask

    def _outside(self, address: NDArray[np.int64], nbytes: int) -> NDArray[np.bool_]:
        if not len(self.starts):
            return np.ones(address.shape, bool)
        slot = np.searchsorted(self.starts, address, side="right") - 1
        return (slot < 0) | (address + nbytes > self.ends[np.maximum(slot, 0)])


class BankedMemory:
    """LDS of the chunk's workgroups, or scratch of its lanes: banks of equal size, one after the other.

    ``bank``: int64 array that broadcasts to [waves, 64] and says which bank a lane uses.
    """

    def __init__(self, banks: int, size: int, bank: NDArray[np.int64]) -> None:
        self.size = size
        self.stride = -(-max(size, 16) // 16) * 16
        self.content = np.zeros(banks * self.stride + 16, U8)
        self.views = TypedViews(self.content)
        self.bank_base = bank * self.stride

    def resolve(self, port: MemoryPort, w: Waves, access: Access) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        address, mask = access.address, access.mask
        bad = (address < 0) | (address + access.nbytes > self.size)
        if bad.any():
            bad &= mask
            if bad.any():
                port.fault(w, access, bad)
                mask = mask & ~bad
        base = self.bank_base if w.sel is None else self.bank_base[w.sel]
        offset = address + base
        if not mask.all():
            offset = np.where(mask, offset, 0)
        return offset, mask


Memory = Any  # GlobalMemory | BankedMemory: both have ``views`` and ``resolve``
