"""What a receipt of a launch cannot say, whoever wrote it: the sign of a forged or damaged one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

#: Lanes of a workgroup at most, on gfx9 (LLVM: AMDGPU ISA info, maximum flat workgroup size).
MAX_LANES = 1024


def impossible(launch: Mapping[str, Any], arch: str, level: str) -> Iterator[str]:
    """Every way in which one receipt contradicts the arch, the evidence ``level`` of its stage, or itself.

    The emulator counts what it executes and a workgroup executes one instruction at least, so an emulated receipt
    without a count, or with fewer instructions than workgroups, was not written by it.
    """
    grid, block, ran = math.prod(launch["grid"]), math.prod(launch["block"]), launch["workgroups_run"]
    if launch["arch"] != arch:
        yield f"launched code for {launch['arch']} in a report on {arch}"
    if ran > grid:
        yield f"a receipt of {launch['kernel']} has {ran} workgroups of a grid of {grid}"
    if ran and not 1 <= block <= MAX_LANES:
        yield f"a receipt of {launch['kernel']} has workgroups of {block} lanes, 1 to {MAX_LANES} are possible"
    if level == "emulated" and (launch["instructions"] is None or launch["instructions"] < ran):
        yield (
            f"a receipt of {launch['kernel']} has {launch['instructions']} instructions in {ran} workgroups, "
            "which the emulator cannot have counted"
        )
