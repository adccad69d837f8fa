"""Who touched each word last: shadow of a range of memory, at 4-byte granularity, for many lanes at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..memory.space import sparse_bytes
from ..memory.views import TypedViews
from .host_spans import Parts, Words

Ids = NDArray[np.uint32]
#: Parts of a word that an access touched: a bit a byte. 0 in the shadow stands for the whole word.
_WHOLE = np.uint8(15)


class Slot:
    """One access id for each word, and which of its bytes it touched where that was not all of them."""

    def __init__(self, nbytes: int) -> None:
        self.content = sparse_bytes(-(-nbytes // 16) * 16 + 16)
        self.words = self.content[: len(self.content) // 4 * 4].view(np.uint32)
        self.views = TypedViews(self.content)
        self.parts: NDArray[np.uint8] | None = None

    def read(self, t: Touch) -> list[Ids]:
        return self.views.read(t.offset, 4 * t.words, t.low)

    def overlaps(self, word: Words, part: Any) -> Any:
        """Does the remembered access of these words touch these bytes?"""
        if self.parts is None:
            return np.ones(len(part), bool)
        held = self.parts[word]
        return (np.where(held == 0, _WHOLE, held) & part) != 0

    def put(self, t: Touch) -> None:
        """Remember ``t`` in all its words. Of lanes that share a word the last one stays, with its own bytes."""
        if t.part is None:
            self.views.write(t.offset, 4 * t.words, [t.ids] * t.words, t.low)
            if self.parts is not None:
                first = t.offset >> 2
                for i in range(t.words):
                    self.parts[first + i] = 0
            return
        if self.parts is None:
            self.parts = sparse_bytes(len(self.words))
        word = t.offset >> 2
        fresh = self.words[word] != t.ids
        self.words[word] = t.ids
        won = self.words[word] == t.ids
        self.parts[word[fresh & won]] = 0
        np.bitwise_or.at(self.parts, word[won], t.part[won])

    def ids_in(self, word: Words, part: Parts) -> Ids:
        """The different accesses that touched these bytes."""
        ids = self.words[word]
        if part is not None:
            ids = ids[self.overlaps(word, part)]
        return np.unique(ids)

    def put_words(self, word: Words, ids: Ids | int, part: Parts) -> None:
        self.words[word] = ids
        if part is not None and self.parts is None:
            self.parts = sparse_bytes(len(self.words))
        if self.parts is not None:
            self.parts[word] = 0 if part is None else part


@dataclass(slots=True)
class Touch:
    """What the active lanes of one access touch, all arrays of length m.

    offset: byte of the first word (a multiple of 4). words: how many a lane. ids: access id. rows: wave of the chunk.
    lanes: lane. part: bytes of the word, where it is not all of them. low: low address bits that any offset has.
    """

    offset: NDArray[np.int64]
    words: int
    ids: Ids
    rows: NDArray[np.intp]
    lanes: NDArray[np.intp]
    part: NDArray[np.uint8] | None
    low: int


@dataclass(slots=True)
class Suspects:
    """Pairs that need a closer look, arrays of length k: earlier access; row, lane and word of the later one."""

    earlier: Ids
    rows: NDArray[np.intp]
    lanes: NDArray[np.intp]
    word: NDArray[np.int64]

    def where(self, keep: NDArray[np.bool_]) -> Suspects:
        return Suspects(self.earlier[keep], self.rows[keep], self.lanes[keep], self.word[keep])


class Owners(NamedTuple):
    """wave: unique number of the wave, by access id. group: that of its workgroup (or host operation), by wave.
    uids: wave of each row of the chunk."""

    wave: NDArray[np.int32]
    group: NDArray[np.int32]
    uids: NDArray[np.int64]


class Shadow:
    """Last writer, last reader, and up to two other readers of each word of ``nbytes`` bytes.

    ``other`` keeps one of another wave than the last, ``far`` one of another workgroup (or host operation): a barrier
    orders the readers of a workgroup all at once, and must not hide one that it does not order. What further ones did
    is lost, which can hide a race but never makes one up.
    """

    def __init__(self, nbytes: int) -> None:
        self.writer, self.reader, self.other = Slot(nbytes), Slot(nbytes), Slot(nbytes)
        self.far: Slot | None = None
        self._nbytes = nbytes
        self._heads: NDArray[np.uint32] | None = None

    @property
    def readers(self) -> list[Slot]:
        """The slots that hold readers."""
        return [self.reader, self.other, *([self.far] if self.far is not None else [])]

    @property
    def heads(self) -> NDArray[np.uint32]:
        """Release node that a word carries (see ``race_order``), uint32 a word."""
        if self._heads is None:
            self._heads = sparse_bytes(len(self.writer.content))[: len(self.writer.words) * 4].view(np.uint32)
        return self._heads

    @property
    def has_heads(self) -> bool:
        return self._heads is not None

    def suspects(self, slot: Slot, t: Touch, floor: Any) -> list[Suspects]:
        """Earlier accesses in ``slot`` that are later than ``floor`` (one id, or one for each lane of ``t``)."""
        found = []
        for i, ids in enumerate(slot.read(t)):
            late = ids > floor
            if late.any():
                s = self._pick(t, i, ids, late)
                if t.part is not None:
                    s = s.where(slot.overlaps(s.word, t.part[late]))
                found.append(s)
        return found

    @staticmethod
    def _pick(t: Touch, i: int, ids: Ids, where: NDArray[np.bool_]) -> Suspects:
        return Suspects(ids[where], t.rows[where], t.lanes[where], (t.offset[where] >> 2) + i)

    def write(self, t: Touch, several: bool) -> list[Suspects]:
        """Remember a write. ``several`` waves did it at once: returns lanes that lost a word to another access."""
        self.writer.put(t)
        return self._lost(self.writer, t) if several else []

    def _lost(self, slot: Slot, t: Touch) -> list[Suspects]:
        found = []
        for i, ids in enumerate(slot.read(t)):
            lost = ids != t.ids
            if lost.any():
                s = self._pick(t, i, ids, lost)
                if t.part is not None:
                    s = s.where(slot.overlaps(s.word, t.part[lost]))
                found.append(s)
        return found

    def read(self, t: Touch, floor: Any, several: bool, owners: Owners) -> None:
        """Remember a read."""
        for s in self.suspects(self.reader, t, floor):
            wave = owners.wave[s.earlier]
            apart = wave != owners.uids[s.rows]
            s, wave = s.where(apart), wave[apart]
            if len(s.word):
                parts = self.reader.parts
                self.other.put_words(s.word, s.earlier, None if parts is None else parts[s.word])
                self._keep_far(s.word, s.earlier, parts, owners.group[wave] != owners.group[owners.uids[s.rows]])
        self.reader.put(t)
        if several:
            for i, ids in enumerate(self.reader.read(t)):
                lost = ids != t.ids
                if lost.any():
                    word, loser = (t.offset[lost] >> 2) + i, t.ids[lost]
                    self.other.put_words(word, loser, None if t.part is None else t.part[lost])
                    apart = owners.group[owners.wave[loser]] != owners.group[owners.wave[ids[lost]]]
                    self._keep_far(word, loser, self.other.parts, apart)

    def _keep_far(self, word: NDArray[np.int64], ids: Ids, parts: Parts, where: NDArray[np.bool_]) -> None:
        """Remember readers (of these ``parts`` of all words) as those of another workgroup than the last, ``where``."""
        if where.any():
            if self.far is None:
                self.far = Slot(self._nbytes)
            self.far.put_words(word[where], ids[where], None if parts is None else parts[word[where]])

    def fill(self, word: Words, part: Parts, access: int, write: bool) -> Ids:
        """A host access of these bytes of these words: returns the different ids that were there before."""
        slots = (self.writer, *self.readers) if write else (self.writer,)
        seen = np.unique(np.concatenate([slot.ids_in(word, part) for slot in slots]))
        (self.writer if write else self.reader).put_words(word, access, part)
        if write and self._heads is not None:
            self._heads[word] = 0
        return seen[seen > 0]
