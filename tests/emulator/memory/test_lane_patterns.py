"""Random address patterns against a model that goes lane by lane: what strides, remembered places and blocks known to
be written make faster must change nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from validation.emulator import AddressSpace, launch

from . import lane_model as lm

#: Bytes on each side of the window's middle that the model holds: all that a pattern can reach, or few, and then the
#: allocation ends there. The large one is around a 4-GiB boundary.
HALF = {"straddling": 1 << 16, "small": 8192}
WINDOW = 4096
_TEXT = """
	.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
	.text
probe:
	s_load_dwordx2 s[6:7], s[0:1], 0x8
	s_load_dwordx2 s[8:9], s[0:1], 0x10
	s_mul_i32 s3, s2, {block}
	v_add_u32_e32 v1, s3, v0
	v_lshlrev_b32_e32 v1, 2, v1
	s_waitcnt lgkmcnt(0)
{body}
	s_endpgm
	.section .rodata
	.amdhsa_kernel probe
		.amdhsa_group_segment_fixed_size {lds}
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
      - {{.name: p, .offset: 0, .size: 8, .value_kind: global_buffer}}
      - {{.name: t, .offset: 8, .size: 8, .value_kind: global_buffer}}
      - {{.name: o, .offset: 16, .size: 8, .value_kind: global_buffer}}
	.end_amdgpu_metadata
"""


def straddling(space: AddressSpace) -> tuple[torch.Tensor, int]:
    """A sparse tensor, uint8, and the place in it of an address that is a multiple of 4 GiB."""
    half = HALF["straddling"]
    p = space.empty(((1 << 32) + 4 * half,), torch.uint8, "p", initialised=False)
    boundary = (p.data_ptr() + 2 * half + lm.SPAN - 1) // lm.SPAN * lm.SPAN
    return p, boundary - p.data_ptr()


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("place", ["straddling", "small"])
def test_lanes(place: str, seed: int, arch: str) -> None:
    rng = np.random.default_rng([seed, place == "small", arch == "gfx942"])
    space, half = AddressSpace(), HALF[place]
    if place == "small":
        p = space.empty((2 * half,), torch.uint8, "p", initialised=False)
        near, start = p, int(rng.choice([0, half - WINDOW // 2]))
    else:
        p, middle = straddling(space)
        near, start = p[middle - half : middle + half], half - WINDOW // 2
    window = near.data_ptr() + start
    near.copy_(torch.from_numpy(rng.integers(0, 256, 2 * half, dtype=np.uint8)))
    written = np.zeros(2 * half, bool)
    for low in rng.integers(0, 2 * half, int(rng.integers(1, 4))):
        written[low : low + int(rng.choice([64, 4096, 10000]))] = True
    # what the host has written: byte by byte, so that the model and the checker are told the same
    shadow = space.find(near.data_ptr())
    assert shadow is not None
    assert shadow.shadow is not None
    base = near.data_ptr() - shadow.base
    shadow.shadow[base : base + 2 * half] = written

    programme = list(lm.rounds(rng, 24, WINDOW))
    table = torch.from_numpy(lm.table(programme, window).view(np.int32))
    out = torch.full((len(programme), 4, lm.TOTAL), -1, dtype=torch.int32)
    lines = lm.body(programme, window)
    text = _TEXT.format(arch=arch, body="\n".join(lines), block=lm.BLOCK, lds=lm.LDS_BYTES)
    model = lm.Model(near.numpy().copy(), written.copy(), start)
    model.run(programme, window)

    checks = ("memcheck", "initcheck")
    result = launch(text, None, (lm.GROUPS,), (lm.BLOCK,), [p, table, out], space=space, checks=checks)
    for i, r in enumerate(programme):
        got = out[i].numpy().view(np.uint32)
        assert np.array_equal(got, model.out[i]), (i, lm.instruction(r))
    assert np.array_equal(near.numpy(), model.memory)
    assert np.array_equal(shadow.shadow[base : base + 2 * half] != 0, model.written)

    numbers = [n for n, line in enumerate(text.splitlines(), 1) if line.startswith(".Lturn")]
    which = {number + 1: i for i, number in enumerate(numbers)}
    found = {(which[f.asm_line], f.check) for f in result.findings if f.asm_line in which}
    assert found == model.found
