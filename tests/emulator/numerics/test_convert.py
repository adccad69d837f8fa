"""Float to integer, integer to float and normalised conversions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from validation.emulator.numerics import convert as cv

from .exact import BINARY, hard_pool, round_exact, same

RANGES = {"i32": (-(2**31), 2**31 - 1), "u32": (0, 2**32 - 1), "i16": (-(2**15), 2**15 - 1), "u16": (0, 2**16 - 1)}
TO_INT = {"i32": cv.float_to_i32, "u32": cv.float_to_u32, "i16": cv.float_to_i16, "u16": cv.float_to_u16}


def clip(value, low, high):
    return max(low, min(high, value))


def expected_int(x, low, high, rounding=math.trunc):
    x = float(x)
    if math.isnan(x):
        return 0
    return clip(high if x > 0 else low, low, high) if math.isinf(x) else clip(rounding(Fraction(x)), low, high)


def float_inputs(dtype, rng):
    edges = [b + d for b in (0, 2**15, 2**16, 2**31, 2**32) for d in (-1.5, -1, -0.5, 0, 0.5, 1)]
    with np.errstate(over="ignore"):
        near = np.array(edges + [-e for e in edges], np.float64).astype(dtype)
    return np.concatenate([hard_pool(dtype, rng, 200), near, (rng.standard_normal(300) * 1e4).astype(dtype)])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("target", list(RANGES))
def test_truncating_conversions_saturate(target, dtype):
    x = float_inputs(dtype, np.random.default_rng(0))
    got = TO_INT[target](x)
    assert got.dtype.itemsize * 8 == int(target[1:])
    assert got.tolist() == [expected_int(v, *RANGES[target]) for v in x]


def test_rpi_and_flr():
    x = float_inputs(np.float32, np.random.default_rng(1))
    low, high = RANGES["i32"]
    half = Fraction(1, 2)
    assert cv.f32_to_i32_flr(x).tolist() == [expected_int(v, low, high, math.floor) for v in x]
    assert cv.f32_to_i32_rpi(x).tolist() == [expected_int(v, low, high, lambda f: math.floor(f + half)) for v in x]


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_integers_to_f32(mode):
    rng = np.random.default_rng(mode)
    bits = np.concatenate(
        [rng.integers(0, 2**32, 500, dtype=np.uint32), [0, 1, 2**31, 2**32 - 1, 2**24 + 1, 2**31 - 1]]
    )
    bits = bits.astype(np.uint32)
    fmt = BINARY[np.dtype(np.float32)]
    for pattern, u, i in zip(bits.tolist(), cv.u32_to_f32(bits, mode), cv.i32_to_f32(bits, mode)):
        signed = pattern - 2**32 if pattern >= 2**31 else pattern
        assert same(u, round_exact(Fraction(pattern), fmt, mode))
        assert same(i, round_exact(Fraction(signed), fmt, mode))


def test_exact_integer_conversions():
    bits = np.array([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], np.uint32)
    assert cv.u32_to_f64(bits).tolist() == [0.0, 1.0, 2147483647.0, 2147483648.0, 4294967295.0]
    assert cv.i32_to_f64(bits).tolist() == [0.0, 1.0, 2147483647.0, -2147483648.0, -1.0]
    word = np.array([0x04FF0200], np.uint32)
    assert [float(cv.ubyte_to_f32(word, n)[0]) for n in range(4)] == [0.0, 2.0, 255.0, 4.0]
    with pytest.raises(ValueError, match=r"0\.\.3"):
        cv.ubyte_to_f32(word, 4)
    assert cv.i4_to_f32_offset(np.arange(16)).tolist() == [n / 16 if n < 8 else n / 16 - 1 for n in range(16)]


def test_16_bit_integers_to_f16():
    bits = np.array([0, 1, 2049, 2051, 0x7FFF, 0x8000, 0xFFFF, 65504], np.uint16)
    assert cv.u16_to_f16(bits).tolist() == [0, 1, 2048, 2052, 32768, 32768, np.inf, 65504]
    assert cv.i16_to_f16(bits).tolist() == [0, 1, 2048, 2052, 32768, -32768, -1, -32]
    assert cv.u16_to_f16(bits, 3).tolist() == [0, 1, 2048, 2050, 32752, 32768, 65504, 65504]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_normalised_conversions(dtype):
    x = np.concatenate([hard_pool(dtype, np.random.default_rng(2), 100), np.linspace(-1.2, 1.2, 400).astype(dtype)])

    def norm(value, low, scale):
        if math.isnan(value):
            return 0
        return round(
            clip(Fraction(value) if math.isfinite(value) else Fraction(2 if value > 0 else -2), low, 1) * scale
        )

    signed = [norm(float(v), -1, 32767) for v in x]
    unsigned = [norm(float(v), 0, 65535) for v in x]
    assert cv.float_to_snorm16(x).tolist() == signed
    assert cv.float_to_unorm16(x).tolist() == unsigned
    assert cv.cvt_pknorm_i16(x, x[::-1]).tolist() == [
        (a & 0xFFFF) | (b & 0xFFFF) << 16 for a, b in zip(signed, signed[::-1])
    ]
    assert cv.cvt_pknorm_u16(x, x[::-1]).tolist() == [a | b << 16 for a, b in zip(unsigned, unsigned[::-1])]


def test_packed_integer_saturation():
    a = np.array([0, 70000, 0xFFFFFFFF, 0x80000000, 40000], np.uint32)
    b = np.array([1, 2, 3, 4, 5], np.uint32)
    assert [hex(v) for v in cv.cvt_pk_u16_u32(a, b)] == ["0x10000", "0x2ffff", "0x3ffff", "0x4ffff", "0x59c40"]
    assert [hex(v) for v in cv.cvt_pk_i16_i32(a, b)] == ["0x10000", "0x27fff", "0x3ffff", "0x48000", "0x57fff"]


def test_packed_byte_insertion():
    x = np.array([1.9, 300.0, -5.0, np.nan], np.float32)
    got = cv.cvt_pk_u8_f32(x, np.array([0, 1, 2, 7], np.uint32), np.full(4, 0x11223344, np.uint32))
    assert [hex(v) for v in got] == ["0x11223301", "0x1122ff44", "0x11003344", "0x223344"]


def test_saturating_bytes_of_halves():
    x = np.array([0x00FF0100, 0xFFFF7FFF, 0x80000012], np.uint32)
    assert [hex(v) for v in cv.sat_pk_u8_i16(x)] == ["0xffff", "0xff", "0x12"]
