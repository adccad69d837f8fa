"""Directive values given as expressions: LLVM's assembler rules for ELF, and a kernel that takes its callee's needs."""

from __future__ import annotations

import numpy as np
import pytest

from validation.emulator import launch
from validation.emulator.errors import AsmError
from validation.emulator.program import parse_program
from validation.emulator.program.expressions import ExpressionError, evaluate

VALUES = (
    ("42", 42),
    ("0x2a", 42),
    ("0b101", 5),
    ("1+2*3", 7),
    ("(1+2)*3", 9),
    ("2-3-4", -5),
    ("1|2+4", 7),  # bitwise operators bind tighter than + in GNU syntax: (1|2)+4
    ("6&3+1", 3),  # (6&3)+1
    ("1<<4+1", 17),  # shifts bind as multiplication does
    ("7/2", 3),
    ("-7/2", -3),
    ("-7%4", -3),
    ("~0&255", 255),
    ("!5+!0", 1),
    ("3>2", -1),  # a comparison that holds is all ones
    ("3<2", 0),
    ("(3>2)||0", 1),
    ("2&&0", 0),
    ("max(3, 42, 7)", 42),
    ("max(8)", 8),
    ("or(1, 0, 4)", 5),
    ("alignto(42, 4)", 44),
    ("alignto(44, 4)", 44),
    ("totalnumvgprs(0, 42)", 42),
    ("totalnumvgprs(8, 42)", 52),
    ("x+.Lf.size*2", 107),
    ("later", 9),
)
SYMBOLS = {"x": "7", ".Lf.size": "50", "later": "latest+1", "latest": "max(8, x)"}


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_value(text: str, value: int) -> None:
    assert evaluate(text, SYMBOLS) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("missing+1", "missing is not defined"),
        ("sine(1)", r"unknown function sine\(\)"),
        ("1+", "found the end"),
        ("(1", "expected"),
        ("1 2", "left over"),
        ("loop", "defined by itself"),
    ],
)
def test_what_cannot_be_evaluated(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        evaluate(text, {"loop": "loop+1"})


CALLER = """
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.text
caller:
	s_load_dwordx2 s[4:5], s[0:1], 0x0
	s_mov_b32 s32, 0
	v_lshlrev_b32_e32 v2, 2, v0
	s_getpc_b64 s[6:7]
	s_add_u32 s6, s6, {alias}@rel32@lo+4
	s_addc_u32 s7, s7, {alias}@rel32@hi+12
	s_swappc_b64 s[30:31], s[6:7]
	v_mov_b32_e32 v40, v1
	s_waitcnt lgkmcnt(0)
	global_store_dword v2, v40, s[4:5]
	s_endpgm
callee:
	v_lshlrev_b32_e32 v3, 2, v0
	scratch_store_dword off, v0, s32 offset:12
	s_waitcnt vmcnt(0)
	scratch_load_dword v1, off, s32 offset:12
	s_waitcnt vmcnt(0)
	v_add_u32_e32 v1, 100, v1
	s_setpc_b64 s[30:31]
	.set alias, callee
	.amdhsa_kernel caller
		.amdhsa_group_segment_fixed_size 0
		.amdhsa_private_segment_fixed_size .Lcaller.private_seg_size
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_user_sgpr_count 2
		.amdhsa_next_free_vgpr max(totalnumvgprs(.Lcaller.num_agpr, .Lcaller.num_vgpr), 1, 0)
		.amdhsa_next_free_sgpr 33
		.amdhsa_accum_offset (((((alignto(max(1, .Lcaller.num_vgpr), 4)/4)-1)&~65536)&63)+1)*4
	.end_amdhsa_kernel
	.set .Lcaller.num_vgpr, max(41, .Lcallee.num_vgpr)
	.set .Lcaller.num_agpr, max(0, .Lcallee.num_agpr)
	.set .Lcaller.private_seg_size, 0+max(.Lcallee.private_seg_size)
	.set .Lcallee.num_vgpr, 4
	.set .Lcallee.num_agpr, 0
	.set .Lcallee.private_seg_size, 16
	.amdgpu_metadata
amdhsa.kernels:
  - .name: caller
    .args:
      - .address_space: global
        .offset: 0
        .size: 8
        .value_kind: global_buffer
    .kernarg_segment_size: 8
	.end_amdgpu_metadata
"""


def test_resources_of_a_kernel_that_calls() -> None:
    descriptor = parse_program(CALLER.format(alias="callee")).kernel("caller").descriptor
    assert descriptor["next_free_vgpr"] == 41
    assert descriptor["accum_offset"] == 44
    assert descriptor["private_segment_fixed_size"] == 16


@pytest.mark.parametrize("alias", ["callee", "alias"])
def test_a_call_that_needs_them(alias: str) -> None:
    import torch

    out = torch.zeros(64, dtype=torch.int32)
    result = launch(CALLER.format(alias=alias), "caller", (1,), (64,), [out])
    assert result.findings == ()
    np.testing.assert_array_equal(out.numpy(), np.arange(64) + 100)


def test_an_unknown_symbol_in_a_descriptor_names_the_line() -> None:
    text = CALLER.format(alias="callee").replace(".set .Lcallee.private_seg_size, 16", "")
    with pytest.raises(
        AsmError, match=r"amdhsa_private_segment_fixed_size.*\.Lcallee\.private_seg_size is not defined"
    ):
        parse_program(text)
