"""Texts that no assembler would take, or whose code leaves what its descriptor allocates: refused with the line."""

from __future__ import annotations

import pytest
import torch

from validation.emulator import AsmError, KernelFault, UnsupportedError, launch, parse_program

from .texts import ARCHS, fields, text


def line_of(asm: str, fragment: str, occurrence: int = 0) -> int:
    return [number for number, line in enumerate(asm.splitlines(), 1) if fragment in line][occurrence]


def run(asm: str) -> None:
    launch(asm, "probe", (1,), (64,), [torch.zeros(64)])


REGISTERS = {
    "v_mov_b32_e32 v16, 0": "v16 is beyond the 16 VGPRs of kernel 'probe'",
    "global_load_dwordx4 v[13:16], v1, s[4:5]": r"v\[13:16\] is beyond the 16 VGPRs",
    "v_accvgpr_write_b32 a8, v0": "a8 is beyond the 8 AGPRs of kernel 'probe' .*accum_offset",
    "s_mov_b32 s16, 0": "s16 is beyond the 16 SGPRs of kernel 'probe' .*next_free_sgpr",
    "s_mov_b64 s[16:17], 0": r"s\[16:17\] is beyond the 16 SGPRs",
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("line", REGISTERS)
def test_registers_that_the_descriptor_does_not_allocate(arch: str, line: str) -> None:
    """Also in code behind a branch that is never taken: nothing has run yet."""
    out = torch.zeros(64)
    body = ["v_mov_b32_e32 v2, 1.0", "s_waitcnt lgkmcnt(0)", "global_store_dword v1, v2, s[4:5]", "s_cmp_eq_u32 s2, 99"]
    body += ["s_cbranch_scc0 .Lend", line, ".Lend:"]
    asm = text(body, arch, descriptor=fields(next_free_vgpr=24, accum_offset=16))
    with pytest.raises(AsmError, match=REGISTERS[line]) as error:
        launch(asm, None, (1,), (64,), [out])
    assert error.value.line_number == line_of(asm, line)
    assert not out.any()


@pytest.mark.parametrize("arch", ARCHS)
def test_registers_in_code_that_is_reached_by_address(arch: str) -> None:
    """A computed jump is followed when it is made."""
    body = ["s_getpc_b64 s[8:9]", "s_add_u32 s8, s8, 24", "s_addc_u32 s9, s9, 0", "s_setpc_b64 s[8:9]"]
    asm = text([*body, "v_mov_b32_e32 v40, 0"], arch)
    with pytest.raises(AsmError, match="v40 is beyond the 16 VGPRs") as error:
        run(asm)
    assert error.value.line_number == line_of(asm, "v40")


@pytest.mark.parametrize("arch", ARCHS)
def test_a_jump_out_of_the_program_tells_where_and_what_was_found_before(arch: str) -> None:
    """A return address that went over the end of the stack comes back as something else."""
    with pytest.raises(KernelFault, match=r"^s_setpc_b64 s\[8:9\] at .*tile.py:12: jump to an address outside of the"):
        run(text(["s_mov_b64 s[8:9], 64", "s_setpc_b64 s[8:9]"], arch))
    body = [
        "v_mov_b32_e32 v2, 0",
        "scratch_store_dword off, v2, off offset:16",
        "s_mov_b64 s[8:9], 64",
        "s_setpc_b64 s[8:9]",
    ]
    asm = text(body, arch, descriptor=fields(private_segment_fixed_size=16))
    with pytest.raises(KernelFault, match="found before that: scratch store of 4 bytes at byte 0x10") as error:
        run(asm)
    assert [f.check for f in error.value.findings] == ["memcheck"]


@pytest.mark.parametrize("arch", ARCHS)
def test_a_dynamic_stack_is_as_deep_as_hip_gives_by_default(arch: str) -> None:
    def store(offset: int) -> list[str]:
        body = ["v_mov_b32_e32 v2, 0", f"s_movk_i32 s8, {offset}", "scratch_store_dword off, v2, s8"]
        asm = text(body, arch, descriptor=fields(private_segment_fixed_size=16, uses_dynamic_stack=1))
        return [f.check for f in launch(asm, None, (1,), (64,), [torch.zeros(1)]).findings]

    assert store(1020) == []
    assert store(1024) == ["memcheck"]


NO_SUCH = {
    "v_mov_b32_e32 v300, 0": "there is no register v300: v0 to v255 exist",
    "v_add_f32_e64 v1, -|v256|, v0": "there is no register v256",
    "v_accvgpr_write_b32 a256, v0": "there is no register a256: a0 to a255",
    "s_mov_b32 s200, 0": "there is no register s200: s0 to s101 exist",
    "s_mov_b64 s[101:102], 0": "there is no register s102",
    "s_mov_b32 ttmp16, 0": "there is no register ttmp16",
    "global_load_dwordx4 v[254:257], v1, s[4:5]": "there is no register v257",
    "v_mov_b32_e32 v[5:4], 0": "runs backwards",
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("line", NO_SUCH)
def test_registers_that_no_kernel_has(arch: str, line: str) -> None:
    asm = text([line], arch)
    with pytest.raises(AsmError, match=NO_SUCH[line]) as error:
        parse_program(asm)
    assert error.value.line_number == line_of(asm, line)


@pytest.mark.parametrize("arch", ARCHS)
def test_all_allocated_registers_can_be_used(arch: str) -> None:
    body = ["v_mov_b32_e32 v255, 1", "v_accvgpr_write_b32 a255, v255", "s_mov_b32 s101, 5", "s_mov_b64 vcc, exec"]
    run(text(body, arch, descriptor=fields(next_free_vgpr=512, accum_offset=256, next_free_sgpr=102)))


@pytest.mark.parametrize("arch", ARCHS)
def test_a_missing_end_is_a_fault(arch: str) -> None:
    with pytest.raises(KernelFault, match=r"past the end of the text.*s_endpgm is missing after 's_nop 0'.*tile.py:12"):
        run(text(["s_nop 0"], arch, end=""))
    other = "second:\n\ts_endpgm\n\t.amdhsa_kernel second\n\t\t.amdhsa_next_free_vgpr 8\n\t.end_amdhsa_kernel"
    with pytest.raises(KernelFault, match="runs on into kernel 'second'"):
        run(text(["s_nop 0"], arch, end="", after=other))


FIELDS = {
    "wavefront_size32 1": (UnsupportedError, r"directive .amdhsa_wavefront_size32: gfx942 and gfx950 have no such"),
    "shared_vgpr_count 0": (UnsupportedError, "directive .amdhsa_shared_vgpr_count"),
    "next_free_vgprs 8": (UnsupportedError, "directive .amdhsa_next_free_vgprs"),
    "tg_split 1": (UnsupportedError, "tg_split 1 .waves of a workgroup share one compute unit"),
    "exception_fp_ieee_overflow 1": (UnsupportedError, "raise no traps"),
    "user_sgpr_flat_scratch_init 1": (UnsupportedError, "architected flat scratch"),
    "next_free_vgpr 16": (AsmError, "next_free_vgpr is given twice, first in line"),
    "ieee_mode 2": (AsmError, "ieee_mode takes 0 to 1, got 2"),
    "float_round_mode_32 4": (AsmError, "float_round_mode_32 takes 0 to 3, got 4"),
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("field", FIELDS)
def test_descriptor_fields(arch: str, field: str) -> None:
    error, words = FIELDS[field]
    asm = text([], arch, descriptor=[*fields(), f".amdhsa_{field}"])
    with pytest.raises(error, match=words) as raised:
        parse_program(asm)
    assert raised.value.line_number == line_of(asm, f".amdhsa_{field}", -1)


@pytest.mark.parametrize("arch", ARCHS)
def test_register_counts(arch: str) -> None:
    for changes, words in (
        ({"next_free_vgpr": 513, "accum_offset": 256}, "next_free_vgpr takes 0 to 512, got 513"),
        ({"next_free_vgpr": 16, "accum_offset": 10}, "accum_offset is a multiple of 4, got 10"),
        ({"next_free_vgpr": 512, "accum_offset": 128}, "384 AGPRs .*; there are 256"),
        ({"next_free_vgpr": 300, "accum_offset": None}, "300 needs .amdhsa_accum_offset"),
        ({"next_free_sgpr": 103}, "next_free_sgpr takes 0 to 102, got 103"),
        ({"user_sgpr_count": 1}, "fields take 2 SGPRs, and there is room for 1"),
    ):
        with pytest.raises(AsmError, match=words):
            parse_program(text([], arch, descriptor=fields(**changes)))


@pytest.mark.parametrize("arch", ARCHS)
def test_names_are_defined_once(arch: str) -> None:
    asm = text([".Lx:", "s_nop 0", ".Lx:"], arch)
    first = line_of(asm, ".Lx:")
    with pytest.raises(AsmError, match=rf"label '.Lx' is defined twice, first in line {first}") as error:
        parse_program(asm)
    assert error.value.line_number == first + 2
    again = ".amdhsa_kernel probe\n.amdhsa_next_free_vgpr 8\n.end_amdhsa_kernel"
    asm = text([], arch, after=again)
    with pytest.raises(AsmError, match="kernel 'probe' has a descriptor already") as error:
        parse_program(asm)
    assert error.value.line_number == line_of(asm, ".amdhsa_kernel probe", 1)
    twice = text([], arch).replace("amdhsa.kernels:", "amdhsa.kernels:\n  - .name: probe")
    with pytest.raises(AsmError, match="kernel 'probe' stands twice"):
        parse_program(twice)


@pytest.mark.parametrize(("arch", "other"), [ARCHS, ARCHS[::-1]])
def test_one_text_has_one_target(arch: str, other: str) -> None:
    second = f'.amdgcn_target "amdgcn-amd-amdhsa--{other}"'
    with pytest.raises(AsmError, match=f"the text is for {arch}, and this says {other}"):
        parse_program(text([], arch, after=second))
    asm = text([], arch).replace("amdhsa.kernels:", f"amdhsa.target: amdgcn-amd-amdhsa--{other}\namdhsa.kernels:")
    with pytest.raises(AsmError, match=f"the text is for {arch}, and this says {other}"):
        parse_program(asm)
    with pytest.raises(UnsupportedError, match="waves of 32 lanes"):
        parse_program(text([], arch, metadata={"wavefront_size": 32}))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("directive", [".rept 4", ".macro twice", ".if 1", '.include "x.s"', ".long 0xbf800000"])
def test_directives_that_would_change_the_code(arch: str, directive: str) -> None:
    with pytest.raises(UnsupportedError, match=directive.split()[0]):
        parse_program(text([directive], arch))
