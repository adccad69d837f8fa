"""Dot products and mixed-precision multiply-add against exact arithmetic (``fractions``, Python integers)."""

from __future__ import annotations

import struct
from fractions import Fraction

import numpy as np
import pytest

from validation.emulator.errors import AsmError, EmulatorError, UnsupportedError
from validation.emulator.isa import TABLE
from validation.emulator.machine.waves import FloatMode

from .harness import ARCHS, flushing, lanes, run

both = pytest.mark.parametrize("arch", ARCHS)


def bits32(x: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", x))[0])


def float32(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", int(bits)))[0])


def bits16(x: float) -> int:
    return int(struct.unpack("<H", struct.pack("<e", x))[0])


def half(low: float, high: float) -> int:
    return bits16(low) | bits16(high) << 16


def brain(low: float, high: float) -> int:
    """Two bf16 values; both must be representable."""
    assert not (bits32(low) | bits32(high)) & 0xFFFF
    return bits32(low) >> 16 | bits32(high)


def fields(word: int, bits: int, signed: bool) -> list[int]:
    values = [(word >> i) & ((1 << bits) - 1) for i in range(0, 32, bits)]
    return [v - (1 << bits) if signed and v >> (bits - 1) else v for v in values]


# -- integers --------------------------------------------------------------------------------------------------------
INTEGER = {
    "v_dot2_i32_i16": (16, True), "v_dot2_u32_u16": (16, False), "v_dot4_i32_i8": (8, True),
    "v_dot4_u32_u8": (8, False), "v_dot8_i32_i4": (4, True), "v_dot8_u32_u4": (4, False),
    "v_dot2c_i32_i16": (16, True), "v_dot4c_i32_i8": (8, True), "v_dot8c_i32_i4": (4, True),
}  # fmt: skip
_EDGES = [0, 0xFFFFFFFF, 0x80008000, 0x7FFF7FFF, 0x80808080, 0x7F7F7F7F, 0x88888888, 0x12345678, 0xDEADBEEF, 0x80007FFF]
_SUMS = [0, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0x7FFFFF00, 0xFFFF0000, 5]


def _expected(a: int, b: int, c: int, bits: int, signed: bool, clamp: bool) -> int:
    start = c - (1 << 32) if signed and c >> 31 else c
    total = start + sum(x * y for x, y in zip(fields(a, bits, signed), fields(b, bits, signed), strict=True))
    if clamp:
        low, high = (-(1 << 31), (1 << 31) - 1) if signed else (0, (1 << 32) - 1)
        total = min(max(total, low), high)
    return total & 0xFFFFFFFF


@both
@pytest.mark.parametrize("clamp", [False, True])
@pytest.mark.parametrize("mnemonic", INTEGER)
def test_integer_dots(mnemonic: str, clamp: bool, arch: str) -> None:
    bits, signed = INTEGER[mnemonic]
    rng = np.random.default_rng(11)
    a, b = ([_EDGES[i] for i in rng.integers(0, len(_EDGES), 64)] for _ in range(2))
    c = [_SUMS[i] for i in rng.integers(0, len(_SUMS), 64)]
    accumulates = "c_" in mnemonic
    text = f"{mnemonic}{'_e64' if accumulates else ''} v2, v0, v1" + ("" if accumulates else ", v2")
    state = run(text + (" clamp" if clamp else ""), arch=arch, v={0: a, 1: b, 2: c})
    expected = [_expected(*x, bits, signed, clamp) for x in zip(a, b, c, strict=True)]
    assert state.v[2].tolist() == expected


@both
def test_integer_dots_with_scalars_and_masks(arch: str) -> None:
    text = "v_dot4_i32_i8 v2, s4, v0, -5"
    state = run(text, arch=arch, v={0: 0x01020304, 2: 99}, s={4: 0xFF000002}, exec_=0b101)
    assert state.v[2][:3].tolist() == [(2 * 4 - 1 - 5), 99, (2 * 4 - 1 - 5)]


@both
def test_accumulating_dot_with_dpp(arch: str) -> None:
    """Source 0 comes from the mirrored lane of the row, the accumulator from the lane itself."""
    values = list(range(64))
    state = run(
        "v_dot4c_i32_i8_dpp v2, v0, v1 row_mirror row_mask:0xf bank_mask:0xf", arch=arch, v={0: values, 1: 3, 2: values}
    )
    assert state.v[2].tolist() == [(lane & ~15) * 3 + (15 - (lane & 15)) * 3 + lane for lane in range(64)]
    masked = run("v_dot2c_i32_i16_dpp v2, v0, v1 row_mirror row_mask:0x1 bank_mask:0xf", arch=arch,
                 v={0: 1, 1: 1, 2: 7})  # fmt: skip
    assert masked.v[2].tolist() == [8] * 16 + [7] * 48
    last = run("v_dot8c_i32_i4_dpp v2, v0, v1 row_newbcast:15 row_mask:0xf bank_mask:0xf", arch=arch,
               v={0: values, 1: 1, 2: 0})  # fmt: skip
    assert last.v[2].tolist() == [-1 & 0xFFFFFFFF] * 64  # low nibble of 15, 31, 47, 63 is -1


# -- floats ----------------------------------------------------------------------------------------------------------
def _round32(x: Fraction) -> Fraction:
    """Nearest float32, ties to even, for normal results."""
    if x == 0:
        return x
    exponent = 0
    while abs(x) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(x) < Fraction(2) ** exponent:
        exponent -= 1
    quantum = Fraction(2) ** (exponent - 23)
    return round(x / quantum) * quantum


FLOAT = [("v_dot2_f32_f16", a) for a in ARCHS] + [("v_dot2c_f32_f16", a) for a in ARCHS]
FLOAT += [("v_dot2_f32_bf16", "gfx950"), ("v_dot2c_f32_bf16", "gfx950")]


def _float_text(mnemonic: str) -> str:
    return f"{mnemonic} v2, v0, v1" + ("" if "c_" in mnemonic else ", v2")


@pytest.mark.parametrize(("mnemonic", "arch"), FLOAT)
def test_float_dots_round_each_sum(mnemonic: str, arch: str) -> None:
    rng = np.random.default_rng(8)
    values = (rng.integers(-127, 128, (4, 64)) * 2.0 ** rng.integers(-6, 7, (4, 64))).astype(np.float64)
    sums = (rng.integers(-(2**23), 2**23, 64) * 2.0**-10).astype(np.float64)
    pack = half if mnemonic.endswith("_f16") else brain
    a = [pack(x, y) for x, y in zip(values[0], values[1], strict=True)]
    b = [pack(x, y) for x, y in zip(values[2], values[3], strict=True)]
    state = run(_float_text(mnemonic), arch=arch, v={0: a, 1: b, 2: [bits32(x) for x in sums]})
    for lane in range(64):
        p, q = (Fraction(values[i][lane]) * Fraction(values[i + 2][lane]) for i in (0, 1))
        c = Fraction(sums[lane])
        last = mnemonic == "v_dot2_f32_bf16"
        expected = _round32(_round32(p + q) + c) if last else _round32(_round32(c + p) + q)
        assert Fraction(float32(state.v[2][lane])) == expected, lane


@pytest.mark.parametrize(("mnemonic", "arch"), FLOAT)
def test_float_dots_flush_f32_denormals(mnemonic: str, arch: str) -> None:
    """An accumulator below 2**-126 counts as zero though MODE keeps denormals."""
    pack = half if mnemonic.endswith("_f16") else brain
    v = {0: pack(0.0, 0.0), 1: pack(1.0, 1.0), 2: [0x007FFFFF, 0x00800000, 0x80000001]}
    state = run(_float_text(mnemonic), arch=arch, v=v)
    assert [int(x) & 0x7FFFFFFF for x in state.v[2][:3]] == [0, 0x00800000, 0]
    tiny = {0: pack(2.0**-14, 0.0), 1: pack(2.0**-14, 0.0), 2: 0}
    assert float32(run(_float_text(mnemonic), arch=arch, v=tiny).v[2][0]) == 2.0**-28


@pytest.mark.parametrize(("mnemonic", "arch"), FLOAT)
def test_float_dots_of_special_values(mnemonic: str, arch: str) -> None:
    pack = half if mnemonic.endswith("_f16") else brain
    infinity = pack(float("inf"), 0.0)
    assert run(_float_text(mnemonic), arch=arch, v={0: infinity, 1: pack(1.0, 1.0), 2: 0}).v[2][0] == 0x7F800000
    nan = run(_float_text(mnemonic), arch=arch, v={0: infinity, 1: pack(0.0, 1.0), 2: 0}).v[2][0]
    assert nan & 0x7FC00000 == 0x7FC00000


def test_bf16_product_overflows_before_the_sum() -> None:
    v = {0: brain(2.0**100, 2.0**100), 1: brain(2.0**100, -(2.0**100)), 2: 0}
    got = run("v_dot2_f32_bf16 v2, v0, v1, v2", arch="gfx950", v=v).v[2][0]
    assert got & 0x7FC00000 == 0x7FC00000


@both
def test_float_dot_modifiers(arch: str) -> None:
    v = {0: half(2.0, 3.0), 1: half(5.0, 7.0), 2: bits32(100.0)}
    table = {
        "": 131.0, " neg_lo:[1,0,0]": 111.0, " neg_hi:[0,1,0]": 89.0, " neg_lo:[1,0,0] neg_hi:[1,0,0]": 69.0,
        " neg_lo:[0,0,1] neg_hi:[0,0,1]": -69.0, " clamp": 1.0,
    }  # fmt: skip
    for modifiers, expected in table.items():
        state = run(f"v_dot2_f32_f16 v3, v0, v1, v2{modifiers}", arch=arch, v=v)
        assert float32(state.v[3][0]) == expected, modifiers


# -- v_fma_mix -------------------------------------------------------------------------------------------------------
@both
def test_mix_selects_formats_and_halves(arch: str) -> None:
    v = {0: bits32(1.5), 1: half(2.0, 4.0), 2: half(0.25, 0.5)}

    def f32(modifiers: str, text: str = "v_fma_mix_f32 v9, v0, v1, v2") -> float:
        return float32(run(f"{text} {modifiers}", arch=arch, v=v).v[9][17])

    assert f32("op_sel_hi:[0,1,1]") == 1.5 * 2.0 + 0.25
    assert f32("op_sel:[0,1,0] op_sel_hi:[0,1,1]") == 1.5 * 4.0 + 0.25
    assert f32("op_sel:[0,1,1] op_sel_hi:[0,1,1]") == 1.5 * 4.0 + 0.5
    assert f32("op_sel_hi:[0,1,1]", "v_fma_mix_f32 v9, -v0, v1, |v2|") == -2.75
    assert f32("op_sel_hi:[0,1,0]", "v_fma_mix_f32 v9, v0, v1, neg(0)") == 3.0
    assert f32("op_sel_hi:[0,1,0]", "v_fma_mix_f32 v9, v0, v1, 1.0") == 4.0
    assert f32("op_sel_hi:[1,1,1]", "v_fma_mix_f32 v9, v1, 0.5, v2") == 1.25
    assert f32("", "v_fma_mix_f32 v9, v0, v0, v0") == 3.75
    assert f32("clamp", "v_fma_mix_f32 v9, v0, v0, v0") == 1.0


@both
def test_mix_half_results_keep_the_other_half(arch: str) -> None:
    v = {0: bits32(1.5), 1: half(2.0, 4.0), 9: 0xAAAA5555}
    low = run("v_fma_mixlo_f16 v9, v0, v1, neg(0) op_sel_hi:[0,1,0]", arch=arch, v=v)
    assert int(low.v[9][0]) == 0xAAAA0000 | bits16(3.0)
    high = run("v_fma_mixhi_f16 v9, v0, v1, neg(0) op_sel:[0,1,0] op_sel_hi:[0,1,0]", arch=arch, v=v)
    assert int(high.v[9][0]) == 0x5555 | bits16(6.0) << 16
    masked = run("v_fma_mixhi_f16 v9, v0, v1, neg(0) op_sel_hi:[0,1,0]", arch=arch, v=v, exec_=0)
    assert (masked.v[9] == lanes(0xAAAA5555)).all()


@both
def test_mix_rounds_the_f32_result_to_f16(arch: str) -> None:
    """1 + 2**-11 + 2**-25 rounds to 1 + 2**-11 in f32, and that to the even 1 in f16 (two roundings)."""
    v = {0: bits32(1 + 2.0**-11), 1: bits32(2.0**-25), 2: bits32(65520.0)}
    assert run("v_fma_mixlo_f16 v9, v0, 1.0, v1", arch=arch, v=v).v[9][0] == bits16(1.0)
    assert run("v_fma_mixlo_f16 v9, v2, 1.0, 0", arch=arch, v=v).v[9][0] == 0x7C00
    saturated = run("v_fma_mixlo_f16 v9, v2, 1.0, 0", arch=arch, v=v, mode=FloatMode(fp16_overflow=True))
    assert saturated.v[9][0] == 0x7BFF
    upward = run("v_fma_mixlo_f16 v9, v0, 1.0, v1", arch=arch, v=v, mode=FloatMode(round_16_64=1))
    assert upward.v[9][0] == bits16(1 + 2.0**-10)


@both
def test_mix_flushes_by_mode(arch: str) -> None:
    v = {0: bits16(2.0**-20), 1: bits32(2.0)}
    text = "v_fma_mix_f32 v9, v0, v1, 0 op_sel_hi:[1,0,0]"
    assert float32(run(text, arch=arch, v=v).v[9][0]) == 2.0**-19
    assert float32(run(text, arch=arch, v=v, mode=flushing()).v[9][0]) == 0.0
    low = "v_fma_mixlo_f16 v9, v1, v0, 0 op_sel_hi:[0,1,0]"
    assert run(low, arch=arch, v=v).v[9][0] == bits16(2.0**-19)
    assert run(low, arch=arch, v=v, mode=flushing()).v[9][0] == 0


@both
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("v_dot4_i32_i8 v0, v1, v2, v3 neg_lo:[1,0,0]", UnsupportedError),
        ("v_dot2_f32_f16 v0, v1, v2, v3 neg_hi:[0,0,1]", UnsupportedError),
        ("v_dot2_f32_f16 v0, 1.0, v2, v3", UnsupportedError),
        ("v_dot2_f32_f16 v0, -v1, v2, v3", AsmError),
        ("v_dot2_f32_f16 v0, v1, v2", AsmError),
        ("v_dot2c_f32_f16 v0, 1.0, v2", UnsupportedError),
        ("v_dot2_f32_f16 v0, v1, v2, v3 op_sel:[1,0,0]", UnsupportedError),
        ("v_fma_mix_f32 v0, 1.0, v2, v3 op_sel:[1,0,0] op_sel_hi:[1,0,0]", UnsupportedError),
        ("v_fma_mix_f32 v0, v1, v2, v3 op_sel:[0,0,0,1]", UnsupportedError),
    ],
)
def test_refused(text: str, error: type[EmulatorError], arch: str) -> None:
    with pytest.raises(error):
        run(text, arch=arch)


def test_bf16_dots_are_gfx950_only() -> None:
    for mnemonic in ("v_dot2_f32_bf16", "v_dot2c_f32_bf16"):
        assert ("gfx942", mnemonic) not in TABLE
    with pytest.raises(UnsupportedError, match="only on gfx950"):
        run("v_dot2_f32_bf16 v0, v1, v2, v3", arch="gfx942")


def test_every_dot_has_a_vector() -> None:
    tested = {*INTEGER, *(m for m, _ in FLOAT), "v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16"}
    assert {m for (_, m), e in TABLE.items() if e.form in ("dot", "dot_accumulate", "mix")} == tested
