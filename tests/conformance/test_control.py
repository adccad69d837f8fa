"""Branches, jumps, calls, hardware registers, waits: architecture facts, one snippet each."""

from __future__ import annotations

import numpy as np
import pytest

from validation.emulator import AsmError, KernelFault, UnsupportedError
from validation.emulator.machine.hwreg import mode_bits
from validation.emulator.machine.waves import FloatMode
from validation.emulator.program.lexer import parse_waitcnt

from .harness import ARCHS, FULL, run

BRANCHES = [
    ("s_branch", {}, True),
    ("s_cbranch_scc0", {"scc": False}, True),
    ("s_cbranch_scc0", {"scc": True}, False),
    ("s_cbranch_scc1", {"scc": True}, True),
    ("s_cbranch_scc1", {"scc": False}, False),
    ("s_cbranch_vccz", {"vcc": 0}, True),
    ("s_cbranch_vccz", {"vcc": 1 << 40}, False),
    ("s_cbranch_vccnz", {"vcc": 1 << 63}, True),
    ("s_cbranch_vccnz", {"vcc": 0}, False),
    ("s_cbranch_execz", {"exec_": 0}, True),
    ("s_cbranch_execz", {"exec_": 2}, False),
    ("s_cbranch_execnz", {"exec_": 1}, True),
    ("s_cbranch_execnz", {"exec_": 0}, False),
]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("mnemonic", "inputs", "taken"), BRANCHES)
def test_branch(mnemonic: str, inputs: dict, taken: bool, arch: str) -> None:
    state = run(f"s_mov_b32 s20, 1\n{mnemonic} .L1\ns_mov_b32 s20, 2\n.L1:\ns_mov_b32 s21, 3", arch=arch, **inputs)
    assert state.s[20:22] == [1 if taken else 2, 3]


@pytest.mark.parametrize("arch", ARCHS)
def test_loop_runs_to_its_count(arch: str) -> None:
    body = "s_mov_b32 s20, 0\n.Lloop:\ns_add_i32 s20, s20, 1\ns_cmp_lt_i32 s20, 100\ns_cbranch_scc1 .Lloop"
    assert run(body, arch=arch).s[20] == 100


@pytest.mark.parametrize("arch", ARCHS)
def test_getpc_and_setpc(arch: str) -> None:
    body = """
	s_getpc_b64 s[2:3]
	s_add_u32 s2, s2, .Ltarget@rel32@lo+4
	s_addc_u32 s3, s3, .Ltarget@rel32@hi+12
	s_setpc_b64 s[2:3]
	s_mov_b32 s20, 1
.Ltarget:
	s_mov_b32 s21, 2"""
    assert run(body, arch=arch).s[20:22] == [0, 2]


@pytest.mark.parametrize("arch", ARCHS)
def test_calls_return(arch: str) -> None:
    body = """
	s_call_b64 s[30:31], .Lfn
	s_add_i32 s20, s20, 1
	s_getpc_b64 s[2:3]
	s_add_u32 s2, s2, .Lfn@rel32@lo+4
	s_addc_u32 s3, s3, .Lfn@rel32@hi+12
	s_swappc_b64 s[30:31], s[2:3]
	s_branch .Lend
.Lfn:
	s_add_i32 s20, s20, 10
	s_setpc_b64 s[30:31]
.Lend:"""
    assert run(body, arch=arch).s[20] == 21


@pytest.mark.parametrize("arch", ARCHS)
def test_calls_through_the_table_of_addresses(arch: str) -> None:
    """What LLVM emits for a call of a function that may be replaced: the loaded entry is the function's address."""
    call = """
	s_getpc_b64 s[2:3]
	s_add_u32 s2, s2, {name}@gotpcrel32@lo+4
	s_addc_u32 s3, s3, {name}@gotpcrel32@hi+12
	s_load_dwordx2 s[4:5], s[2:3], 0x0
	s_waitcnt lgkmcnt(0)
	s_swappc_b64 s[30:31], s[4:5]"""
    functions = """
	s_branch .Lend
first:
	s_add_i32 s20, s20, 10
	s_setpc_b64 s[30:31]
second:
	s_mul_i32 s20, s20, 3
	s_setpc_b64 s[30:31]
.Lend:"""
    names = ("second", "first", "second", "second", "first")
    state = run("".join(call.format(name=name) for name in names) + functions, arch=arch, s={20: 1})
    assert state.findings == ()
    assert state.s[20] == ((1 * 3 + 10) * 3) * 3 + 10


@pytest.mark.parametrize("arch", ARCHS)
def test_the_table_is_for_reading_and_holds_what_is_named(arch: str) -> None:
    address = """
	s_getpc_b64 s[2:3]
	s_add_u32 s2, s2, {0}@gotpcrel32@lo+4
	s_addc_u32 s3, s3, {0}@gotpcrel32@hi+12
"""
    end = "\ns_branch .Lend\nfirst:\ns_nop 0\n.Lend:"
    state = run(address.format("first") + "s_load_dwordx2 s[4:5], s[2:3], 0x8" + end, arch=arch)
    assert ["past the end of global offset table" in f.message for f in state.findings] == [True]
    store = "v_mov_b32_e32 v0, 0\nglobal_store_dword v0, v0, s[2:3]"
    state = run(address.format("first") + store + end, arch=arch)
    assert ["read-only" in f.message for f in state.findings] == [True]
    with pytest.raises(AsmError, match="'nowhere' is not defined"):
        run(address.format("nowhere") + end, arch=arch)


def test_jump_outside_of_the_code_is_a_fault() -> None:
    with pytest.raises(KernelFault, match="outside"):
        run("s_setpc_b64 s[2:3]", s={2: 64, 3: 0})


@pytest.mark.parametrize("arch", ARCHS)
def test_mode_register(arch: str) -> None:
    default = mode_bits(FloatMode())
    assert run("s_getreg_b32 s20, hwreg(HW_REG_MODE)", arch=arch).s[20] == default == 0x3F0
    state = run("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 1\ns_getreg_b32 s20, hwreg(HW_REG_MODE, 4, 4)", arch=arch)
    assert state.s[20] == 0b1101
    state = run(
        "s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s2\ns_getreg_b32 s20, hwreg(HW_REG_MODE)", arch=arch, s={2: 0xFB}
    )
    assert state.s[20] == 0x3FB


@pytest.mark.parametrize("arch", ARCHS)
def test_setreg_changes_rounding_and_denormals(arch: str) -> None:
    one_up = np.float32(1).view(np.uint32)
    tiny = 2.0**-30
    v = {1: int(one_up), 2: int(np.float32(tiny).view(np.uint32))}
    body = "v_add_f32_e32 v3, v1, v2\ns_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1\nv_add_f32_e32 v4, v1, v2"
    state = run(body, arch=arch, v=v)
    assert state.v[3].view(np.float32)[0] == 1.0
    assert state.v[4].view(np.float32)[0] == np.nextafter(np.float32(1), np.float32(2))
    body = "v_add_f32_e32 v3, v1, v1\ns_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\nv_add_f32_e32 v4, v1, v1"
    state = run(body, arch=arch, v={1: 0x80000001})
    assert int(state.v[3][0]) == 0x80000002
    assert int(state.v[4][0]) == 0x80000000


@pytest.mark.parametrize("arch", ARCHS)
def test_other_hardware_registers(arch: str) -> None:
    state = run("s_getreg_b32 s20, hwreg(HW_REG_XCC_ID)\ns_getreg_b32 s21, hwreg(HW_REG_HW_ID)", arch=arch)
    assert state.s[20:22] == [0, 0]
    with pytest.raises(UnsupportedError, match="HW_REG_GPR_ALLOC"):
        run("s_getreg_b32 s20, hwreg(HW_REG_GPR_ALLOC)", arch=arch)
    with pytest.raises(UnsupportedError, match="MODE"):
        run("s_setreg_b32 hwreg(HW_REG_TRAPSTS), s2", arch=arch)


@pytest.mark.parametrize("arch", ARCHS)
def test_clocks_move_forward_and_repeat_exactly(arch: str) -> None:
    body = "s_memtime s[20:21]\ns_memtime s[22:23]\ns_memrealtime s[24:25]"
    first, second = run(body, arch=arch), run(body, arch=arch)
    assert 0 < first.s64(20) < first.s64(22) < first.s64(24)
    assert first.s == second.s


@pytest.mark.parametrize("arch", ARCHS)
def test_instructions_without_architectural_effect(arch: str) -> None:
    names = ["s_nop 0", "s_sleep 1", "s_setprio 3", "s_icache_inv", "s_dcache_inv", "s_dcache_wb", "s_wakeup",
             "s_incperflevel 1", "s_decperflevel 1", "s_ttracedata", "s_sethalt 0", "s_dcache_inv_vol",
             "s_dcache_wb_vol",
             "s_barrier", "s_waitcnt vmcnt(0) lgkmcnt(0)", "s_code_end"]  # fmt: skip
    before = run("", arch=arch, s={5: 9}, v={3: 4}, scc=True)
    after = run("\n".join(names), arch=arch, s={5: 9}, v={3: 4}, scc=True)
    assert after.s == before.s
    assert after.scc
    assert (after.v == before.v).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_a_wave_that_halts_is_refused(arch: str) -> None:
    with pytest.raises(UnsupportedError, match="s_sethalt with another operand than 0"):
        run("s_sethalt 1", arch=arch)


@pytest.mark.parametrize("arch", ARCHS)
def test_trap_is_a_fault_that_names_its_place(arch: str) -> None:
    with pytest.raises(KernelFault, match="s_trap 2 at asm line"):
        run("s_trap 2", arch=arch)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("end", ["s_endpgm", "s_endpgm_saved"])
def test_end(end: str, arch: str) -> None:
    assert run(f"s_mov_b32 s20, 1\n{end}\ns_mov_b32 s20, 2", arch=arch).s[20] == 1


def test_waitcnt_forms() -> None:
    assert parse_waitcnt("vmcnt(3) lgkmcnt(0)", 1, "") == {"vmcnt": 3, "lgkmcnt": 0}
    assert parse_waitcnt("vmcnt(63)", 1, "") == {"vmcnt": 63}
    assert parse_waitcnt("0", 1, "") == {"vmcnt": 0, "expcnt": 0, "lgkmcnt": 0}
    # vmcnt 17 = bits 15:14 hold 1, bits 3:0 hold 1; the other counters are all ones
    assert parse_waitcnt(str(1 << 14 | 15 << 8 | 7 << 4 | 1), 1, "") == {"vmcnt": 17}
    with pytest.raises(AsmError, match="vmcnt"):
        parse_waitcnt("vscnt(0)", 7, "s_waitcnt vscnt(0)")


def test_unknown_code_stops_with_its_line() -> None:
    with pytest.raises(UnsupportedError, match=r"line \d+: v_frobnicate v1: .*'v_frobnicate'"):
        run("v_frobnicate v1")
    with pytest.raises(UnsupportedError, match="gfx942"):
        run("v_prng_b32_e32 v1, v2", arch="gfx942")
    with pytest.raises(AsmError, match="operand"):
        run("v_mov_b32_e32 v1, %%")
    assert FULL == 2**64 - 1
