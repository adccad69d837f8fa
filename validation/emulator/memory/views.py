"""One byte range as elements of 1, 2, 4, 8 and 16 bytes: gathers and scatters of memory words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

U8, U16, U32, U64 = np.uint8, np.uint16, np.uint32, np.uint64
#: Gathers and scatters move 16 bytes as one element: a structured void type does not index fast, complex128 does.
_WIDE: dict[int, Any] = {1: U8, 2: U16, 4: U32, 8: U64, 16: np.complex128}
_SHIFT = {1: 0, 2: 1, 4: 2, 8: 3, 16: 4}
Words = list[NDArray[np.uint32]]


def natural_width(nbytes: int) -> int:
    """Bytes of the element that one access of ``nbytes`` consists of (three dwords are three elements)."""
    return nbytes if nbytes in _WIDE else 4


def low_bits(offset: NDArray[Any]) -> int:
    """The low four address bits that any lane has set."""
    return int(np.bitwise_or.reduce(offset, axis=None)) & 15 if offset.size else 0


@dataclass(frozen=True, slots=True)
class Place:
    """Where an access of ``nbytes`` bytes a lane finds its elements: ``index`` counts elements of ``width`` bytes."""

    nbytes: int
    width: int
    index: NDArray[np.int64]


class TypedViews:
    """Index = byte offset / width. ``content``: uint8 [bytes], 16-byte aligned at offset 0 for the wide views."""

    def __init__(self, content: NDArray[np.uint8]) -> None:
        self.by_width = {n: content[: len(content) // n * n].view(t) for n, t in _WIDE.items()}

    def read(self, offset: NDArray[np.int64], nbytes: int, low: int | None = None) -> Words:
        """Little-endian words of ``nbytes`` at each offset; 8 and 16 bit values are zero-extended.

        ``low``: :func:`low_bits` of the offsets, if known.
        """
        return self.gather(place(offset, nbytes, low_bits(offset) if low is None else low))

    def gather(self, at: Place) -> Words:
        """Words as :meth:`read` gives them."""
        width, nbytes = at.width, at.nbytes
        if width == nbytes:
            data = self.by_width[width].take(at.index)
            if width <= 4:
                return [data.astype(U32, copy=False)]
            parts = data.view(U32).reshape(*at.index.shape, width // 4)
            return [parts[..., i] for i in range(width // 4)]
        if width == 4:
            return [self.by_width[4].take(at.index + i) for i in range(nbytes // 4)]
        return self._read_bytes(at.index, nbytes)

    def _read_bytes(self, offset: NDArray[np.int64], nbytes: int) -> Words:
        words = []
        for start in range(0, nbytes, 4):
            word: Any = U32(0)
            for i in range(min(4, nbytes - start)):
                word = word | (self.by_width[1].take(offset + (start + i)).astype(U32) << U32(8 * i))
            words.append(word)
        return words

    def write(self, offset: NDArray[np.int64], nbytes: int, words: Words, low: int | None = None) -> None:
        """One word array of the shape of ``offset`` for each dword (one for narrow data). Later lanes win."""
        self.scatter(place(offset, nbytes, low_bits(offset) if low is None else low), words)

    def scatter(self, at: Place, words: Words) -> None:
        """Write as :meth:`write` does."""
        width, nbytes = at.width, at.nbytes
        if width == nbytes and width <= 4:
            self.by_width[width][at.index] = words[0].astype(_WIDE[width], copy=False)
        elif width == nbytes:
            packed = np.empty((*at.index.shape, width // 4), U32)
            for i, word in enumerate(words):
                packed[..., i] = word
            self.by_width[width][at.index] = packed.view(_WIDE[width])[..., 0]
        elif width == 4:
            for i, word in enumerate(words):
                self.by_width[4][at.index + i] = word
        else:
            for i in range(nbytes):
                self.by_width[1][at.index + i] = (words[i // 4] >> U32(8 * (i % 4))).astype(U8)


def place(offset: NDArray[np.int64], nbytes: int, low: int) -> Place:
    """Byte offsets as a :class:`Place`; ``low``: :func:`low_bits` of them."""
    width = _fitting_width(low, nbytes)
    return Place(nbytes, width, offset >> _SHIFT[width] if width > 1 else offset)


def _fitting_width(low: int, nbytes: int) -> int:
    """The element width with which the access can be done: its own if aligned, dwords, or bytes."""
    natural = natural_width(nbytes)
    if low & (natural - 1) == 0:
        return natural
    return 4 if nbytes >= 4 and low & 3 == 0 else 1
