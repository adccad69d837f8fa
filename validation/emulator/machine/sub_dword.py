"""SDWA: operands and results that are a byte or a 16-bit half of a register (CDNA3 ISA, "SDWA")."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import AsmError
from ..program.operands import Operand
from ..program.program import Instruction
from .fetch import Fetch, Store, register_number, vector_source
from .types import TYPES, U16, U32
from .waves import BindContext, Waves

SDWA_MODIFIERS = {"dst_sel", "dst_unused", "src0_sel", "src1_sel"}
#: selector -> (shift, width in bits)
_SELECT = {f"BYTE_{i}": (8 * i, 8) for i in range(4)} | {"WORD_0": (0, 16), "WORD_1": (16, 16), "DWORD": (0, 32)}
_SIGN_BIT = {16: 0x8000, 32: 0x80000000}


def _field(inst: Instruction, name: str) -> tuple[int, int]:
    word = inst.modifiers.get(name, "DWORD")
    if word not in _SELECT:
        raise AsmError(f"{name}:{word} is not one of {', '.join(_SELECT)}", inst.line_number, inst.text)
    return _SELECT[word]


def sdwa_source(inst: Instruction, operand: Operand, type_name: str, ctx: BindContext, position: int) -> Fetch:
    """Source 0 or 1: select, then sign-extend (``sext``), then neg/abs on the float of the operand's type."""
    kind = TYPES[type_name]
    shift, width = _field(inst, f"src{position}_sel")
    bare = Operand(operand.kind, operand.index, operand.count, operand.value, operand.name)
    word = vector_source(inst, bare, "b32" if kind.dwords == 1 else type_name, ctx)
    if kind.dwords != 1:
        raise AsmError(f"SDWA takes 32-bit registers, {operand} is wider", inst.line_number, inst.text)
    sign = _SIGN_BIT[kind.bits]

    def fetch(w: Waves) -> Any:
        x = np.asarray(word(w), U32)
        if width < 32:
            x = (x >> U32(shift)) & U32((1 << width) - 1)
            if operand.sext:
                x = (x ^ U32(1 << (width - 1))) - U32(1 << (width - 1))
        if operand.abs:
            x = x & U32(0xFFFFFFFF ^ sign)
        if operand.neg:
            x = x ^ U32(sign)
        return x.astype(U16).view(kind.dtype) if kind.bits == 16 else x.view(kind.dtype)

    return fetch


def sdwa_store(inst: Instruction, operand: Operand, type_name: str, ctx: BindContext) -> Store:
    """Place the result in ``dst_sel``; the rest of the register per ``dst_unused`` (pad, sign-extend, preserve)."""
    shift, width = _field(inst, "dst_sel")
    unused = inst.modifiers.get("dst_unused", "UNUSED_PAD")
    kind = TYPES[type_name]
    if operand.kind != "v" or operand.count != 1:
        raise AsmError(f"SDWA writes one VGPR, not {operand}", inst.line_number, inst.text)
    r = register_number(operand, ctx)
    low = U32((1 << width) - 1) if width < 32 else U32(0xFFFFFFFF)

    def store(w: Waves, value: Any) -> None:
        value = np.asarray(value, kind.dtype)
        x = value.view(U16).astype(U32) if kind.bits == 16 else value.view(U32)
        x = x & low
        if width == 32:
            w.vput(r, x)
            return
        if unused == "UNUSED_PAD":
            x = x << U32(shift)
        elif unused == "UNUSED_SEXT":
            x = (((x ^ U32(1 << (width - 1))) - U32(1 << (width - 1))) << U32(shift)).astype(U32)
        elif unused == "UNUSED_PRESERVE":
            hole = U32(0xFFFFFFFF) ^ (low << U32(shift))
            x = (x << U32(shift)) | (w.vget(r) & hole)
        else:
            raise AsmError(f"dst_unused:{unused}", inst.line_number, inst.text)
        w.vput(r, x)

    return store
