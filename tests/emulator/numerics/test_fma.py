"""fma, add and mul against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validation.emulator.numerics import fma

from .exact import BINARY, hard_pool, round_exact, same

FMA = {np.float16: fma.fma16, np.float32: fma.fma32, np.float64: fma.fma64}
ADD = {np.float16: fma.add16, np.float32: fma.add32, np.float64: fma.add64}
MUL = {np.float16: fma.mul16, np.float32: fma.mul32, np.float64: fma.mul64}
TYPES = [np.float16, np.float32, np.float64]
MODES = [0, 1, 2, 3]


def judge(function, dtype, mode, operands, exact) -> None:
    results = function(*operands, mode)
    assert results.dtype == dtype
    checked = 0
    for lane, values in enumerate(zip(*operands)):
        if not all(np.isfinite(v) for v in values):
            continue
        truth = exact(*(Fraction(float(v)) for v in values))
        expected = round_exact(truth, BINARY[np.dtype(dtype)], mode)
        assert same(results[lane], expected), (values, results[lane], float(truth) if truth else truth, mode)
        checked += 1
    assert checked > len(results) // 2


def sums_that_tie(dtype, rng, count):
    """Triples whose exact a * b + c is near a rounding boundary, with tails far below it."""
    info = np.finfo(dtype)
    ulp = rng.integers(0, 2, count)
    a = (1 + rng.integers(0, 1 << min(info.nmant, 20), count) * float(info.eps)).astype(dtype)
    b = (1 + rng.integers(0, 4, count) * float(info.eps)).astype(dtype)
    scale = rng.integers(-info.nmant - 3, info.nmant + 3, count)
    c = np.ldexp(dtype(1) + ulp.astype(dtype) * info.eps, scale).astype(dtype)
    return a, b, np.where(rng.integers(0, 2, count) == 0, c, -c).astype(dtype)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", TYPES)
def test_fma_is_correctly_rounded(dtype, mode):
    rng = np.random.default_rng(mode)
    pool = hard_pool(dtype, rng, 250)
    operands = [rng.permutation(pool) for _ in range(3)]
    ties = sums_that_tie(dtype, rng, 250)
    triples = [np.concatenate(pair) for pair in zip(operands, ties)]
    judge(FMA[dtype], dtype, mode, triples, lambda a, b, c: a * b + c)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", TYPES)
def test_add_and_mul_are_correctly_rounded(dtype, mode):
    rng = np.random.default_rng(10 + mode)
    pool = hard_pool(dtype, rng, 250)
    a, b = rng.permutation(pool), rng.permutation(pool)
    judge(ADD[dtype], dtype, mode, [a, b], lambda x, y: x + y)
    judge(MUL[dtype], dtype, mode, [a, b], lambda x, y: x * y)


def test_fma32_where_a_float64_fma_rounds_twice():
    # 2**30 + 128 has an odd mantissa; the product is half its ulp less 2**-40, which float64 cannot hold.
    a = np.array([64 * (1 + 2.0**-23)], np.float32)
    b = np.array([1 - 2.0**-23], np.float32)
    c = np.float32(2.0**30 + 128)
    truths = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(c)) for x, y in zip(a, b)]
    naive = (a.astype(np.float64) * b + c).astype(np.float32)
    expected = [round_exact(truth, BINARY[np.dtype(np.float32)]) for truth in truths]
    results = fma.fma32(a, b, c)
    assert all(same(result, value) for result, value in zip(results, expected))
    assert not same(naive[0], expected[0]), "the case does not test anything"


@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        # c sits half-way between denormals of the f32 range once the tiny product is added.
        (2.0**-75, 2.0**-75, 0.0, 0.0),
        (2.0**-75, 2.0**-75 * (1 + 2.0**-23), 0.0, 2.0**-149),
        (2.0**-140, 2.0**-140, 2.0**-149, 2.0**-149),
        # Half-way at 1 + 2**-24, moved up and down by 2**-120.
        (1.0 + 2.0**-23, 2.0**-24, 1.0, 1.0 + 2.0**-23),
    ],
)
def test_fma32_hand_vectors(a, b, c, expected):
    assert float(fma.fma32(np.float32(a), np.float32(b), np.float32(c))) == expected


bits32 = st.integers(0, 2**32 - 1)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(bits32, bits32, bits32), min_size=8, max_size=8))
def test_fma32_on_random_bits(patterns):
    a, b, c = (np.array(column, dtype=np.uint32).view(np.float32) for column in zip(*patterns))
    results = fma.fma32(a, b, c)
    for lane in range(8):
        if all(np.isfinite(v) for v in (a[lane], b[lane], c[lane])):
            truth = Fraction(float(a[lane])) * Fraction(float(b[lane])) + Fraction(float(c[lane]))
            assert same(results[lane], round_exact(truth, BINARY[np.dtype(np.float32)]))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mode", MODES)
def test_sign_of_an_exact_zero(dtype, mode):
    one = dtype(1)
    down = mode == 2
    assert np.signbit(FMA[dtype](one, one, -one, mode)) == down
    assert np.signbit(ADD[dtype](one, -one, mode)) == down
    assert not np.signbit(ADD[dtype](dtype(0), dtype(0), mode))
    assert np.signbit(ADD[dtype](dtype(-0.0), dtype(-0.0), mode))
    assert np.signbit(MUL[dtype](dtype(-0.0), one, mode))
    assert not np.signbit(MUL[dtype](dtype(0), one, mode))


@pytest.mark.parametrize("mode", MODES)
def test_nan_rules(mode):
    quiet, signalling = 0x7FC12345, 0xFF812345

    def value(bits):
        return np.array([bits], np.uint32).view(np.float32)

    def bits(x):
        return int(np.asarray(x).view(np.uint32)[0])

    one, inf = value(0x3F800000), value(0x7F800000)
    assert bits(fma.fma32(value(quiet), value(signalling), one, mode)) == quiet
    assert bits(fma.fma32(one, value(signalling), value(quiet), mode)) == 0xFFC12345
    assert bits(fma.fma32(one, one, value(signalling), mode)) == 0xFFC12345
    assert bits(fma.fma32(inf, np.zeros(1, np.float32), one, mode)) == 0xFFC00000
    assert bits(fma.add32(inf, -inf, mode)) == 0xFFC00000
    assert bits(fma.mul32(one, value(signalling), mode)) == 0xFFC12345


def test_shapes_broadcast_and_operands_stay_untouched():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    row, scalar = np.array([1, 2, 3], np.float32), np.float32(0.5)
    before = a.copy()
    result = fma.fma32(a, row, scalar)
    assert result.shape == (2, 3)
    assert np.array_equal(result, a * row + scalar)
    assert np.array_equal(a, before)
    assert float(fma.fma32(np.float32(2), np.float32(3), np.float32(4))) == 10.0


def test_unknown_rounding_mode_is_refused():
    with pytest.raises(ValueError, match="round_mode must be"):
        fma.fma64(np.float64(1), np.float64(1), np.float64(1), 4)
