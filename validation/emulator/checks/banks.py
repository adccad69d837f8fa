"""LDS bank conflicts of one access."""

from __future__ import annotations

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
_EMPTY = np.int64(-1)


def phases(arch: str, nbytes: int, is_read: bool) -> NDArray[np.intp]:
    """[phases, lanes]: lanes that are served together, as many as fill all banks once."""
    if arch == "gfx942" and nbytes == 16 and is_read:
        return np.array(_READ_128)
    together = BANKS[arch] // {8: 2, 12: 4, 16: 4}.get(nbytes, 1)
    return np.arange(64).reshape(-1, min(64, together))


def conflict_cycles(
    address: NDArray[np.int64], mask: NDArray[np.bool_], nbytes: int, arch: str, is_read: bool
) -> tuple[int, int]:
    """(cycles, cycles beyond one a phase) for byte addresses [n, 64]. Lanes that share a dword share its access."""
    order = phases(arch, nbytes, is_read)
    word = (address.astype(np.int64) >> 2)[:, order][..., None] + np.arange(max(1, nbytes // 4))
    word = np.where(mask[:, order][..., None], word, _EMPTY)
    word = np.sort(word.reshape(-1, word.shape[2] * word.shape[3]), axis=1)
    distinct = word >= 0
    distinct[:, 1:] &= word[:, 1:] != word[:, :-1]
    row, place = np.nonzero(distinct)
    banks = BANKS[arch]
    load = np.bincount(row * banks + word[row, place] % banks, minlength=len(word) * banks).reshape(-1, banks)
    busiest = load.max(axis=1)
    return int(busiest.sum()), int(np.maximum(busiest - 1, 0).sum())
