"""Sets of 128-byte lines: which were touched, by a whole launch or by each workgroup."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..memory.space import Allocation, sparse_bytes

#: Bytes of an L2 line (CDNA3 ISA; 128 on gfx942 and gfx950) and its logarithm.
LINE_BYTES, LINE_SHIFT = 128, 7


def line_count(allocation: Allocation) -> int:
    """How many lines an allocation takes that starts at a line."""
    return (allocation.size + LINE_BYTES - 1) >> LINE_SHIFT


class LineSet:
    """Bitmap over ``rows`` x ``lines``, committed lazily; ``add`` says how many members are new."""

    def __init__(self, rows: int, lines: int) -> None:
        self.lines = lines
        self._seen = sparse_bytes(rows * lines)

    def add(self, index: NDArray[np.int64]) -> int:
        """``index``: 1-d, row * lines + line, repetitions allowed."""
        if len(index) > 1:
            # neighbouring lanes mostly share a line
            index = index[np.append(True, index[1:] != index[:-1])]
        fresh = np.unique(index[self._seen[index] == 0])
        self._seen[fresh] = 1
        return len(fresh)
