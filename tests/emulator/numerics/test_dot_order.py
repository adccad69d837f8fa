"""``dot.settle``: whatever order a product was summed in, ``round32(c + product)`` is that of the ascending order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from validation.emulator.numerics import dot

MATRICES = 100


def _operand(random: np.random.Generator, depth: int) -> NDArray[np.float64]:
    """bf16 values [n, K, 16] over up to 100 binades, a tenth of them zero."""
    shape = (MATRICES, depth, 16)
    exponents = random.integers(-random.integers(1, 60), random.integers(1, 40), size=shape)
    values = np.ldexp(1 + random.integers(0, 128, size=shape) / 128, exponents) * random.choice([-1, 1], size=shape)
    values[random.random(shape) < 0.1] = 0
    return values


def _in_order(a: Any, b: Any, order: Any) -> NDArray[np.float64]:
    total = np.zeros((len(a), 16, 16))
    for k in order:
        total += a[:, k, :, None] * b[:, k, None, :]
    return total


@pytest.mark.parametrize("depth", [16, 32, 128])
@pytest.mark.parametrize("cancelling", [False, True])
def test_order_of_adding_does_not_show(depth: int, cancelling: bool) -> None:
    random = np.random.default_rng(depth)
    shown = 0
    for _ in range(4):
        a, b = _operand(random, depth), _operand(random, depth)
        if cancelling:
            a[:, depth // 2 :] = -a[:, : depth // 2] * (1 + 2.0**-7 * (random.random((MATRICES, depth // 2, 16)) < 0.1))
            b[:, depth // 2 :] = b[:, : depth // 2]
        due = _in_order(a, b, range(depth))
        c = (due * random.choice([0, 1, -1, 2.0**20, 2.0**-20], size=due.shape)).astype(np.float32).astype(np.float64)
        other = _in_order(a, b, random.permutation(depth))
        want = (c + due).astype(np.float32)
        shown += int(((c + other).astype(np.float32) != want).sum())
        fragments = (dot.Fragment(a, None, 0.0), dot.Fragment(b, None, 0.0))
        sums = c + other
        dot.settle(*fragments, np.arange(MATRICES), sums, lambda *at, c=c: c[at])
        got = sums.astype(np.float32)
        assert (got.view(np.uint32) == want.view(np.uint32)).all()
    assert shown  # without it, the order does show


def test_not_a_number_and_infinities() -> None:
    a, b = np.ones((1, 16, 16)), np.ones((1, 16, 16))
    a[0, 3, 0], a[0, 5, 1], a[0, 6, 2], a[0, 7, 2] = np.nan, np.inf, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        done = _in_order(a, b, reversed(range(16)))
        dot.settle(dot.Fragment(a, None, 0.0), dot.Fragment(b, None, 0.0), np.arange(1), done, lambda *_: 0.0)
    assert np.isnan(done[0, 0]).all()
    assert (done[0, 1] == np.inf).all()
    assert np.isnan(done[0, 2]).all()
    assert (done[0, 3:] == 16).all()


@pytest.mark.parametrize("poisoned", [range(0), range(0, MATRICES, 3), range(MATRICES)])
def test_matrices_in_doubt_as_a_whole_are_summed_by_ascending_k(poisoned: range) -> None:
    """A NaN leaves its matrix without a largest value, so each of its elements is in doubt."""
    random = np.random.default_rng(7)
    a, b = _operand(random, 32), _operand(random, 32)
    a[list(poisoned), 5, 3] = np.nan
    ascending = random.permutation(32)
    due = _in_order(a, b, ascending)
    c = due * random.choice([0, -1, 2.0**20], size=due.shape)
    c = np.nan_to_num(c.astype(np.float32).astype(np.float64), posinf=1.0, neginf=1.0)
    sums = c + _in_order(a, b, random.permutation(32))
    fragments = (dot.Fragment(x, None, 0.0, ascending) for x in (a, b))
    with np.errstate(invalid="ignore"):
        dot.settle(*fragments, np.arange(MATRICES), sums, lambda *at: c[at])
    want = (c + due).astype(np.float32)
    assert np.isnan(want).any() == bool(poisoned)
    np.testing.assert_array_equal(sums.astype(np.float32), want)
