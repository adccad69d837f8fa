"""Scaled conversions of gfx950 to and from fp8, bf8, fp6, bf6 and fp4."""

from __future__ import annotations

import numpy as np
import pytest

from validation.emulator.errors import AsmError, EmulatorError, UnsupportedError
from validation.emulator.isa import TABLE

from .harness import lanes, run
from .small_float_support import BYTES, MINI, SATURATING, SOURCE_BITS, decoded, random_step, same_float

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
