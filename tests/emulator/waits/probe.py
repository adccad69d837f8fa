"""Kernels of a few lines for hazards: a data buffer, an output buffer, LDS, scratch; launched with real workgroups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from validation.emulator import AddressSpace, LaunchResult, launch

ARCHS = ("gfx942", "gfx950")
WORDS = 1024

_TEMPLATE = """
	.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
	.text
	.file	1 "/src/kernels" "probe.py"
probe:
	s_load_dwordx4 s[4:7], s[0:1], 0x0
	v_and_b32_e32 v0, 0x3ff, v0
	s_waitcnt lgkmcnt(0)
	s_mov_b64 s[8:9], s[6:7]
	s_mov_b32 s6, 0x1000
	s_mov_b32 s7, 0x20000
	v_lshlrev_b32_e32 v0, 2, v0
	v_mov_b32_e32 v15, 0
	s_mov_b32 m0, 0
	.loc	1 12 0
{body}
	s_endpgm
	.section .rodata
	.amdhsa_kernel probe
		.amdhsa_group_segment_fixed_size 4096
		.amdhsa_private_segment_fixed_size 64
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_user_sgpr_count 2
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_next_free_vgpr 96
		.amdhsa_next_free_sgpr 64
		.amdhsa_accum_offset 88
	.end_amdhsa_kernel
	.amdgpu_metadata
amdhsa.kernels:
  - .name: probe
    .agpr_count: 8
    .kernarg_segment_size: 16
    .args:
      - {{.name: data, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}}
      - {{.name: out, .offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}}
	.end_amdgpu_metadata
"""


@dataclass
class Outcome:
    """``data`` and ``out`` after the launch (int32 [WORDS])."""

    result: LaunchResult
    data: torch.Tensor
    out: torch.Tensor

    @property
    def findings(self) -> list[str]:
        return [str(f) for f in self.result.findings]


def assemble(body: Sequence[str] | str, arch: str) -> str:
    """The kernel's text around ``body``."""
    lines = [line for part in ([body] if isinstance(body, str) else body) for line in part.split("\n")]
    return _TEMPLATE.format(arch=arch, body="\n".join(line if line.endswith(":") else f"\t{line}" for line in lines))


def run_probe(
    body: Sequence[str] | str,
    arch: str,
    *,
    groups: int = 1,
    lanes: int = 64,
    checks: Sequence[str] = ("memcheck", "waits"),
    **options: Any,
) -> Outcome:
    """On entry s[4:7] is a descriptor of ``data`` (4096 bytes, word i holds 1000 + i), s[4:5] its address, s[8:9] that
    of ``out`` (zeros), v0 four times the lane's number in the workgroup, s2 the workgroup, v15 zero, m0 zero."""
    space = AddressSpace()
    data = space.empty((WORDS,), torch.int32, "data", initialised=True)
    out = space.empty((WORDS,), torch.int32, "out", initialised=True)
    data.copy_(torch.arange(WORDS) + 1000)
    result = launch(
        assemble(body, arch), "probe", (groups,), (lanes,), (data, out), space=space, checks=checks, **options
    )
    return Outcome(result, data, out)
