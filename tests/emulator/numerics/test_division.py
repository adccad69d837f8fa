"""The division macro must divide: its expectation is IEEE division, not its own pseudocode."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from validation.emulator.numerics import division as dv
from validation.emulator.numerics.fma import fma32, fma64
from validation.emulator.numerics.transcendental import rcp32, rcp64

from .exact import hard_pool

F32 = np.float32


def divide32(n, d):
    """The sequence that LLVM emits for an IEEE f32 division (SITargetLowering::LowerFDIV32), after the reciprocal."""
    scaled_d, _ = dv.div_scale(d, d, n)
    scaled_n, vcc = dv.div_scale(n, d, n)
    reciprocal = rcp32(scaled_d)
    reciprocal = fma32(fma32(-scaled_d, reciprocal, F32(1)), reciprocal, reciprocal)
    quotient = scaled_n * reciprocal
    quotient = fma32(fma32(-scaled_d, quotient, scaled_n), reciprocal, quotient)
    rest = fma32(-scaled_d, quotient, scaled_n)
    return dv.div_fixup(dv.div_fmas(rest, reciprocal, quotient, vcc), d, n)


def divide64(n, d):
    """The same for f64 (SITargetLowering::LowerFDIV64)."""
    scaled_d, _ = dv.div_scale(d, d, n)
    scaled_n, vcc = dv.div_scale(n, d, n)
    reciprocal, one = rcp64(scaled_d), np.float64(1)
    for _ in range(2):
        reciprocal = fma64(fma64(-scaled_d, reciprocal, one), reciprocal, reciprocal)
    quotient = scaled_n * reciprocal
    rest = fma64(-scaled_d, quotient, scaled_n)
    return dv.div_fixup(dv.div_fmas(rest, reciprocal, quotient, vcc), d, n)


def markstein_exception(d):
    """True where the mantissa of a float64 is all ones.

    1/d then lies just above a rounding boundary, which Newton steps approach from
    below: no start value makes the f64 sequence's reciprocal correctly rounded
    (Markstein, "Computation of elementary functions on the IBM RISC System/6000
    processor", 1990).  It is a property of the sequence, not of the instructions.
    """
    mantissa = np.uint64((1 << 52) - 1)
    return np.isfinite(d) & ((d.view(np.uint64) & mantissa) == mantissa)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("dtype", "divide", "count"), [(np.float32, divide32, 40_000), (np.float64, divide64, 6_000)])
def test_the_macro_divides_correctly(dtype, divide, count):
    rng = np.random.default_rng(0)
    pool = hard_pool(dtype, rng, count)
    n, d = rng.permutation(pool), rng.permutation(pool)
    got, want = divide(n, d), n / d
    nan = np.isnan(want)
    uint = np.dtype(f"u{np.dtype(dtype).itemsize}")
    exempt = np.zeros(len(d), bool) if dtype is np.float32 else markstein_exception(d)
    assert np.array_equal(np.isnan(got), nan)
    assert np.array_equal(got[~nan & ~exempt].view(uint), want[~nan & ~exempt].view(uint))
    assert np.all(np.abs(got[exempt].view(uint).astype(np.int64) - want[exempt].view(uint).astype(np.int64)) <= 1)
    assert np.any((np.abs(want) < np.finfo(dtype).tiny) & (want != 0)), "denormal quotients must be among the cases"


@pytest.mark.parametrize(
    ("value", "denominator", "numerator", "scaled", "vcc"),
    [
        (2.0, 2.0, 1.0, 2.0, False),
        (1.0, 2.0, 1.0, 1.0, False),
        (2.0**-149, 2.0**-149, 1.0, 2.0**-85, True),  # exponent gap of 127: only the denominator
        (1.0, 2.0**-149, 1.0, 1.0, True),
        (2.0**-140, 2.0**-140, 2.0**-130, 2.0**-76, False),  # denormal denominator: both
        (2.0**-130, 2.0**-140, 2.0**-130, 2.0**-66, False),
        (1.5 * 2.0**127, 1.5 * 2.0**127, 1.0, 1.5 * 2.0**63, True),  # denormal reciprocal and quotient
        (1.5 * 2.0**127, 1.5 * 2.0**127, 2.0**20, 1.5 * 2.0**63, False),  # denormal reciprocal only: both
        (2.0**20, 1.5 * 2.0**127, 2.0**20, 2.0**-44, False),
        (2.0**-60, 2.0**90, 2.0**-60, 2.0**4, True),  # denormal quotient: only the numerator
        (2.0**90, 2.0**90, 2.0**-60, 2.0**90, True),
        (2.0**-110, 1.0, 2.0**-110, 2.0**-46, False),  # tiny numerator: both
    ],
)
def test_div_scale_branches(value, denominator, numerator, scaled, vcc):
    got, flag = dv.div_scale(F32(value), F32(denominator), F32(numerator))
    assert (float(got), bool(flag)) == (scaled, vcc)


def test_div_scale_of_zeros():
    got, flag = dv.div_scale(F32(0), F32(0), F32(1))
    assert int(np.asarray(got).view(np.uint32)) == 0xFFC00000
    assert flag


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_div_fixup_special_cases(dtype):
    inf, nan = dtype(np.inf), dtype(np.nan)
    one, two, zero = dtype(1), dtype(2), dtype(0)
    cases = [  # quotient, denominator, numerator, result
        (one, zero, one, inf),
        (one, -zero, one, -inf),
        (one, two, inf, inf),
        (one, inf, two, zero),
        (one, two, -zero, -zero),
        (-one, two, two, one),
        (one, two, -two, -one),
        (nan, two, two, inf),
    ]
    quotient, denominator, numerator, want = (np.array(column, dtype) for column in zip(*cases))
    got = dv.div_fixup(quotient, denominator, numerator)
    uint = np.dtype(f"u{np.dtype(dtype).itemsize}")
    assert got.view(uint).tolist() == want.view(uint).tolist()
    invalid = dv.div_fixup(np.ones(2, dtype), np.array([0, np.inf], dtype), np.array([0, np.inf], dtype))
    assert np.isnan(invalid).all()
    assert np.signbit(invalid).all()


def test_div_fixup_nan_payloads_and_priority():
    def value(bits):
        return np.array([bits], np.uint32).view(F32)

    got = dv.div_fixup(F32(1), value(0x7F800001), value(0xFF812345))
    assert got.view(np.uint32).tolist() == [0xFFC12345]
    got = dv.div_fixup(F32(1), value(0x7F800001), F32(1))
    assert got.view(np.uint32).tolist() == [0x7FC00001]


def test_div_scale_refuses_f16():
    with pytest.raises(TypeError, match="float32 and float64"):
        dv.div_scale(np.float16(1), np.float16(1), np.float16(1))


def test_trig_preop_pieces_add_up_to_two_over_pi():
    mpmath.mp.prec = 1400
    two_over_pi = 2 / mpmath.pi
    pieces = dv.trig_preop(np.float64(1), np.arange(20, dtype=np.uint32))
    total = sum((Fraction(float(p)) for p in pieces), Fraction(0))
    error = two_over_pi - mpmath.mpf(total.numerator) / total.denominator
    assert 0 <= error < mpmath.mpf(2) ** -1058  # 20 pieces of 53 bits hold 1060, the last one above 2**-1060
    assert float(pieces[0]) == 0.6366197723675813


def test_trig_preop_skips_bits_for_large_arguments():
    base = dv.trig_preop(np.float64(1), np.uint32(0))
    large = dv.trig_preop(np.ldexp(1.0, 1077 - 1023 + 10), np.uint32(0))
    two_over_pi = Fraction(int(mpmath.floor(mpmath.mpf(2) ** 1201 * 2 / mpmath.pi)), 2**1201)
    assert Fraction(float(base)) == Fraction(int(two_over_pi * 2**53), 2**53)
    expected = int(two_over_pi * 2**63) % 2**53
    assert Fraction(float(large)) == Fraction(expected, 2**63)


@pytest.mark.parametrize(("dtype", "divide"), [(np.float32, divide32), (np.float64, divide64)])
def test_operands_that_need_no_scaling(dtype, divide):
    rng = np.random.default_rng(1)
    n, d = (np.ldexp(rng.uniform(-2, 2, 3000), rng.integers(-20, 20, 3000)).astype(dtype) for _ in range(2))
    assert np.array_equal(divide(n, d), n / d)
    scaled, vcc = dv.div_scale(n, d, n)
    assert np.array_equal(scaled, n)
    assert not vcc.any()
