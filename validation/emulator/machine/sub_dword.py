"""SDWA: operands and results that are a byte or a 16-bit half of a register.

Source: CDNA3 ISA, "Sub-dword addressing (SDWA)". Defaults of what the text leaves out, as LLVM's assembler encodes
them: ``DWORD`` selectors and ``UNUSED_PRESERVE``.
"""

from __future__ import annotations

from dataclasses import replace
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
_UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")


def _field(inst: Instruction, name: str) -> tuple[int, int]:
    word = inst.modifiers.get(name, "DWORD")
    if word not in _SELECT:
        raise AsmError(f"{name}:{word} is not one of {', '.join(_SELECT)}", inst.line_number, inst.text)
    return _SELECT[word]


def _sign_extend(x: Any, width: int) -> Any:
    sign = U32(1 << (width - 1))
    return (x ^ sign) - sign


def sdwa_source(inst: Instruction, operand: Operand, type_name: str, ctx: BindContext, position: int) -> Fetch:
    """Source 0 or 1: select, then sign-extend (``sext``), then neg/abs on the float of the operand's type."""
    kind = TYPES[type_name]
    shift, width = _field(inst, f"src{position}_sel")
    if kind.dwords != 1:
        raise AsmError(f"SDWA takes 32-bit registers, {operand} is wider", inst.line_number, inst.text)
    if (operand.neg or operand.abs) and not kind.is_float:
        raise AsmError(f"{operand}: {inst.mnemonic} has no float source here", inst.line_number, inst.text)
    if operand.sext and kind.is_float:
        raise AsmError(f"sext of {operand}: {inst.mnemonic} has no integer source here", inst.line_number, inst.text)
    bare = replace(operand, neg=False, abs=False, sext=False)
    constant = operand.kind in ("int", "float")
    word = vector_source(inst, bare, type_name if constant else "u32", ctx)
    clear = U32(0xFFFFFFFF ^ _SIGN_BIT[kind.bits]) if operand.abs else None
    flip = U32(_SIGN_BIT[kind.bits]) if operand.neg else None
    mask, down, sext = U32((1 << width) - 1), U32(shift), operand.sext and width < 32

    def fetch(w: Waves) -> Any:
        x = word(w)
        if constant:
            x = x.view(U16).astype(U32) if kind.bits == 16 else x.view(U32)
        if shift:
            x = x >> down
        if 0 < shift + width < 32:
            x = x & mask
        if sext:
            x = _sign_extend(x, width)
        if clear is not None:
            x = x & clear
        if flip is not None:
            x = x ^ flip
        return x.astype(U16).view(kind.dtype) if kind.bits == 16 else x.view(kind.dtype)

    return fetch


def sdwa_store(inst: Instruction, operand: Operand, type_name: str, ctx: BindContext) -> Store:
    """Place the result in ``dst_sel``; the rest of the register per ``dst_unused`` (pad, sign-extend, preserve)."""
    shift, width = _field(inst, "dst_sel")
    unused = inst.modifiers.get("dst_unused", "UNUSED_PRESERVE")
    if unused not in _UNUSED:
        raise AsmError(f"dst_unused:{unused} is not one of {', '.join(_UNUSED)}", inst.line_number, inst.text)
    kind = TYPES[type_name]
    if operand.kind != "v" or operand.count != 1 or kind.dwords != 1:
        raise AsmError(f"SDWA writes one VGPR, not {operand}", inst.line_number, inst.text)
    r = register_number(operand, ctx)
    low, up = U32((1 << width) - 1), U32(shift)
    hole = U32(0xFFFFFFFF ^ (((1 << width) - 1) << shift))

    def store(w: Waves, value: Any) -> None:
        value = np.asarray(value, kind.dtype)
        x = value.view(U16).astype(U32) if kind.bits == 16 else value.view(U32)
        if width < 32:
            x = x & low
            if unused == "UNUSED_SEXT":
                x = _sign_extend(x, width)
            x = x << up
            if unused == "UNUSED_PRESERVE":
                x = x | (w.vget(r) & hole)
        w.vput(r, x)

    return store
