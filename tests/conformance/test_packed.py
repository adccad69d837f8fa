"""VOP3P: packed f32 and f16, their op_sel/neg modifiers, and the moves to and from AGPRs.

Expected values come from ``struct`` and ``fractions`` on single elements.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from validation.emulator.errors import AsmError, EmulatorError, UnsupportedError
from validation.emulator.isa import TABLE
from validation.emulator.machine.waves import FloatMode

from .harness import ARCHS, FULL, flushing, lanes, run
from .stepping import many_waves, step_of
from .test_packed_integers import INTEGER_OPS, word

both = pytest.mark.parametrize("arch", ARCHS)


def bits32(x: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", x))[0])


def float32(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def bits16(x: float) -> int:
    return int(struct.unpack("<H", struct.pack("<e", x))[0])


def float16(bits: int) -> float:
    return float(struct.unpack("<e", struct.pack("<H", bits))[0])


def half(low: float, high: float) -> int:
    return bits16(low) | bits16(high) << 16


def exact(x: float) -> Fraction:
    return Fraction(x)


def to_nearest_f32(x: Fraction) -> float:
    """Nearest float32 of a Fraction, ties to even, for results in the normal range."""
    if x == 0:
        return 0.0
    exponent = math.floor(math.log2(abs(x)))
    while abs(x) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(x) < Fraction(2) ** exponent:
        exponent -= 1
    quantum = Fraction(2) ** (exponent - 23)
    return float(round(x / quantum) * quantum)


PAIR_OPS: dict[str, tuple[int, Callable[..., Fraction]]] = {
    "v_pk_add_f32": (2, lambda a, b: a + b),
    "v_pk_mul_f32": (2, lambda a, b: a * b),
    "v_pk_fma_f32": (3, lambda a, b, c: a * b + c),
}
VALUES = [1.5, -2.25, 3.0e5, 1.0000001192092896, -7.0e-3, 123456.78125, 0.3333333432674408, -1.0e10]


def _pairs(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    pick = np.array(VALUES, np.float32)
    low, high = (pick[rng.integers(0, len(VALUES), 64)] for _ in range(2))
    return low, high


@both
@pytest.mark.parametrize("selection", [((0, 0, 0), (1, 1, 1)), ((0, 1, 0), (1, 0, 0)), ((1, 0, 1), (0, 0, 1))])
@pytest.mark.parametrize("mnemonic", PAIR_OPS)
def test_f32_pairs(mnemonic: str, selection: tuple[tuple[int, ...], tuple[int, ...]], arch: str) -> None:
    count, op = PAIR_OPS[mnemonic]
    low, high = (s[:count] for s in selection)
    negate_low, negate_high = (1, 0, 1)[:count], (0, 1, 1)[:count]
    data = [_pairs(10 + i) for i in range(count)]
    v = {4 * i + h: data[i][h].view(np.uint32) for i in range(count) for h in (0, 1)}
    operands = ", ".join(f"v[{4 * i}:{4 * i + 1}]" for i in range(count))
    modifiers = " ".join(
        f"{name}:[{','.join(map(str, bits))}]"
        for name, bits in (("op_sel", low), ("op_sel_hi", high), ("neg_lo", negate_low), ("neg_hi", negate_high))
    )
    state = run(f"{mnemonic} v[20:21], {operands} {modifiers}", arch=arch, v=v)
    for h, chosen, signs in ((0, low, negate_low), (1, high, negate_high)):
        for lane in range(64):
            args = [exact(float(data[i][chosen[i]][lane])) * (-1 if signs[i] else 1) for i in range(count)]
            assert float32(int(state.v[20 + h][lane])) == to_nearest_f32(op(*args)), (h, lane)


@both
def test_f32_pair_from_scalars_and_constants(arch: str) -> None:
    v = {0: bits32(3.0), 1: bits32(5.0)}
    s = {8: bits32(10.0), 9: bits32(100.0)}
    state = run("v_pk_mul_f32 v[2:3], v[0:1], s[8:9]", arch=arch, v=v, s=s)
    assert [float32(int(state.v[r][7])) for r in (2, 3)] == [30.0, 500.0]
    state = run("v_pk_mul_f32 v[2:3], v[0:1], s[8:9] op_sel_hi:[1,0]", arch=arch, v=v, s=s)
    assert [float32(int(state.v[r][7])) for r in (2, 3)] == [30.0, 50.0]
    for tail in ("", " op_sel_hi:[1,0]"):  # a 32-bit constant serves both halves
        state = run(f"v_pk_add_f32 v[2:3], v[0:1], 0.5{tail}", arch=arch, v=v)
        assert [float32(int(state.v[r][63])) for r in (2, 3)] == [3.5, 5.5]
    state = run("v_pk_fma_f32 v[2:3], v[0:1], v[0:1], 0 op_sel_hi:[1,1,0]", arch=arch, v=v)
    assert [float32(int(state.v[r][0])) for r in (2, 3)] == [9.0, 25.0]
    state = run("v_pk_add_f32 v[2:3], s[8:9], 1.0 op_sel_hi:[1,0]", arch=arch, s=s)
    assert [float32(int(state.v[r][0])) for r in (2, 3)] == [11.0, 101.0]


@both
def test_f32_pair_overlaps_its_sources_crosswise(arch: str) -> None:
    """Both halves are read before either is written."""
    v = {0: bits32(3.0), 1: bits32(5.0)}
    state = run("v_pk_add_f32 v[0:1], v[0:1], 0 op_sel:[1,0] op_sel_hi:[0,0]", arch=arch, v=v)
    assert [float32(int(state.v[r][0])) for r in (0, 1)] == [5.0, 3.0]
    state = run("v_pk_mov_b32 v[0:1], v[0:1], v[0:1] op_sel:[1,0]", arch=arch, v={0: 11, 1: 22})
    assert [int(state.v[r][0]) for r in (0, 1)] == [22, 11]


@both
def test_f32_pair_special_values(arch: str) -> None:
    infinity, nan = 0x7F800000, 0x7FC00000
    v = {0: infinity, 1: 0x80000000, 2: infinity, 3: 0x80000000}
    state = run("v_pk_add_f32 v[4:5], v[0:1], v[2:3] neg_lo:[0,1]", arch=arch, v=v)
    assert (state.v[4] & 0x7FFFFFFF == nan).all()
    assert (state.v[5] == 0x80000000).all()
    tiny = {0: 0x00000001, 1: 0x00800000, 2: bits32(1.0), 3: bits32(0.5)}
    kept = run("v_pk_mul_f32 v[4:5], v[0:1], v[2:3]", arch=arch, v=tiny)
    assert [int(kept.v[r][0]) for r in (4, 5)] == [1, 0x00400000]
    flushed = run("v_pk_mul_f32 v[4:5], v[0:1], v[2:3]", arch=arch, v=tiny, mode=flushing())
    assert (flushed.v[4:6] == 0).all()
    clamped = run("v_pk_add_f32 v[4:5], v[0:1], v[2:3] clamp", arch=arch, v={0: bits32(3.0), 1: nan, 2: 0, 3: 0})
    assert [float32(int(clamped.v[r][0])) for r in (4, 5)] == [1.0, 0.0]


@both
def test_fma_rounds_once(arch: str) -> None:
    """(1 + 2**-12)**2 - (1 + 2**-11) is 2**-24; a rounded product would give 0."""
    v = {0: bits32(1 + 2.0**-12), 1: bits32(1 + 2.0**-12), 2: bits32(-(1 + 2.0**-11)), 3: bits32(-(1 + 2.0**-11))}
    state = run("v_pk_fma_f32 v[4:5], v[0:1], v[0:1], v[2:3]", arch=arch, v=v)
    assert (state.v[4:6].view(np.float32) == 2.0**-24).all()


@both
def test_rounding_mode_of_pairs(arch: str) -> None:
    v = {0: bits32(1.0), 1: bits32(-1.0), 2: bits32(2.0**-30), 3: bits32(2.0**-30)}
    state = run("v_pk_add_f32 v[4:5], v[0:1], v[2:3]", arch=arch, v=v, mode=FloatMode(round_32=1))
    assert [int(state.v[r][0]) for r in (4, 5)] == [0x3F800001, 0xBF7FFFFF]


@both
@pytest.mark.parametrize("exec_", [0, 0x5555555555555555, FULL])
def test_exec_masks_both_halves(exec_: int, arch: str) -> None:
    v = {0: bits32(1.0), 1: bits32(2.0), 4: 77, 5: 88, 6: half(1, 2), 7: 99}
    state = run(["v_pk_add_f32 v[4:5], v[0:1], v[0:1]", "v_pk_add_f16 v7, v6, v6"], arch=arch, v=v, exec_=exec_)
    active = lanes([(exec_ >> i) & 1 for i in range(64)]).astype(bool)
    assert (state.v[4] == np.where(active, bits32(2.0), 77)).all()
    assert (state.v[5] == np.where(active, bits32(4.0), 88)).all()
    assert (state.v[7] == np.where(active, half(2, 4), 99)).all()


@both
def test_pk_mov(arch: str) -> None:
    v = {0: 10, 1: 11, 2: 20, 3: 21}
    for bits, expected in {(0, 0): (10, 20), (1, 0): (11, 20), (0, 1): (10, 21), (1, 1): (11, 21)}.items():
        state = run(f"v_pk_mov_b32 v[6:7], v[0:1], v[2:3] op_sel:[{bits[0]},{bits[1]}]", arch=arch, v=v)
        assert (int(state.v[6][3]), int(state.v[7][3])) == expected
    state = run("v_pk_mov_b32 v[6:7], s[4:5], 7 op_sel:[1,0]", arch=arch, s={4: 30, 5: 31})
    assert (int(state.v[6][0]), int(state.v[7][0])) == (31, 7)


# -- f16 -------------------------------------------------------------------------------------------------------------
F16_OPS: dict[str, tuple[int, Callable[..., float]]] = {
    "v_pk_add_f16": (2, lambda a, b: a + b),
    "v_pk_mul_f16": (2, lambda a, b: a * b),
    "v_pk_fma_f16": (3, lambda a, b, c: a * b + c),
    "v_pk_min_f16": (2, min),
    "v_pk_max_f16": (2, max),
    "v_pk_minimum3_f16": (3, min),
    "v_pk_maximum3_f16": (3, max),
}
F16_CASES = [(m, a) for m in F16_OPS for a in ARCHS if (a, m) in TABLE]


def test_minimum3_is_gfx950_only() -> None:
    assert ("v_pk_minimum3_f16", "gfx950") in F16_CASES
    assert ("v_pk_minimum3_f16", "gfx942") not in F16_CASES


@pytest.mark.parametrize("selection", [((0, 0, 0), (1, 1, 1)), ((1, 0, 1), (0, 0, 1)), ((0, 1, 1), (0, 1, 0))])
@pytest.mark.parametrize(("mnemonic", "arch"), F16_CASES)
def test_f16_pairs(mnemonic: str, arch: str, selection: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """Small values: results are exact in float64, and one rounding to f16 is the expected one."""
    count, op = F16_OPS[mnemonic]
    low, high = (s[:count] for s in selection)
    negate = (0, 1, 1)[:count]
    rng = np.random.default_rng(5)
    data = rng.uniform(-3, 3, (count, 2, 64)).astype(np.float16)
    codes = data.view(np.uint16).astype(np.uint32)
    v = {i: codes[i][0] | codes[i][1] << 16 for i in range(count)}
    text = f"{mnemonic} v9, {', '.join(f'v{i}' for i in range(count))}"
    for name, bits in (("op_sel", low), ("op_sel_hi", high), ("neg_lo", negate)):
        text += f" {name}:[{','.join(map(str, bits))}]"
    got = run(text, arch=arch, v=v).v[9]
    for lane in range(64):
        args_low = [float(data[i][low[i]][lane]) * (-1 if negate[i] else 1) for i in range(count)]
        args_high = [float(data[i][high[i]][lane]) for i in range(count)]
        assert int(got[lane]) == half(op(*args_low), op(*args_high)), lane


@both
def test_f16_constants_stand_in_the_low_half(arch: str) -> None:
    v = {0: half(3.0, 5.0)}
    assert run("v_pk_add_f16 v1, v0, 1.0 op_sel_hi:[1,0]", arch=arch, v=v).v[1][0] == half(4.0, 6.0)
    assert run("v_pk_add_f16 v1, v0, 1.0", arch=arch, v=v).v[1][0] == half(4.0, 5.0)
    s = {3: half(2.0, 10.0)}
    assert run("v_pk_mul_f16 v1, v0, s3", arch=arch, v=v, s=s).v[1][63] == half(6.0, 50.0)
    swapped = run("v_pk_mul_f16 v1, v0, s3 op_sel:[0,1] op_sel_hi:[1,0]", arch=arch, v=v, s=s)
    assert swapped.v[1][0] == half(30.0, 10.0)


@both
def test_f16_special_values(arch: str) -> None:
    snan, qnan = 0x7C01, 0x7E00
    v = {0: word(snan, 0x8000), 1: word(bits16(1.0), 0x0000)}
    got = run("v_pk_max_f16 v2, v0, v1", arch=arch, v=v).v[2][0]
    assert got == word(0x7E01, 0x0000)
    got = run("v_pk_min_f16 v2, v0, v1", arch=arch, v=v, mode=FloatMode(ieee=False)).v[2][0]
    assert got == word(bits16(1.0), 0x8000)
    got = run("v_pk_min_f16 v2, v0, v1", arch=arch, v={0: word(qnan, 1), 1: word(bits16(-1.0), 2)}).v[2][0]
    assert got == word(bits16(-1.0), 1)
    big = {0: half(65504.0, 2.0**-24), 1: half(65504.0, 0.5)}
    assert run("v_pk_add_f16 v2, v0, v1", arch=arch, v=big).v[2][0] == word(0x7C00, bits16(0.5))
    assert run("v_pk_mul_f16 v2, v0, v1", arch=arch, v=big).v[2][0] == word(0x7C00, 0)
    assert run("v_pk_add_f16 v2, v0, 0", arch=arch, v=big, mode=flushing()).v[2][0] == word(bits16(65504.0), 0)
    clamped = run("v_pk_add_f16 v2, v0, v1 clamp", arch=arch, v={0: half(0.75, -3.0), 1: half(0.75, 1.0)})
    assert clamped.v[2][0] == half(1.0, 0.0)


def test_minimum3_propagates_nan() -> None:
    v = {0: word(0x7E00, bits16(1.0)), 1: half(2.0, -0.0), 2: half(3.0, 0.0)}
    got = run("v_pk_minimum3_f16 v3, v0, v1, v2", arch="gfx950", v=v).v[3][0]
    assert got == word(0x7E00, 0x8000)
    got = run("v_pk_maximum3_f16 v3, v0, v1, v2", arch="gfx950", v=v).v[3][0]
    assert got == word(0x7E00, bits16(1.0))


@both
def test_fmac_adds_to_the_destination(arch: str) -> None:
    v = {0: half(2.0, 3.0), 1: half(10.0, 100.0), 2: half(1.0, -1.0)}
    assert run("v_pk_fmac_f16 v2, v0, v1", arch=arch, v=v).v[2][5] == half(21.0, 299.0)
    assert run("v_pk_fmac_f16_e32 v2, v0, v1", arch=arch, v=v).v[2][5] == half(21.0, 299.0)


@both
def test_agpr_moves(arch: str) -> None:
    values = list(range(100, 164))
    state = run(
        ["v_accvgpr_write_b32 a3, v0", "v_accvgpr_mov_b32 a4, a3", "v_accvgpr_read_b32 v1, a4",
         "v_accvgpr_write_b32 a5, s7", "v_accvgpr_write_b32 a6, -3"], arch=arch, v={0: values}, s={7: 1234},
    )  # fmt: skip
    assert state.v[1].tolist() == values
    assert (state.a[5] == 1234).all()
    assert (state.a[6] == 0xFFFFFFFD).all()
    masked = run("v_accvgpr_write_b32 a3, v0", arch=arch, v={0: values}, exec_=2)
    assert masked.a[3].tolist() == [0, 101] + [0] * 62


@both
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("v_pk_add_f32 v[0:1], v2, v[4:5]", AsmError),
        ("v_pk_add_f32 v0, v[2:3], v[4:5]", AsmError),
        ("v_pk_add_f16 v0, v[2:3], v1", AsmError),
        ("v_pk_add_f16 v0, -v1, v2", AsmError),
        ("v_pk_add_f16 v0, v1", AsmError),
        ("v_pk_add_f16 s0, v1, v2", AsmError),
        ("v_pk_add_f16 v0, v1, v2 op_sel:[0,0,0,1]", UnsupportedError),
        ("v_pk_add_u16 v0, v1, v2 neg_lo:[1,0]", UnsupportedError),
        ("v_pk_add_f32 v[0:1], v[2:3], v[4:5] mul:2", UnsupportedError),
        ("v_pk_mov_b32 v[0:1], v[2:3], v[4:5] neg_lo:[1,0]", UnsupportedError),
    ],
)
def test_refused(text: str, error: type[EmulatorError], arch: str) -> None:
    with pytest.raises(error):
        run(text, arch=arch)


@pytest.mark.parametrize("count", [3, 200])
@pytest.mark.parametrize("selected", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_many_waves(count: int, selected: bool, full: bool) -> None:
    """Few and many waves, all or some of them stepping, some lanes off: each lane as a scalar computation."""
    line = "v_pk_fma_f32 v[0:1], v[2:3], s[4:5], v[0:1] op_sel:[1,0,0] op_sel_hi:[0,1,1] neg_hi:[0,1,0]"
    step, w = step_of(line, 8), many_waves(count, 8)
    rng = np.random.default_rng(count)
    registers = w.V.view(np.float32)
    registers[:4] = rng.integers(-99, 100, (4, count, 64))
    w.S[4:6] = rng.integers(-99, 100, (2, count)).astype(np.float32).view(np.uint32)
    if not full:
        w.exec_mask[:, ::3] = False
    w.select(np.arange(0, count, 2) if selected else None)
    scalar = w.S[4:6].view(np.float32)[:, :, None]
    low = registers[3] * scalar[0] + registers[0]
    high = registers[2] * -scalar[1] + registers[1]
    writes = w.exec_mask.copy()
    if selected:
        writes[1::2] = False
    expected = np.where(writes, (low, high), registers[:2])
    step(w)
    assert (registers[:2] == expected).all()


def test_every_packed_mnemonic_has_a_vector() -> None:
    tested = {*PAIR_OPS, *F16_OPS, *INTEGER_OPS, "v_pk_mov_b32", "v_pk_fmac_f16"}
    assert {m for (_, m), e in TABLE.items() if e.form.startswith("packed")} == tested
