"""readlane, writelane, swaps: which lanes move where, and that EXEC matters only where it should."""

from __future__ import annotations

import numpy as np
import pytest

from validation.emulator.errors import AsmError, UnsupportedError
from validation.emulator.isa import TABLE
from validation.emulator.launch import Launch
from validation.emulator.machine.waves import pack_lanes
from validation.emulator.memory.space import AddressSpace
from validation.emulator.program import parse_program

from .harness import _TEMPLATE, ARCHS, FULL, run

LANE = list(range(64))
TESTED = {
    "v_readfirstlane_b32", "v_readlane_b32", "v_writelane_b32", "v_swap_b32", "v_permlane16_swap_b32",
    "v_permlane32_swap_b32", "v_nop", "v_clrexcp",
}  # fmt: skip


def test_every_cross_lane_instruction_is_tested() -> None:
    forms = {"readlane", "writelane", "swap", "permlane_swap", "no_effect"}
    assert {m for (_, m), e in TABLE.items() if e.form in forms} == TESTED
    assert ("gfx942", "v_permlane32_swap_b32") not in TABLE


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("exec_", "lane"), [(FULL, 0), (0b1000, 3), (1 << 63, 63), (0, 0), (FULL << 17 & FULL, 17)])
def test_readfirstlane(arch: str, exec_: int, lane: int) -> None:
    state = run("v_readfirstlane_b32 s4, v0", arch=arch, v={0: range(100, 164)}, exec_=exec_)
    assert state.s[4] == 100 + lane


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("exec_", [FULL, 0, 1])
def test_readlane_ignores_exec(arch: str, exec_: int) -> None:
    body = [
        "v_readlane_b32 s4, v0, 63", "v_readlane_b32 s5, v0, s8", "v_readlane_b32 vcc_lo, v0, m0",
        "v_readlane_b32 s7, v0, 64",
    ]  # fmt: skip
    state = run(body, arch=arch, v={0: range(100, 164)}, s={8: 64 + 5}, m0=9, exec_=exec_)
    assert state.s[4] == 163
    assert state.s[5] == 105, "the lane is taken modulo 64"
    assert state.vcc == 109
    assert state.s[7] == 100


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("exec_", [FULL, 0, 1])
def test_writelane_ignores_exec(arch: str, exec_: int) -> None:
    body = [
        "v_writelane_b32 v0, s4, 63", "v_writelane_b32 v0, vcc_hi, 2", "v_writelane_b32 v0, -1, m0",
        "v_writelane_b32 v0, -2, s5", "v_writelane_b32 v0, 1.0, 7",
    ]  # fmt: skip
    state = run(body, arch=arch, v={0: LANE}, s={4: 4000, 5: 64 + 9}, vcc=77 << 32, m0=3, exec_=exec_)
    want = [*LANE]
    want[63], want[2], want[3], want[9], want[7] = 4000, 77, 0xFFFFFFFF, 0xFFFFFFFE, 0x3F800000
    assert state.v[0].tolist() == want
    assert state.exec_ == exec_


@pytest.mark.parametrize("arch", ARCHS)
def test_swap(arch: str) -> None:
    state = run(["v_swap_b32 v0, v1", "v_swap_b32 v2, v2"], arch=arch, v={0: LANE, 1: 7, 2: LANE}, exec_=0xF0)
    assert state.v[0].tolist() == [7 if 4 <= i < 8 else i for i in LANE]
    assert state.v[1].tolist() == [i if 4 <= i < 8 else 7 for i in LANE]
    assert state.v[2].tolist() == LANE


def exchanged(
    half: int, first: list[int], second: list[int], exec_: int, fi: bool, bc: bool
) -> tuple[list[int], list[int]]:
    """Odd groups of the first register against even groups of the second, lane by lane."""
    a, b = [*first], [*second]
    on = [bool(exec_ >> i & 1) for i in LANE]
    for lane in LANE:
        if lane // half % 2:
            continue
        other = lane + half
        for target, at, source, from_ in ((b, lane, first, other), (a, other, second, lane)):
            if on[at] and (on[from_] or fi):
                target[at] = source[from_]
            elif on[at] and bc:
                target[at] = 0
    return a, b


@pytest.mark.parametrize("half", [16, 32])
@pytest.mark.parametrize("exec_", [FULL, 0, 0x0000_FFFF_FFFF_0001, 0xF0F0_1234_8001_FFFF])
@pytest.mark.parametrize("modifiers", ["", "bound_ctrl:1", "bound_ctrl:0", "fi:1", "bound_ctrl:1 fi:1"])
def test_permlane_swap(half: int, exec_: int, modifiers: str) -> None:
    first, second = [100 + i for i in LANE], [200 + i for i in LANE]
    suffix = "e64" if modifiers else "e32"
    body = f"v_permlane{half}_swap_b32_{suffix} v0, v1 {modifiers}"
    state = run(body, arch="gfx950", v={0: first, 1: second}, exec_=exec_)
    a, b = exchanged(half, first, second, exec_, "fi" in modifiers, "bound" in modifiers)
    assert state.v[0].tolist() == a
    assert state.v[1].tolist() == b


def test_permlane_swap_by_hand() -> None:
    state = run("v_permlane32_swap_b32_e32 v0, v1", arch="gfx950", v={0: LANE, 1: [64 + i for i in LANE]})
    assert state.v[0].tolist() == [*range(32), *range(64, 96)]
    assert state.v[1].tolist() == [*range(32, 64), *range(96, 128)]
    state = run("v_permlane16_swap_b32_e32 v0, v1", arch="gfx950", v={0: LANE, 1: [64 + i for i in LANE]})
    assert state.v[0].tolist() == [*range(16), *range(64, 80), *range(32, 48), *range(96, 112)]
    assert state.v[1].tolist() == [*range(16, 32), *range(80, 96), *range(48, 64), *range(112, 128)]


@pytest.mark.parametrize("half", [16, 32])
@pytest.mark.parametrize("exec_", [FULL, 0xFFFF_FFFF_0000_FFFF])
def test_permlane_swap_of_one_register_exchanges_its_groups(half: int, exec_: int) -> None:
    state = run(f"v_permlane{half}_swap_b32_e32 v0, v0", arch="gfx950", v={0: LANE}, exec_=exec_)
    on = [exec_ >> i & exec_ >> (i ^ half) & 1 for i in LANE]
    assert state.v[0].tolist() == [i ^ half if on[i] else i for i in LANE]


@pytest.mark.parametrize("arch", ARCHS)
def test_instructions_without_effect(arch: str) -> None:
    state = run(["v_nop", "v_clrexcp"], arch=arch, v={0: LANE}, s={4: 5}, vcc=3, exec_=9, scc=True)
    assert state.v[0].tolist() == LANE
    assert (state.s[4], state.vcc, state.exec_, state.scc) == (5, 3, 9, True)
    assert not np.any(state.v[1:])


BODIES = (
    "v_readfirstlane_b32 s4, v0", "v_readlane_b32 s4, v0, s8", "v_writelane_b32 v0, s8, s8", "v_swap_b32 v0, v1",
    "v_permlane16_swap_b32_e32 v0, v1", "v_mov_b32_dpp v1, v0 row_shr:1 row_mask:0xf bank_mask:0xf",
    "v_mov_b32_dpp v1, v0 row_bcast:15 row_mask:0xa bank_mask:0x7 bound_ctrl:1", "v_cmpx_gt_u32_e32 vcc, 130, v0",
    "v_add_u32_sdwa v1, v0, v1 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_0 src1_sel:DWORD",
    "v_addc_co_u32_e32 v0, vcc, v0, v1, vcc", "v_bitop3_b16 v1, v0, v0, v0 bitop3:0x1", "v_mbcnt_lo_u32_b32 v0, s8, v0",
)  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("exec_", [FULL, 0x0FF0_8001_F00F_3333])
def test_a_subset_of_waves_steps_alone(body: str, exec_: int) -> None:
    """Waves 0 and 2 of three step: each does what it does alone, wave 1 stays as it was."""
    text = _TEMPLATE.format(arch="gfx950", body=body, lds=0, scratch=0, vgprs=8, accum_offset=8, agprs=0)
    program = parse_program(text)
    launch = Launch(program, program.kernel(), (1, 1, 1), (192, 1, 1), b"", 0, AddressSpace(), ())
    try:
        w = launch.chunk([(0, 0, 0)]).w
        w.V[0], w.V[1] = np.arange(192).reshape(3, 64), 1000 + np.arange(192).reshape(3, 64)
        w.S[4], w.S[8], w.S[106], w.S[107] = 77, [5, 6, 7], 0xF0F0F0F0, 0x12345678
        w.S[126], w.S[127] = exec_ & 0xFFFFFFFF, exec_ >> 32
        w.sync_exec()
        before_v, before_s = w.V.copy(), w.S.copy()
        w.select(np.array([0, 2]))
        with np.errstate(all="ignore"):
            launch.steps_for(w.mode)[0].run(w)
    finally:
        launch.close()
    assert (w.V[:, 1] == before_v[:, 1]).all()
    assert (w.S[:, 1] == before_s[:, 1]).all()
    for wave in (0, 2):
        alone = run(
            body, arch="gfx950", v={0: before_v[0, wave], 1: before_v[1, wave]}, vgprs=8, exec_=exec_,
            s={4: 77, 8: int(before_s[8, wave])}, vcc=0x12345678_F0F0F0F0,
        )  # fmt: skip
        assert (w.V[:2, wave] == alone.v[:2]).all()
        assert (int(w.S[4, wave]), int(w.S[126, wave]) | int(w.S[127, wave]) << 32) == (alone.s[4], alone.exec_)
        assert int(w.S[106, wave]) | int(w.S[107, wave]) << 32 == alone.vcc
        assert (pack_lanes(w.exec_mask)[wave]) == alone.exec_


def test_not_on_gfx942() -> None:
    with pytest.raises(UnsupportedError, match="only on gfx950"):
        run("v_permlane16_swap_b32_e32 v0, v1", arch="gfx942")


@pytest.mark.parametrize(
    "body", ["v_readlane_b32 s4, v0, v1", "v_readlane_b32 s4, s0, 1", "v_swap_b32 v0, s1", "v_nop v0"]
)
def test_wrong_operands(body: str) -> None:
    with pytest.raises(AsmError):
        run(body)
