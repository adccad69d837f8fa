"""Matrix products for MFMA, the same bits on every CPU.

Definition: ``D = round32(C + sum over k, in ascending order, of A[k] * B[k])``, the sum from +0 on, products and sum in
float64 (products of 8-, 11- or 3-bit significands are exact there). Silicon sums in groups and truncates in places that
no manual states, so results agree with it to the usual error bound, not bit for bit.

BLAS adds in an order of its own. That is harmless

* where all products and partial sums are exact in float64, which the operands' exponents show, and
* where C plus the sum rounds to the same float32 whatever the order did to the sum, within its error bound.

Elements for which neither holds are summed in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .scratch import scratch

F64 = NDArray[np.float64]
Start = Callable[[Any, Any, Any], Any]
_F64_BITS = 53
#: Exponent of operands that hold NaN or infinity: wider than any exact sum.
_WILD = 2.0**20
_NONE = np.arange(0)
#: A matrix of which more than one element in so many is in doubt is summed in order as a whole, without gathering rows.
_FULL = 8
#: At most so many groups of waves are looked at before single matrices.
_GROUPS = 16
#: A float64 has 29 bits that a float32 lacks: how far they are from the top of the word, and their value in the middle
#: between two float32.
_TO_TOP, _MIDDLE = np.uint64(35), 1 << 28
#: Safely in the range of normal float32, whose spacing these bits stand for.
_NORMAL_F32 = 2.0**-125


@dataclass(slots=True)
class Exponents:
    """How far the exponents of n matrices reach, read off the codes of their elements' magnitudes.

    A reach is the binary logarithm of the largest value, rounded up a little, minus the exponent of the last
    significand bit of the smallest one but zero.

    below: the codes less one, unsigned [x, n, m]: zeros wrap around, so that they are no candidates for the least.
    mantissa_bits: width of the codes' lowest field; infinity: codes from here on are no numbers. blocks: the last axis
    holds that many matrices one after the other. scale: biased exponents [n, lanes] that are added to those of the
    elements, 255 being NaN.
    """

    below: NDArray[Any]
    mantissa_bits: int
    infinity: int
    blocks: int = 1
    scale: NDArray[np.uint8] | None = None
    _each: NDArray[np.float64] | None = None

    def grouped(self) -> NDArray[np.float64]:
        """Reach of each of some groups of waves (as many for any operand of as many waves), no less than that of any
        matrix in it."""
        groups = gcd(self.below.shape[1], _GROUPS)
        below = self.below.reshape(len(self.below), groups, -1)
        signed = below.view(f"i{below.itemsize}")
        reach = self._reach(signed.max(axis=2).max(axis=0), below.min(axis=2).min(axis=0))
        if self.scale is not None:
            top = int(self.scale.max())
            reach += _WILD if top == 255 else top - int(self.scale.min())
        return reach

    def each(self) -> NDArray[np.float64]:
        """Reach of each matrix, [n * blocks]."""
        if self._each is None:
            below, count = self.below, self.below.shape[1] * self.blocks
            most = below.view(f"i{below.itemsize}").max(axis=0).reshape(count, -1).max(axis=1)
            reach = self._reach(most, below.min(axis=0).reshape(count, -1).min(axis=1))
            if self.scale is not None:
                top = self.scale.max(axis=1).astype(np.float64)
                reach += np.where(top == 255, _WILD, top - self.scale.min(axis=1))
            self._each = reach
        return self._each

    def _reach(self, most: Any, least: Any) -> NDArray[np.float64]:
        """For the largest and the least of ``below``. A code over 2**mantissa_bits is exponent + fraction, at most
        0.0861 below log2; under it, a denormal."""
        one = 1 << self.mantissa_bits
        high, low = np.add(most, 1, dtype=np.int64), np.add(least, 1, dtype=np.int64)
        np.minimum(low, high, out=low)  # where there is nothing but zeros
        np.maximum(low, one, out=low)
        low &= -one
        reach: NDArray[np.float64] = (np.maximum(high, one) - low) / one
        reach += 0.0861 + self.mantissa_bits
        reach[high >= self.infinity] = _WILD
        return reach


@dataclass(slots=True)
class Fragment:
    """An operand of n matrices as float64 [n, K, rows].

    ``exponents``: None where products are exact anyway; ``reach``: what their ``grouped`` is. ``ascending``: positions
    along K in the order of ascending k, None where they already are.
    """

    values: F64
    exponents: Exponents | None
    reach: Any
    ascending: NDArray[np.intp] | None = None
    _largest: F64 | None = None

    def largest(self) -> F64:
        """Largest magnitude in each matrix, [n]; NaN where there is one."""
        if self._largest is None:
            flat = self.values.reshape(len(self.values), -1)
            self._largest = np.maximum(flat.max(axis=1), -flat.min(axis=1))
        return self._largest

    def in_order(self, at: NDArray[np.intp], row: NDArray[np.intp]) -> F64:
        """Rows of matrices, [len(at), K], by ascending k."""
        values = self.values[at, :, row]
        return values if self.ascending is None else values[:, self.ascending]


def doubtful(a: Fragment, b: Fragment) -> NDArray[np.intp]:
    """The matrices whose product's bits may depend on the order of adding."""
    if a.exponents is None or b.exponents is None:
        return _NONE
    bits = _F64_BITS - (a.values.shape[1] - 1).bit_length()
    if (a.reach + b.reach).max() <= bits:
        return _NONE
    return np.flatnonzero(a.exponents.each() + b.exponents.each() > bits)


def products(a: Fragment, b: Fragment, part: slice, out: F64) -> None:
    """Sums over k of the matrices ``part`` into ``out`` [n, rows of a, rows of b], in whatever order BLAS adds."""
    np.matmul(a.values[part].transpose(0, 2, 1), b.values[part], out=out)


def settle(a: Fragment, b: Fragment, at: NDArray[np.intp], sums: F64, start: Start) -> None:
    """``sums`` = C + product of the matrices ``at``, made good in place, so that they round to the right float32.

    sums: float64 [len(at), rows of a, rows of b]. start: C as float64 [m] at m elements (numbers in ``at``, row of a,
    row of b). With the largest |a| |b| of a matrix as unit, two sums of K products in different orders are less than
    ``K**2 * 2**-52`` apart. A sum of at least ``2**-9`` has units in the last place of over ``2**-62``, so the order
    matters only within ``K**2 * 2**10`` of them (twice that here, for the rounding of the sum itself) from the middle
    between two float32; smaller sums are all added in order.
    """
    unit = a.largest()[at] * b.largest()[at]
    close = _close(sums, a.values.shape[1] ** 2 << 11, unit * 2.0**-9)
    rows, columns = sums.shape[1:]
    counts = close.reshape(len(sums), -1).sum(axis=1, dtype=np.int64)
    full = np.flatnonzero(counts * _FULL > rows * columns)
    if len(full):
        i, j = np.arange(rows)[:, None], np.arange(columns)
        sums[full] = all_ordered(a, b, at[full]) + start(full[:, None, None], i, j)
        close[full] = False
    place = np.flatnonzero(close) if counts.any() else _NONE
    if len(place):
        line, j = np.divmod(place, columns)
        matrix, i = np.divmod(line, rows)
        in_order = ordered(a.in_order(at[matrix], i), b.in_order(at[matrix], j))
        sums[matrix, i, j] = in_order + start(matrix, i, j)


def _close(sums: F64, units: int, small: F64) -> Any:
    """bool [n, rows, columns]: at most so many units in the last place from the middle between two float32; or not
    at least ``small`` [n]; or not in the safe range of float32; or no number."""
    bits = scratch("close", sums.shape, np.uint64)
    close, large = scratch("close", sums.shape, np.bool_), scratch("large", sums.shape, np.bool_)
    # the bits below float32 move to the top, and the first of the close ones to 0
    np.left_shift(sums.view(np.uint64), _TO_TOP, out=bits)
    np.subtract(bits, np.uint64(_MIDDLE - units << int(_TO_TOP)), out=bits)
    np.less_equal(bits, np.uint64(2 * units << int(_TO_TOP)), out=close)
    magnitudes = np.abs(sums, out=bits.view(np.float64))
    np.greater_equal(magnitudes, np.maximum(small, _NORMAL_F32)[:, None, None], out=large)
    np.logical_not(large, out=large)
    return np.logical_or(close, large, out=close)


def ordered(a: F64, b: F64) -> F64:
    """[m, K], [m, K] -> [m]: products added one k after the other, to +0 as BLAS does."""
    total: Any = np.zeros(len(a))
    for product in (a * b).T:
        total += product
    return total


def all_ordered(a: Fragment, b: Fragment, at: NDArray[np.intp]) -> F64:
    """``ordered`` for every element of the matrices ``at``: [len(at), rows of a, rows of b]."""
    left, right = a.values[at], b.values[at]
    depth = left.shape[1]
    order = [range(depth) if f.ascending is None else f.ascending.tolist() for f in (a, b)]
    total = np.zeros((len(at), left.shape[2], right.shape[2]))
    product = scratch("ordered", total.shape, np.float64)
    for i, j in zip(*order, strict=True):
        np.multiply(left[:, i, :, None], right[:, j, None, :], out=product)
        total += product
    return total
