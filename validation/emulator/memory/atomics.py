"""Read-modify-write of many lanes in (wave, lane) order, bit-identical to doing one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class AtomicOp:
    """``fn(old, *operands) -> new`` over arrays of ``dtype`` (one memory element; packed types see their whole word).

    scan: for ``fn(old, x)`` that is associative in exact arithmetic of ``dtype`` (integer add, min, and, ...): the
        function that combines two operands. Sequences on one address then take logarithmically many steps.
    accumulate: a ufunc whose ``accumulate`` does the very same operation in order (float addition), with its
        neutral element. It is not used when a NaN occurs, because NumPy leaves the payload to the CPU.
    """

    name: str
    dtype: Any
    fn: Callable[..., Any]
    scan: Callable[[Array, Array], Array] | None = None
    accumulate: tuple[np.ufunc, Any] | None = None

    @property
    def nbytes(self) -> int:
        return int(np.dtype(self.dtype).itemsize)


def apply_in_order(
    op: AtomicOp, key: Array, memory: Array, operands: Sequence[Array], want_old: bool = True
) -> tuple[Array | None, Array, Array]:
    """All lanes' operations, lane i before lane i + 1.

    key: int64 [n], which element a lane addresses. memory: [n], that element's value before the instruction.
    Returns (old value that each lane sees [n], or None where it is not wanted; one lane of each element [m]; the
    values of these elements after the instruction [m]).
    """
    order, sorted_key = _stable_order(key)
    first = np.empty(len(key), bool)
    first[0] = True
    np.not_equal(sorted_key[1:], sorted_key[:-1], out=first[1:])
    if first.all():
        return memory, np.arange(len(key)), np.asarray(op.fn(memory, *operands), op.dtype)
    start = np.flatnonzero(first)
    length = np.diff(np.append(start, len(key)))
    values = [x[order] for x in operands]
    before = memory[order]
    sums: tuple[Array, Array] | None
    if not want_old and isinstance(op.scan, np.ufunc):
        total = op.scan.reduceat(values[0], start)
        return None, order[start], np.asarray(op.fn(before[start], total), op.dtype)
    if op.scan is not None:
        old, last = _by_scan(op, before, values[0], start, length)
    elif op.accumulate is not None and (sums := _by_accumulate(op, before, values[0], start, length)) is not None:
        old, last = sums
    else:
        old, last = _by_rank(op, before, values, start, length)
    seen = np.empty_like(memory)
    seen[order] = old
    return seen, order[start], last


def _stable_order(key: Array) -> tuple[Array, Array]:
    """Permutation that sorts ``key`` and keeps the order of equal ones; and the sorted keys.

    Sorting (key, position) packed into one integer is several times faster than a stable argsort.
    """
    bits = len(key).bit_length()
    low = int(key.min())
    if int(key.max()) - low >= 1 << (62 - bits):
        order = np.argsort(key, kind="stable")
        return order, key[order]
    packed = np.sort(((key - low) << bits) | np.arange(len(key)))
    order = packed & ((1 << bits) - 1)
    return order, packed >> bits


def _by_scan(op: AtomicOp, before: Array, value: Array, start: Array, length: Array) -> tuple[Array, Array]:
    """Segmented inclusive scan by doubling, then one combination with the memory value."""
    assert op.scan is not None
    rank = np.arange(len(value)) - np.repeat(start, length)
    total = value.copy()
    step, longest = 1, int(length.max())
    while step < longest:
        reach = np.flatnonzero(rank >= step)
        total[reach] = op.scan(total[reach - step], total[reach])
        step *= 2
    after = np.asarray(op.fn(before, total), op.dtype)
    old = before.copy()
    later = np.flatnonzero(rank > 0)
    old[later] = after[later - 1]
    return old, after[start + length - 1]


def _by_accumulate(
    op: AtomicOp, before: Array, value: Array, start: Array, length: Array
) -> tuple[Array, Array] | None:
    """Rows of (memory, operand, operand, ...) for segments of similar length, accumulated left to right.

    None when a NaN came up.
    """
    assert op.accumulate is not None
    ufunc, neutral = op.accumulate
    old, last = np.empty_like(before), np.empty(len(start), op.dtype)
    bucket = np.ceil(np.log2(length)).astype(np.int64)
    for size in np.unique(bucket):
        rows = np.flatnonzero(bucket == size)
        width = int(length[rows].max())
        table = np.full((len(rows), width + 1), neutral, op.dtype)
        table[:, 0] = before[start[rows]]
        inside = np.arange(width) < length[rows, None]
        places = (start[rows, None] + np.arange(width))[inside]
        table[:, 1:][inside] = value[places]
        running = ufunc.accumulate(table, axis=1)
        if np.isnan(running).any():
            return None
        old[places] = running[:, :-1][inside]
        last[rows] = running[np.arange(len(rows)), length[rows]]
    return old, last


def _by_rank(op: AtomicOp, before: Array, values: list[Array], start: Array, length: Array) -> tuple[Array, Array]:
    """Step k applies the k-th lane of every address."""
    by_length = np.argsort(-length, kind="stable")
    start, length = start[by_length], length[by_length]
    current = before[start]
    old = np.empty_like(before)
    counts = np.searchsorted(-length, -np.arange(int(length[0])), side="left")
    for k, count in enumerate(counts):
        at = start[:count] + k
        old[at] = current[:count]
        current[:count] = op.fn(current[:count], *[v[at] for v in values])
    last = np.empty_like(current)
    last[by_length] = current
    return old, last
