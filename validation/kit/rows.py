"""Token rows: which of a large call run, and tensors that hold only those."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from oracle.guards import poison
from validation.operation import Bench, SkipCase

#: Byte offsets at which an index of 31 or 32 bits wraps.
EDGES = (1 << 31, 1 << 32)
#: Columns behind a view that hold NaN: rows may be too far apart to fill all that is between them.
BESIDE = 64
#: Elements between rows from which on those between are never touched.
FAR = 1 << 20


def edge_rows(m: int, row_bytes: int, block: int) -> list[int]:
    """Rows of the first, a middle and the last block of ``m`` rows, and of those that reach 2^31 and 2^32 bytes.

    ``block`` is a number of rows of which no two blocks share a workgroup.
    """
    crossings = [edge // row_bytes for edge in EDGES]
    wanted = [0, m // 2, m - 1, *(row for row in crossings if row < m)]
    blocks = sorted({row // block for row in wanted})
    return [row for b in blocks for row in range(b * block, min((b + 1) * block, m))]


def contiguous_spans(rows: Sequence[int]) -> list[slice]:
    """``rows`` (ascending) as slices."""
    spans: list[slice] = []
    for row in rows:
        if spans and spans[-1].stop == row:
            spans[-1] = slice(spans[-1].start, row + 1)
        else:
            spans.append(slice(row, row + 1))
    return spans


class Placer:
    """Puts tensors onto a bench; only the rows of ``spans`` of a tall tensor are touched."""

    def __init__(self, bench: Bench, m: int, spans: Sequence[slice]) -> None:
        self.bench, self.m, self.spans = bench, m, spans

    @classmethod
    def at_edges(cls, bench: Bench, m: int, row_bytes: int, block: int, most: int) -> Placer:
        """A placer of all rows where there are at most ``most``, else of the blocks of :func:`edge_rows`.

        Raises:
            SkipCase: if the bench cannot hold a tensor of which only some rows exist.
        """
        if m <= most:
            return cls(bench, m, contiguous_spans(range(m)))
        if not bench.sparse:
            raise SkipCase(f"{m} rows of {row_bytes} bytes need sparse memory, which this device does not have")
        return cls(bench, m, contiguous_spans(edge_rows(m, row_bytes, block)))

    @property
    def chosen(self) -> list[int]:
        """The rows of ``spans``."""
        return [row for span in self.spans for row in range(span.start, span.stop)]

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self.chosen)

    def whole(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """A copy of ``value``, contiguous."""
        tensor = self.bench.empty(tuple(value.shape), value.dtype, name)
        tensor.copy_(value)
        self.bench.filled(tensor)
        return tensor

    def rows(self, name: str, value: torch.Tensor, stride: int = 0, first: int = 0) -> torch.Tensor:
        """``value`` as the rows of ``spans`` of a [m, columns] view, at ``stride``, from column ``first`` on.

        What lies between the rows is NaN (up to :data:`BESIDE` columns behind the view, where it is much): a load
        beside the view must not find a plausible value.
        """
        columns = value.shape[1]
        base = self.bench.empty((self.m, max(stride, columns)), value.dtype, name)
        view = base[:, first : first + columns]
        self.bench.named(view, name)
        done = 0
        for span in self.spans:
            count = span.stop - span.start
            base[span, : first + columns + BESIDE] = math.nan
            view[span].copy_(value[done : done + count])
            self._filled(view[span])
            done += count
        return view

    def _filled(self, rows: torch.Tensor) -> None:
        """Tell the bench of ``rows``, one by one where what lies between them must not take memory."""
        for part in rows if rows.shape[0] and rows.stride(0) >= FAR else [rows]:
            self.bench.filled(part)

    def output(self, name: str, columns: int, dtype: torch.dtype) -> torch.Tensor:
        """An output buffer of any content."""
        return self.bench.empty((self.m, columns), dtype, name)

    def poisoned(self, name: str, columns: int, dtype: torch.dtype) -> torch.Tensor:
        """An output buffer, poisoned in the rows of ``spans`` and in those beside them."""
        tensor = self.output(name, columns, dtype)
        for span in self.spans:
            poison(tensor[max(span.start - 1, 0) : span.stop + 1])
        return tensor
