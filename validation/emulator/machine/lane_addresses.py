"""What the lanes of an address register have in common, looked at once for as long as the register stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..memory.grids import Lanes
from .waves import LANES, Waves

#: Numbers that a register can hold.
SPAN = 1 << 32


@dataclass(frozen=True, slots=True, eq=False)
class Offsets:
    """A register as unsigned numbers, or a register pair: that of the first lane of each wave, int64 [n], and the
    offsets of the others from it. most: the highest number."""

    first: NDArray[np.int64]
    lanes: Lanes
    most: int


def offsets_of(w: Waves, r: int) -> Offsets | None:
    """Of register ``r`` of the waves that step; None where their lanes have nothing simple in common."""
    return _known(w, r, 1, _single)


def pair_offsets_of(w: Waves, r: int) -> Offsets | None:
    """Of the 64-bit numbers in registers ``r`` and ``r + 1``."""
    return _known(w, r, 2, _pair)


def _known(w: Waves, r: int, count: int, look: Any) -> Offsets | None:
    table: dict[tuple[int, int], tuple[Any, int, Offsets | None]] = w.extra.setdefault("lane_offsets", {})
    known = table.get((r, count))
    if known is None or known[0] is not w.sel or known[1] < w.stamp(r, count):
        known = table[r, count] = (w.sel, w.clock, look(w, r))
    return known[2]


def _single(w: Waves, r: int) -> Offsets | None:
    value = w.vget(r)
    head = value[0]
    # a wave whose last lane is elsewhere tells most irregular registers at once
    if int(value[-1, LANES - 1]) - int(value[-1, 0]) != int(head[LANES - 1]) - int(head[0]):
        return None
    pattern = head - head[0]
    if not _repeats(value):
        return None
    lanes = Lanes.of(pattern.view(np.int32))
    first = value[:, 0].astype(np.int64)
    most = int(first.max()) + lanes.high
    if int(first.min()) + lanes.low < 0 or most >= SPAN:  # it wraps around
        return None
    return Offsets(first, lanes, most)


def _pair(w: Waves, r: int) -> Offsets | None:
    low = offsets_of(w, r)
    if low is None:
        return None
    high = w.vget(r + 1)
    upper = int(high[0, 0])
    if upper >> 31 or not (high == high[0, 0]).all():
        return None
    return Offsets(low.first + (upper << 32), low.lanes, low.most + (upper << 32))


def _repeats(value: NDArray[np.uint32]) -> bool:
    """Do the lanes of each wave differ from each other as those of the first wave do?"""
    flat = value.reshape(-1)
    steps = flat[1:] - flat[:-1]
    # one long array: NumPy is slow with many short rows
    same = steps[LANES:] == steps[:-LANES]
    same[LANES - 1 :: LANES] = True  # from a wave's last lane to the next wave's first
    return bool(same.all())
