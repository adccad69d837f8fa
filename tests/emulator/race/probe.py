"""Kernels of a few lines for the race tests: three buffers, several waves and workgroups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from validation.emulator import AddressSpace, LaunchResult, launch

_TEMPLATE = """
	.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
	.text
	.file	1 "/src/kernels" "probe.py"
probe:
	s_load_dwordx2 s[4:5], s[0:1], 0x0
	s_load_dwordx2 s[6:7], s[0:1], 0x8
	s_load_dwordx2 s[8:9], s[0:1], 0x10
	s_mov_b32 s10, s2
	v_and_b32_e32 v0, 0x3ff, v0
	v_and_b32_e32 v1, 63, v0
	v_lshrrev_b32_e32 v2, 6, v0
	v_readfirstlane_b32 s11, v2
	v_lshlrev_b32_e32 v3, 2, v0
	v_mov_b32_e32 v4, 0
	s_mov_b64 s[20:21], exec
	s_waitcnt lgkmcnt(0)
{body}
	s_endpgm
	.section .rodata
	.amdhsa_kernel probe
		.amdhsa_group_segment_fixed_size 8192
		.amdhsa_private_segment_fixed_size 64
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_user_sgpr_count 2
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_next_free_vgpr 32
		.amdhsa_next_free_sgpr 32
		.amdhsa_accum_offset 32
	.end_amdhsa_kernel
	.amdgpu_metadata
amdhsa.kernels:
  - .name: probe
    .kernarg_segment_size: 24
    .args:
      - {{.name: data, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}}
      - {{.name: flags, .offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}}
      - {{.name: out, .offset: 16, .size: 8, .value_kind: global_buffer, .address_space: global}}
	.end_amdgpu_metadata
"""

#: Schedules under which a safe kernel must stay silent.
SCHEDULES = ("lockstep", "in-order", "reversed", "random:1", "random:2")


def text(body: str, arch: str) -> str:
    """``body``: a line an instruction or label, ``.N`` in front for a source line.

    s[4:5] data, s[6:7] flags, s[8:9] out, s10 workgroup, s11 wave, v0 thread, v1 lane, v3 thread * 4, v4 zero,
    s[20:21] the first exec mask.
    """
    lines = []
    for raw in body.strip().splitlines():
        line = raw.strip()
        lines.append(line if line.endswith(":") else f"\t{line}")
    return _TEMPLATE.format(arch=arch, body="\n".join(lines))


@dataclass
class Buffers:
    """data: 4096 int32; flags: 64 int32, zero; out: 4096 int32."""

    space: AddressSpace
    data: torch.Tensor
    flags: torch.Tensor
    out: torch.Tensor

    @classmethod
    def make(cls) -> Buffers:
        space = AddressSpace()
        sizes = {"data": 4096, "flags": 64, "out": 4096}
        made = {name: space.empty((n,), torch.int32, name, initialised=True) for name, n in sizes.items()}
        return cls(space, **made)

    @property
    def args(self) -> list[Any]:
        return [self.data, self.flags, self.out]


def run(
    body: str, arch: str, *, groups: int = 1, lanes: int = 256, schedule: str = "lockstep", **options: Any
) -> LaunchResult:
    buffers = Buffers.make()
    checks = options.pop("checks", ("memcheck", "racecheck", "synccheck"))
    return launch(
        text(body, arch), "probe", (groups,), (lanes,), buffers.args, space=buffers.space, checks=checks,
        schedule=schedule, **options,
    )  # fmt: skip
