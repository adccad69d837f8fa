"""The exact bytes of a strided tensor, as words of the race shadow: a host operation touches these and no others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..memory.space import elements_spanned

#: Which words: a range, or their numbers, each once. Which of their bytes: a bit a byte, None for all of them.
Words = slice | NDArray[np.int64]
Parts = NDArray[np.uint8] | None
#: Runs of at least this many bytes are looked at one by one, shorter ones as arrays of up to so many words.
LONG_RUN, MOST_WORDS = 4096, 1 << 20


def span_of(tensor: Any) -> tuple[int, int]:
    """(address, bytes) from the first to the last element of a torch tensor."""
    span = elements_spanned(tensor.shape, tensor.stride()) if tensor.numel() else 0
    return int(tensor.data_ptr()), span * int(tensor.element_size())


@dataclass(frozen=True, slots=True)
class Footprint:
    """``nbytes`` from each of the addresses ``starts`` (int64 [k]) on. write: the operation writes them."""

    starts: NDArray[np.int64]
    nbytes: int
    write: bool

    @classmethod
    def of(cls, tensor: Any, write: bool) -> Footprint:
        """Of a torch tensor of any strides; broadcast (stride 0) elements count once."""
        size = int(tensor.element_size())
        dims = sorted(
            (int(s) * size, int(n)) for n, s in zip(tensor.shape, tensor.stride(), strict=True) if s and n > 1
        )
        run = size
        outer: list[tuple[int, int]] = []
        for stride, count in dims:
            if stride == run and not outer:
                run *= count
            else:
                outer.append((stride, count))
        starts = np.array([tensor.data_ptr()] if tensor.numel() else [], np.int64)
        for stride, count in outer:
            starts = (starts[:, None] + np.arange(count, dtype=np.int64) * stride).reshape(-1)
        return cls(starts, run, write)

    def words(self, shift: int) -> Iterator[tuple[int, Words, Parts]]:
        """By regions of ``1 << shift`` bytes: number of the region, words counted from its start, their bytes."""
        if self.nbytes >= LONG_RUN:
            for start in self.starts.tolist():
                yield from _long(start, start + self.nbytes, shift)
            return
        step = max(1, MOST_WORDS // (self.nbytes // 4 + 2))
        for first in range(0, len(self.starts), step):
            yield from _short(self.starts[first : first + step], self.nbytes, shift)


def _long(start: int, end: int, shift: int) -> Iterator[tuple[int, Words, Parts]]:
    """One run: whole words as ranges, and what is left at its ends."""
    inner, last = -(-start // 4) * 4, end // 4 * 4
    for low, high in ((start, inner), (last, end)):
        if high > low:
            yield from _short(np.array([low], np.int64), high - low, shift)
    while inner < last:
        base = inner >> shift << shift
        stop = min(last, base + (1 << shift))
        yield base >> shift, slice((inner - base) >> 2, (stop - base) >> 2), None
        inner = stop


def _short(starts: NDArray[np.int64], nbytes: int, shift: int) -> Iterator[tuple[int, Words, Parts]]:
    """Many runs of a few words: runs may share words, and overlap."""
    word = (starts >> 2)[:, None] + np.arange((nbytes + 3) // 4 + 1, dtype=np.int64)
    low = np.clip(starts[:, None] - 4 * word, 0, 4)
    high = np.clip(starts[:, None] + nbytes - 4 * word, 0, 4)
    bits = (1 << high) - (1 << low)
    reached = bits > 0
    unique, inverse = np.unique(word[reached], return_inverse=True)
    part = np.zeros(len(unique), np.uint8)
    np.bitwise_or.at(part, inverse.reshape(-1), bits[reached].astype(np.uint8))
    region = unique >> (shift - 2)
    for number in np.unique(region).tolist():
        here = region == number
        parts = part[here]
        yield number, unique[here] - (number << (shift - 2)), None if (parts == 15).all() else parts
