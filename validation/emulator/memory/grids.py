"""Addresses of many lanes as one address and a few strides, which most memory instructions of most kernels have.

What must hold for every lane (bounds, alignment) then follows from a few numbers, and the bytes are one strided array.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

LANES = 64
#: (count, stride in bytes), the outermost first.
Levels = tuple[tuple[int, int], ...]
#: More levels than this make strided copies slower than a gather.
_MOST_LEVELS = 3
#: Neighbours from which on a copy element by element is fast.
_LONG = 64


@lru_cache(maxsize=1024)
def levels_of(raw: bytes) -> Levels | None:
    """Offsets (int64, the first one 0) as nested strides; None when they have no such form."""
    levels = _nested(np.frombuffer(raw, np.int64))
    return levels if levels is not None and len(levels) <= _MOST_LEVELS else None


def _nested(offsets: NDArray[np.int64]) -> Levels | None:
    count = len(offsets)
    if count == 1:
        return ()
    step = int(offsets[1])
    odd = np.flatnonzero(offsets != np.arange(count) * step)
    if not len(odd):
        return ((count, step),)
    inner = int(odd[0])
    if count % inner:
        return None
    outer = offsets[::inner]
    if (offsets.reshape(-1, inner) != outer[:, None] + np.arange(inner) * step).any():
        return None
    above = _nested(outer)
    return None if above is None else (*above, (inner, step))


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """Strides of a group of lanes. low, high: offsets of the lanes with the lowest and the highest address. bits: set
    where any stride has a bit set."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    low: int
    high: int
    bits: int
    _index: dict[int, NDArray[np.int64]] = field(default_factory=dict)

    def index(self, shift: int) -> NDArray[np.int64]:
        """Which elements of ``1 << shift`` bytes the lanes are at, from the lowest one on: flat, in their order."""
        known = self._index.get(shift)
        if known is None:
            total = np.full(self.shape, -self.low >> shift, np.int64)
            for axis, (count, step) in enumerate(zip(self.shape, self.strides, strict=True)):
                steps = np.arange(count, dtype=np.int64) * (step >> shift)
                total += steps.reshape(-1, *[1] * (len(self.shape) - axis - 1))
            known = self._index[shift] = total.reshape(-1)
        return known

    def long(self, nbytes: int) -> bool:
        """Are the lanes of a wave side by side, or all at one place?"""
        return self.shape[-1] >= _LONG and self.strides[-1] in (0, nbytes)

    def regular(self, nbytes: int) -> bool:
        """Is a strided copy faster than a gather?"""
        return self.strides[-1] == nbytes or self.long(nbytes)

    def apart(self, nbytes: int) -> bool:
        """Do the accesses of no two lanes, of ``nbytes`` each, overlap?"""
        reach = nbytes
        for step, count in sorted((abs(s), c) for c, s in zip(self.shape, self.strides, strict=True)):
            if count > 1:
                if step < reach:
                    return False
                reach += step * (count - 1)
        return True


@lru_cache(maxsize=128)
def form_of(levels: Levels) -> Form:
    """The form with these levels."""
    ends = [(count - 1) * step for count, step in levels]
    bits = 0
    for count, step in levels:
        bits |= step if count > 1 else 0
    shape, strides = tuple(count for count, _ in levels), tuple(step for _, step in levels)
    return Form(shape, strides, sum(min(0, e) for e in ends), sum(max(0, e) for e in ends), bits)


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """The same offsets of the lanes in every wave: ``offsets`` int64 [64] from lane 0.

    levels: the same as nested strides, None where they are none. low, high, bits: as in :class:`Form`.
    """

    offsets: NDArray[np.int64]
    levels: Levels | None
    low: int
    high: int
    bits: int

    @classmethod
    def of(cls, offsets: NDArray[Any]) -> Lanes:
        """Of the offsets of one wave's lanes from its first one."""
        return _lanes(offsets.astype(np.int64).tobytes())


@lru_cache(maxsize=1024)
def _lanes(raw: bytes) -> Lanes:
    offsets = np.frombuffer(raw, np.int64)
    bits = int(np.bitwise_or.reduce(offsets))
    return Lanes(offsets, levels_of(raw), int(offsets.min()), int(offsets.max()), bits)


@dataclass(slots=True, eq=False)
class Grid:
    """Addresses of the lanes of n waves: ``rows`` int64 [n], the address of each wave's first lane, plus ``lanes``.

    base, form: the first address and the strides of all lanes of all waves; form is None where there are none.
    low, high: the lowest and the highest address. bits: a multiple of a power of two just when all addresses are.
    """

    rows: NDArray[np.int64]
    lanes: Lanes
    base: int
    form: Form | None
    low: int
    high: int
    bits: int

    @classmethod
    def of(cls, rows: NDArray[np.int64], lanes: Lanes) -> Grid:
        base = int(rows[0])
        levels = levels_of((rows - base).tobytes())
        if levels is None or lanes.levels is None:
            bits = int(np.bitwise_or.reduce(rows)) | lanes.bits
            return cls(rows, lanes, base, None, int(rows.min()) + lanes.low, int(rows.max()) + lanes.high, bits)
        form = form_of((*levels, *lanes.levels))
        return cls(rows, lanes, base, form, base + form.low, base + form.high, base | form.bits)

    def moved(self, distance: int) -> Grid:
        """The same, ``distance`` bytes further (a multiple of 16)."""
        return Grid(
            self.rows + distance, self.lanes, self.base + distance, self.form, self.low + distance,
            self.high + distance, self.bits,
        )  # fmt: skip

    def addresses(self) -> NDArray[np.int64]:
        """Of every lane, int64 [n, 64]."""
        return self.rows[:, None] + self.lanes.offsets
