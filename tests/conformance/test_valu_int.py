"""Integer VALU arithmetic against plain Python integers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from validation.emulator.errors import UnsupportedError
from validation.emulator.isa import TABLE
from validation.emulator.machine.types import IMPLICIT, TYPES

from .harness import ARCHS, FULL, run
from .integer_vectors import GFX950, Vector, check, edge_values, signed, vector, widths
from .test_valu_int_bits import BIT_VECTORS, LANE_DEPENDENT

M32, M64 = 0xFFFFFFFF, (1 << 64) - 1


def limit(x: int, bits: int, sign: bool) -> int:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if sign else (0, (1 << bits) - 1)
    return min(max(x, low), high)


def on_signed(fn: Callable[..., int], *bits: int) -> Callable[..., int]:
    return lambda *args: fn(*[signed(x, b) for x, b in zip(args, bits, strict=True)])


def byte(x: int, i: int) -> int:
    return x >> (8 * i) & 0xFF


def sad(a: int, b: int, c: int) -> int:
    return c + sum(abs(byte(a, i) - byte(b, i)) for i in range(4))


def msad(a: int, b: int, c: int) -> int:
    return c + sum(abs(byte(a, i) - byte(b, i)) for i in range(4) if byte(b, i))


def quads(fn: Callable[..., int], a: int, b: int, c: int, bits: int) -> int:
    field = (1 << bits) - 1
    parts = [fn(a >> (8 * i) & M32, b, c >> (bits * i) & field) & field for i in range(4)]
    return sum(part << (bits * i) for i, part in enumerate(parts))


def lerp(a: int, b: int, c: int) -> int:
    return sum(((byte(a, i) + byte(b, i) + (byte(c, i) & 1)) >> 1) << (8 * i) for i in range(4))


def median(a: int, b: int, c: int) -> int:
    return sorted((a, b, c))[1]


def wide_mad(sign: bool) -> Callable[..., Any]:
    def mad(a: int, b: int, c: int) -> tuple[int, int]:
        total = signed(a, 32) * signed(b, 32) + signed(c, 64) if sign else a * b + c
        return total & M64, total >> 64 & 1

    return mad


def two(low: int, high: int, bits: int) -> int:
    return low & ((1 << bits) - 1) | (high & ((1 << bits) - 1)) << bits


def shifted_bytes(a: int, b: int, n: int, sign: bool) -> int:
    return two(limit(signed(a, 32) >> (n & 31), 8, sign), limit(signed(b, 32) >> (n & 31), 8, sign), 8)


S24, U24 = (lambda x: signed(x & 0xFFFFFF, 24)), (lambda x: x & 0xFFFFFF)

VECTORS: dict[str, Vector] = {
    "v_mov_b32": vector("32", "32", lambda a: a),
    "v_mov_b64": vector("64", "64", lambda a: a),
    "v_cndmask_b32": vector("32 32 mask", "32", lambda a, b, m: b if m else a),
    "v_add_co_u32": vector("32 32", "32 mask", lambda a, b: (a + b, a + b > M32)),
    "v_sub_co_u32": vector("32 32", "32 mask", lambda a, b: (a - b, a < b)),
    "v_subrev_co_u32": vector("32 32", "32 mask", lambda a, b: (b - a, b < a)),
    "v_addc_co_u32": vector("32 32 mask", "32 mask", lambda a, b, c: (a + b + c, a + b + c > M32)),
    "v_subb_co_u32": vector("32 32 mask", "32 mask", lambda a, b, c: (a - b - c, b + c > a)),
    "v_subbrev_co_u32": vector("32 32 mask", "32 mask", lambda a, b, c: (b - a - c, a + c > b)),
    "v_add_u32": vector("32 32", "32", lambda a, b: a + b),
    "v_sub_u32": vector("32 32", "32", lambda a, b: a - b),
    "v_subrev_u32": vector("32 32", "32", lambda a, b: b - a),
    "v_add_i32": vector("32 32", "32", lambda a, b: a + b),
    "v_sub_i32": vector("32 32", "32", lambda a, b: a - b),
    "v_add_u16": vector("16 16", "16", lambda a, b: a + b),
    "v_sub_u16": vector("16 16", "16", lambda a, b: a - b),
    "v_subrev_u16": vector("16 16", "16", lambda a, b: b - a),
    "v_add_i16": vector("16 16", "16", lambda a, b: a + b, keep=True),
    "v_sub_i16": vector("16 16", "16", lambda a, b: a - b, keep=True),
    "v_add3_u32": vector("32 32 32", "32", lambda a, b, c: a + b + c),
    "v_xad_u32": vector("32 32 32", "32", lambda a, b, c: (a ^ b) + c),
    "v_mul_lo_u32": vector("32 32", "32", lambda a, b: a * b),
    "v_mul_lo_i32": vector("32 32", "32", on_signed(lambda a, b: a * b, 32, 32)),
    "v_mul_hi_u32": vector("32 32", "32", lambda a, b: a * b >> 32),
    "v_mul_hi_i32": vector("32 32", "32", on_signed(lambda a, b: a * b >> 32, 32, 32)),
    "v_mul_lo_u16": vector("16 16", "16", lambda a, b: a * b),
    "v_mul_u32_u24": vector("32 32", "32", lambda a, b: U24(a) * U24(b)),
    "v_mul_i32_i24": vector("32 32", "32", lambda a, b: S24(a) * S24(b)),
    "v_mul_hi_u32_u24": vector("32 32", "32", lambda a, b: U24(a) * U24(b) >> 32),
    "v_mul_hi_i32_i24": vector("32 32", "32", lambda a, b: S24(a) * S24(b) >> 32),
    "v_mad_u32_u24": vector("32 32 32", "32", lambda a, b, c: U24(a) * U24(b) + c),
    "v_mad_i32_i24": vector("32 32 32", "32", lambda a, b, c: S24(a) * S24(b) + c),
    "v_mad_u32_u16": vector("16 16 32", "32", lambda a, b, c: a * b + c),
    "v_mad_i32_i16": vector("16 16 32", "32", on_signed(lambda a, b, c: a * b + c, 16, 16, 32)),
    "v_mad_u64_u32": vector("32 32 64", "64 mask", wide_mad(False)),
    "v_mad_i64_i32": vector("32 32 64", "64 mask", wide_mad(True)),
    "v_mad_u16": vector("16 16 16", "16", lambda a, b, c: a * b + c, keep=True),
    "v_mad_i16": vector("16 16 16", "16", lambda a, b, c: a * b + c, keep=True),
    "v_mad_legacy_u16": vector("16 16 16", "16", lambda a, b, c: a * b + c),
    "v_mad_legacy_i16": vector("16 16 16", "16", lambda a, b, c: a * b + c),
    "v_cvt_pk_i16_i32": vector(
        "32 32", "32", on_signed(lambda a, b: two(limit(a, 16, True), limit(b, 16, True), 16), 32, 32)
    ),
    "v_cvt_pk_u16_u32": vector("32 32", "32", lambda a, b: two(limit(a, 16, False), limit(b, 16, False), 16)),
    "v_sat_pk_u8_i16": vector(
        "32", "16", lambda a: two(limit(signed(a & 0xFFFF, 16), 8, False), limit(signed(a >> 16, 16), 8, False), 8)
    ),
    "v_ashr_pk_i8_i32": vector(
        "32 32 32", "16", archs=GFX950, keep=True,
        fn=lambda a, b, n: shifted_bytes(a, b, n, True),
    ),
    "v_ashr_pk_u8_i32": vector(
        "32 32 32", "16", archs=GFX950, keep=True,
        fn=lambda a, b, n: shifted_bytes(a, b, n, False),
    ),
    "v_sad_u8": vector("32 32 32", "32", sad),
    "v_sad_hi_u8": vector("32 32 32", "32", lambda a, b, c: (sad(a, b, 0) << 16) + c),
    "v_sad_u16": vector(
        "32 32 32", "32", lambda a, b, c: abs((a & 0xFFFF) - (b & 0xFFFF)) + abs((a >> 16) - (b >> 16)) + c
    ),
    "v_sad_u32": vector("32 32 32", "32", lambda a, b, c: abs(a - b) + c),
    "v_msad_u8": vector("32 32 32", "32", msad),
    "v_lerp_u8": vector("32 32 32", "32", lerp),
    "v_qsad_pk_u16_u8": vector("64 32 64", "64", lambda a, b, c: quads(sad, a, b, c, 16)),
    "v_mqsad_pk_u16_u8": vector("64 32 64", "64", lambda a, b, c: quads(msad, a, b, c, 16)),
    "v_mqsad_u32_u8": vector("64 32 128", "128", lambda a, b, c: quads(msad, a, b, c, 32)),
    "v_prng_b32": vector("32", "32", lambda a: (a << 1) ^ (197 if a >> 31 else 0), archs=GFX950),
}  # fmt: skip
for _bits in (16, 32):
    _w = f"{_bits} {_bits}"
    for _kind, _read in (("u", lambda x, b: x), ("i", signed)):
        _each = lambda fn, r, b: lambda *args: fn(*[r(x, b) for x in args])  # noqa: E731 - one shape, many rows
        VECTORS[f"v_min_{_kind}{_bits}"] = vector(_w, str(_bits), _each(min, _read, _bits))
        VECTORS[f"v_max_{_kind}{_bits}"] = vector(_w, str(_bits), _each(max, _read, _bits))
        for _name, _of_three in (("min3", min), ("max3", max), ("med3", median)):
            VECTORS[f"v_{_name}_{_kind}{_bits}"] = vector(
                f"{_w} {_bits}", str(_bits), _each(_of_three, _read, _bits), keep=_bits == 16
            )

ALL = {**VECTORS, **BIT_VECTORS}
CASES = [(name, arch) for name in ALL for arch in ALL[name].archs]
PARTIAL = 0x00FF_F0F0_1234_8001


def _sources(vec: Vector, name: str, salt: int) -> list[Any]:
    rng = random.Random(f"{name} {salt}")
    return [None if w == "mask" else edge_values(rng, w) for w in vec.src]


@pytest.mark.parametrize(("name", "arch"), CASES)
def test_lanes(name: str, arch: str) -> None:
    vec = ALL[name]
    check(name, vec, _sources(vec, name, 0), arch, mask=0x5A5A_0F0F_3333_8001)
    check(name, vec, _sources(vec, name, 1), arch, PARTIAL, mask=0x5A5A_0F0F_3333_8001)
    check(name, vec, _sources(vec, name, 2), arch, 0)


@pytest.mark.parametrize(("name", "arch"), [c for c in CASES if ALL[c[0]].dst[0] in (16, ALL[c[0]].src[0])])
def test_result_overlaps_source(name: str, arch: str) -> None:
    vec = ALL[name]
    check(name, vec, _sources(vec, name, 3), arch, PARTIAL, result=10)


@pytest.mark.parametrize(("name", "arch"), CASES)
def test_scalar_and_constant_sources(name: str, arch: str) -> None:
    vec = ALL[name]
    for position, width in enumerate(vec.src):
        if width in ("mask", 128):
            continue
        scalar = random.Random(f"{name} scalar").getrandbits(width)
        constants = [("k", text) for text in ("7", "-3", "64", "0")]
        # the constant bus of gfx9 carries one scalar an instruction, and a mask is one
        for source in constants if "mask" in vec.src else [("s", scalar), *constants]:
            sources = _sources(vec, name, 4)
            sources[position] = source
            check(name, vec, sources, arch, mask=0x0123_4567_89AB_CDEF)


def test_every_integer_instruction_has_a_vector() -> None:
    """Rows of the table that touch nothing but integers and masks, other than compares and dot products."""
    integers = {"u32", "i32", "u64", "i64", "u16", "i16", "m64", "b32"}
    rows = {
        m for (_, m), e in TABLE.items()
        if e.form == "valu" and {t for t in (*e.dst, *e.src) if t not in IMPLICIT} <= integers
        and not m.startswith(("v_cmp", "v_dot", "v_accvgpr"))
    }  # fmt: skip
    assert integers <= TYPES.keys()
    assert rows == set(ALL) | set(LANE_DEPENDENT)


def _clamp_vector(bits: int, sign: bool, fn: Callable[[int, int], int], keep: bool = False) -> Vector:
    read = signed if sign else (lambda x, b: x)
    exact = lambda a, b: limit(fn(read(a, bits), read(b, bits)), bits, sign)  # noqa: E731
    return Vector(widths(f"{bits} {bits}"), (bits,), exact, keep=keep, modifiers="clamp")


CLAMPED = {
    "v_add_u32": _clamp_vector(32, False, lambda a, b: a + b),
    "v_sub_u32": _clamp_vector(32, False, lambda a, b: a - b),
    "v_subrev_u32": _clamp_vector(32, False, lambda a, b: b - a),
    "v_add_i32": _clamp_vector(32, True, lambda a, b: a + b),
    "v_sub_i32": _clamp_vector(32, True, lambda a, b: a - b),
    "v_add_u16": _clamp_vector(16, False, lambda a, b: a + b),
    "v_sub_u16": _clamp_vector(16, False, lambda a, b: a - b),
    "v_subrev_u16": _clamp_vector(16, False, lambda a, b: b - a),
    "v_add_i16": _clamp_vector(16, True, lambda a, b: a + b, keep=True),
    "v_sub_i16": _clamp_vector(16, True, lambda a, b: a - b, keep=True),
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", CLAMPED)
def test_clamp_saturates(name: str, arch: str) -> None:
    vec = CLAMPED[name]
    check(name, vec, _sources(vec, name, 5), arch, PARTIAL)
    for constant in ("7", "-3"):
        check(name, vec, [_sources(vec, name, 6)[0], ("k", constant)], arch)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("name", "sign"), [("v_mad_u16", False), ("v_mad_i16", True)])
def test_clamp_of_mad(name: str, sign: bool, arch: str) -> None:
    read = signed if sign else (lambda x, b: x)
    fn = lambda a, b, c: limit(read(a, 16) * read(b, 16) + read(c, 16), 16, sign)  # noqa: E731
    vec = Vector((16, 16, 16), (16,), fn, keep=True, modifiers="clamp")
    check(name, vec, _sources(vec, name, 7), arch)


@pytest.mark.parametrize("name", ["v_add_co_u32_e64 v1, vcc, v2, v3 clamp", "v_mul_u32_u24_e64 v1, v2, v3 clamp"])
def test_clamp_without_known_meaning_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match="clamp"):
        run(name)


@pytest.mark.parametrize("arch", ARCHS)
def test_carry_chain_with_implied_vcc(arch: str) -> None:
    """64-bit sums as compilers write them: carry in VCC, inactive lanes get no carry."""
    body = ["v_add_co_u32_e32 v4, vcc, v0, v2", "v_addc_co_u32_e32 v5, vcc, v1, v3, vcc"]
    a, b = 0xFFFFFFFF_80000001, 0x00000001_7FFFFFFF
    state = run(body, arch=arch, v={0: a & M32, 1: a >> 32, 2: b & M32, 3: b >> 32, 4: 0, 5: 0}, exec_=0xFF, vcc=FULL)
    assert int(state.v64(4)[0]) == (a + b) & M64
    assert state.vcc == 0xFF
    assert int(state.v64(4)[8]) == 0


@pytest.mark.parametrize("arch", ARCHS)
def test_vcc_may_be_left_out(arch: str) -> None:
    """LLVM's assembler accepts these e32 spellings."""
    body = ["v_cmp_eq_u32_e32 v1, v2", "v_cndmask_b32_e32 v3, v4, v1"]
    state = run(body, arch=arch, v={1: 5, 2: [5, 6], 4: 9})
    assert [int(x) for x in state.v[3][:3]] == [5, 9, 5]
    assert state.vcc == 0x5555_5555_5555_5555
    state = run("v_add_co_u32_e32 v3, v1, v2", arch=arch, v={1: M32, 2: [0, 1]})
    assert state.vcc == 0xAAAA_AAAA_AAAA_AAAA


@pytest.mark.parametrize("arch", ARCHS)
def test_cndmask_forms(arch: str) -> None:
    state = run(
        ["v_cndmask_b32_e32 v2, v0, v1, vcc", "v_cndmask_b32_e64 v3, -v0, |v1|, s[4:5]",
         "v_cndmask_b32_e64 v4, 0, 1.0, vcc"],
        arch=arch, v={0: 0x3F800000, 1: 0xC0000000}, s={4: 2, 5: 0}, vcc=1,
    )  # fmt: skip
    assert [hex(x) for x in state.v[2][:2]] == ["0xc0000000", "0x3f800000"]
    assert [hex(x) for x in state.v[3][:2]] == ["0xbf800000", "0x40000000"]
    assert [hex(x) for x in state.v[4][:2]] == ["0x3f800000", "0x0"]


@pytest.mark.parametrize("arch", ARCHS)
def test_op_sel_picks_halves(arch: str) -> None:
    """op_sel bits 0..2 pick the upper half of a source, the last bit writes the upper half of the result."""
    v = {0: 0x0003_0005, 1: 0x0007_000B, 2: 0x000D_0011, 3: 0xAAAA_BBBB}
    for bits in range(16):
        picks = [bits >> i & 1 for i in range(4)]
        state = run(f"v_mad_u16 v3, v0, v1, v2 op_sel:{picks}", arch=arch, v=v)
        a, b, c = (v[i] >> (16 * picks[i]) & 0xFFFF for i in range(3))
        low = a * b + c
        want = (low << 16 | 0xBBBB) if picks[3] else (0xAAAA0000 | low)
        assert int(state.v[3][0]) == want, picks
    state = run("v_add_i16 v3, v0, v1 op_sel:[0,1,1]", arch=arch, v=v)
    assert int(state.v[3][5]) == 0x000C_BBBB


def test_op_sel_on_32_bits_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="op_sel"):
        run("v_alignbit_b32 v3, v0, v1, v2 op_sel:[0,0,1]")


@pytest.mark.parametrize("arch", ARCHS)
def test_constants_of_64_bits(arch: str) -> None:
    """Inline floats are doubles for 64-bit operands; a literal is zero-extended for unsigned ones."""
    state = run(["v_mov_b64_e32 v[2:3], 1.0", "v_mov_b64_e32 v[4:5], 0x2a6", "v_mov_b64_e32 v[6:7], -1"], arch=arch)
    assert int(state.v64(2)[0]) == 0x3FF0_0000_0000_0000
    assert int(state.v64(4)[63]) == 0x2A6
    assert int(state.v64(6)[1]) == M64


@pytest.mark.parametrize("body", ["v_add_u16_e32 v1, 1.0, v2", "v_add_i16 v1, 5, v2 op_sel:[1,0,0]"])
def test_constants_without_known_meaning_are_refused(body: str) -> None:
    with pytest.raises(UnsupportedError, match="constant"):
        run(body)
