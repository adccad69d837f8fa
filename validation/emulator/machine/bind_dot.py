"""Binders of dot products and of mixed-precision multiply-add (VOP3P and the VOP2 forms that accumulate)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import AsmError, UnsupportedError
from ..isa.entry import Entry
from ..numerics import formats, ieee
from ..program.operands import Operand
from ..program.program import Instruction
from .bind_packed import modifier_bits
from .bind_valu import bind_valu
from .fetch import Fetch, operand_count, reject_modifiers, vector_source, vector_store
from .result import finish_result
from .types import F16, U16, U32
from .waves import BindContext, Waves


def _no_float_constant(inst: Instruction, operand: Operand) -> None:
    if operand.kind == "float":
        raise UnsupportedError(f"float constant {operand} as a packed source", inst.line_number, inst.text)


def bind_dot(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``fn(a, b, accumulator)``, a and b packed words; neg_lo/neg_hi flip the signs of their halves (f16 and bf16).

    On the f32 accumulator neg_lo negates. LLVM sets neg_hi with it (AMDGPUISelDAGToDAG, SelectVOP3PMods); alone its
    effect there is unknown.
    """
    reject_modifiers(inst, {"neg_lo", "neg_hi", "clamp"})
    operand_count(inst, 4)
    low, high = (modifier_bits(inst, name, 3, 0) for name in ("neg_lo", "neg_hi"))
    is_float = entry.dst[0] == "f32"
    if not is_float and (any(low) or any(high)):
        raise UnsupportedError(f"neg_lo/neg_hi on {inst.mnemonic}", inst.line_number, inst.text)
    if high[2] and not low[2]:
        raise UnsupportedError("neg_hi of an f32 accumulator", inst.line_number, inst.text)
    for operand in inst.operands[1:3]:
        _no_float_constant(inst, operand)
    for operand in inst.operands[1:]:
        if operand.neg or operand.abs:
            raise AsmError(f"{operand}: packed sources take neg_lo and neg_hi instead", inst.line_number, inst.text)
    a, b, c = (vector_source(inst, o, t, ctx) for o, t in zip(inst.operands[1:], entry.src, strict=True))
    flips = [U32((0x8000 * lo) | (0x80000000 * hi)) for lo, hi in zip(low, high, strict=True)]
    store = vector_store(inst, inst.operands[0], entry.dst[0], ctx)
    fn = finish_result(entry, inst, ctx)

    def step(w: Waves) -> None:
        x, y, z = a(w), b(w), c(w)
        if is_float:
            x, y, z = x ^ flips[0], y ^ flips[1], -z if low[2] else z
        store(w, fn(x, y, z))

    return step


def bind_dot_accumulate(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """VOP2 forms, whose accumulator is the destination; also with DPP."""
    for operand in inst.operands[1:]:
        _no_float_constant(inst, operand)
    return bind_valu(entry, inst, ctx)


def bind_mix(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``fn(a, b, c)`` in f32. Per source, op_sel_hi picks f16 and then op_sel its half; neg and abs are neg_lo/neg_hi.

    Options: ``half``: where the f16 result goes, the other half being kept; without it the result is f32.
    An f16 inline constant stands in the low half, as in every VOP3P operand.
    """
    reject_modifiers(inst, {"op_sel", "op_sel_hi", "clamp"})
    operand_count(inst, 4)
    narrow, upper = (modifier_bits(inst, name, 3, 0) for name in ("op_sel_hi", "op_sel"))
    sources = [
        _mixed_source(inst, operand, bool(is_narrow), bool(is_upper), ctx)
        for operand, is_narrow, is_upper in zip(inst.operands[1:], narrow, upper, strict=True)
    ]
    half = entry.options.get("half")
    if half is None:
        store = vector_store(inst, inst.operands[0], "f32", ctx)
        fn = finish_result(entry, inst, ctx)
        return lambda w: store(w, fn(*[source(w) for source in sources]))
    store = vector_store(inst, inst.operands[0], "f16", ctx, half == 1, keep=True)
    mode = ctx.mode
    clamp = bool(inst.modifiers.get("clamp"))

    def step(w: Waves) -> None:
        values = [ieee.flush_inputs(np.asarray(source(w)), mode.denorm_32) for source in sources]
        wide = ieee.flush_outputs(entry.fn(*values, round_mode=mode.round_32), mode.denorm_32)
        result = formats.f32_to_f16(wide, mode.round_16_64, saturate=mode.fp16_overflow)
        result = ieee.flush_outputs(result, mode.denorm_16_64)
        store(w, ieee.clamp(result, mode.dx10_clamp) if clamp else result)

    return step


def _mixed_source(inst: Instruction, operand: Operand, narrow: bool, upper: bool, ctx: BindContext) -> Fetch:
    if not narrow:
        return vector_source(inst, operand, "f32", ctx)
    if upper and operand.kind in ("int", "float"):
        raise UnsupportedError("upper half of a constant (op_sel)", inst.line_number, inst.text)
    fetch = vector_source(inst, operand, "f16", ctx, upper)
    keep = ctx.mode.denorm_16_64 & 1

    def widened(w: Waves) -> Any:
        x = np.asarray(fetch(w)).view(U16).view(F16)
        return formats.f16_to_f32(x if keep else ieee.flush_inputs(x, 0))

    return widened
