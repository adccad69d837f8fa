"""VGPR indexing mode: between ``s_set_gpr_idx_on`` and ``s_set_gpr_idx_off``, M0 is added to VGPR numbers.

LLVM puts one ``v_mov_b32`` between the two, for an array in registers with an index that is known only at run time
(AMDGPU, SIISelLowering, "emitIndirectSrc" and "emitIndirectDst"). That is what is executed: such a move becomes an
instruction of its own here, so that all others need not ask whether the mode is on. Source: CDNA3 ISA, "VGPR indexing".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import UnsupportedError
from .operands import GPR_INDEX

if TYPE_CHECKING:
    from .program import Instruction

ON, OFF = "s_set_gpr_idx_on", "s_set_gpr_idx_off"
MOVE, INDEXED_MOVE = "v_mov_b32", "v_mov_b32_gpr_idx"
#: Bits of the second operand of ``s_set_gpr_idx_on`` that a move has a use for.
SOURCE, DESTINATION = GPR_INDEX["SRC0"], GPR_INDEX["DST"]

_CONTROL = ("s_branch", "s_cbranch", "s_endpgm", "s_setpc", "s_swappc", "s_call", "s_barrier", "s_set_gpr_idx_mode")


def index_moves(instructions: Sequence[Instruction], labels: Collection[int]) -> list[Instruction]:
    """``instructions`` with the moves under indexing mode as ``v_mov_b32_gpr_idx``.

    labels: numbers of the instructions that can be jumped to. Raises UnsupportedError for other vector or control
    instructions under the mode, which has to end in straight-line code.
    """
    found: list[Instruction] = []
    begin: Instruction | None = None
    for inst in instructions:
        if begin is not None and inst.index in labels:
            raise UnsupportedError(f"a label between {ON} and {OFF}", begin.line_number, begin.text)
        if inst.mnemonic in (ON, OFF):
            begin = inst if inst.mnemonic == ON else None
        elif begin is not None:
            inst = _under(begin, inst)
        found.append(inst)
    return found


def _under(begin: Instruction, inst: Instruction) -> Instruction:
    """``inst`` as it works under the mode that ``begin`` sets."""
    if inst.mnemonic == MOVE and not inst.modifiers:
        mode = begin.operands[-1]
        if mode.kind != "int":
            raise UnsupportedError(f"{ON} takes gpr_idx(...) or its number", begin.line_number, begin.text)
        return replace(inst, mnemonic=INDEXED_MOVE, modifiers={"gpr_idx": int(mode.value)})
    if inst.mnemonic.startswith("s_") and not inst.mnemonic.startswith(_CONTROL):
        return inst
    accepted = f"{MOVE} without DPP or SDWA and scalar instructions can stand there"
    raise UnsupportedError(f"{inst.mnemonic} between {ON} and {OFF}; {accepted}", inst.line_number, inst.text)
