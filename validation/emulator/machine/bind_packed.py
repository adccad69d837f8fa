"""Binder of packed instructions (VOP3P): two operations at once, on the halves of a register or of a register pair.

``op_sel``/``op_sel_hi`` choose, per source, the half that the low/high result reads; ``neg_lo``/``neg_hi`` flip its
sign there. Source: CDNA3 ISA, "Packed math" and the VOP3P encoding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import AsmError, UnsupportedError
from ..isa.entry import Entry
from ..numerics.into import sources_in_out
from ..program.operands import Operand
from ..program.program import Instruction
from .fetch import operand_count, register_number, reject_modifiers
from .result import finish_result
from .types import F32, TYPES, U16, U32, constant_bits
from .waves import BindContext, Waves

_MODIFIERS = {"op_sel", "op_sel_hi", "neg_lo", "neg_hi", "clamp"}
_SIGN = 0x80000000
_BOTH = U32(0x00010001)
_LOW = U32(0xFFFF)
_HALF = U32(16)
Source = Callable[[Waves], Any]


def modifier_bits(inst: Instruction, name: str, count: int, default: int) -> tuple[int, ...]:
    """Bits of a list modifier for ``count`` sources; UnsupportedError for a set bit that no source has."""
    bits = tuple(int(b) for b in inst.modifiers.get(name, ()))
    if any(bits[count:]):
        raise UnsupportedError(f"{name} bit beyond the {count} sources of {inst.mnemonic}", inst.line_number, inst.text)
    return (bits + (default,) * count)[:count]


class _Selection:
    """What the modifiers say about each source: halves for the low and the high result, signs."""

    def __init__(self, inst: Instruction, count: int) -> None:
        self.low = modifier_bits(inst, "op_sel", count, 0)
        self.high = modifier_bits(inst, "op_sel_hi", count, 1)
        self.negate_low = modifier_bits(inst, "neg_lo", count, 0)
        self.negate_high = modifier_bits(inst, "neg_hi", count, 0)

    def check_signs(self, inst: Instruction, is_float: bool) -> None:
        if not is_float and (any(self.negate_low) or any(self.negate_high)):
            raise UnsupportedError(f"neg_lo/neg_hi on {inst.mnemonic}, which is no float operation", inst.line_number,
                                   inst.text)  # fmt: skip


def _reject_plain_signs(inst: Instruction, operand: Operand) -> None:
    if operand.neg or operand.abs or operand.sext:
        raise AsmError(f"{operand}: packed sources take neg_lo and neg_hi instead", inst.line_number, inst.text)


def _check_sizes(entry: Entry, inst: Instruction) -> None:
    operand_count(inst, len(entry.dst) + len(entry.src))
    if inst.operands[0].kind not in ("v", "a"):
        raise AsmError(f"{inst.operands[0]} cannot be the result of {inst.mnemonic}", inst.line_number, inst.text)
    for operand in inst.operands:
        wanted = 2 if entry.form == "packed32" else 1
        if operand.is_register and operand.count != wanted:
            raise AsmError(f"{inst.mnemonic} takes {wanted} dwords, {operand} is {operand.count}", inst.line_number,
                           inst.text)  # fmt: skip


# -- halves of one register ------------------------------------------------------------------------------------------
def word_source(inst: Instruction, operand: Operand, type_name: str, ctx: BindContext) -> Source:
    """The 32-bit word of a source: uint32 [n, 64], or [1, 64] for a constant.

    An inline float stands in the low half in the format of 16-bit floats and as a float32 for integers; an inline
    integer is 32 bits wide (LLVM, AMDGPUBaseInfo, getInlineEncodingV2I16 and getInlineEncodingV2F16).
    """
    if operand.kind in ("v", "a"):
        r = register_number(operand, ctx)
        return lambda w: w.vget(r)
    if operand.kind == "s":
        r = operand.index
        return lambda w: np.repeat(w.sget(r)[:, None], 64, axis=1)
    if operand.kind in ("int", "float") and not operand.name:
        kind = TYPES[type_name] if TYPES[type_name].is_float else TYPES["u32"]
        word = np.full((1, 64), constant_bits(operand, kind) & 0xFFFFFFFF, U32)
        return lambda w: word
    raise AsmError(f"operand {operand} cannot be a source of {inst.mnemonic}", inst.line_number, inst.text)


def _pick_halves(word: Source, low: int, high: int) -> Source:
    """Rearrange: the half ``low`` goes to bits 15:0, the half ``high`` to bits 31:16."""
    if (low, high) == (0, 1):
        return word
    if (low, high) == (0, 0):
        return lambda w: (word(w) & _LOW) * _BOTH
    if (low, high) == (1, 1):
        return lambda w: (word(w) >> _HALF) * _BOTH

    def swapped(w: Waves) -> Any:
        x = word(w)
        return (x >> _HALF) | (x << _HALF)

    return swapped


def _flip(word: Source, mask: int) -> Source:
    return (lambda w: word(w) ^ U32(mask)) if mask else word


def bind_packed16(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``fn(*sources) -> result`` on 16-bit elements [n, 128], lane ``l`` in columns ``2 l`` (low) and ``2 l + 1``.

    Options: those of ``finish_result``; dst_is_source (the destination's old value is the last source).
    """
    reject_modifiers(inst, _MODIFIERS if not entry.options.get("dst_is_source") else set())
    _check_sizes(entry, inst)
    count = len(entry.src)
    select = _Selection(inst, count)
    select.check_signs(inst, TYPES[entry.dst[0]].is_float)
    sources: list[Source] = []
    for i, (operand, name) in enumerate(zip(inst.operands[1:], entry.src, strict=True)):
        _reject_plain_signs(inst, operand)
        word = _pick_halves(word_source(inst, operand, name, ctx), select.low[i], select.high[i])
        sources.append(_flip(word, (0x8000 * select.negate_low[i]) | (_SIGN * select.negate_high[i])))
    types = [TYPES[name].dtype for name in entry.src]
    dst = register_number(inst.operands[0], ctx)
    if entry.options.get("dst_is_source"):
        sources.append(lambda w: w.vget(dst))
        types.append(TYPES[entry.dst[0]].dtype)
    fn = finish_result(entry, inst, ctx)
    result_type = TYPES[entry.dst[0]].dtype

    def step(w: Waves) -> None:
        halves: list[Any] = [np.ascontiguousarray(f(w)).view(dtype) for f, dtype in zip(sources, types, strict=True)]
        result = fn(*halves)
        w.vput(dst, np.ascontiguousarray(result, result_type).view(U16).view(U32))

    return step


# -- halves of a register pair ---------------------------------------------------------------------------------------
def _pair_source(
    inst: Instruction, operand: Operand, ctx: BindContext, halves: tuple[int, int], signs: tuple[int, int]
) -> Source:
    """float32 [2, n, 64] (low and high operation), or what broadcasts to it.

    A 32-bit inline constant serves both halves whatever op_sel says: LLVM folds one without ``op_sel_hi`` into packed
    f32 products both of whose results are used (*inferred* from its output for gfx942).
    """
    plain = _pair_words(inst, operand, ctx, *halves)
    if not any(signs):
        if operand.kind in ("v", "a") and halves == (0, 1):
            first = register_number(operand, ctx)
            return lambda w: w.pair(first) if w.sel is None else plain(w).view(F32)
        return lambda w: plain(w).view(F32)
    mask = np.array([_SIGN * s for s in signs], U32)[:, None, None]
    if signs[0] == signs[1]:
        mask = mask[:1]
    return lambda w: (plain(w) ^ mask).view(F32)


def _pair_words(inst: Instruction, operand: Operand, ctx: BindContext, low: int, high: int) -> Source:
    if operand.kind in ("int", "float") and not operand.name:
        constant = np.full((1, 1, 1), constant_bits(operand, TYPES["f32"]) & 0xFFFFFFFF, U32)
        return lambda w: constant
    if not operand.is_register:
        raise AsmError(f"operand {operand} cannot be a source of {inst.mnemonic}", inst.line_number, inst.text)
    first = register_number(operand, ctx)
    if low == high:
        rows = slice(first + low, first + low + 1)
    elif low < high:
        rows = slice(first, first + 2)
    else:
        rows = slice(first + 1, first - 1 if first else None, -1)
    if operand.kind == "s":
        return lambda w: (w.S[rows] if w.sel is None else w.S[rows, w.sel])[:, :, None]
    return lambda w: w.file[rows] if w.sel is None else w.file[rows, w.sel]


def bind_packed32(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``fn(*sources) -> result`` on float32 arrays that broadcast to [2, n, 64].

    Options: those of ``finish_result``.
    """
    reject_modifiers(inst, _MODIFIERS)
    _check_sizes(entry, inst)
    count = len(entry.src)
    select = _Selection(inst, count)
    sources: list[Source] = []
    for i, operand in enumerate(inst.operands[1:]):
        _reject_plain_signs(inst, operand)
        signs = (select.negate_low[i], select.negate_high[i])
        sources.append(_pair_source(inst, operand, ctx, (select.low[i], select.high[i]), signs))
    fn = finish_result(entry, inst, ctx)
    dst = register_number(inst.operands[0], ctx)

    shared = sources_in_out(fn)
    touched = [o.kind != "s" and o.is_register and abs(register_number(o, ctx) - dst) < 2 for o in inst.operands[1:]]
    straight = shared is not None and not any(touched)

    def step(w: Waves) -> None:
        if w.full and w.sel is None:
            pair = w.pair(dst)
            w.touched(dst, 2)
            if straight:
                fn(*[source(w) for source in sources], out=pair)
            else:
                np.copyto(pair, fn(*[source(w) for source in sources]))
            return
        words = np.broadcast_to(np.asarray(fn(*[source(w) for source in sources]), F32).view(U32), (2, w.n, 64))
        w.vput(dst, words[0])
        w.vput(dst + 1, words[1])

    return step


def bind_packed_move(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """v_pk_mov_b32: low result from source 0, high result from source 1, halves by ``op_sel``; op_sel_hi is ignored."""
    reject_modifiers(inst, {"op_sel", "op_sel_hi"})
    operand_count(inst, 3)
    bits = modifier_bits(inst, "op_sel", 2, 0)
    dst, *operands = inst.operands
    if dst.kind not in ("v", "a") or dst.count != 2:
        raise AsmError(f"{dst} cannot be the result of {inst.mnemonic}", inst.line_number, inst.text)
    for operand in operands:
        _reject_plain_signs(inst, operand)
        if operand.is_register and operand.count != 2:
            raise AsmError(f"{inst.mnemonic} takes 2 dwords, {operand} is {operand.count}", inst.line_number, inst.text)
    first, second = (_pair_words(inst, operand, ctx, bit, bit) for operand, bit in zip(operands, bits, strict=True))
    row = register_number(dst, ctx)

    def step(w: Waves) -> None:
        low, high = first(w)[0], np.array(second(w)[0])
        w.vput(row, low)
        w.vput(row + 1, high)

    return step
