"""Scalar ALU against plain Python integers, written from the ISA manual's descriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from validation.emulator.isa import TABLE

from .harness import ARCHS, FULL, run

M32, M64 = (1 << 32) - 1, FULL
EDGES32 = (
    0,
    1,
    2,
    5,
    31,
    32,
    33,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x10000,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFE,
    M32,
)
EDGES64 = (0, 1, 63, 64, 0x80, M32, 1 << 32, 0x7FFFFFFFFFFFFFFF, 1 << 63, 0x0123456789ABCDEF, M64 - 1, M64)


def s32(x: int) -> int:
    return (x & M32) - (1 << 32) if x & 0x80000000 else x & M32


def s64(x: int) -> int:
    return (x & M64) - (1 << 64) if x >> 63 & 1 else x & M64


def bits_of(x: int, n: int) -> list[int]:
    return [x >> i & 1 for i in range(n)]


def find(bits: list[int], wanted: int) -> int:
    return bits.index(wanted) if wanted in bits else -1


def bfe(x: int, ctl: int, n: int, signed: bool) -> int:
    offset, width = ctl & (n - 1), ctl >> 16 & 0x7F
    if width == 0:
        return 0
    field = [
        x >> i & 1 if i < n else (x >> (n - 1) & 1 if signed else 0) for i in range(offset, offset + min(width, n))
    ]
    value = sum(b << i for i, b in enumerate(field))
    return value - (1 << len(field)) if signed and field[-1] else value


def quads(x: int, n: int) -> list[int]:
    return [int((x >> 4 * i & 15) != 0) for i in range(n // 4)]


def leading(x: int, n: int) -> int:
    return find(bits_of(x, n)[::-1], 1)


def leading_sign(x: int, n: int) -> int:
    bits = bits_of(x, n)[::-1]
    return find(bits, 1 - bits[0])


NZ = "nonzero"
#: mnemonic -> (result bits, operand bits, function); SCC expected: nonzero result, unchanged (None), or second value
Unary = dict[str, tuple[int, int, Callable[[int], int], Any]]
UNARY: Unary = {
    "s_mov_b32": (32, 32, lambda a: a, None),
    "s_mov_b64": (64, 64, lambda a: a, None),
    "s_not_b32": (32, 32, lambda a: ~a, NZ),
    "s_not_b64": (64, 64, lambda a: ~a, NZ),
    "s_wqm_b32": (32, 32, lambda a: sum(15 * q << 4 * i for i, q in enumerate(quads(a, 32))), NZ),
    "s_wqm_b64": (64, 64, lambda a: sum(15 * q << 4 * i for i, q in enumerate(quads(a, 64))), NZ),
    "s_quadmask_b32": (32, 32, lambda a: sum(q << i for i, q in enumerate(quads(a, 32))), NZ),
    "s_quadmask_b64": (64, 64, lambda a: sum(q << i for i, q in enumerate(quads(a, 64))), NZ),
    "s_brev_b32": (32, 32, lambda a: int(f"{a:032b}"[::-1], 2), None),
    "s_brev_b64": (64, 64, lambda a: int(f"{a:064b}"[::-1], 2), None),
    "s_bcnt0_i32_b32": (32, 32, lambda a: 32 - a.bit_count(), NZ),
    "s_bcnt0_i32_b64": (32, 64, lambda a: 64 - a.bit_count(), NZ),
    "s_bcnt1_i32_b32": (32, 32, lambda a: a.bit_count(), NZ),
    "s_bcnt1_i32_b64": (32, 64, lambda a: a.bit_count(), NZ),
    "s_ff0_i32_b32": (32, 32, lambda a: find(bits_of(a, 32), 0), None),
    "s_ff0_i32_b64": (32, 64, lambda a: find(bits_of(a, 64), 0), None),
    "s_ff1_i32_b32": (32, 32, lambda a: find(bits_of(a, 32), 1), None),
    "s_ff1_i32_b64": (32, 64, lambda a: find(bits_of(a, 64), 1), None),
    "s_flbit_i32_b32": (32, 32, lambda a: leading(a, 32), None),
    "s_flbit_i32_b64": (32, 64, lambda a: leading(a, 64), None),
    "s_flbit_i32": (32, 32, lambda a: leading_sign(a, 32), None),
    "s_flbit_i32_i64": (32, 64, lambda a: leading_sign(a, 64), None),
    "s_sext_i32_i8": (32, 32, lambda a: (a & 0xFF) - 256 if a & 0x80 else a & 0xFF, None),
    "s_sext_i32_i16": (32, 32, lambda a: (a & 0xFFFF) - 65536 if a & 0x8000 else a & 0xFFFF, None),
    "s_abs_i32": (32, 32, lambda a: abs(s32(a)), NZ),
    "s_bitreplicate_b64_b32": (64, 32, lambda a: sum(3 * b << 2 * i for i, b in enumerate(bits_of(a, 32))), None),
}


def carry(total: int) -> tuple[int, bool]:
    return total, not 0 <= total <= M32


def overflow(total: int) -> tuple[int, bool]:
    return total, not -(1 << 31) <= total < 1 << 31


Binary = dict[str, tuple[int, int, int, Callable[[int, int, bool], Any], Any]]
#: result bits, bits of both operands, function(a, b, scc)
BINARY: Binary = {
    "s_add_u32": (32, 32, 32, lambda a, b, c: carry(a + b), "given"),
    "s_sub_u32": (32, 32, 32, lambda a, b, c: carry(a - b), "given"),
    "s_addc_u32": (32, 32, 32, lambda a, b, c: carry(a + b + c), "given"),
    "s_subb_u32": (32, 32, 32, lambda a, b, c: carry(a - b - c), "given"),
    "s_add_i32": (32, 32, 32, lambda a, b, c: overflow(s32(a) + s32(b)), "given"),
    "s_sub_i32": (32, 32, 32, lambda a, b, c: overflow(s32(a) - s32(b)), "given"),
    "s_min_i32": (32, 32, 32, lambda a, b, c: (min(s32(a), s32(b)), s32(a) < s32(b)), "given"),
    "s_min_u32": (32, 32, 32, lambda a, b, c: (min(a, b), a < b), "given"),
    "s_max_i32": (32, 32, 32, lambda a, b, c: (max(s32(a), s32(b)), s32(a) > s32(b)), "given"),
    "s_max_u32": (32, 32, 32, lambda a, b, c: (max(a, b), a > b), "given"),
    "s_cselect_b32": (32, 32, 32, lambda a, b, c: a if c else b, None),
    "s_cselect_b64": (64, 64, 64, lambda a, b, c: a if c else b, None),
    "s_lshl_b32": (32, 32, 32, lambda a, b, c: a << (b & 31), NZ),
    "s_lshl_b64": (64, 64, 32, lambda a, b, c: a << (b & 63), NZ),
    "s_lshr_b32": (32, 32, 32, lambda a, b, c: a >> (b & 31), NZ),
    "s_lshr_b64": (64, 64, 32, lambda a, b, c: a >> (b & 63), NZ),
    "s_ashr_i32": (32, 32, 32, lambda a, b, c: s32(a) >> (b & 31), NZ),
    "s_ashr_i64": (64, 64, 32, lambda a, b, c: s64(a) >> (b & 63), NZ),
    "s_bfm_b32": (32, 32, 32, lambda a, b, c: ((1 << (a & 31)) - 1) << (b & 31), None),
    "s_bfm_b64": (64, 32, 32, lambda a, b, c: ((1 << (a & 63)) - 1) << (b & 63), None),
    "s_mul_i32": (32, 32, 32, lambda a, b, c: a * b, None),
    "s_mul_hi_u32": (32, 32, 32, lambda a, b, c: a * b >> 32, None),
    "s_mul_hi_i32": (32, 32, 32, lambda a, b, c: s32(a) * s32(b) >> 32, None),
    "s_bfe_u32": (32, 32, 32, lambda a, b, c: bfe(a, b, 32, False), NZ),
    "s_bfe_i32": (32, 32, 32, lambda a, b, c: bfe(a, b, 32, True), NZ),
    "s_bfe_u64": (64, 64, 32, lambda a, b, c: bfe(a, b, 64, False), NZ),
    "s_bfe_i64": (64, 64, 32, lambda a, b, c: bfe(a, b, 64, True), NZ),
    "s_absdiff_i32": (32, 32, 32, lambda a, b, c: abs(s32(s32(a) - s32(b))), NZ),
    "s_pack_ll_b32_b16": (32, 32, 32, lambda a, b, c: (b & 0xFFFF) << 16 | a & 0xFFFF, None),
    "s_pack_lh_b32_b16": (32, 32, 32, lambda a, b, c: (b >> 16) << 16 | a & 0xFFFF, None),
    "s_pack_hh_b32_b16": (32, 32, 32, lambda a, b, c: (b >> 16) << 16 | a >> 16, None),
}
for _n in (1, 2, 3, 4):
    BINARY[f"s_lshl{_n}_add_u32"] = (32, 32, 32, lambda a, b, c, n=_n: carry((a << n) + b), "given")  # type: ignore[misc]
LOGIC: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b, "nand": lambda a, b: ~(a & b), "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
}  # fmt: skip
for _name, _op in LOGIC.items():
    for _bits in (32, 64):
        BINARY[f"s_{_name}_b{_bits}"] = (_bits, _bits, _bits, lambda a, b, c, op=_op: op(a, b), NZ)  # type: ignore[misc]
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "lg": lambda a, b: a != b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
}  # fmt: skip


def edges(bits: int) -> tuple[int, ...]:
    return EDGES32 if bits == 32 else EDGES64


def reg(first: int, bits: int) -> str:
    return f"s{first}" if bits == 32 else f"s[{first}:{first + 1}]"


def check(mnemonic: str, arch: str, rows: list[tuple[str, dict[int, int], bool, int, int, bool]]) -> None:
    """rows: text, registers, scc before, result bits, expected result, expected scc. Result in s[20:21]."""
    for text, registers, before, bits, want, scc in rows:
        state = run(text, arch=arch, s=registers, scc=before, checks=())
        got = state.s64(20) if bits == 64 else state.s[20]
        assert got == want & ((1 << bits) - 1), f"{text} with {registers}"
        assert state.scc == scc, f"SCC of {text} with {registers}"


def settled(result: Any, rule: Any, before: bool, bits: int) -> tuple[int, bool]:
    if rule == "given":
        return int(result[0]), bool(result[1])
    return int(result), (bool(int(result) & ((1 << bits) - 1)) if rule == NZ else before)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("mnemonic", sorted(UNARY))
def test_unary(mnemonic: str, arch: str) -> None:
    bits, source, fn, rule = UNARY[mnemonic]
    rows = []
    for i, a in enumerate(edges(source)):
        before = bool(i % 2)
        want, scc = settled(fn(a), rule, before, bits)
        rows.append(
            (f"{mnemonic} {reg(20, bits)}, {reg(2, source)}", {2: a & M32, 3: a >> 32}, before, bits, want, scc)
        )
    check(mnemonic, arch, rows)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("mnemonic", sorted(BINARY))
def test_binary(mnemonic: str, arch: str) -> None:
    bits, bits_a, bits_b, fn, rule = BINARY[mnemonic]
    rows = []
    seconds = (0, 1, 4, 31, 63, 0x7FFFFFFF, 0x80000000, M32, 0x00080004, 0x00200000, 0x00050000, 0x0020001C)
    if bits_b == 64:
        seconds = EDGES64
    for i, a in enumerate(edges(bits_a)[::2] + edges(bits_a)[-1:]):
        for j, b in enumerate(seconds):
            before = bool((i + j) % 2)
            want, scc = settled(fn(a, b, before), rule, before, bits)
            text = f"{mnemonic} {reg(20, bits)}, {reg(2, bits_a)}, {reg(4, bits_b)}"
            rows.append((text, {2: a & M32, 3: a >> 32, 4: b & M32, 5: b >> 32}, before, bits, want, scc))
    check(mnemonic, arch, rows[:: 2 if len(rows) > 80 else 1])


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind", ["i32", "u32"])
@pytest.mark.parametrize("relation", sorted(COMPARE))
def test_compare(relation: str, kind: str, arch: str) -> None:
    view = s32 if kind == "i32" else (lambda x: x)
    for a in (0, 1, 0x7FFFFFFF, 0x80000000, M32):
        for b in (0, 1, 0x7FFFFFFF, 0x80000000, M32):
            want = COMPARE[relation](view(a), view(b))
            assert run(f"s_cmp_{relation}_{kind} s2, s3", arch=arch, s={2: a, 3: b}, scc=not want).scc == want
        for k in (0, 1, 0x7FFF, 0x8000, 0xFFFF):
            extended = k - 65536 if kind == "i32" and k & 0x8000 else k
            want = COMPARE[relation](view(a), extended)
            assert run(f"s_cmpk_{relation}_{kind} s2, {k:#x}", arch=arch, s={2: a}, scc=not want).scc == want


@pytest.mark.parametrize("arch", ARCHS)
def test_compare_64_and_single_bits(arch: str) -> None:
    big = {2: 1, 3: 7, 4: 1, 5: 7}
    assert run("s_cmp_eq_u64 s[2:3], s[4:5]", arch=arch, s=big).scc
    assert not run("s_cmp_lg_u64 s[2:3], s[4:5]", arch=arch, s=big, scc=True).scc
    assert run("s_cmp_lg_u64 s[2:3], s[4:5]", arch=arch, s={**big, 5: 8}).scc
    for width, positions in ((32, (0, 31, 32, 35)), (64, (0, 33, 63, 64))):
        value = 0x80000008_80000001
        for p in positions:
            bit = bool(value >> (p % width) & 1)
            registers = {2: value & M32, 3: value >> 32, 4: p}
            assert run(f"s_bitcmp1_b{width} {reg(2, width)}, s4", arch=arch, s=registers, scc=not bit).scc == bit
            assert run(f"s_bitcmp0_b{width} {reg(2, width)}, s4", arch=arch, s=registers, scc=bit).scc != bit


@pytest.mark.parametrize("arch", ARCHS)
def test_read_modify_write(arch: str) -> None:
    rows: list[tuple[str, dict[int, int], bool, int, int, bool]] = [
        ("s_movk_i32 s20, 0x8000", {}, True, 32, -32768, True),
        ("s_movk_i32 s20, -5", {}, False, 32, -5, False),
        ("s_cmovk_i32 s20, 0xffff", {20: 9}, True, 32, -1, True),
        ("s_cmovk_i32 s20, 0xffff", {20: 9}, False, 32, 9, False),
        ("s_cmov_b32 s20, s2", {2: 4, 20: 9}, True, 32, 4, True),
        ("s_cmov_b32 s20, s2", {2: 4, 20: 9}, False, 32, 9, False),
        ("s_cmov_b64 s[20:21], s[2:3]", {2: 4, 3: 5, 20: 9}, True, 64, 5 << 32 | 4, True),
        ("s_addk_i32 s20, 0xffff", {20: 0x80000000}, False, 32, 0x7FFFFFFF, True),
        ("s_addk_i32 s20, 1", {20: 0x7FFFFFFE}, True, 32, 0x7FFFFFFF, False),
        ("s_mulk_i32 s20, 0xfffe", {20: 7}, True, 32, -14, True),
        ("s_bitset1_b32 s20, s2", {2: 33, 20: 0}, False, 32, 2, False),
        ("s_bitset0_b32 s20, s2", {2: 31, 20: M32}, True, 32, 0x7FFFFFFF, True),
        ("s_bitset1_b64 s[20:21], s2", {2: 63}, False, 64, 1 << 63, False),
        ("s_bitset0_b64 s[20:21], s2", {2: 32, 20: M32, 21: M32}, False, 64, M64 ^ (1 << 32), False),
    ]
    check("", arch, rows)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", [*sorted(LOGIC), "andn1", "orn1"])
def test_saveexec(name: str, arch: str) -> None:
    fn = LOGIC.get(name) or {"andn1": lambda a, b: ~a & b, "orn1": lambda a, b: ~a | b}[name]
    for mask, source in ((0xF0F0, 0xFF00), (FULL, 0), (1, FULL), (0, 0)):
        state = run(
            f"s_{name}_saveexec_b64 s[20:21], s[2:3]", arch=arch, s={2: source & M32, 3: source >> 32}, exec_=mask
        )
        want = fn(source, mask) & FULL
        assert (state.s64(20), state.exec_, state.scc) == (mask, want, want != 0)
    same = run(f"s_{name}_saveexec_b64 s[2:3], s[2:3]", arch=arch, s={2: 6}, exec_=12)
    assert (same.s64(2), same.exec_) == (12, fn(6, 12) & FULL)


@pytest.mark.parametrize("arch", ARCHS)
def test_wrexec(arch: str) -> None:
    state = run("s_andn1_wrexec_b64 s[20:21], s[2:3]", arch=arch, s={2: 0xF0}, exec_=0xFF)
    assert (state.s64(20), state.exec_, state.scc) == (0x0F, 0x0F, True)
    state = run("s_andn2_wrexec_b64 s[20:21], s[2:3]", arch=arch, s={2: 0xF0}, exec_=0xF0)
    assert (state.s64(20), state.exec_, state.scc) == (0, 0, False)


@pytest.mark.parametrize("arch", ARCHS)
def test_special_registers_and_constants(arch: str) -> None:
    state = run("s_mov_b32 exec_lo, 0xff\ns_mov_b32 exec_hi, 0\nv_mov_b32_e32 v1, 1", arch=arch)
    assert state.exec_ == 0xFF
    assert state.v[1].tolist() == [1] * 8 + [0] * 56
    assert run("s_mov_b64 vcc, -1", arch=arch).vcc == FULL
    # a 64-bit operand takes an inline float as a double, also where it is "bits"
    assert run("s_mov_b64 s[20:21], 0.5", arch=arch).s64(20) == 0x3FE0000000000000
    assert run("s_mov_b32 s20, 1.0", arch=arch).s[20] == 0x3F800000
    assert run("s_mov_b32 s20, src_scc", arch=arch, scc=True).s[20] == 1
    assert run("s_mov_b32 s20, m0", arch=arch, m0=77).s[20] == 77
    assert run("s_movrels_b32 s20, s2", arch=arch, m0=3, s={5: 42}).s[20] == 42
    assert run("s_movreld_b32 s18, s2", arch=arch, m0=2, s={2: 42}).s[20] == 42
    assert run("s_movrels_b64 s[20:21], s[2:3]", arch=arch, m0=2, s={4: 1, 5: 2}).s64(20) == 2 << 32 | 1
    assert run("s_movreld_b64 s[18:19], s[2:3]", arch=arch, m0=2, s={2: 3, 3: 4}).s64(20) == 4 << 32 | 3


def test_every_scalar_mnemonic_is_covered() -> None:
    listed = {*UNARY, *BINARY, "s_cmp_eq_u64", "s_cmp_lg_u64"}
    listed |= {f"s_{c}_{r}_{k}" for c in ("cmp", "cmpk") for r in COMPARE for k in ("i32", "u32")}
    listed |= {f"s_{n}_saveexec_b64" for n in (*LOGIC, "andn1", "orn1")} | {f"s_andn{i}_wrexec_b64" for i in (1, 2)}
    listed |= {f"s_bitcmp{v}_b{b}" for v in (0, 1) for b in (32, 64)} | {
        f"s_bitset{v}_b{b}" for v in (0, 1) for b in (32, 64)
    }
    listed |= {"s_set_gpr_idx_on", "s_set_gpr_idx_idx"}  # test_gpr_index.py
    listed |= {"s_movk_i32", "s_cmovk_i32", "s_cmov_b32", "s_cmov_b64", "s_addk_i32", "s_mulk_i32"}
    assert {m for (_, m), e in TABLE.items() if e.form == "salu"} == listed
