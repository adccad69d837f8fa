"""Binder of the move under VGPR indexing mode (``program/gpr_index.py``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import KernelFault
from ..isa.entry import Entry
from ..program.gpr_index import DESTINATION, SOURCE
from ..program.operands import M0
from ..program.program import Instruction
from .fetch import operand_count, register_number, vector_source, vector_store
from .waves import BindContext, Waves

_INDEX = np.uint32(0xFF)


def bind_indexed_move(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``v_mov_b32`` whose source or destination register number, or both, has M0[7:0] added; constants and scalar
    sources are taken as they are. A register beyond those of the kernel is a KernelFault."""
    operand_count(inst, 2)
    dst, src = inst.operands
    mode = inst.modifiers["gpr_idx"]
    plain_source = vector_source(inst, src, entry.src[0], ctx)
    plain_store = vector_store(inst, dst, entry.dst[0], ctx)
    from_index, to_index = bool(mode & SOURCE) and src.kind == "v", bool(mode & DESTINATION)
    first, target = register_number(src, ctx), register_number(dst, ctx)

    def registers(w: Waves, base: int) -> Any:
        numbers = (w.sget(M0) & _INDEX).astype(np.int64) + base
        if (numbers >= w.agpr_base).any():
            where = f"v{int(numbers.max())} of {w.agpr_base}"
            raise KernelFault(f"{inst.text} at {inst.place}: M0 leads outside of the vector registers, to {where}")
        return numbers

    def step(w: Waves) -> None:
        value = plain_source(w)
        if from_index:
            value = w.file[registers(w, first), np.arange(w.count) if w.sel is None else w.sel]
        if not to_index:
            plain_store(w, value)
            return
        numbers = registers(w, target)
        for number in np.unique(numbers):
            w.vput_masked(int(number), value, w.em & (numbers == number)[:, None])

    return step
