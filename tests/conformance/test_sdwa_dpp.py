"""SDWA selection and DPP lane routing around ordinary instructions."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from validation.emulator.errors import AsmError

from .harness import ARCHS, FULL, run

LANE = list(range(64))
SELECTORS = {**{f"BYTE_{i}": (8 * i, 8) for i in range(4)}, "WORD_0": (0, 16), "WORD_1": (16, 16), "DWORD": (0, 32)}
M32 = 0xFFFFFFFF
WHOLE = "dst_sel:DWORD dst_unused:UNUSED_PAD"
ALL = "row_mask:0xf bank_mask:0xf"


def selected(x: int, name: str, sext: bool = False) -> int:
    shift, width = SELECTORS[name]
    field = x >> shift & ((1 << width) - 1)
    return (field | (M32 << width & M32 if sext and field >> (width - 1) else 0)) & M32


def placed(result: int, old: int, name: str, unused: str) -> int:
    shift, width = SELECTORS[name]
    low = (1 << width) - 1
    field = result & low
    if unused == "UNUSED_PRESERVE":
        return old & ~(low << shift) & M32 | field << shift
    if unused == "UNUSED_SEXT" and field >> (width - 1):
        return (-1 << (shift + width) | field << shift) & M32
    return field << shift


def words(salt: str) -> list[int]:
    rng = random.Random(salt)
    return [0x80FF7F01, 0x7F80FF00, 0, M32, *(rng.getrandbits(32) for _ in range(60))]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("sext", [False, True])
def test_source_selectors(arch: str, sext: bool) -> None:
    a, b = words("a"), words("b")
    wrap = "sext({})" if sext else "{}"
    for one, two in itertools.product(SELECTORS, SELECTORS):
        operands = f"v2, {wrap.format('v0')}, {wrap.format('v1')}"
        body = f"v_add_u32_sdwa {operands} {WHOLE} src0_sel:{one} src1_sel:{two}"
        state = run(body, arch=arch, v={0: a, 1: b})
        want = [(selected(x, one, sext) + selected(y, two, sext)) & M32 for x, y in zip(a, b, strict=True)]
        assert state.v[2].tolist() == want, body


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("unused", ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"])
@pytest.mark.parametrize("select", SELECTORS)
def test_destination(arch: str, unused: str, select: str) -> None:
    a, old = words("c"), words("old")
    for mnemonic, mask in (("v_xor_b32", M32), ("v_sub_u16", 0xFFFF)):
        second = 0 if mnemonic == "v_sub_u16" else 0x01020304
        body = f"{mnemonic}_sdwa v2, v0, v1 dst_sel:{select} dst_unused:{unused} src0_sel:DWORD src1_sel:DWORD"
        state = run(body, arch=arch, v={0: a, 1: second, 2: old}, exec_=0xFFFF_FFFF_FFFF_0FFF)
        for lane in LANE:
            result = (a[lane] ^ second) & mask
            want = placed(result, old[lane], select, unused) if not 12 <= lane < 16 else old[lane]
            assert int(state.v[2][lane]) == want, (body, lane)


@pytest.mark.parametrize("arch", ARCHS)
def test_defaults_are_whole_registers_and_preserve(arch: str) -> None:
    """LLVM encodes a missing dst_unused as UNUSED_PRESERVE, missing selectors as DWORD."""
    state = run("v_mov_b32_sdwa v1, v0 dst_sel:BYTE_1", arch=arch, v={0: 0x99, 1: 0x11223344})
    assert int(state.v[1][0]) == 0x11229944
    state = run("v_mov_b32_sdwa v1, v0 src0_sel:WORD_1", arch=arch, v={0: 0x12345678, 1: M32})
    assert int(state.v[1][0]) == 0x1234


@pytest.mark.parametrize("arch", ARCHS)
def test_sdwa_with_masks_scalars_and_16_bits(arch: str) -> None:
    state = run(f"v_cndmask_b32_sdwa v2, v0, v1, vcc {WHOLE} src0_sel:DWORD src1_sel:WORD_1",
                arch=arch, v={0: 0x11111111, 1: 0x22223333}, vcc=0b10)  # fmt: skip
    assert [int(x) for x in state.v[2][:3]] == [0x11111111, 0x2222, 0x11111111]
    state = run(f"v_and_b32_sdwa v2, v0, s4 {WHOLE} src0_sel:BYTE_3 src1_sel:DWORD",
                arch=arch, v={0: 0xABCDEF01}, s={4: 0xF0})  # fmt: skip
    assert int(state.v[2][9]) == 0xA0
    state = run("v_cmp_gt_i16_sdwa s[4:5], v0, sext(v1) src0_sel:DWORD src1_sel:BYTE_0",
                arch=arch, v={0: 0x5555FFFF, 1: [0xFE, 0x01]}, exec_=0xF)  # fmt: skip
    assert state.s64(4) == 0b0101, "-1 > -2, not > 1"
    state = run(f"v_max_i16_sdwa v2, sext(v0), sext(v1) {WHOLE} src0_sel:BYTE_0 src1_sel:BYTE_1",
                arch=arch, v={0: 0x80, 1: 0xFF00})  # fmt: skip
    assert int(state.v[2][0]) == 0xFFFF, "16-bit results clear the upper half"
    state = run(f"v_addc_co_u32_sdwa v2, vcc, v0, v1, vcc {WHOLE} src0_sel:BYTE_0 src1_sel:DWORD",
                arch=arch, v={0: 0xFF01, 1: M32}, vcc=0b01)  # fmt: skip
    assert [int(x) for x in state.v[2][:2]] == [1, 0]
    assert state.vcc == FULL


@pytest.mark.parametrize("arch", ARCHS)
def test_sdwa_float_modifiers(arch: str) -> None:
    body = "v_add_f16_sdwa v2, -v0, |v1| dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:WORD_0"
    state = run(body, arch=arch, v={0: 0x3C00_0000, 1: 0x0000_C000, 2: 0x1111_2222})
    assert int(state.v[2][0]) == 0x3C00_2222, "-1 + |-2| = 1"


@pytest.mark.parametrize(
    "body",
    [
        "v_add_u32_sdwa v0, v1, v2 dst_sel:BYTE_4",
        "v_add_u32_sdwa v0, v1, v2 dst_unused:UNUSED_ZERO",
        "v_add_u32_sdwa v0, -v1, v2 src0_sel:DWORD",
        "v_mov_b64_sdwa v[0:1], v[2:3] src0_sel:DWORD",
        "v_add_u32_sdwa v0, v1, v2 src0_sel:WORD_0 row_shl:1",
    ],
)
def test_sdwa_refuses(body: str) -> None:
    with pytest.raises(AsmError):
        run(body)


# -- DPP ----------------------------------------------------------------------------------------------------
def dpp_source(control: str, lane: int) -> int | None:
    """Lane that is read, None where there is none (CDNA3 ISA, DPP_CTRL)."""
    name, _, text = control.partition(":")
    row, place = lane // 16 * 16, lane % 16
    if name == "quad_perm":
        return lane // 4 * 4 + [int(x) for x in text.strip("[]").split(",")][lane % 4]
    if name in ("row_mirror", "row_half_mirror"):
        return row + 15 - place if name == "row_mirror" else lane // 8 * 8 + 7 - lane % 8
    n = int(text)
    if name == "row_bcast":
        if n == 15:
            return row - 1 if row else None
        return 31 if lane >= 32 else None
    moved = {"row_shl": place + n, "row_shr": place - n, "row_ror": (place - n) % 16, "row_newbcast": n}
    if name in moved:
        return row + moved[name] if 0 <= moved[name] < 16 else None
    target = lane + 1 if name in ("wave_shl", "wave_rol") else lane - 1
    return target % 64 if name in ("wave_rol", "wave_ror") else target if 0 <= target < 64 else None


CONTROLS = (
    "quad_perm:[3,2,1,0]", "quad_perm:[0,0,2,2]", "row_shl:1", "row_shl:15", "row_shr:8", "row_shr:1", "row_ror:3",
    "row_ror:8",
    "row_mirror", "row_half_mirror", "row_bcast:15", "row_bcast:31", "row_newbcast:0", "row_newbcast:13", "wave_shl:1",
    "wave_shr:1", "wave_rol:1", "wave_ror:1",
)  # fmt: skip
PARTIAL = 0xF0F3_8001_FF0F_7FFE


def routed(
    control: str, values: list[int], old: list[int], exec_: int, rows: int, banks: int, bound: bool, fn: Any = None
) -> list[int]:
    """``fn(value of the source lane, own lane)`` where the lane is on and enabled; no source: 0 or no write."""
    result = [*old]
    for lane in LANE:
        if not (exec_ >> lane & rows >> lane // 16 & banks >> lane // 4 % 4 & 1):
            continue
        source = dpp_source(control, lane)
        readable = source is not None and exec_ >> source & 1
        if readable or bound:
            value = values[source] if readable and source is not None else 0
            result[lane] = fn(value, lane) if fn else value
    return result


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("bound", [False, True])
def test_dpp_move(control: str, bound: bool) -> None:
    values, old = [1000 + i for i in LANE], [5000 + i for i in LANE]
    for arch, exec_, rows, banks in (
        ("gfx942", FULL, 0xF, 0xF), ("gfx950", PARTIAL, 0xF, 0xF), ("gfx942", FULL, 0xA, 0x3),
        ("gfx950", PARTIAL, 0x5, 0xE),
        ("gfx942", 0, 0xF, 0xF), ("gfx950", PARTIAL, 0, 0xF),
    ):  # fmt: skip
        body = f"v_mov_b32_dpp v1, v0 {control} row_mask:{rows:#x} bank_mask:{banks:#x}{' bound_ctrl:1' * bound}"
        state = run(body, arch=arch, v={0: values, 1: old}, exec_=exec_)
        assert state.v[1].tolist() == routed(control, values, old, exec_, rows, banks, bound), (body, hex(exec_))
        assert state.exec_ == exec_
        assert state.v[0].tolist() == values


@pytest.mark.parametrize("arch", ARCHS)
def test_dpp_in_place_arithmetic(arch: str) -> None:
    """Source 1 is the lane's own; the destination may be the routed register."""
    values = [3 * i + 1 for i in LANE]
    for control, bound in (("row_ror:4", True), ("row_shr:1", False), ("row_bcast:15", True)):
        body = f"v_add_u32_dpp v0, v0, v0 {control} row_mask:0xf bank_mask:0xf{' bound_ctrl:1' * bound}"
        want = routed(control, values, values, FULL, 0xF, 0xF, bound, lambda x, lane: x + values[lane])
        assert run(body, arch=arch, v={0: values}).v[0].tolist() == want


@pytest.mark.parametrize("arch", ARCHS)
def test_masks_stop_writes_not_reads(arch: str) -> None:
    """Rows 0 and 2 are not written, yet rows 1 and 3 read them: the reduction that compilers emit."""
    body = "v_mov_b32_dpp v1, v0 row_bcast:15 row_mask:0xa bank_mask:0xf bound_ctrl:1"
    state = run(body, arch=arch, v={0: LANE, 1: 99})
    assert state.v[1].tolist() == [99] * 16 + [15] * 16 + [99] * 16 + [47] * 16


@pytest.mark.parametrize("arch", ARCHS)
def test_bound_ctrl_zero_and_one_mean_the_same(arch: str) -> None:
    for value in (0, 1):
        state = run(f"v_mov_b32_dpp v1, v0 row_shr:1 {ALL} bound_ctrl:{value}", arch=arch, v={0: 7, 1: 9})
        assert [int(x) for x in state.v[1][:3]] == [0, 7, 7]


@pytest.mark.parametrize("arch", ARCHS)
def test_dpp_with_mask_16_and_64_bits(arch: str) -> None:
    state = run(f"v_cndmask_b32_dpp v2, v0, v1, vcc quad_perm:[1,0,3,2] {ALL}",
                arch=arch, v={0: LANE, 1: 500}, vcc=0b0101)  # fmt: skip
    assert [int(x) for x in state.v[2][:4]] == [500, 0, 500, 2]
    state = run(f"v_mul_lo_u16_dpp v2, v0, v1 row_ror:8 {ALL} bound_ctrl:1",
                arch=arch, v={0: [0x70000 + i for i in LANE], 1: 3, 2: M32})  # fmt: skip
    assert state.v[2].tolist() == [3 * (i // 16 * 16 + (i - 8) % 16) for i in LANE]
    state = run(f"v_mov_b64_dpp v[2:3], v[0:1] row_newbcast:3 {ALL}",
                arch=arch, v={0: LANE, 1: [9 + i for i in LANE]})  # fmt: skip
    assert state.v[2].tolist() == [i // 16 * 16 + 3 for i in LANE]
    assert state.v[3].tolist() == [i // 16 * 16 + 12 for i in LANE]


@pytest.mark.parametrize("arch", ARCHS)
def test_dpp_carry(arch: str) -> None:
    state = run(f"v_add_co_u32_dpp v2, vcc, v0, v1 row_shl:1 {ALL} bound_ctrl:1",
                arch=arch, v={0: [M32 if i % 2 else 0 for i in LANE], 1: 1})  # fmt: skip
    assert state.vcc == 0x5555_5555_5555_5555 & FULL
    assert [int(x) for x in state.v[2][:3]] == [0, 1, 0]


@pytest.mark.parametrize(
    "body",
    [
        "v_mov_b32_dpp v1, v0 row_shl:16",
        "v_mov_b32_dpp v1, v0 row_shl:1 row_shr:1",
        "v_mov_b32_dpp v1, v0 row_bcast:7",
        "v_mov_b32_dpp v1, v0 quad_perm:[0,1,2,4]",
        "v_mov_b32_dpp v1, s0 row_shl:1",
        "v_mov_b64_dpp v[2:3], v[0:1] row_shl:1",
        "v_mov_b32_dpp v1, v0 row_mask:0xf",
    ],
)
def test_dpp_refuses(body: str) -> None:
    with pytest.raises(AsmError):
        run(body)
