"""Storage of cached lines: 128 bytes of content and a dirty mask each, in one pool for all caches of a device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .views import TypedViews, Words

#: Bytes of a line of L1, L2 and the scalar cache (CDNA3 ISA; the scalar cache has 64: more at once is only staler).
LINE = 128
SHIFT = 7
_FIRST_SLOTS = 1024
#: Lanes in a row that share a line on average, from which sorting them would cost more than it saves.
_NEIGHBOURS = 4


class Cache:
    """Which lines a cache holds: line number -> slot of the pool. ``dirty``: lines with bytes that memory lacks."""

    __slots__ = ("dirty", "slots")

    def __init__(self) -> None:
        self.slots: dict[int, int] = {}
        self.dirty: set[int] = set()


class LinePool:
    """Slots for lines. ``filled[slot]``: every byte is valid; else only dirty ones are."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self.count = 0
        self.filled = np.zeros(0, bool)
        self.content = self.dirty = np.zeros((0, LINE), np.uint8)
        self._grow(_FIRST_SLOTS)

    def _grow(self, count: int) -> None:
        content, dirty = np.zeros((count, LINE), np.uint8), np.zeros((count, LINE), np.uint8)
        filled = np.zeros(count, bool)
        content[: self.count], dirty[: self.count], filled[: self.count] = self.content, self.dirty, self.filled
        self._free.extend(range(count - 1, self.count - 1, -1))
        self.content, self.dirty, self.filled, self.count = content, dirty, filled, count
        self.views, self.dirty_views = TypedViews(content.reshape(-1)), TypedViews(dirty.reshape(-1))

    def take(self) -> int:
        """A slot with no valid byte."""
        if not self._free:
            self._grow(2 * self.count)
        slot = self._free.pop()
        self.filled[slot] = False
        self.dirty[slot] = 0
        return slot

    def release(self, slot: int) -> None:
        self._free.append(slot)

    # -- bytes of many lanes: ``slot`` and ``address`` are int64 [lanes]; no access crosses a line ---------------------
    def read(self, slot: NDArray[np.int64], address: NDArray[np.int64], nbytes: int) -> Words:
        return self.views.read(slot * LINE + (address & (LINE - 1)), nbytes)

    def write(
        self, slot: NDArray[np.int64], address: NDArray[np.int64], nbytes: int, words: Words, dirty: bool
    ) -> None:
        """Later lanes win. The bytes become dirty, or clean."""
        where = slot * LINE + (address & (LINE - 1))
        self.views.write(where, nbytes, words)
        mark: Any = np.full(len(where), 0xFFFFFFFF if dirty else 0, np.uint32)
        self.dirty_views.write(where, nbytes, [mark] * max(1, nbytes // 4))


def unique_keys(owner: NDArray[np.int64], line: NDArray[np.int64]) -> tuple[Any, NDArray[np.intp]]:
    """(owner, line) pairs in a list, and for each lane the number of its pair. Lanes that are neighbours share pairs;
    where few do, each pair is there once.

    ``line`` fits in 41 bits: host addresses have 48, of which 7 count within a line.
    """
    keys = (owner << 41) | line
    begins = np.append(True, keys[1:] != keys[:-1])
    first = np.flatnonzero(begins)
    if _NEIGHBOURS * len(first) <= len(keys):
        keys, inverse = keys[first], np.cumsum(begins) - 1
    else:
        keys, inverse = np.unique(keys, return_inverse=True)
    low = (1 << 41) - 1
    return [(k >> 41, k & low) for k in keys.tolist()], inverse.reshape(-1)
