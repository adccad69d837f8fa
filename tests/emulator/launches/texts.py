"""A kernel's assembly text with chosen body, descriptor and metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

ARCHS = ("gfx942", "gfx950")

_TEXT = """
	.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
	.text
	.file	1 "/src/kernels" "tile.py"
probe:
	s_load_dwordx2 s[4:5], s[0:1], 0x0
	v_and_b32_e32 v0, 0x3ff, v0
	v_lshlrev_b32_e32 v1, 2, v0
	.loc	1 12 0
{body}
	.section .rodata
	.amdhsa_kernel probe
{fields}
	.end_amdhsa_kernel
	.text
{after}
	.amdgpu_metadata
amdhsa.kernels:
  - .name: probe
    .kernarg_segment_size: {kernarg}
{metadata}
    .args:
{args}
	.end_amdgpu_metadata
"""
_FIELDS = {
    "group_segment_fixed_size": 0,
    "user_sgpr_kernarg_segment_ptr": 1,
    "user_sgpr_count": 2,
    "next_free_vgpr": 16,
    "next_free_sgpr": 16,
    "accum_offset": 16,
}


def fields(**changes: int | None) -> list[str]:
    """Directives of the descriptor; None leaves one out."""
    return [f".amdhsa_{k} {v}" for k, v in {**_FIELDS, **changes}.items() if v is not None]


def text(
    body: Sequence[str] = (),
    arch: str = "gfx942",
    *,
    descriptor: Sequence[str] | None = None,
    metadata: Mapping[str, object] | None = None,
    args: Sequence[tuple[str, int, str]] = (("p", 8, "global_buffer"),),
    after: str = "",
    end: str = "s_endpgm",
) -> str:
    """``body`` with the address of the first argument in s[4:5], the lane in v0 and four times the lane in v1.

    args: (name, bytes, value kind) of the kernel's arguments, each aligned to its size.
    """
    entries, offset = [], 0
    for name, size, kind in args:
        offset = -(-offset // size) * size
        entries.append(
            f"      - .name: {name}\n        .offset: {offset}\n        .size: {size}\n        .value_kind: {kind}"
        )
        offset += size
    return _TEXT.format(
        arch=arch,
        body="\n".join(f"\t{line}" for line in (*body, end) if line),
        fields="\n".join(f"\t\t{line}" for line in (fields() if descriptor is None else descriptor)),
        metadata="\n".join(f"    .{k}: {v}" for k, v in (metadata or {}).items()),
        kernarg=offset,
        args="\n".join(entries),
        after=after,
    )
