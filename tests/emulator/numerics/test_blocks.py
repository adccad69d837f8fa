"""Large arrays are evaluated in blocks: the result must not show it."""

from __future__ import annotations

import numpy as np
import pytest

from validation.emulator.numerics import fma
from validation.emulator.numerics import transcendental as tr
from validation.emulator.numerics._blocks import BLOCK, blocked

from .exact import hard_pool


def by_rows(function, *operands):
    shape = np.broadcast_shapes(*(np.shape(x) for x in operands))
    full = [np.broadcast_to(x, shape) for x in operands]
    return np.stack([function(*(x[row] for x in full)) for row in range(shape[0])])


@pytest.fixture(scope="module")
def large():
    pool = np.resize(hard_pool(np.float32, np.random.default_rng(0), 6000), 300 * 64)
    return pool.reshape(300, 64)


@pytest.mark.parametrize("function", [tr.exp2_32, tr.log2_32, tr.sin32, tr.cos32, tr.rsq32, tr.sqrt32])
def test_unary(function, large):
    assert large.size > 2 * BLOCK
    assert np.array_equal(function(large).view(np.uint32), by_rows(function, large).view(np.uint32))


@pytest.mark.parametrize("other", ["row", "column", "scalar", "full"])
def test_fma_with_broadcast_operands(other, large):
    b = {"row": large[:1], "column": large[:, :1], "scalar": np.float32(0.3), "full": large[::-1]}[other]
    got, want = fma.fma32(large, b, large[:, ::-1]), by_rows(fma.fma32, large, b, large[:, ::-1])
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


def test_block_edges_and_thin_shapes():
    sizes = []

    @blocked
    def spy(x):
        sizes.append(x.shape)
        return x + np.float32(1)

    x = np.arange(2 * BLOCK + 5, dtype=np.float32)
    assert np.array_equal(spy(x), x + 1)
    assert sizes == [(BLOCK,), (BLOCK,), (5,)]
    sizes.clear()
    assert spy(x[None, :]).shape == (1, 2 * BLOCK + 5)
    assert len(sizes) == 1
