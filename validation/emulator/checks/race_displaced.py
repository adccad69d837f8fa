"""What falls out of a shadow that keeps only the last accesses of each word: every one of them, word by word."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..memory.space import sparse_bytes
from .host_spans import Parts, Words

#: Entries that one log holds. What comes on top is lost, which can hide a race but never makes one up: it is noted.
MOST = 1 << 21


class Displaced:
    """Accesses whose place in the shadow a later one took although no verdict was due on the two: reads, atomics, and
    writes of other bytes of the same word. ``words``: how many words there are. ``lost``: accesses for which
    there was no room."""

    def __init__(self, words: int) -> None:
        self._marks = sparse_bytes(words)
        #: access id of the write that settled each word last: what is older was judged against that
        self._settled: NDArray[np.uint32] = sparse_bytes(4 * words).view(np.uint32)
        self._fresh: list[tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint8]]] = []
        self._word, self._ids, self._part = np.zeros(0, np.int64), np.zeros(0, np.uint32), np.zeros(0, np.uint8)
        self._count = 0
        self.lost = 0
        #: floor of a clearance that made little room
        self._full_at = -1

    def add(
        self, word: NDArray[np.int64], ids: NDArray[np.uint32], part: NDArray[np.uint8] | None, floor: Any, wave: Any
    ) -> None:
        """Remember accesses of these words [k]; ``part`` [k]: their bytes, 0 or None for all. When room is wanted, what
        is not later than all of ``floor`` goes, and what the same wave did again. ``wave``: of each access id."""
        if not len(word):
            return
        if self._count + len(word) > MOST:
            self._clear(int(np.min(floor)), wave)
            if self._count + len(word) > MOST:
                self.lost += len(word)
                return
        part = np.zeros(len(word), np.uint8) if part is None else part
        self._fresh.append((word, ids, part))
        self._count += len(word)
        self._marks[word] = 1

    def settle(self, word: Words, ids: NDArray[np.uint32] | int) -> None:
        """A write of all of these words, which conflicts with whatever was there."""
        if self._count:
            self._marks[word] = 0
            self._settled[word] = ids

    def find(
        self, word: NDArray[np.int64], part: NDArray[np.uint8] | None, floor: Any, rows: NDArray[np.intp] | None = None
    ) -> tuple[NDArray[np.intp], NDArray[np.uint32]] | None:
        """Accesses of these bytes of these words [m], later than ``floor`` (one id, or [m]): positions in ``word``, and
        access ids. None if there are none. ``rows`` [m]: who asks; one answer for each of them will do."""
        hit = np.flatnonzero(self._marks[word]) if self._count else np.zeros(0, np.intp)
        if not len(hit):
            return None
        if rows is not None and part is None:
            hit = hit[np.unique((rows[hit].astype(np.int64) << 40) | word[hit], return_index=True)[1]]
        self._sort()
        wanted = word[hit]
        first = np.searchsorted(self._word, wanted, "left")
        count = np.searchsorted(self._word, wanted, "right") - first
        at = np.repeat(hit, count)
        entry = np.arange(len(at)) - np.repeat(np.cumsum(count) - count - first, count)
        ids = self._ids[entry]
        keep = (ids > (floor if np.ndim(floor) == 0 else floor[at])) & (ids > self._settled[word[at]])
        if part is not None:
            held = self._part[entry]
            keep &= ((held & part[at]) != 0) | (held == 0)
        return at[keep], ids[keep]

    def ids_in(self, word: Words, part: Parts) -> NDArray[np.uint32]:
        """Accesses of these bytes of these words."""
        if not isinstance(word, slice):
            found = self.find(word, part, 0)
            return np.zeros(0, np.uint32) if found is None else found[1]
        self._sort()
        here = slice(*np.searchsorted(self._word, [word.start, word.stop]))
        return self._ids[here][self._ids[here] > self._settled[self._word[here]]]

    def _sort(self) -> None:
        if not self._fresh:
            return
        word, ids, part = (np.concatenate(x) for x in zip(*self._fresh, strict=True))
        self._fresh = []
        word, ids = np.concatenate([self._word, word]), np.concatenate([self._ids, ids])
        part = np.concatenate([self._part, part])
        order = np.lexsort((part, ids, word))
        word, ids, part = word[order], ids[order], part[order]
        # lanes of one access may share a word
        again = (word[1:] == word[:-1]) & (ids[1:] == ids[:-1]) & (part[1:] == part[:-1])
        once = np.append(True, ~again)
        self._word, self._ids, self._part = word[once], ids[once], part[once]
        self._count = len(self._word)

    def _clear(self, floor: int, wave: NDArray[np.int32]) -> None:
        if floor == self._full_at:
            return
        self._sort()
        keep = (self._ids > floor) & (self._ids > self._settled[self._word])
        word, ids, part = self._word[keep], self._ids[keep], self._part[keep]
        # of one wave's accesses to the same bytes the youngest
        order = np.lexsort((ids, part, wave[ids], word))
        word, ids, part = word[order], ids[order], part[order]
        again = (word[1:] == word[:-1]) & (part[1:] == part[:-1]) & (wave[ids[1:]] == wave[ids[:-1]])
        last = np.append(~again, np.ones(min(1, len(word)), bool))
        self._marks[self._word] = 0
        self._word, self._ids, self._part = word[last], ids[last], part[last]
        self._marks[self._word] = 1
        self._count = len(self._word)
        self._full_at = floor if self._count > MOST // 2 else -1
