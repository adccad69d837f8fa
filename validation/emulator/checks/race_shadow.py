"""Who touched each word last: shadow of a range of memory, at 4-byte granularity, for many lanes at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..memory.space import sparse_bytes
from ..memory.views import TypedViews
from .host_spans import Parts, Words
from .race_displaced import Displaced
from .race_traits import ATOMIC

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

    def moved(self, distance: Any) -> Touch:
        """The same, so many bytes (multiples of 16; one number, or one for each lane) further on."""
        return Touch(self.offset + distance, self.words, self.ids, self.rows, self.lanes, self.part, self.low)


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
    """wave: unique number of the wave, by access id. traits: by access id. group: number of the workgroup (or host
    operation), by wave. uids: wave of each row of the chunk. number: of each row within its workgroup."""

    wave: NDArray[np.int32]
    traits: NDArray[np.uint16]
    group: NDArray[np.int32]
    uids: NDArray[np.int64]
    number: NDArray[np.int64]


#: Logs of a shadow, see :class:`~validation.emulator.checks.race_displaced.Displaced`.
READS, ATOMICS, PARTS = "reads", "atomics", "parts"


class Shadow:
    """Last writer and readers of each word of ``nbytes`` bytes, of global memory.

    Of readers ``reader`` keeps the last, ``other`` one of another wave than that, ``far`` one of another workgroup (or
    host operation). Further ones go to a log, and so do writers on which nobody judges the one that takes their place:
    an atomic behind an atomic, a write of other bytes of the word.
    """

    def __init__(self, nbytes: int) -> None:
        self.writer, self.reader, self.other = Slot(nbytes), Slot(nbytes), Slot(nbytes)
        self.far: Slot | None = None
        self._nbytes = nbytes
        self._heads: NDArray[np.uint32] | None = None
        self._logs: dict[str, Displaced] = {}

    @property
    def heads(self) -> NDArray[np.uint32]:
        """Release node that a word carries (see ``race_nodes``), uint32 a word."""
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

    # -- logs ----------------------------------------------------------------------------------------------------------
    def _log(self, name: str) -> Displaced:
        if name not in self._logs:
            self._logs[name] = Displaced(len(self.writer.words))
        return self._logs[name]

    def _logged(self, name: str, t: Touch, floor: Any) -> list[Suspects]:
        log = self._logs.get(name)
        if log is None:
            return []
        found = []
        for i in range(t.words):
            word = (t.offset >> 2) + i
            known = log.find(word, t.part, floor, t.rows)
            if known is not None:
                at, ids = known
                found.append(Suspects(ids, t.rows[at], t.lanes[at], word[at]))
        return found

    @property
    def lost(self) -> int:
        """Accesses that no log had room for: races with them are not seen."""
        return sum(log.lost for log in self._logs.values())

    # -- writes --------------------------------------------------------------------------------------------------------
    def writes(self, t: Touch, floor: Any, atomics: bool) -> list[Suspects]:
        """Earlier writes; ``atomics``: also atomics behind other atomics."""
        found = self.suspects(self.writer, t, floor)
        if self._logs:
            found += self._logged(PARTS, t, floor)
            if atomics:
                found += self._logged(ATOMICS, t, floor)
        return found

    def write(self, t: Touch, several: bool, floor: Any, owners: Owners, atomic: bool) -> list[Suspects]:
        """Remember a write. ``several`` waves did it at once: returns lanes that lost a word to another access."""
        if atomic or (t.part is not None and self.writer.parts is not None):
            self._keep_writers(t, floor, owners, atomic)
        elif t.part is None:
            for log in self._logs.values():
                for i in range(t.words):
                    log.settle((t.offset >> 2) + i, t.ids)
        self.writer.put(t)
        return self._lost(t, floor, owners, atomic) if several else []

    def _keep_writers(self, t: Touch, floor: Any, owners: Owners, atomic: bool) -> None:
        """Log the writers whose place ``t`` takes: atomics, if it is one; and those of other bytes."""
        for i, ids in enumerate(self.writer.read(t)):
            late = (ids > floor) & (ids != t.ids)
            if not late.any():
                continue
            s = self._pick(t, i, ids, late)
            if atomic:
                alike = owners.traits[s.earlier] & ATOMIC != 0
                s = s.where(alike & (owners.wave[s.earlier] != owners.uids[s.rows]))
                self._log(ATOMICS).add(s.word, s.earlier, None, floor, owners.wave)
            elif t.part is not None and self.writer.parts is not None:
                s = s.where(~self.writer.overlaps(s.word, t.part[late]))
                self._log(PARTS).add(s.word, s.earlier, self.writer.parts[s.word], floor, owners.wave)

    def _lost(self, t: Touch, floor: Any, owners: Owners, atomic: bool) -> list[Suspects]:
        found = []
        for i, ids in enumerate(self.writer.read(t)):
            lost = ids != t.ids
            if not lost.any():
                continue
            s, mine = self._pick(t, i, ids, lost), t.ids[lost]
            if atomic:
                self._log(ATOMICS).add(s.word, mine, None, floor, owners.wave)
            elif t.part is not None:
                part = t.part[lost]
                beside = ~self.writer.overlaps(s.word, part)
                self._log(PARTS).add(s.word[beside], mine[beside], part[beside], floor, owners.wave)
                s = s.where(~beside)
            found.append(s)
        return found

    # -- reads ---------------------------------------------------------------------------------------------------------
    def reads(self, t: Touch, floor: Any) -> list[Suspects]:
        """Earlier reads."""
        found = self.suspects(self.reader, t, floor) + self.suspects(self.other, t, floor)
        if self.far is not None:
            found += self.suspects(self.far, t, floor)
        return found + self._logged(READS, t, floor)

    def read(self, t: Touch, floor: Any, several: bool, owners: Owners, polls: bool) -> None:
        """Remember a read. ``polls``: it does so again and again, and of its like the last will do."""
        for s in self.suspects(self.reader, t, floor):
            wave = owners.wave[s.earlier]
            apart = wave != owners.uids[s.rows]
            s, wave = s.where(apart), wave[apart]
            if len(s.word):
                parts, mine = self.reader.parts, owners.uids[s.rows]
                if not polls:
                    self._keep_reader(s.word, wave, mine, floor, owners)
                self.other.put_words(s.word, s.earlier, None if parts is None else parts[s.word])
                self._keep_far(s.word, s.earlier, parts, owners.group[wave] != owners.group[mine])
        self.reader.put(t)
        if several:
            for i, ids in enumerate(self.reader.read(t)):
                lost = ids != t.ids
                if lost.any():
                    word, loser, part = (t.offset[lost] >> 2) + i, t.ids[lost], None if t.part is None else t.part[lost]
                    wave, winner = owners.wave[loser], owners.wave[ids[lost]]
                    if not polls:
                        self._keep_reader(word, wave, winner, floor, owners)
                    self.other.put_words(word, loser, part)
                    if not polls:
                        again = self.other.words[word] != loser
                        self._log(READS).add(
                            word[again], loser[again], None if part is None else part[again], floor, owners.wave
                        )
                    self._keep_far(word, loser, self.other.parts, owners.group[wave] != owners.group[winner])

    def _keep_reader(self, word: NDArray[np.int64], wave: Any, mine: Any, floor: int, owners: Owners) -> None:
        """Log the readers of ``other`` whose place one of ``wave`` is about to take; ``mine`` is the last reader."""
        ids = self.other.words[word]
        late = ids > floor
        if late.any():
            held = owners.wave[ids]
            late &= (held != wave) & (held != mine)
            parts = self.other.parts
            self._log(READS).add(
                word[late], ids[late], None if parts is None else parts[word[late]], floor, owners.wave
            )

    def _keep_far(self, word: NDArray[np.int64], ids: Ids, parts: Parts, where: NDArray[np.bool_]) -> None:
        """Remember readers (of these ``parts`` of all words) as those of another workgroup than the last, ``where``."""
        if where.any():
            if self.far is None:
                self.far = Slot(self._nbytes)
            self.far.put_words(word[where], ids[where], None if parts is None else parts[word[where]])

    def fill(self, word: Words, part: Parts, access: int, write: bool) -> Ids:
        """A host access of these bytes of these words: returns the different ids that were there before."""
        places: list[Slot | Displaced] = [self.writer, *(log for name, log in self._logs.items() if name != READS)]
        if write:
            readers = (self.reader, self.other, self.far, self._logs.get(READS))
            places += [place for place in readers if place is not None]
        seen = np.unique(np.concatenate([place.ids_in(word, part) for place in places]))
        (self.writer if write else self.reader).put_words(word, access, part)
        if write and self._heads is not None:
            self._heads[word] = 0
        if write and part is None:
            for log in self._logs.values():
                log.settle(word, access)
        return seen[seen > 0]


class LdsShadow(Shadow):
    """Of the LDS of a chunk: the last read of each wave of the workgroup, since a barrier need not order all of them.

    waves: of a workgroup.
    """

    def __init__(self, nbytes: int, waves: int) -> None:
        super().__init__(nbytes)
        self._stride = len(self.writer.content)
        self._readers = Slot(waves * self._stride)
        #: youngest read of the waves of each number
        self._youngest = [0] * waves

    def reads(self, t: Touch, floor: Any) -> list[Suspects]:
        found, least = [], int(np.min(floor))
        for number, youngest in enumerate(self._youngest):
            if youngest > least:
                found += self.suspects(self._readers, t.moved(number * self._stride), floor)
        return found

    def read(self, t: Touch, floor: Any, several: bool, owners: Owners, polls: bool) -> None:
        number = owners.number[t.rows]
        self._readers.put(t.moved(number * self._stride))
        youngest = int(t.ids.max())
        for one in np.unique(number).tolist():
            self._youngest[one] = youngest
