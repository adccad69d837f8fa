"""Boolean functions of three words, compiled from their truth table to a few array operations (V_BITOP3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

Words = Callable[[Any, Any], Any]

#: Functions of two bits by truth table, bit 2 x + y of the table being the result for (x, y); None is a constant.
_TWO: dict[int, Words | None] = {
    0b0000: None,
    0b0001: lambda x, y: ~(x | y),
    0b0010: lambda x, y: ~x & y,
    0b0011: lambda x, y: ~x,
    0b0100: lambda x, y: x & ~y,
    0b0101: lambda x, y: ~y,
    0b0110: lambda x, y: x ^ y,
    0b0111: lambda x, y: ~(x & y),
    0b1000: lambda x, y: x & y,
    0b1001: lambda x, y: ~(x ^ y),
    0b1010: lambda x, y: y,
    0b1011: lambda x, y: ~x | y,
    0b1100: lambda x, y: x,
    0b1101: lambda x, y: x | ~y,
    0b1110: lambda x, y: x | y,
    0b1111: None,
}
_COST = {0: 0, 1: 2, 2: 2, 3: 1, 4: 2, 5: 1, 6: 1, 7: 2, 8: 1, 9: 2, 10: 0, 11: 2, 12: 0, 13: 2, 14: 1, 15: 0}
#: pivot -> position of its bit in the row number of the table, and of the two others
_PIVOTS = ((2, (1, 0)), (1, (2, 0)), (0, (2, 1)))


def _halves(table: int, pivot: int, others: tuple[int, int]) -> tuple[int, int]:
    """Two-bit tables of the function where the pivot bit is 0 and where it is 1."""
    result = [0, 0]
    for row in range(8):
        if table >> row & 1:
            result[row >> pivot & 1] |= 1 << ((row >> others[0] & 1) << 1 | (row >> others[1] & 1))
    return result[0], result[1]


def _combine(off: int, on: int) -> tuple[int, Callable[[Any, Any, Any], Any]]:
    """Cheapest found form of ``on(x, y) if p else off(x, y)`` and how many operations it takes."""
    f_off, f_on, both = _TWO[off], _TWO[on], _TWO[off ^ on]
    if off == on:
        if f_off is None:
            constant = -(off & 1)
            return 1, lambda p, x, y: (p ^ p) if constant == 0 else ~(p ^ p)
        return _COST[off], lambda p, x, y: f_off(x, y)
    if f_off is None:  # off is constant
        if f_on is None:
            return (0, lambda p, x, y: p) if off == 0 else (1, lambda p, x, y: ~p)
        if off == 0:
            return _COST[on] + 1, lambda p, x, y: p & f_on(x, y)
        return _COST[on] + 2, lambda p, x, y: ~p | f_on(x, y)
    if f_on is None:
        if on == 0:
            return _COST[off] + 2, lambda p, x, y: ~p & f_off(x, y)
        return _COST[off] + 1, lambda p, x, y: p | f_off(x, y)
    if both is None:
        return _COST[off] + 1, lambda p, x, y: p ^ f_off(x, y)
    if off & ~on == 0:
        return _COST[off] + _COST[off ^ on] + 2, lambda p, x, y: f_off(x, y) | (p & both(x, y))
    return _COST[off] + _COST[off ^ on] + 2, lambda p, x, y: f_off(x, y) ^ (p & both(x, y))


@cache
def boolean3(table: int) -> Callable[[Any, Any, Any], Any]:
    """Function of three unsigned arrays whose bits follow the 8-bit ``table``: bit 4 a + 2 b + c of it is the result.

    Source: CDNA4 ISA, V_BITOP3_B32. Raises ValueError for a table outside of 0..255.
    """
    if table not in range(256):
        raise ValueError(f"a truth table of three bits is 0..255, got {table!r}")
    best = min(((_combine(*_halves(table, p, o)), p) for p, o in _PIVOTS), key=lambda form: form[0][0])
    (_, fn), pivot = best
    if pivot == 2:
        return fn
    if pivot == 1:
        return lambda a, b, c: fn(b, a, c)
    return lambda a, b, c: fn(c, a, b)
