"""min/max family, modifiers, rounding to integers, frexp, ldexp, class."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from validation.emulator.numerics import bits as fb
from validation.emulator.numerics import ieee

from .exact import BINARY, hard_pool, round_exact, same

TYPES = [np.float16, np.float32, np.float64]
F32 = np.float32
SNAN, QNAN, INF, ONE, TWO, NZERO = 0x7F812345, 0xFFC54321, 0x7F800000, 0x3F800000, 0x40000000, 0x80000000


def f32(*patterns):
    return np.array(patterns, np.uint32).view(F32)


def bits32(x):
    return [int(v) for v in np.atleast_1d(np.asarray(x)).view(np.uint32)]


@pytest.mark.parametrize("dtype", TYPES)
def test_min_and_max_of_numbers(dtype):
    rng = np.random.default_rng(0)
    pool = hard_pool(dtype, rng, 300)
    pool = pool[~np.isnan(pool)]
    a, b = rng.permutation(pool), rng.permutation(pool)
    low, high = ieee.minimum(a, b), ieee.maximum(a, b)

    def key(v):
        return (float(v), not np.signbit(v))

    for x, y, small, large in zip(a, b, low, high):
        assert key(small) == min(key(x), key(y))
        assert key(large) == max(key(x), key(y))


@pytest.mark.parametrize(
    ("a", "b", "with_ieee", "without"),
    [
        (QNAN, ONE, ONE, ONE),
        (ONE, QNAN, ONE, ONE),
        (SNAN, ONE, SNAN | 0x400000, ONE),
        (ONE, SNAN, SNAN | 0x400000, ONE),
        (SNAN, QNAN, SNAN | 0x400000, QNAN),
        (QNAN, SNAN, SNAN | 0x400000, SNAN),
        (QNAN, QNAN, QNAN, QNAN),
    ],
)
def test_min_and_max_of_nans_follow_the_pseudocode(a, b, with_ieee, without):
    for function in (ieee.minimum, ieee.maximum):
        assert bits32(function(f32(a), f32(b), True)) == [with_ieee]
        assert bits32(function(f32(a), f32(b), False)) == [without]


def test_min_and_max_refuse_mixed_formats():
    with pytest.raises(TypeError, match="one format"):
        ieee.minimum(np.float32(1), np.float64(1))
    with pytest.raises(TypeError, match="view the bits"):
        ieee.minimum(np.uint32(1), np.uint32(1))


@pytest.mark.parametrize("dtype", TYPES)
def test_three_operand_forms(dtype):
    rng = np.random.default_rng(1)
    pool = hard_pool(dtype, rng, 200)
    pool = pool[~np.isnan(pool)]
    a, b, c = (rng.permutation(pool) for _ in range(3))
    triples = [sorted(map(float, t)) for t in zip(a, b, c)]
    assert ieee.min3(a, b, c).tolist() == [t[0] for t in triples]
    assert ieee.med3(a, b, c).tolist() == [t[1] for t in triples]
    assert ieee.max3(a, b, c).tolist() == [t[2] for t in triples]
    assert ieee.minimum3(a, b, c).tolist() == [t[0] for t in triples]
    assert ieee.maximum3(a, b, c).tolist() == [t[2] for t in triples]


def test_med3_with_a_nan_is_min3_and_maximum3_propagates():
    one, two, nan = f32(ONE), f32(TWO), f32(QNAN)
    for operands in ((nan, one, two), (one, nan, two), (two, one, nan)):
        assert ieee.med3(*operands).tolist() == [1.0]
        assert bits32(ieee.maximum3(*operands)) == [QNAN]
        assert bits32(ieee.minimum3(*operands)) == [QNAN]


def test_med3_of_signed_zeros_follows_the_pseudocode():
    # max3 == S0 holds between zeros of either sign, and the larger of the other two is returned.
    assert bits32(ieee.med3(f32(NZERO), f32(0), f32(0xBF800000))) == [0]
    assert bits32(ieee.med3(f32(0), f32(NZERO), f32(0xBF800000))) == [NZERO]


def test_denormal_modes_are_named_for_what_they_flush():
    x = f32(1)
    for mode, inputs, outputs in ((ieee.FLUSH_BOTH, 0, 0), (ieee.FLUSH_OUTPUT, 1, 0), (ieee.FLUSH_INPUT, 0, 1)):
        assert (bits32(ieee.flush_inputs(x, mode)), bits32(ieee.flush_outputs(x, mode))) == ([inputs], [outputs])


def test_clamp_and_omod():
    x = np.array([-1.0, -0.0, 0.25, 1.0, 7.0, np.inf, -np.inf, np.nan], F32)
    assert bits32(ieee.clamp(x)) == bits32(np.array([0, 0, 0.25, 1, 1, 1, 0, 0], F32))
    assert np.isnan(ieee.clamp(x, dx10_clamp=False)[-1])
    y = np.array([1.5, -0.0, 3e38, 1.2e-38, np.nan], F32)
    assert ieee.omod(y, 0) is y
    assert bits32(ieee.omod(y, 1))[:4] == bits32(np.array([3.0, 0.0, np.inf, 2.4e-38], F32))
    assert bits32(ieee.omod(y, 2))[:2] == bits32(np.array([6.0, 0.0], F32))
    assert bits32(ieee.omod(y, 3))[:4] == bits32(np.array([0.75, 0.0, 1.5e38, 0.0], F32))
    with pytest.raises(ValueError, match="OMOD"):
        ieee.omod(y, 4)


def test_denormal_flushing_keeps_signs():
    x = f32(1, 0x807FFFFF, 0x00800000, NZERO, QNAN, SNAN)
    flushed = [0, NZERO, 0x00800000, NZERO, QNAN, SNAN]
    kept = bits32(x)
    assert [bits32(ieee.flush_inputs(x, mode)) == flushed for mode in range(4)] == [True, False, True, False]
    assert [bits32(ieee.flush_outputs(x, mode)) == flushed for mode in range(4)] == [True, True, False, False]
    assert bits32(ieee.flush_inputs(x, 3)) == kept


@pytest.mark.parametrize("dtype", TYPES)
def test_rounding_to_integers(dtype):
    rng = np.random.default_rng(2)
    x = np.concatenate([hard_pool(dtype, rng, 200), (rng.integers(-40, 40, 200) / 8).astype(dtype)])
    x = x[np.isfinite(x)]
    models = {ieee.trunc: math.trunc, ieee.ceil: math.ceil, ieee.floor: math.floor, ieee.rndne: round}
    for function, model in models.items():
        got = function(x)
        assert [int(v) for v in got] == [model(Fraction(float(v))) for v in x]
        assert np.array_equal(np.signbit(got), np.signbit(x) | ((got < 0) & (x >= 0))), "zeros keep the operand's sign"
    assert bits32(ieee.trunc(f32(SNAN, INF))) == [SNAN | 0x400000, INF]


@pytest.mark.parametrize("dtype", TYPES)
def test_fract(dtype):
    rng = np.random.default_rng(3)
    x = hard_pool(dtype, rng, 200)
    x = x[np.isfinite(x)]
    below_one = Fraction(float(np.nextafter(dtype(1), dtype(0))))
    for value, got in zip(x, ieee.fract(x)):
        exact = Fraction(float(value))
        want = round_exact(exact - math.floor(exact), BINARY[np.dtype(dtype)])
        assert same(got, min(want, below_one))
    assert np.isnan(ieee.fract(np.array([np.inf, -np.inf], dtype))).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_frexp(dtype):
    x = hard_pool(dtype, np.random.default_rng(4), 300)
    exponent, mantissa = ieee.frexp_exp(x), ieee.frexp_mant(x)
    assert exponent.dtype == np.int32
    assert mantissa.dtype == dtype
    for value, e, m in zip(x, exponent.tolist(), mantissa):
        if np.isfinite(value) and value != 0:
            assert Fraction(float(m)) * Fraction(2) ** e == Fraction(float(value))
            assert 0.5 <= abs(m) < 1
        else:
            assert e == 0
            assert m == value or np.isnan(value)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("dtype", TYPES)
def test_ldexp_rounds_once(dtype, mode):
    rng = np.random.default_rng(5)
    info = np.finfo(dtype)
    x = hard_pool(dtype, rng, 300)
    spread = 2 * (info.maxexp - info.minexp)
    powers = np.concatenate([rng.integers(-spread, spread, len(x) - 6), [2**31 - 1, -(2**31), 0, 1, -1, 40]])
    powers = powers.astype(np.int32)
    got = ieee.ldexp(x, powers, mode)
    for value, power, result in zip(x, powers.tolist(), got):
        if np.isfinite(value):
            exact = Fraction(float(value)) * Fraction(2) ** max(-6000, min(6000, power))
            assert same(result, round_exact(exact, BINARY[np.dtype(dtype)], mode)), (value, power, result)
            assert np.signbit(result) == np.signbit(value)


def test_class_masks():
    x = f32(SNAN, QNAN, 0xFF800000, 0xBF800000, 0x80000001, NZERO, 0, 1, ONE, INF)
    assert ieee.class_bits(x).tolist() == [1 << n for n in range(10)]
    assert ieee.class_test(x, np.uint32(0b11)).tolist() == [True, True] + [False] * 8
    doubles = np.array([np.nan, -np.inf, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, np.inf])
    assert ieee.class_bits(doubles).tolist() == [1 << n for n in range(1, 10)]
    halves = np.array([0x7C01, 0x7E00, 0xFC00, 0xBC00, 0x8001, 0x8000, 0, 1, 0x3C00, 0x7C00], np.uint16).view(
        np.float16
    )
    assert ieee.class_bits(halves).tolist() == [1 << n for n in range(10)]


def test_legacy_multiply_and_canonicalize():
    a = np.array([0.0, -0.0, np.inf, 3.0], F32)
    b = np.array([np.nan, np.inf, 0.0, -2.0], F32)
    assert bits32(ieee.mul_legacy(a, b)) == bits32(np.array([0, 0, 0, -6.0], F32))
    assert bits32(ieee.canonicalize(f32(SNAN, QNAN, ONE))) == [SNAN | 0x400000, QNAN, ONE]


def test_bit_helpers():
    assert fb.is_signalling(f32(SNAN, QNAN, INF, ONE)).tolist() == [True, False, False, False]
    assert fb.is_denormal(f32(1, 0x007FFFFF, 0x00800000, 0)).tolist() == [True, True, False, False]
    assert fb.exponent_field(f32(1, ONE, INF)).tolist() == [0, 127, 255]
    half_nan = np.array([0x7D23], np.uint16).view(np.float16)
    widened = fb.settle_nans(np.array([np.nan], F32), half_nan)
    assert bits32(widened) == [0x7FC00000 | 0x123 << 13]
