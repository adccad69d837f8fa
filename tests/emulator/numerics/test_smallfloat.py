"""fp8, bf8, fp6, bf6 and fp4."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from validation.emulator.numerics import smallfloat as sf

from .exact import Binary, exponent_of, hard_pool, round_exact

EIGHT_BITS = {
    sf.E4M3FNUZ: torch.float8_e4m3fnuz,
    sf.E5M2FNUZ: torch.float8_e5m2fnuz,
    sf.E4M3FN: torch.float8_e4m3fn,
    sf.E5M2: torch.float8_e5m2,
}
ALL = np.arange(256, dtype=np.uint8)
LARGEST = {sf.E4M3FNUZ: 240, sf.E5M2FNUZ: 57344, sf.E4M3FN: 448, sf.E5M2: 57344, sf.E2M3: 7.5, sf.E3M2: 28, sf.E2M1: 6}
FORMATS = list(LARGEST)


def name(fmt):
    return fmt.name


def judge_value(x: Fraction, fmt: sf.Format) -> Fraction:
    """x to the nearest value of an unbounded-exponent version of the format."""
    return round_exact(x, Binary(fmt.mantissa_bits, fmt.min_exponent, 10**4))


@pytest.mark.parametrize("fmt", EIGHT_BITS, ids=name)
def test_decode_of_all_codes_agrees_with_torch(fmt):
    want = torch.from_numpy(ALL.copy()).view(EIGHT_BITS[fmt]).float().numpy()
    got = sf.decode(ALL, fmt)
    assert np.array_equal(got, want, equal_nan=True)
    assert np.array_equal(np.signbit(got)[~np.isnan(got)], np.signbit(want)[~np.isnan(want)])


def test_decode_of_fp4_fp6_bf6_by_the_mx_tables():
    assert sf.decode(np.arange(8), sf.E2M1).tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    fp6 = sf.decode(np.arange(64), sf.E2M3)
    assert fp6[[0, 1, 7, 8, 15, 16, 31]].tolist() == [0, 0.125, 0.875, 1, 1.875, 2, 7.5]
    bf6 = sf.decode(np.arange(64), sf.E3M2)
    assert bf6[[0, 1, 3, 4, 12, 31]].tolist() == [0, 0.0625, 0.1875, 0.25, 1, 28]
    assert np.array_equal(fp6[32:], -fp6[:32])
    assert np.array_equal(bf6[32:], -bf6[:32])


@pytest.mark.parametrize("fmt", FORMATS, ids=name)
def test_encode_inverts_decode(fmt):
    codes = np.arange(1 << fmt.bits, dtype=np.uint8)
    values = sf.decode(codes, fmt)
    finite = np.isfinite(values)
    assert np.array_equal(sf.encode(values[finite], fmt), codes[finite])
    assert np.max(values[finite]) == LARGEST[fmt]


@pytest.mark.parametrize("fmt", EIGHT_BITS, ids=name)
def test_encode_in_range_agrees_with_torch(fmt):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(100_000) * 2.0 ** rng.integers(-20, 16, 100_000)).astype(np.float32)
    x = x[np.abs(x) <= LARGEST[fmt]]
    want = torch.from_numpy(x).to(EIGHT_BITS[fmt]).view(torch.uint8).numpy()
    assert np.array_equal(sf.encode(x, fmt), want)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("fmt", FORMATS, ids=name)
def test_encode_is_correctly_rounded(fmt, dtype):
    rng = np.random.default_rng(1)
    values = sf.decode(np.arange(1 << fmt.bits), fmt)
    grid = values[np.isfinite(values)].astype(np.float64)
    middles = (grid[1:] + grid[:-1]) / 2
    near = np.concatenate([middles, middles * (1 + 2.0**-9), middles * (1 - 2.0**-9)]).astype(dtype)
    x = np.concatenate([hard_pool(dtype, rng, 100), near])
    codes = sf.encode(x, fmt, saturate=True)
    for lane, value in enumerate(x):
        if np.isfinite(value):
            exact = judge_value(Fraction(float(value)), fmt)
            limit = Fraction(LARGEST[fmt])
            expected = max(-limit, min(limit, exact))
            assert Fraction(float(sf.decode(codes[lane], fmt))) == expected, (value, codes[lane])


@pytest.mark.parametrize(
    ("fmt", "open_ended", "saturated"),
    [  # codes of +inf, -inf, 1e6, -1e6 without and with FP16_OVFL: CDNA4 ISA manual, 7.3
        (sf.E4M3FNUZ, [0x80, 0x80, 0x80, 0x80], [0x7F, 0xFF, 0x7F, 0xFF]),
        (sf.E5M2FNUZ, [0x80, 0x80, 0x80, 0x80], [0x7F, 0xFF, 0x7F, 0xFF]),
        (sf.E4M3FN, [0x7F, 0xFF, 0x7F, 0xFF], [0x7E, 0xFE, 0x7E, 0xFE]),
        (sf.E5M2, [0x7C, 0xFC, 0x7C, 0xFC], [0x7B, 0xFB, 0x7B, 0xFB]),
        (sf.E2M1, [0x7, 0xF, 0x7, 0xF], [0x7, 0xF, 0x7, 0xF]),
        (sf.E2M3, [0x1F, 0x3F, 0x1F, 0x3F], [0x1F, 0x3F, 0x1F, 0x3F]),
    ],
    ids=lambda v: getattr(v, "name", None),
)
def test_overflow_and_nan(fmt, open_ended, saturated):
    x = np.array([np.inf, -np.inf, 1e6, -1e6], np.float32)
    assert sf.encode(x, fmt).tolist() == open_ended
    assert sf.encode(x, fmt, saturate=True).tolist() == saturated
    nan = sf.encode(np.array([np.nan], np.float32), fmt, saturate=True)
    assert nan[0] == (fmt.max_code if fmt.nan_code is None else fmt.nan_code)


def test_e4m3fn_ties_at_the_top():
    x = np.array([464.0, np.nextafter(np.float32(464), np.float32(500))], np.float32)
    assert sf.encode(x, sf.E4M3FN).tolist() == [0x7E, 0x7F]


def test_fnuz_has_no_negative_zero():
    x = np.array([-0.0, -1e-9, 1e-9], np.float32)
    assert sf.encode(x, sf.E4M3FNUZ).tolist() == [0, 0, 0]
    assert sf.encode(x, sf.E4M3FN).tolist() == [0x80, 0x80, 0]


@pytest.mark.parametrize("fmt", FORMATS, ids=name)
@pytest.mark.parametrize("start", [1.0, 0.0], ids=["normal", "denormal"])
def test_stochastic_rounding_uses_the_top_seed_bits(fmt, start):
    """With the fraction 5/16 the result moves up exactly when the seed's top bits reach 11/16."""
    exponent = fmt.min_exponent if start == 0 else exponent_of(Fraction(1))
    quantum = 2.0 ** (exponent - fmt.mantissa_bits)
    x = np.full(3, start + quantum * 5 / 16, np.float32)
    seeds = np.array([0, 0xAFFFFFFF, 0xB0000000], np.uint32)
    got = sf.decode(sf.encode(x, fmt, seed=seeds), fmt)
    assert got.tolist() == [start, start, start + quantum]
    got = sf.decode(sf.encode(-x, fmt, seed=seeds), fmt)
    assert got.tolist() == [-start, -start, -start - quantum]


def test_stochastic_carry_moves_to_the_next_binade():
    x = np.array([1.9999999], np.float32)
    assert sf.decode(sf.encode(x, sf.E4M3FNUZ, seed=np.array([0xFFFFFFFF], np.uint32)), sf.E4M3FNUZ)[0] == 2.0


@pytest.mark.parametrize("fmt", FORMATS, ids=name)
@pytest.mark.parametrize("scale", [0, 1, 100, 127, 130, 254])
def test_scaled_encode_and_decode(fmt, scale):
    rng = np.random.default_rng(scale)
    x = (rng.standard_normal(200) * 2.0 ** (scale - 127 if scale < 253 else 100)).astype(np.float32)
    factor = Fraction(2) ** (scale - 127)
    codes = sf.encode_scaled(x, np.int32(scale), fmt, saturate=True)
    back = sf.decode_scaled(codes, np.int32(scale), fmt)
    limit = Fraction(LARGEST[fmt])
    for lane, value in enumerate(x):
        expected = max(-limit, min(limit, judge_value(Fraction(float(value)) / factor, fmt)))
        assert Fraction(float(sf.decode(codes[lane], fmt))) == expected
        wide = round_exact(expected * factor, Binary(23, -126, 127))
        assert float(back[lane]) == float(wide)


def test_scale_nan_and_narrow_targets():
    codes = np.array([0x38, 0xB8], np.uint8)  # +-1 in e4m3fn
    assert np.isnan(sf.decode_scaled(codes, np.int32(255), sf.E4M3FN)).all()
    assert sf.encode_scaled(np.ones(1, np.float32), np.int32(255), sf.E4M3FN)[0] == 0x7F
    assert sf.encode_scaled(np.ones(1, np.float32), np.int32(255), sf.E2M1)[0] == 0x7
    assert sf.decode_scaled(codes, np.int32(128), sf.E4M3FN, np.float16).tolist() == [2.0, -2.0]
    assert sf.decode_scaled(codes, np.int32(128), sf.E4M3FN, np.uint16).tolist() == [0x4000, 0xC000]
    assert sf.decode_scaled(codes, np.int32(147), sf.E4M3FN, np.float16).tolist() == [np.inf, -np.inf]
    assert sf.scale_of(np.array([1.0, -8.0, 0.0], np.float32)).tolist() == [127, 130, 0]


def test_directed_modes_bound_the_value():
    x = np.array([1.3, -1.3], np.float32)
    by_mode = [sf.decode(sf.encode(x, sf.E4M3FN, round_mode=mode), sf.E4M3FN).tolist() for mode in range(4)]
    assert by_mode == [[1.25, -1.25], [1.375, -1.25], [1.25, -1.375], [1.25, -1.25]]
    big = np.array([1e6, -1e6], np.float32)
    assert sf.encode(big, sf.E5M2, round_mode=3).tolist() == [0x7B, 0xFB]
    assert sf.encode(big, sf.E5M2, round_mode=1).tolist() == [0x7C, 0xFB]


def test_prng_is_a_full_shift_register_step():
    assert [hex(v) for v in sf.prng(np.array([1, 0x80000000, 0xFFFFFFFF], np.uint32))] == ["0x2", "0xc5", "0xffffff3b"]
    sequence = sf.prng_sequence(np.uint32(0x80000001), 3)
    assert [hex(v) for v in sequence] == ["0x80000001", "0xc7", "0x18e"]


def test_pack6_layout_and_round_trip():
    codes = np.zeros(32, np.uint8)
    codes[[0, 5, 31]] = [0x3F, 0x21, 0x2A]
    whole = sum(int(code) << (6 * place) for place, code in enumerate(codes))
    assert sf.pack6(codes).tolist() == [(whole >> (32 * word)) & 0xFFFFFFFF for word in range(6)]
    random = np.random.default_rng(0).integers(0, 64, (3, 5, 32)).astype(np.uint8)
    assert np.array_equal(sf.unpack6(sf.pack6(random)), random)
    with pytest.raises(ValueError, match="multiple of 16"):
        sf.pack6(np.zeros(5, np.uint8))


def test_architectures_name_their_formats():
    assert [sf.FP8[arch].name for arch in ("gfx942", "gfx950")] == ["e4m3fnuz", "e4m3fn"]
    assert [sf.BF8[arch].name for arch in ("gfx942", "gfx950")] == ["e5m2fnuz", "e5m2"]


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("fmt", FORMATS, ids=name)
def test_f32_and_f64_sources_agree(fmt, saturate):
    x = hard_pool(np.float32, np.random.default_rng(6), 20_000)
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float64)
    assert np.array_equal(sf.encode(x, fmt, saturate), sf.encode(wide, fmt, saturate))
