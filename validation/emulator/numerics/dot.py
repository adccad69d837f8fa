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

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
_F64_BITS = 53
#: Exponent of operands that hold NaN or infinity: wider than any exact sum.
_WILD = 2.0**20
_NONE = np.arange(0)
#: The bits of a float64 that a float32 lacks, and the value of these in the middle between two float32.
_BELOW_F32, _MIDDLE = (1 << 29) - 1, 1 << 28
#: Safely in the range of normal float32, whose spacing ``_BELOW_F32`` stands for.
_NORMAL_F32 = 2.0**-125


@dataclass(slots=True)
class Exponents:
    """How far the exponents of n matrices reach, read off the codes of their elements' magnitudes.

    A reach is the binary logarithm of the largest value, rounded up a little, minus the exponent of the last
    significand bit of the smallest one but zero.

    codes: unsigned [x, n, m]; mantissa_bits: width of their lowest field; infinity: codes from here on are no numbers.
    blocks: the last axis holds that many matrices one after the other. scale: biased exponents [n, lanes] that are
    added to those of the elements, 255 being NaN.
    """

    codes: NDArray[Any]
    mantissa_bits: int
    infinity: int
    blocks: int = 1
    scale: NDArray[np.uint8] | None = None
    _each: NDArray[np.float64] | None = None

    def _reach(self, high: Any, low: Any) -> Any:
        """For float64 codes. A code over 2**mantissa_bits is exponent + fraction, at most 0.0861 below log2."""
        one = float(1 << self.mantissa_bits)
        return np.maximum(high / one, 1.0) + 0.0861 - np.maximum(np.floor(low / one), 1.0) + self.mantissa_bits

    def overall(self) -> float:
        """Reach of all matrices together, no less than that of any of them."""
        high = int(self.codes.max())
        low = -int(np.negative(self.codes).max()) & (1 << 8 * self.codes.itemsize) - 1  # wraps, so zeros do not count
        top, bottom = (int(self.scale.max()), int(self.scale.min())) if self.scale is not None else (0, 0)
        if high >= self.infinity or top == 255:
            return _WILD
        return float(self._reach(high, low)) + top - bottom

    def each(self) -> NDArray[np.float64]:
        """Reach of each matrix, [n * blocks]."""
        if self._each is None:
            codes, negative = self.codes, np.negative(self.codes)
            largest = [x.max(axis=0).reshape(codes.shape[1] * self.blocks, -1).max(axis=1) for x in (codes, negative)]
            high, low = largest[0].astype(np.float64), np.negative(largest[1]).astype(np.float64)
            reach = self._reach(high, low)
            if self.scale is not None:
                top = self.scale.max(axis=1).astype(np.float64)
                reach += np.where(top == 255, _WILD, top - self.scale.min(axis=1))
            reach[high >= self.infinity] = _WILD
            self._each = reach
        return self._each


@dataclass(slots=True)
class Fragment:
    """An operand of n matrices as float64 [n, K, rows].

    ``exponents``: None where products are exact anyway. ``reach``: of all of them together. ``ascending``: positions
    along K in the order of ascending k, None where they already are.
    """

    values: F64
    exponents: Exponents | None
    reach: float
    ascending: NDArray[np.intp] | None = None

    def in_order(self, at: NDArray[np.intp], row: NDArray[np.intp]) -> F64:
        """Rows of matrices, [len(at), K], by ascending k."""
        values = self.values[at, :, row]
        return values if self.ascending is None else values[:, self.ascending]


def doubtful(a: Fragment, b: Fragment) -> NDArray[np.intp]:
    """The matrices whose product's bits may depend on the order of adding."""
    bits = _F64_BITS - (a.values.shape[1] - 1).bit_length()
    if a.reach + b.reach <= bits or a.exponents is None or b.exponents is None:
        return _NONE
    return np.flatnonzero(a.exponents.each() + b.exponents.each() > bits)


def products(a: Fragment, b: Fragment, part: slice, out: F64) -> None:
    """Sums over k of the matrices ``part`` into ``out`` [n, rows of a, rows of b], in whatever order BLAS adds."""
    np.matmul(a.values[part].transpose(0, 2, 1), b.values[part], out=out)


def settle(a: Fragment, b: Fragment, at: NDArray[np.intp], product: F64, c: Any) -> F64:
    """``product`` of the matrices ``at``, made good for ``round32(c + product)``.

    c: float64, broadcastable to [len(at), rows of a, rows of b]. With the largest |a| |b| of a matrix as unit, two sums
    of K products in different orders are less than ``K**2 * 2**-52`` apart. A sum of at least ``2**-9`` has units in
    the last place of over ``2**-62``, so the order matters only within ``K**2 * 2**10`` of them (twice that here, for
    the rounding of the sum itself) from the middle between two float32; smaller sums are all added in order.
    """
    unit = np.abs(a.values[at]).max(axis=(1, 2)) * np.abs(b.values[at]).max(axis=(1, 2))
    sums = c + product
    from_middle = np.abs((sums.view(np.int64) & _BELOW_F32) - _MIDDLE)
    close = from_middle <= (a.values.shape[1] ** 2 << 11)
    close |= ~(np.abs(sums, out=sums) >= np.maximum(unit * 2.0**-9, _NORMAL_F32)[:, None, None])
    matrix, i, j = np.nonzero(close)
    if len(matrix):
        product[matrix, i, j] = ordered(a.in_order(at[matrix], i), b.in_order(at[matrix], j))
    return product


def ordered(a: F64, b: F64) -> F64:
    """[m, K], [m, K] -> [m]: products added one k after the other, to +0 as BLAS does."""
    total: Any = np.zeros(len(a))
    for k in range(a.shape[1]):
        total += a[:, k] * b[:, k]
    return total
