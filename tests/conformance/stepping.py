"""One instruction stepped on many waves at once, without a launch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from validation.emulator.machine.bind import bind
from validation.emulator.machine.waves import BindContext, FloatMode, Identity, Waves
from validation.emulator.program import parse_program

_PROGRAM = """
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.text
snippet:
	{line}
	s_endpgm
	.amdgpu_metadata
amdhsa.kernels:
  - .name: snippet
	.end_amdgpu_metadata
"""


def step_of(line: str, registers: int = 64) -> Callable[[Waves], None]:
    """What executes ``line`` (gfx942) on the selected waves of a state of so many VGPRs."""
    program = parse_program(_PROGRAM.format(line=line))
    context = BindContext(program.arch, FloatMode(), registers, program.labels, lambda *_: 0, 0)
    run_step = bind(program.instructions[0], context).run

    def step(w: Waves) -> None:
        with np.errstate(all="ignore"):  # as the launcher does
            run_step(w)

    return step


def many_waves(count: int, registers: int = 64) -> Waves:
    """``count`` waves of so many VGPRs, all zero."""
    zeros = np.zeros(count, np.int64)
    return Waves(Identity(np.zeros((count, 3), np.int64), zeros, zeros, zeros), registers, 0, FloatMode(), None)  # type: ignore[arg-type]
