"""Conversions to and from fp8, bf8, fp6, bf6 and fp4.

Expected values: torch's float8 dtypes, and for the formats that torch lacks a table of every code's value from the OCP
Microscaling specification, searched exactly for the nearest (even) or the neighbours (stochastic) of a value.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import torch

from validation.emulator.errors import AsmError, EmulatorError, UnsupportedError
from validation.emulator.isa import TABLE
from validation.emulator.machine.waves import FloatMode

from .harness import ARCHS, lanes, run

both = pytest.mark.parametrize("arch", ARCHS)
SATURATING = FloatMode(fp16_overflow=True)
TORCH = {
    ("fp8", "gfx942"): torch.float8_e4m3fnuz, ("bf8", "gfx942"): torch.float8_e5m2fnuz,
    ("fp8", "gfx950"): torch.float8_e4m3fn, ("bf8", "gfx950"): torch.float8_e5m2,
}  # fmt: skip
LARGEST = {("fp8", "gfx942"): 240.0, ("bf8", "gfx942"): 57344.0, ("fp8", "gfx950"): 448.0, ("bf8", "gfx950"): 57344.0}
BYTES = ("fp8", "bf8")


@dataclass(frozen=True)
class Mini:
    """Sign, exponent, mantissa, bias, no NaN: fp6 (e2m3), bf6 (e3m2), fp4 (e2m1), and the finite part of fp8, bf8."""

    exponent: int
    mantissa: int
    bias: int
    largest: Fraction

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.mantissa

    def value(self, code: int) -> Fraction:
        sign = -1 if code >> (self.bits - 1) else 1
        e, m = (code >> self.mantissa) & ((1 << self.exponent) - 1), code & ((1 << self.mantissa) - 1)
        if e == 0:
            return sign * Fraction(m, 1 << self.mantissa) * Fraction(2) ** (1 - self.bias)
        return sign * (1 + Fraction(m, 1 << self.mantissa)) * Fraction(2) ** (e - self.bias)

    def below(self, x: Fraction) -> int:
        """Code of the largest magnitude not above |x|, without its sign."""
        return bisect_right(magnitudes(self), min(abs(x), self.largest)) - 1

    def signed(self, code: int, negative: bool) -> int:
        return code | (1 << (self.bits - 1) if negative else 0)

    def nearest(self, x: float) -> int:
        """Code, saturating; ties to the even code."""
        exact = abs(Fraction(x))
        low = self.below(exact)
        if exact >= self.largest:
            return self.signed(low, math.copysign(1, x) < 0)
        up = self.value(low + 1) - exact
        down = exact - self.value(low)
        code = low if down < up or (down == up and low % 2 == 0) else low + 1
        return self.signed(code, math.copysign(1, x) < 0)

    def stochastic(self, x: float, seed: int, lost: int) -> int:
        """The lower neighbour, or the upper when the dropped fraction plus the top ``lost`` seed bits reach 1."""
        exact = abs(Fraction(x))
        low = self.below(exact)
        if exact < self.largest:
            fraction = (exact - self.value(low)) / (self.value(low + 1) - self.value(low))
            low += fraction + Fraction(seed >> (32 - lost), 1 << lost) >= 1
        return self.signed(low, math.copysign(1, x) < 0)


@cache
def magnitudes(mini: Mini) -> list[Fraction]:
    """Values of the codes without sign, which ascend with the code."""
    return [mini.value(c) for c in range(1 << (mini.bits - 1))]


MINI = {
    "fp6": Mini(2, 3, 1, Fraction(15, 2)), "bf6": Mini(3, 2, 3, Fraction(28)), "fp4": Mini(2, 1, 1, Fraction(6)),
    "fp8": Mini(4, 3, 7, Fraction(448)), "bf8": Mini(5, 2, 15, Fraction(57344)),
}  # fmt: skip
SOURCE_BITS = {"f32": 23, "f16": 10, "bf16": 7}


def random_step(state: int) -> int:
    return ((state << 1) & 0xFFFFFFFF) ^ (0xC5 if state >> 31 else 0)


def decoded(name: str, arch: str, codes: np.ndarray) -> np.ndarray:
    return torch.tensor(codes.astype(np.uint8)).view(TORCH[name, arch]).to(torch.float32).numpy()


def encoded(name: str, arch: str, values: np.ndarray) -> np.ndarray:
    return torch.tensor(values.astype(np.float32)).to(TORCH[name, arch]).view(torch.uint8).numpy().astype(np.uint32)


def same_float(got: np.ndarray, expected: np.ndarray) -> None:
    nan = np.isnan(expected)
    assert (np.isnan(got) == nan).all()
    assert (got[~nan].view(np.uint32) == expected[~nan].view(np.uint32)).all()


def finite_values(name: str, arch: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=64) * 2.0 ** rng.integers(-18, 9, 64)
    values[:6] = [0.0, -0.0, 2.0**-40, -(2.0**-40), 1.0, 1.0625]
    return np.clip(values, -LARGEST[name, arch], LARGEST[name, arch]).astype(np.float32)


# -- unscaled --------------------------------------------------------------------------------------------------------
@both
@pytest.mark.parametrize("name", BYTES)
def test_every_code_to_f32(name: str, arch: str) -> None:
    for start in range(0, 256, 64):
        codes = np.arange(start, start + 64)
        word = codes | 0x11 << 8 | (255 - codes) << 16 | 0x22 << 24
        plain = run(f"v_cvt_f32_{name} v1, v0", arch=arch, v={0: word})
        same_float(plain.v[1].view(np.float32), decoded(name, arch, codes))
        byte = run(f"v_cvt_f32_{name}_sdwa v1, v0 src0_sel:BYTE_2", arch=arch, v={0: word})
        same_float(byte.v[1].view(np.float32), decoded(name, arch, 255 - codes))
        low = run(f"v_cvt_pk_f32_{name}_e32 v[2:3], v0", arch=arch, v={0: word})
        high = run(f"v_cvt_pk_f32_{name}_sdwa v[2:3], v0 src0_sel:WORD_1", arch=arch, v={0: word})
        for state, first, second in ((low, codes, codes * 0 + 0x11), (high, 255 - codes, codes * 0 + 0x22)):
            same_float(state.v[2].view(np.float32), decoded(name, arch, first))
            same_float(state.v[3].view(np.float32), decoded(name, arch, second))


@both
def test_f32_from_scalar_and_dpp(arch: str) -> None:
    one = int(encoded("fp8", arch, np.array([1.0]))[0])
    assert run("v_cvt_f32_fp8 v1, s3", arch=arch, s={3: 0xFF00 | one}).v[1].view(np.float32)[9] == 1.0
    codes = np.arange(64)
    state = run("v_cvt_f32_fp8_dpp v1, v0 row_mirror row_mask:0xf bank_mask:0xf", arch=arch, v={0: codes})
    same_float(state.v[1].view(np.float32), decoded("fp8", arch, (codes & ~15) + 15 - (codes & 15)))
    assert run("v_cvt_f32_fp8_e64 v1, v0 clamp", arch=arch, v={0: 0x7B}).v[1].view(np.float32)[0] == 1.0


@both
@pytest.mark.parametrize("name", BYTES)
def test_pk_narrow_from_f32(name: str, arch: str) -> None:
    a, b = finite_values(name, arch, 1), finite_values(name, arch, 2)
    v = {0: a.view(np.uint32), 1: b.view(np.uint32), 2: 0xDEADBEEF}
    expected = encoded(name, arch, a) | encoded(name, arch, b) << 8
    low = run(f"v_cvt_pk_{name}_f32 v2, v0, v1", arch=arch, v=v)
    assert (low.v[2] == (expected | 0xDEAD0000)).all()
    high = run(f"v_cvt_pk_{name}_f32 v2, v0, v1 op_sel:[0,0,1]", arch=arch, v=v)
    assert (high.v[2] == (expected << 16 | 0xBEEF)).all()
    negated = run(f"v_cvt_pk_{name}_f32 v2, -v0, |v1|", arch=arch, v=v, exec_=1 << 40)
    assert negated.v[2][40] & 0xFFFF == encoded(name, arch, -a)[40] | encoded(name, arch, np.abs(b))[40] << 8
    assert negated.v[2][41] == 0xDEADBEEF


@both
@pytest.mark.parametrize("name", BYTES)
def test_overflow_follows_fp16_ovfl(name: str, arch: str) -> None:
    """Without it NaN (fp8) or infinity (bf8, NaN where there is none), with it the largest value; NaN stays NaN."""
    largest = LARGEST[name, arch]
    top = int(encoded(name, arch, np.array([largest]))[0])
    values = np.array([largest * 2, -largest * 2, np.inf, -np.inf, np.nan, largest], np.float32)
    v = {0: lanes(values.view(np.uint32)), 1: 0, 2: 0}
    text = f"v_cvt_pk_{name}_f32 v2, v0, v1"
    plain = run(text, arch=arch, v=v).v[2][:6] & 0xFF
    got = decoded(name, arch, plain)
    if name == "bf8" and arch == "gfx950":
        assert got[:4].tolist() == [np.inf, -np.inf, np.inf, -np.inf]
    else:
        assert np.isnan(got[:4]).all()
    assert np.isnan(got[4])
    assert got[5] == largest
    clamped = run(text, arch=arch, v=v, mode=SATURATING).v[2][:6] & 0xFF
    assert clamped[:4].tolist() == [top, top | 0x80, top, top | 0x80]
    assert np.isnan(decoded(name, arch, clamped[4:5]))


@both
@pytest.mark.parametrize("name", BYTES)
def test_stochastic_rounding_of_f32(name: str, arch: str) -> None:
    """1 + 1/4 of an ulp: up when the top seed bits, as a fraction, reach 3/4."""
    ulp = 2.0**-3 if name == "fp8" else 2.0**-2
    value = np.float32(1 + ulp / 4)
    seeds = [0, 0x40000000, 0xBFFFFFFF, 0xC0000000, 0xFFFFFFFF, 0x80000000]
    expected = encoded(name, arch, np.array([1.0, 1.0, 1.0, 1 + ulp, 1 + ulp, 1.0]))
    for byte in range(4):
        v = {0: lanes(value.view(np.uint32)), 1: seeds, 2: 0xDEADBEEF}
        text = f"v_cvt_sr_{name}_f32 v2, v0, v1 op_sel:[0,0,{byte & 1},{byte >> 1}]"
        got = run(text, arch=arch, v=v).v[2][:6]
        assert ((got >> (8 * byte)) & 0xFF).tolist() == expected.tolist()
        keep = 0xFFFFFFFF ^ (0xFF << (8 * byte))
        assert (got & keep == 0xDEADBEEF & keep).all()
    negative = run(f"v_cvt_sr_{name}_f32 v2, -v0, v1", arch=arch, v={0: lanes(value.view(np.uint32)), 1: -1, 2: 0})
    assert negative.v[2][0] == encoded(name, arch, np.array([-1 - ulp]))[0]


def test_stochastic_rounding_to_16_bits() -> None:
    for name, ulp, code in (("f16", 2.0**-10, 0x3C00), ("bf16", 2.0**-7, 0x3F80)):
        value = np.float32(1 + ulp / 4).view(np.uint32)
        v = {0: lanes(value), 1: [0, 0xBFFFFFFF, 0xC0000000, 0xFFFFFFFF], 2: 0xDEADBEEF}
        low = run(f"v_cvt_sr_{name}_f32 v2, v0, v1", arch="gfx950", v=v).v[2][:4]
        assert low.tolist() == [0xDEAD0000 | code] * 2 + [0xDEAD0000 | (code + 1)] * 2
        high = run(f"v_cvt_sr_{name}_f32 v2, v0, v1 op_sel:[0,0,1]", arch="gfx950", v=v).v[2][:4]
        assert high.tolist() == [0xBEEF | code << 16] * 2 + [0xBEEF | (code + 1) << 16] * 2


# -- scaled (gfx950) ---------------------------------------------------------------------------------------------------
WIDE = ("f32", "f16", "bf16")
SCALE = 2.0**3


def wide_codes(values: np.ndarray, wide: str) -> np.ndarray:
    """Bits of values that the format holds exactly."""
    if wide == "f16":
        assert (values.astype(np.float16).astype(np.float64) == values).all()
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
    bits = values.astype(np.float32).view(np.uint32)
    if wide == "f32":
        return bits
    assert not (bits & 0xFFFF).any()
    return bits >> 16


def exact_values(seed: int, count: int) -> np.ndarray:
    """[count, 64] values with at most eight significant bits, which every wide format holds."""
    rng = np.random.default_rng(seed)
    return rng.integers(-255, 256, (count, 64)) * 2.0 ** rng.integers(-7, 1, (count, 64))


def data_registers(values: np.ndarray, wide: str, first: int) -> tuple[dict[int, np.ndarray], int]:
    """Registers that hold [count, 64] values one after the other, and how many there are."""
    codes = wide_codes(values, wide)
    if wide != "f32":
        if len(codes) % 2:
            codes = np.concatenate([codes, codes * 0 + 0x5555])
        codes = codes[0::2] | codes[1::2] << 16
    return {first + i: row for i, row in enumerate(codes)}, len(codes)


def span(first: int, count: int) -> str:
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


def scale_bits(x: float) -> int:
    return int(np.float32(x).view(np.uint32))


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("name", ["fp8", "bf8", "fp4"])
def test_scaled_pk_narrow(name: str, wide: str) -> None:
    values, mini = exact_values(3, 2), MINI[name]
    v, count = data_registers(values, wide, 0)
    data = "v0, v1" if wide == "f32" else "v0"
    expected = sum(np.array([mini.nearest(x / SCALE) for x in row]) << (mini.bits * i) for i, row in enumerate(values))
    total = 2 * mini.bits
    places = {16: ["", "op_sel:[0,0,0,1]" if wide == "f32" else "op_sel:[0,0,1]"],
              8: [f"op_sel:[0,0,{p & 1},{p >> 1}]" for p in range(4)]}[total]  # fmt: skip
    assert count == len(data.split(","))
    for place, text in enumerate(places):
        state = run(f"v_cvt_scalef32_pk_{name}_{wide} v9, {data}, s4 {text}", arch="gfx950",
                    v={**v, 9: 0xDEADBEEF}, s={4: scale_bits(SCALE * 1.5)})  # fmt: skip
        hole = 0xFFFFFFFF ^ (((1 << total) - 1) << (total * place))
        assert (state.v[9] == (0xDEADBEEF & hole | expected << (total * place))).all()
    unit = run(f"v_cvt_scalef32_pk_{name}_{wide} v9, {data}, 1.0", arch="gfx950", v={**v, 9: 0})
    plain = sum(np.array([mini.nearest(x) for x in row]) << (mini.bits * i) for i, row in enumerate(values))
    assert (unit.v[9] == plain).all()


def test_scaled_special_values() -> None:
    v = {0: lanes(np.array([np.inf, -np.inf, np.nan, 1e30], np.float32).view(np.uint32)), 1: 0, 9: 0}
    fp8 = run("v_cvt_scalef32_pk_fp8_f32 v9, v0, v1, 2.0", arch="gfx950", v=v).v[9][:4]
    assert [int(x) & 0x7F for x in fp8] == [0x7F] * 4
    bf8 = run("v_cvt_scalef32_pk_bf8_f32 v9, v0, v1, 2.0", arch="gfx950", v=v).v[9][:4]
    assert [int(x) for x in bf8[[0, 1, 3]]] == [0x7C, 0xFC, 0x7C]
    saturated = run("v_cvt_scalef32_pk_bf8_f32 v9, v0, v1, 2.0", arch="gfx950", v=v, mode=SATURATING).v[9][:4]
    assert [int(x) for x in saturated[[0, 1, 3]]] == [0x7B, 0xFB, 0x7B]
    fp4 = run("v_cvt_scalef32_pk_fp4_f32 v9, v0, v1, 2.0", arch="gfx950", v=v).v[9][:4]
    assert [int(x) for x in fp4] == [7, 15, 7, 7]
    nan_scale = run("v_cvt_scalef32_f32_fp8 v9, v0, v1", arch="gfx950", v={0: 0x38, 1: 0x7F800000}).v[9]
    assert np.isnan(nan_scale.view(np.float32)).all()


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("name", ["fp8", "bf8", "fp4"])
def test_scaled_stochastic(name: str, wide: str) -> None:
    single = name != "fp4"
    values, mini = exact_values(4, 1 if single else 2), MINI[name]
    rng = np.random.default_rng(9)
    seeds = rng.integers(0, 1 << 32, 64, dtype=np.uint64).astype(np.uint32)
    v, count = data_registers(values, wide, 0)
    lost = SOURCE_BITS[wide] - mini.mantissa
    expected = np.zeros(64, np.uint32)
    for lane in range(64):
        state = int(seeds[lane])
        for i, x in enumerate(values[:, lane]):
            expected[lane] |= np.uint32(mini.stochastic(x / SCALE, state, lost) << (mini.bits * i))
            state = random_step(state)
    kind = "sr" if single else "sr_pk"
    for place in range(4):
        text = f"v_cvt_scalef32_{kind}_{name}_{wide} v9, {span(0, count)}, v8, v10"
        registers = {**v, 8: seeds, 9: 0xDEADBEEF, 10: scale_bits(SCALE)}
        got = run(f"{text} op_sel:[0,0,{place & 1},{place >> 1}]", arch="gfx950", v=registers).v[9]
        hole = 0xFFFFFFFF ^ (0xFF << (8 * place))
        assert (got == (0xDEADBEEF & hole | expected << np.uint32(8 * place))).all()


def packed6(codes: np.ndarray) -> list[int]:
    """[32] codes of one lane -> six dwords."""
    number = sum(int(c) << (6 * i) for i, c in enumerate(codes))
    return [(number >> (32 * i)) & 0xFFFFFFFF for i in range(6)]


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("name", ["fp6", "bf6"])
@pytest.mark.parametrize("stochastic", [False, True])
def test_scaled_pk32_to_narrow(name: str, wide: str, stochastic: bool) -> None:
    values, mini = exact_values(5, 32), MINI[name]
    seeds = np.random.default_rng(2).integers(0, 1 << 32, 64, dtype=np.uint64).astype(np.uint32)
    order = values
    if wide == "f32" and not stochastic:  # the two operands are interleaved in the result
        order = np.concatenate([values[0::2], values[1::2]])
    v, count = data_registers(order, wide, 0)
    v |= {40: lanes(scale_bits(SCALE)), 41: seeds}
    if stochastic:
        text = f"v_cvt_scalef32_sr_pk32_{name}_{wide} v[50:55], {span(0, count)}, v41, v40"
    elif wide == "f32":
        text = f"v_cvt_scalef32_2xpk16_{name}_f32 v[50:55], v[0:15], v[16:31], v40"
    else:
        text = f"v_cvt_scalef32_pk32_{name}_{wide} v[50:55], {span(0, count)}, v40"
    got = run(text, arch="gfx950", v=v).v[50:56]
    for lane in range(64):
        state, codes = int(seeds[lane]), []
        for x in values[:, lane]:
            lost = SOURCE_BITS[wide] - mini.mantissa
            codes.append(mini.stochastic(x / SCALE, state, lost) if stochastic else mini.nearest(x / SCALE))
            state = random_step(state)
        assert got[:, lane].tolist() == packed6(np.array(codes)), lane


def narrow_value(name: str, code: int) -> float:
    if name in BYTES:
        return float(decoded(name, "gfx950", np.array([code]))[0])
    return float(MINI[name].value(code)) if code != 1 << (MINI[name].bits - 1) else -0.0


def check_wide(words: np.ndarray, codes: np.ndarray, name: str, wide: str, scale: float) -> None:
    """``words`` [registers, 64] hold the scaled values of ``codes`` [count, 64]."""
    halves = [h for w in words for h in ((w,) if wide == "f32" else (w & 0xFFFF, w >> 16))]
    for half, row in zip(halves, codes, strict=True):
        expected = np.array([narrow_value(name, int(c)) * scale for c in row])
        if wide == "f32":
            got = half.view(np.float32)
        elif wide == "f16":
            got = half.astype(np.uint16).view(np.float16).astype(np.float32)
            expected = expected.astype(np.float16)
        else:
            got = (half << 16).astype(np.uint32).view(np.float32)
        same_float(got.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("name", ["fp8", "bf8", "fp4"])
def test_scaled_pk_wide(name: str, wide: str) -> None:
    bits = MINI[name].bits
    rng = np.random.default_rng(6)
    word = rng.integers(0, 1 << 32, 64, dtype=np.uint64).astype(np.uint32)
    count = 2 if wide == "f32" else 1
    total = 2 * bits
    for place in range(32 // total):
        select = f"op_sel:[{place & 1},{place >> 1},0]"
        codes = np.array([(word >> np.uint32(place * total + i * bits)) & ((1 << bits) - 1) for i in range(2)])
        state = run(f"v_cvt_scalef32_pk_{wide}_{name} {span(4, count)}, v0, v1 {select}", arch="gfx950",
                    v={0: word, 1: scale_bits(0.25)})  # fmt: skip
        check_wide(state.v[4 : 4 + count], codes, name, wide, 0.25)
        unit = run(f"v_cvt_scalef32_pk_{wide}_{name} {span(4, count)}, v0, 1.0 {select}", arch="gfx950", v={0: word})
        check_wide(unit.v[4 : 4 + count], codes, name, wide, 1.0)


@pytest.mark.parametrize("name", BYTES)
def test_scaled_single_wide(name: str) -> None:
    word = np.random.default_rng(7).integers(0, 1 << 32, 64, dtype=np.uint64).astype(np.uint32)
    v = {0: word, 1: scale_bits(4.0), 5: 0xDEADBEEF}
    for place in range(4):
        codes = ((word >> np.uint32(8 * place)) & 0xFF)[None]
        select = f"{place & 1},{place >> 1}"
        got = run(f"v_cvt_scalef32_f32_{name} v5, v0, v1 op_sel:[{select}]", arch="gfx950", v=v).v
        check_wide(got[5:6], codes, name, "f32", 4.0)
        low = run(f"v_cvt_scalef32_f16_{name} v5, v0, v1 op_sel:[{select}]", arch="gfx950", v=v).v[5]
        assert (low >> 16 == 0xDEAD).all()
        high = run(f"v_cvt_scalef32_f16_{name} v5, v0, v1 op_sel:[{select},1]", arch="gfx950", v=v).v[5]
        assert (high & 0xFFFF == 0xBEEF).all()
        for half in (low & 0xFFFF, high >> 16):
            with np.errstate(over="ignore"):
                check_wide(np.stack([half]), np.concatenate([codes, codes * 0]), name, "f16", 4.0)


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("name", ["fp6", "bf6"])
def test_scaled_pk32_wide(name: str, wide: str) -> None:
    codes = np.random.default_rng(8).integers(0, 64, (32, 64))
    words = np.array([packed6(codes[:, lane]) for lane in range(64)], np.uint32).T
    count = 32 if wide == "f32" else 16
    v = {i: words[i] for i in range(6)} | {8: lanes(scale_bits(0.5))}
    state = run(f"v_cvt_scalef32_pk32_{wide}_{name} {span(16, count)}, v[0:5], v8", arch="gfx950", v=v)
    check_wide(state.v[16 : 16 + count], codes, name, wide, 0.5)


@both
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("v_cvt_f32_fp8_sdwa v0, v1 src0_sel:WORD_1", UnsupportedError),
        ("v_cvt_pk_f32_fp8_sdwa v[0:1], v1 src0_sel:BYTE_1", UnsupportedError),
        ("v_cvt_pk_f32_fp8 v0, v1", AsmError),
        ("v_cvt_pk_f32_fp8 v[0:1], v1 clamp", UnsupportedError),
        ("v_cvt_pk_fp8_f32 v0, v1, v2 op_sel:[1,0,0]", UnsupportedError),
        ("v_cvt_pk_fp8_f32 v0, v1, v2 op_sel:[0,0,0,1]", AsmError),
        ("v_cvt_pk_fp8_f32 v0, v1", AsmError),
        ("v_cvt_pk_fp8_f32 s0, v1, v2", AsmError),
    ],
)
def test_refused(text: str, error: type[EmulatorError], arch: str) -> None:
    with pytest.raises(error):
        run(text, arch=arch)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("v_cvt_scalef32_pk_fp8_f16 v0, 1.0, v2", UnsupportedError),
        ("v_cvt_scalef32_pk_fp8_f16 v0, -v1, v2", AsmError),
        ("v_cvt_scalef32_pk32_fp6_f16 v[0:5], v[6:20], v30", AsmError),
        ("v_cvt_scalef32_pk_f32_fp8 v[0:1], v2, v3 op_sel:[0,1,0]", UnsupportedError),
    ],
)
def test_refused_on_gfx950(text: str, error: type[EmulatorError]) -> None:
    with pytest.raises(error):
        run(text, arch="gfx950")


def test_every_conversion_is_covered() -> None:
    """The parametrised tests above span the names; here the table is compared with what they span."""
    spanned = {f"v_cvt_{x}" for n in BYTES for x in (f"f32_{n}", f"pk_f32_{n}", f"pk_{n}_f32", f"sr_{n}_f32")}
    spanned |= {"v_cvt_sr_f16_f32", "v_cvt_sr_bf16_f32"}
    for wide in WIDE:
        for name in ("fp8", "bf8", "fp4"):
            kind = "sr_pk" if name == "fp4" else "sr"
            parts = (f"pk_{name}_{wide}", f"{kind}_{name}_{wide}", f"pk_{wide}_{name}")
            spanned |= {f"v_cvt_scalef32_{x}" for x in parts}
        for name in ("fp6", "bf6"):
            down = f"2xpk16_{name}_f32" if wide == "f32" else f"pk32_{name}_{wide}"
            spanned |= {f"v_cvt_scalef32_{x}" for x in (down, f"sr_pk32_{name}_{wide}", f"pk32_{wide}_{name}")}
    spanned |= {f"v_cvt_scalef32_{w}_{n}" for w in ("f32", "f16") for n in BYTES}
    assert {m for (_, m), e in TABLE.items() if e.form in ("small_float", "byte_convert")} == spanned
