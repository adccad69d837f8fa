"""Matrix products for MFMA, the same bits on every CPU.

Definition: ``D = round32(C + sum over k, in ascending order, of A[k] * B[k])``, products and sum in float64 (products of
8-, 11- or 3-bit significands are exact there). Silicon sums in groups and truncates in places that no manual states, so
results agree with it to the usual error bound, not bit for bit.

BLAS adds in an order of its own, which is harmless exactly where every order gives the same bits: where all products
and partial sums are exact in float64. That is decided per wave from the operands' exponents; other waves are summed in
order, element by element.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_F64_BITS = 53
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_EXPONENT = np.uint32(23)
_SMALLEST_NORMAL = 1 << 23
_INFINITY = 0x7F800000


@dataclass(slots=True)
class Fragment:
    """An operand of n matrices as float64 [n, K, rows], with the span of its exponents for each.

    ``top``: biased exponent of the largest magnitude; ``bottom``: of the smallest non-zero one, minus its significand
    bits; a matrix that holds NaN, Inf or a float32 denormal has an infinite span.
    """

    values: NDArray[np.float64]
    top: NDArray[np.int64]
    bottom: NDArray[np.int64]


def fragment(values: NDArray[np.float32], significand_bits: int) -> Fragment:
    """``values``: float32 [n, K, rows], each with at most ``significand_bits`` bits after the leading one."""
    bits = values.view(np.uint32) & _MAGNITUDE
    flat = bits.reshape(len(bits), -1)
    high = flat.max(axis=1)
    low = (flat - np.uint32(1)).min(axis=1) + np.uint32(1)  # zeros wrap to the top and so do not count
    low = np.where(high == 0, high, low)
    top = (high >> _EXPONENT).astype(np.int64)
    bottom = (low >> _EXPONENT).astype(np.int64) - significand_bits
    wild = (high >= _INFINITY) | ((low < _SMALLEST_NORMAL) & (low != 0))
    bottom[wild] = -(1 << 20)
    return Fragment(values.astype(np.float64), top, bottom)


def sum_of_products(a: Fragment, b: Fragment) -> NDArray[np.float64]:
    """float64 [n, rows of a, rows of b]: the sum over k in ascending order."""
    depth = a.values.shape[1]
    span = (a.top - a.bottom) + (b.top - b.bottom) + 2 + (depth - 1).bit_length()
    with np.errstate(all="ignore"):
        result = np.matmul(a.values.transpose(0, 2, 1), b.values)
        wild = np.flatnonzero(span > _F64_BITS)
        if len(wild):
            result[wild] = ordered(a.values[wild], b.values[wild])
    return result


def ordered(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """[n, K, I], [n, K, J] -> [n, I, J], added one k after the other."""
    total: Any = a[:, 0, :, None] * b[:, 0, None, :]
    for k in range(1, a.shape[1]):
        total += a[:, k, :, None] * b[:, k, None, :]
    return total
