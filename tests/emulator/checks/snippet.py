"""A kernel of a few lines over one buffer, launched with real workgroups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from validation.emulator import AddressSpace, LaunchResult, launch

_TEMPLATE = """
	.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
	.text
	.file	1 "/src/kernels" "tile.py"
probe:
	s_load_dwordx2 s[4:5], s[0:1], 0x0
	v_and_b32_e32 v0, 0x3ff, v0
	s_mov_b32 s6, {records}
	s_mov_b32 s7, 0x20000
	.loc	1 12 0
{body}
	s_endpgm
	.section .rodata
	.amdhsa_kernel probe
		.amdhsa_group_segment_fixed_size 4096
		.amdhsa_private_segment_fixed_size {scratch}
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_user_sgpr_count 2
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_next_free_vgpr 48
		.amdhsa_next_free_sgpr 32
		.amdhsa_accum_offset 32
	.end_amdhsa_kernel
	.amdgpu_metadata
amdhsa.kernels:
  - .name: probe
    .agpr_count: 16
    .kernarg_segment_size: 8
    .args:
      - .name: p
        .offset: 0
        .size: 8
        .value_kind: global_buffer
        .address_space: global
	.end_amdgpu_metadata
"""


def snippet_text(body: Sequence[str], arch: str, records: int = 0x7FFFFFFF, scratch: int = 0) -> str:
    """The whole text of the kernel ``probe`` around ``body``."""
    lines = "\n".join(f"\t{line}" for line in body)
    return _TEMPLATE.format(arch=arch, body=lines, records=records, scratch=scratch)


def launch_snippet(
    body: Sequence[str],
    tensor: torch.Tensor,
    space: AddressSpace,
    *,
    arch: str = "gfx942",
    groups: int = 1,
    lanes: int = 64,
    records: int = 0x7FFFFFFF,
    scratch: int = 0,
    **options: Any,
) -> LaunchResult:
    """s[4:5] holds the address of ``tensor`` (s[4:7] a descriptor of ``records`` bytes), s2 the workgroup, v0 the lane.

    All of ``body`` is source line 12, unless it says otherwise. ``scratch``: private bytes a lane.
    """
    text = snippet_text(body, arch, records, scratch)
    return launch(text, "probe", (groups,), (lanes,), (tensor,), space=space, **options)
