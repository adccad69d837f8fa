"""One byte range as elements of 1, 2, 4, 8 and 16 bytes: gathers and scatters of memory words."""

from __future__ import annotations

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


class TypedViews:
    """Index = byte offset / width. ``content``: uint8 [bytes], 16-byte aligned at offset 0 for the wide views."""

    def __init__(self, content: NDArray[np.uint8]) -> None:
        self.by_width = {n: content[: len(content) // n * n].view(t) for n, t in _WIDE.items()}

    def read(self, offset: NDArray[np.int64], nbytes: int, low: int | None = None) -> Words:
        """Little-endian words of ``nbytes`` at each offset; 8 and 16 bit values are zero-extended.

        ``low``: :func:`low_bits` of the offsets, if known.
        """
        width = _fitting_width(low_bits(offset) if low is None else low, nbytes)
        if width == nbytes:
            data = self.by_width[width].take(offset >> _SHIFT[width])
            if width <= 4:
                return [data.astype(U32, copy=False)]
            parts = data.view(U32).reshape(*offset.shape, width // 4)
            return [parts[..., i] for i in range(width // 4)]
        if width == 4:
            index = offset >> 2
            return [self.by_width[4].take(index + i) for i in range(nbytes // 4)]
        return self._read_bytes(offset, nbytes)

    def _read_bytes(self, offset: NDArray[np.int64], nbytes: int) -> Words:
        words = []
        for start in range(0, nbytes, 4):
            word: Any = U32(0)
            for i in range(min(4, nbytes - start)):
                word = word | (self.by_width[1].take(offset + (start + i)).astype(U32) << U32(8 * i))
            words.append(word)
        return words

    def write(self, offset: NDArray[np.int64], nbytes: int, words: Words, low: int | None = None) -> None:
        """``offset`` 1-d, one word array of the same length for each dword (one for narrow data). Later lanes win."""
        width = _fitting_width(low_bits(offset) if low is None else low, nbytes)
        if width == nbytes and width <= 4:
            self.by_width[width][offset >> _SHIFT[width]] = words[0].astype(_WIDE[width], copy=False)
        elif width == nbytes:
            packed = np.empty((len(offset), width // 4), U32)
            for i, word in enumerate(words):
                packed[:, i] = word
            self.by_width[width][offset >> _SHIFT[width]] = packed.view(_WIDE[width])[:, 0]
        elif width == 4:
            index = offset >> 2
            for i, word in enumerate(words):
                self.by_width[4][index + i] = word
        else:
            for i in range(nbytes):
                self.by_width[1][offset + i] = (words[i // 4] >> U32(8 * (i % 4))).astype(U8)


def _fitting_width(low: int, nbytes: int) -> int:
    """The element width with which the access can be done: its own if aligned, dwords, or bytes."""
    natural = natural_width(nbytes)
    if low & (natural - 1) == 0:
        return natural
    return 4 if nbytes >= 4 and low & 3 == 0 else 1
