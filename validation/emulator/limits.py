"""What a launch may ask for: hardware and its runtime refuse the rest, so it is refused before anything runs.

Sources: CDNA3 and CDNA4 ISA manuals (LDS, registers, wave slots), the HSA runtime specification (32-bit grid sizes of
the dispatch packet), LLVM AMDGPUUsage (metadata; granules of registers; 13-bit scratch size in KiB a wave).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from .errors import LaunchError
from .program import Kernel, Program
from .program.reach import check_registers, registers_of

Dim3 = tuple[int, int, int]

WAVE = 64
#: Lanes of a workgroup.
MAX_BLOCK = 1024
#: LDS of a compute unit, bytes.
LDS_BYTES = {"gfx942": 64 << 10, "gfx950": 160 << 10}
#: Vector registers of a SIMD, a lane; they are given out eight at a time.
VGPR_FILE, VGPR_GRANULE = 512, 8
SIMDS = 4
#: Scratch of a lane, bytes: a wave's size is a 13-bit number of KiB.
SCRATCH_BYTES = ((1 << 13) - 1) * 1024 // WAVE
#: Lanes of a grid along one axis: a 32-bit field of the dispatch packet.
MAX_GRID_LANES = (1 << 32) - 1


def whole(value: Any, what: str) -> int:
    """``value`` as an int. Raises LaunchError for what is none: floats, bools, text."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise LaunchError(f"{what} takes a whole number, got {value!r} ({type(value).__name__})") from None


def dim3(value: Sequence[int], name: str) -> Dim3:
    """Three positive sizes; missing ones are 1. Raises LaunchError naming ``name`` and what was given."""
    try:
        given = tuple(value)
    except TypeError:
        raise LaunchError(f"{name} takes one to three positive sizes, as in (64, 1, 1); got {value!r}") from None
    dims = tuple(whole(v, f"{name} axis {axis}") for axis, v in zip("xyz", given, strict=False))
    if not 1 <= len(given) <= 3 or any(v < 1 for v in dims):
        raise LaunchError(f"{name} takes one to three positive sizes, got {given}; launch nothing for an empty one")
    x, y, z = dims + (1,) * (3 - len(dims))
    return x, y, z


def check_launch(program: Program, kernel: Kernel, grid: Dim3, block: Dim3, dynamic_lds: int) -> None:
    """Raise LaunchError for a launch that hardware of the program's arch refuses, AsmError for code that names
    registers which the kernel does not allocate."""
    if problem := _problem(program.arch, kernel, grid, block, dynamic_lds):
        raise LaunchError(f"{kernel.name} on {program.arch}: {problem}")
    check_registers(program, kernel)


def _problem(arch: str, kernel: Kernel, grid: Dim3, block: Dim3, dynamic_lds: int) -> str:
    lanes = block[0] * block[1] * block[2]
    if lanes > MAX_BLOCK:
        return f"block {block} has {lanes} lanes; a workgroup has at most {MAX_BLOCK}"
    most = kernel.metadata.get(".max_flat_workgroup_size")
    if most is not None and lanes > int(most):
        return (
            f"block {block} has {lanes} lanes, and the kernel is compiled for at most {most} "
            "(max_flat_workgroup_size); launch a smaller block or compile for a larger one"
        )
    required = kernel.metadata.get(".reqd_workgroup_size")
    if required is not None and tuple(int(n) for n in required) != block:
        return f"block {block} is not the {tuple(required)} that the kernel is compiled for (reqd_workgroup_size)"
    for axis, count, size in zip("xyz", grid, block, strict=True):
        if count * size > MAX_GRID_LANES:
            return (
                f"{count} workgroups of {size} lanes along {axis} are {count * size} lanes; a dispatch takes at most "
                f"{MAX_GRID_LANES}: use another axis, or more work a workgroup"
            )
    if dynamic_lds < 0:
        return f"dynamic LDS of {dynamic_lds} bytes; it takes 0 or more"
    static, limit = kernel.lds_bytes, LDS_BYTES[arch]
    if static + dynamic_lds > limit:
        return (
            f"{static + dynamic_lds} bytes of LDS ({static} static, {dynamic_lds} dynamic); "
            f"a workgroup has at most {limit}"
        )
    if kernel.scratch_bytes > SCRATCH_BYTES:
        return f"{kernel.scratch_bytes} bytes of scratch a lane; there are at most {SCRATCH_BYTES}"
    registers = registers_of(kernel)
    total = _up(registers.vgprs, 4) + registers.agprs if registers.agprs else registers.vgprs
    waves = _up(lanes, WAVE * SIMDS) // (WAVE * SIMDS)
    taken = waves * _up(total, VGPR_GRANULE)
    if taken > VGPR_FILE:
        return (
            f"block {block} puts {waves} waves of {total} vector registers on a SIMD, which has {VGPR_FILE}: the "
            "workgroup does not fit a compute unit; launch a smaller block or compile for a larger one"
        )
    return ""


def _up(value: int, granule: int) -> int:
    return -(-value // granule) * granule


def check_workgroups(chosen: Iterable[Sequence[int]], grid: Dim3) -> list[Dim3]:
    """Coordinates of the workgroups that shall run. Raises LaunchError for one outside of ``grid`` or named twice."""
    seen: dict[Dim3, None] = {}
    for given in chosen:
        coordinates = tuple(given) if isinstance(given, Iterable) else (given,)
        group = tuple(whole(v, "workgroup coordinate") for v in coordinates)
        if len(group) != 3 or any(not 0 <= v < n for v, n in zip(group, grid, strict=False)):
            raise LaunchError(f"workgroup {group} is none of grid {grid}; it takes (x, y, z) from 0, below the grid")
        if group in seen:
            raise LaunchError(f"workgroup {group} is chosen twice; each runs once in a launch")
        seen[group] = None
    return list(seen)
