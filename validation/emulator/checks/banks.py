"""LDS bank conflicts of one access."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Banks of 4 bytes: bank = (address / 4) mod banks (32 on gfx942, 64 on gfx950).
BANKS = {"gfx942": 32, "gfx950": 64}
#: Lanes that gfx942 serves together in a 16-byte read (AMD, "Avoiding LDS bank conflicts ... CK-Tile"); all other
#: accesses go in runs of consecutive lanes. For gfx950 nothing is published: runs of lanes are assumed.
_READ_128 = [
    [*range(a, a + 4), *range(b, b + 4)]
    for base in (0, 32)
    for a, b in ((base, base + 20), (base + 4, base + 16), (base + 8, base + 28), (base + 12, base + 24))
]
#: Mark of an inactive lane in a pattern.
_ABSENT = np.int32(-(1 << 31))


#: Patterns that are remembered; kernels have few.
_REMEMBERED = 1 << 16


def phases(arch: str, nbytes: int, is_read: bool) -> NDArray[np.intp]:
    """[phases, lanes]: lanes that are served together, as many as fill all banks once."""
    if arch == "gfx942" and nbytes == 16 and is_read:
        return np.array(_READ_128)
    together = BANKS[arch] // {8: 2, 12: 4, 16: 4}.get(nbytes, 1)
    return np.arange(64).reshape(-1, min(64, together))


class BankModel:
    """Counts LDS cycles of accesses on one architecture."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self._known: dict[tuple[int, bool, bytes], tuple[int, int]] = {}

    def cycles(self, address: NDArray[Any], mask: NDArray[np.bool_], nbytes: int, is_read: bool) -> tuple[int, int]:
        """(cycles, cycles beyond one a phase) for byte addresses [n, 64]. Lanes that share a dword share its access.

        The numbers of a wave do not change when all its addresses move by a whole dword: that turns the banks. So each
        pattern relative to the first active lane is looked at once.
        """
        dword = address.astype(np.int64) >> 2
        first = dword[np.arange(len(dword)), mask.argmax(axis=1)]
        pattern = (dword - first[:, None]).astype(np.int32)
        if not mask.all():
            pattern[~mask] = _ABSENT
        if (pattern == pattern[0]).all():
            cycles, extra = self._of(pattern[0], nbytes, is_read)
            return cycles * len(pattern), extra * len(pattern)
        each = [self._of(row, nbytes, is_read) for row in pattern]
        return sum(c for c, _ in each), sum(x for _, x in each)

    def _of(self, pattern: NDArray[np.int32], nbytes: int, is_read: bool) -> tuple[int, int]:
        key = (nbytes, is_read, pattern.tobytes())
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = self._count(pattern, nbytes, is_read)
        return self._known[key]

    def _count(self, pattern: NDArray[np.int32], nbytes: int, is_read: bool) -> tuple[int, int]:
        cycles = extra = 0
        for lanes in phases(self.arch, nbytes, is_read):
            starts = pattern[lanes][pattern[lanes] != _ABSENT]
            words = np.unique(starts[:, None] + np.arange(max(1, nbytes // 4)))
            if len(words):
                busiest = int(np.bincount(words % BANKS[self.arch]).max())
                cycles += busiest
                extra += busiest - 1
        return cycles, extra
