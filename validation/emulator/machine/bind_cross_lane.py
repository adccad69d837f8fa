"""Binders of the vector instructions that cross lanes (readlane, writelane, permlane swaps) or swap registers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import AsmError
from ..isa.entry import Entry
from ..program.operands import Operand
from ..program.program import Instruction
from .fetch import Fetch, operand_count, reject_modifiers, scalar_source, scalar_store
from .types import U32
from .waves import LANES, BindContext, Waves

_LANE = np.arange(LANES)


def _vgpr(inst: Instruction, operand: Operand) -> int:
    if operand.kind != "v" or operand.count != 1:
        raise AsmError(f"{inst.mnemonic} takes a VGPR here, not {operand}", inst.line_number, inst.text)
    return operand.index


def _lane_select(inst: Instruction, operand: Operand, ctx: BindContext) -> int | Fetch:
    """Lane number modulo 64: an int for a constant, else a function of the waves that gives int64 [n]."""
    if operand.kind == "int":
        return int(operand.value) % LANES
    if operand.kind != "s":
        raise AsmError(f"{operand} selects no lane: SGPR, M0 or a constant do", inst.line_number, inst.text)
    select = scalar_source(inst, operand, "u32", ctx)
    return lambda w: (select(w) & U32(LANES - 1)).astype(np.int64)


def bind_readlane(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """Scalar result from one lane, whatever EXEC says.

    Option ``first``: the lane is the lowest active one, lane 0 when none is (CDNA3 ISA, V_READFIRSTLANE_B32).
    """
    reject_modifiers(inst, frozenset())
    first = bool(entry.options.get("first"))
    operand_count(inst, 2 if first else 3)
    put = scalar_store(inst, inst.operands[0], "u32")
    r = _vgpr(inst, inst.operands[1])
    if first:

        def readfirst(w: Waves) -> None:
            v = w.vget(r)
            put(w, v[:, 0] if w.full else v[np.arange(w.n), w.em.argmax(axis=1)])

        return readfirst
    lane = _lane_select(inst, inst.operands[2], ctx)
    if isinstance(lane, int):
        return lambda w: put(w, w.vget(r)[:, lane])
    return lambda w: put(w, w.vget(r)[np.arange(w.n), lane(w)])


def bind_writelane(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """Write a scalar into one lane of a VGPR, whatever EXEC says."""
    reject_modifiers(inst, frozenset())
    operand_count(inst, 3)
    r = _vgpr(inst, inst.operands[0])
    value = scalar_source(inst, inst.operands[1], "u32", ctx)
    lane = _lane_select(inst, inst.operands[2], ctx)

    def write(w: Waves) -> None:
        rows: Any = np.arange(w.count) if w.sel is None else w.sel
        w.V[r][rows, lane if isinstance(lane, int) else lane(w)] = value(w)

    return write


def bind_swap(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """Exchange two VGPRs in the active lanes."""
    reject_modifiers(inst, frozenset())
    operand_count(inst, 2)
    a, b = (_vgpr(inst, operand) for operand in inst.operands)

    def swap(w: Waves) -> None:
        old = w.vget(a).copy()
        w.vput(a, w.vget(b))
        w.vput(b, old)

    return swap


def bind_permlane_swap(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """Odd groups of ``half`` lanes of the first register change places with even groups of the second.

    Source: CDNA4 ISA, V_PERMLANE16_SWAP_B32 and V_PERMLANE32_SWAP_B32; their pseudocode leaves EXEC out. Inactive
    lanes are not written. Reading from an inactive lane: *inferred* from V_PERMLANE16_B32 of RDNA, which has the same
    two modifiers: ``fi`` reads it all the same, else ``bound_ctrl`` gives 0, else the lane keeps its contents.
    """
    reject_modifiers(inst, {"bound_ctrl", "fi"})
    operand_count(inst, 2)
    half = int(entry.options["half"])
    first, second = (_vgpr(inst, operand) for operand in inst.operands)
    odd: NDArray[np.bool_] = (_LANE // half) % 2 == 1
    # LLVM encodes bound_ctrl:0 and bound_ctrl:1 alike on these targets
    zero, fetch_inactive = "bound_ctrl" in inst.modifiers, bool(inst.modifiers.get("fi"))
    partner = _LANE ^ half

    def swap(w: Waves) -> None:
        from_second, from_first = w.vget(second)[:, partner], w.vget(first)[:, partner]
        active = w.em
        if not (w.full or fetch_inactive):
            readable = active[:, partner]
            if zero:
                from_second = np.where(readable, from_second, U32(0))
                from_first = np.where(readable, from_first, U32(0))
            else:
                active = active & readable
        w.vput_masked(first, from_second, active & odd)
        w.vput_masked(second, from_first, active & ~odd)

    def swap_full(w: Waves) -> None:
        if not w.full or w.sel is not None:
            swap(w)
            return
        a, b = (w.V[r].reshape(w.count, -1, 2, half) for r in (first, second))
        old = a[:, :, 1].copy()
        a[:, :, 1] = b[:, :, 0]
        b[:, :, 0] = old

    return swap_full


def bind_no_effect(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """An instruction that leaves registers and memory alone."""
    reject_modifiers(inst, frozenset())
    operand_count(inst, 0)
    return lambda w: None
