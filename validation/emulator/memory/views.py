"""One byte range as elements of 1, 2, 4, 8 and 16 bytes: gathers and scatters of memory words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .grids import LANES, Form, Grid

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
    """Where an access of ``nbytes`` bytes a lane finds its elements: ``index`` counts elements of ``width`` bytes from
    element ``start`` on."""

    nbytes: int
    width: int
    index: NDArray[np.int64]
    start: int = 0


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
        elements = self.by_width[width][at.start :] if at.start else self.by_width[width]
        if width == nbytes:
            data = elements.take(at.index)
            if width <= 4:
                return [data.astype(U32, copy=False)]
            parts = data.view(U32).reshape(*at.index.shape, width // 4)
            return [parts[..., i] for i in range(width // 4)]
        if width == 4:
            return [elements[i:].take(at.index) for i in range(nbytes // 4)]
        return self._read_bytes(at.index + at.start, nbytes)

    def strided(self, start: int, form: Form, width: int) -> NDArray[Any]:
        """Elements of ``width`` bytes, the first at byte ``start``, as an array of the form's shape."""
        return np.ndarray(form.shape, _WIDE[width], self.by_width[1], start, form.strides)

    def _runs(self, start: int, form: Form, nbytes: int) -> NDArray[Any]:
        """The bytes of neighbouring lanes, which lie side by side, as one element each."""
        dtype = np.dtype((np.void, form.shape[-1] * nbytes))
        return np.ndarray(form.shape[:-1], dtype, self.by_width[1], start, form.strides[:-1])

    def read_strided(self, start: int, form: Form, nbytes: int, rows: Words) -> None:
        """Words as :meth:`read` gives them, into contiguous arrays. The form is ``regular`` for ``nbytes``."""
        if form.long(nbytes):
            for i, row in enumerate(rows):
                row.reshape(form.shape)[...] = self.strided(start + 4 * i, form, min(nbytes, 4))
            return
        packed = np.empty(form.shape[:-1], (np.void, form.shape[-1] * nbytes))
        packed[...] = self._runs(start, form, nbytes)
        if nbytes <= 4:
            rows[0].reshape(-1)[...] = packed.reshape(-1).view(_WIDE[nbytes])
            return
        words = packed.reshape(-1).view(U32).reshape(-1, nbytes // 4)
        for i, row in enumerate(rows):
            row.reshape(-1)[...] = words[:, i]

    def write_strided(self, start: int, form: Form, nbytes: int, words: Words) -> None:
        """Write contiguous arrays as :meth:`write` does, to places that do not overlap. The form is ``regular``."""
        if form.long(nbytes):
            for i, word in enumerate(words):
                target = self.strided(start + 4 * i, form, min(nbytes, 4))
                target[...] = word.reshape(form.shape).astype(target.dtype, copy=False)
            return
        if nbytes <= 4:
            packed: NDArray[Any] = words[0].astype(_WIDE[nbytes], copy=False)
        else:
            packed = np.empty((words[0].size, nbytes // 4), U32)
            for i, word in enumerate(words):
                packed[:, i] = word.reshape(-1)
        runs = self._runs(start, form, nbytes)
        runs[...] = packed.reshape(-1).view(runs.dtype).reshape(runs.shape)

    def fill_strided(self, start: int, form: Form, nbytes: int, value: int) -> None:
        """Set ``nbytes`` bytes at each place to ``value``."""
        width = natural_width(nbytes)
        element = np.full(width, value, U8).view(_WIDE[width])[0]
        for i in range(0, nbytes, width):
            self.strided(start + i, form, width)[...] = element

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
        """Write as :meth:`write` does. Whole accesses are put down one after the other, in the order of the lanes."""
        width, nbytes = at.width, at.nbytes
        elements = self.by_width[width][at.start :]
        index, flat = at.index.reshape(-1), [word.reshape(-1) for word in words]
        if width == nbytes and width <= 4:
            elements[index] = flat[0].astype(_WIDE[width], copy=False)
            return
        parts = nbytes // width
        if parts > 1 and (len(index) < 2 or int((index[1:] - index[:-1]).min()) >= parts):
            for i in range(parts):  # no two lanes overlap: part by part is faster
                part = flat[i * width // 4] if width == 4 else flat[i // 4] >> U32(8 * (i % 4))
                elements[i:][index] = part.astype(_WIDE[width], copy=False)
            return
        packed = np.empty((len(index), max(1, nbytes // 4)), U32)
        for i, word in enumerate(flat):
            packed[:, i] = word
        if parts == 1:
            elements[index] = packed.view(_WIDE[width])[:, 0]
            return
        each = index[:, None] + np.arange(parts)
        elements[each.reshape(-1)] = packed.view(_WIDE[width])[:, :parts].reshape(-1)


def place(offset: NDArray[np.int64], nbytes: int, low: int) -> Place:
    """Byte offsets as a :class:`Place`; ``low``: :func:`low_bits` of them."""
    width = _fitting_width(low, nbytes)
    return Place(nbytes, width, offset >> _SHIFT[width] if width > 1 else offset)


def place_of(grid: Grid, nbytes: int) -> Place:
    """Byte offsets as a :class:`Place`: those of the waves and of the lanes added up, once for all that are alike."""
    width = _fitting_width(grid.bits & 15, nbytes)
    shift = _SHIFT[width]
    if grid.form is not None:
        return Place(nbytes, width, grid.form.index(shift).reshape(-1, LANES), grid.low >> shift)
    return Place(nbytes, width, (grid.rows >> shift)[:, None] + (grid.lanes.offsets >> shift))


def _fitting_width(low: int, nbytes: int) -> int:
    """The element width with which the access can be done: its own if aligned, dwords, or bytes."""
    natural = natural_width(nbytes)
    if low & (natural - 1) == 0:
        return natural
    return 4 if nbytes >= 4 and low & 3 == 0 else 1
