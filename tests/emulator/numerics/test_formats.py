"""Conversions among f16, bf16, f32 and f64."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from validation.emulator.numerics import formats

from .exact import BF16, BINARY, hard_pool, round_exact, same

ALL16 = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
U32 = np.uint32


def f32(*patterns):
    return np.array(patterns, U32).view(np.float32)


def finite_exact(x):
    return [(lane, Fraction(float(v))) for lane, v in enumerate(x) if np.isfinite(v)]


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered in multiply:RuntimeWarning")
@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_f32_to_f16_every_mode(mode):
    rng = np.random.default_rng(mode)
    x = np.concatenate([hard_pool(np.float32, rng, 400), hard_pool(np.float16, rng, 400).astype(np.float32)])
    x = np.concatenate([x, x * np.float32(1 + 2.0**-11), (rng.standard_normal(400) * 2.0**-20).astype(np.float32)])
    got = formats.f32_to_f16(x, mode)
    for lane, exact in finite_exact(x):
        assert same(got[lane], round_exact(exact, BINARY[np.dtype(np.float16)], mode)), (x[lane], got[lane])


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered in multiply:RuntimeWarning")
@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_f64_to_f32_every_mode(mode):
    rng = np.random.default_rng(mode)
    x = np.concatenate([hard_pool(np.float64, rng, 300), hard_pool(np.float32, rng, 600) * (1 + 2.0**-25)])
    got = formats.f64_to_f32(x, mode)
    for lane, exact in finite_exact(x):
        assert same(got[lane], round_exact(exact, BINARY[np.dtype(np.float32)], mode)), (x[lane], got[lane])


def test_every_f16_survives_a_round_trip():
    halves = ALL16.view(np.float16)
    wide = formats.f16_to_f32(halves)
    nan = np.isnan(halves)
    back = formats.f32_to_f16(wide).view(np.uint16)
    assert np.array_equal(back[~nan], ALL16[~nan])
    assert np.array_equal(back[nan], ALL16[nan] | 0x200), "NaNs come back quiet, with their payload"
    assert np.array_equal(wide[~nan], torch.from_numpy(halves[~nan]).float().numpy())


def test_f32_to_bf16_against_torch_and_by_hand():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 1 << 32, 200_000, dtype=np.uint64).astype(U32)
    x = np.concatenate([x, (ALL16.astype(U32) << U32(16)) | U32(0x8000)])  # every tie
    values = x.view(np.float32)
    want = torch.from_numpy(values).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    got = formats.f32_to_bf16(values)
    nan = np.isnan(values)
    assert np.array_equal(got[~nan], want[~nan])
    assert np.array_equal(got[nan], (x[nan] >> U32(16)).astype(np.uint16) | np.uint16(0x40))
    assert formats.f32_to_bf16(f32(0x7F800001, 0xFFBFFFFF)).tolist() == [0x7FC0, 0xFFFF]


def test_every_bf16_decodes_as_a_shift():
    assert np.array_equal(formats.bf16_to_f32(ALL16).view(U32), ALL16.astype(U32) << U32(16))


def test_f64_to_bf16_rounds_once():
    rng = np.random.default_rng(2)
    ties = formats.bf16_to_f32(ALL16[0x3F00:0x4100]).astype(np.float64) * (1 + 2.0**-9 / 1.5)
    middle = 1.0 + 2.0**-8 + np.array([-1, 0, 1]) * 2.0**-50
    x = np.concatenate([hard_pool(np.float64, rng, 200), ties[::8], middle, -middle])
    got = formats.bf16_to_f32(formats.f64_to_bf16(x))
    for lane, exact in finite_exact(x):
        assert same(got[lane], round_exact(exact, BF16)), (x[lane], got[lane])


def test_fp16_overflow_saturation():
    x = np.array([65519.0, 65520.0, -1e30, np.inf, -np.inf, 1.0], np.float32)
    assert formats.f32_to_f16(x).tolist() == [65504.0, np.inf, -np.inf, np.inf, -np.inf, 1.0]
    assert formats.f32_to_f16(x, saturate=True).tolist() == [65504.0, 65504.0, -65504.0, np.inf, -np.inf, 1.0]


def test_packed_conversions():
    a, b = np.array([1.0 + 2.0**-11, -70000.0], np.float32), np.array([-2.0, 2.0**-25], np.float32)
    assert [hex(w) for w in formats.cvt_pkrtz_f16_f32(a, b)] == ["0xc0003c00", "0xfbff"]
    assert [hex(w) for w in formats.cvt_pk_f16_f32(a, b)] == ["0xc0003c00", "0xfc00"]
    low, high = formats.unpack16(formats.cvt_pk_bf16_f32(a, b))
    assert low.tolist() == [0x3F80, 0xC789]
    assert high.tolist() == [0xC000, 0x3300]


@pytest.mark.parametrize(
    ("convert", "to_value", "quantum"),
    [
        (formats.f32_to_bf16_sr, lambda c: formats.bf16_to_f32(c), 2.0**-7),
        (formats.f32_to_f16_sr, lambda c: c.astype(np.float32), 2.0**-10),
    ],
)
def test_stochastic_rounding_is_unbiased_and_adjacent(convert, to_value, quantum):
    x = np.float32(1 + quantum * 0.3125)
    seeds = (np.arange(4096, dtype=np.uint64) << np.uint64(20)).astype(U32)
    for sign in (1, -1):
        values = to_value(convert(np.full(4096, sign * x, np.float32), seeds)).astype(np.float64)
        assert set(values) == {sign * 1.0, sign * (1 + quantum)}
        assert np.mean(values != sign) == pytest.approx(0.3125, abs=2.0**-10)
    exact = np.array([1.0, -0.0, np.inf, -np.inf, 0.5], np.float32)
    assert np.array_equal(to_value(convert(exact, np.full(5, 0xFFFFFFFF, U32))), exact)


def test_stochastic_rounding_of_f16_denormals():
    x = np.full(2, 2.5 * 2.0**-24, np.float32)
    got = formats.f32_to_f16_sr(x, np.array([0x7FFFFFFF, 0x80000000], U32))
    assert got.tolist() == [2 * 2.0**-24, 3 * 2.0**-24]


def test_nans_whose_payload_f16_cannot_hold():
    x = f32(0x7F800001, 0xFFC00001, 0x7FFFFFFF)
    for mode in range(4):
        assert [hex(b) for b in formats.f32_to_f16(x, mode).view(np.uint16)] == ["0x7e00", "0xfe00", "0x7fff"]
