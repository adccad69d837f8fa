"""Binder of conversions to and from formats of at most 8 bits, whose operands are bytes, halves or many registers.

Which bits of OPSEL pick what (CDNA3 and CDNA4 ISA, ``V_CVT_*FP8*`` and ``V_CVT_SCALEF32_*``): OPSEL[0] the half, or
OPSEL[1:0] the byte, of a narrow source; OPSEL[3] the half, or OPSEL[3:2] the byte, of a result narrower than a
register, whose other bits are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import AsmError, UnsupportedError
from ..isa.entry import Entry
from ..numerics import smallfloat
from ..program.operands import Operand
from ..program.program import Instruction
from .bind_valu import bind_valu
from .fetch import Fetch, operand_count, register_number, reject_modifiers, vector_source
from .types import TYPES, U16, U32, constant_bits
from .waves import BindContext, Waves

_BITS = {"fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4}
_SDWA_WORD = {"WORD_0": 0, "DWORD": 0, "WORD_1": 1}
Gather = Callable[[Waves], list[Any]]
Scatter = Callable[[Waves, list[Any]], None]


def bind_byte_convert(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """v_cvt_f32_fp8/bf8: the byte that SDWA selects, else the lowest one."""
    if inst.modifiers.get("src0_sel") == "WORD_1":
        raise UnsupportedError(f"src0_sel:WORD_1 on {inst.mnemonic}, which reads a byte", inst.line_number, inst.text)
    return bind_valu(entry, inst, ctx)


def bind_small_float(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``fn(elements, scale, seeds, saturate) -> elements`` (see ``isa.small_float``).

    Options: source (format, elements, registers of each data operand), result (bits of an element, registers),
    scaled (the last operand is an f32 whose exponent scales), stochastic (a seed precedes the scale), sdwa_word
    (``src0_sel`` picks the half of the source).
    """
    options = entry.options
    reject_modifiers(inst, {"src0_sel"} if options["sdwa_word"] else {"op_sel"})
    _, count, widths = options["source"]
    scaled, stochastic = options["scaled"], options["stochastic"]
    operand_count(inst, 1 + len(widths) + scaled + stochastic)
    dst, *sources = inst.operands
    data, rest = sources[: len(widths)], sources[len(widths) :]
    result_bits, result_registers = options["result"]
    placed = result_bits * count  # bits of the result
    opsel = _Opsel(inst, three=len(sources) == 3 or placed == 8)
    part = _source_part(entry, inst, opsel)
    gather = _gather(inst, data, entry, ctx, part)
    scatter = _scatter(inst, dst, result_bits, count, result_registers, ctx, opsel)
    opsel.finish()
    seed = vector_source(inst, rest[0], "u32", ctx) if stochastic else None
    scale = _scale(inst, rest[-1], ctx, stochastic) if scaled else None
    saturate, convert = ctx.mode.fp16_overflow, entry.fn

    def step(w: Waves) -> None:
        seeds = None
        if seed is not None:
            seeds = [np.asarray(seed(w))]
            while len(seeds) < count:
                seeds.append(smallfloat.prng(seeds[-1]))
        scatter(w, convert(gather(w), scale(w) if scale is not None else None, seeds, saturate))

    return step


class _Opsel:
    """OPSEL[3:0] from the text. With two sources and no byte result, LLVM's third list element is the result's bit."""

    def __init__(self, inst: Instruction, three: bool) -> None:
        self.inst = inst
        bits = [int(b) for b in inst.modifiers.get("op_sel", ())]
        order = (0, 1, 2, 3) if three else (0, 1, 3)
        if any(bits[len(order) :]) or len(bits) > 4:
            raise AsmError(f"op_sel:{bits} on {inst.mnemonic}", inst.line_number, inst.text)
        self.bits = [0, 0, 0, 0]
        for position, bit in zip(order, bits, strict=False):
            self.bits[position] = bit
        self.used: set[int] = set()

    def take(self, *positions: int) -> int:
        """Number in those bits, the lowest one first."""
        self.used.update(positions)
        return sum(self.bits[p] << i for i, p in enumerate(positions))

    def finish(self) -> None:
        """UnsupportedError when a bit is set that selects nothing."""
        left, inst = [p for p, bit in enumerate(self.bits) if bit and p not in self.used], self.inst
        if left:
            raise UnsupportedError(f"op_sel bit {left[0]} on {inst.mnemonic}", inst.line_number, inst.text)


def _source_part(entry: Entry, inst: Instruction, opsel: _Opsel) -> int:
    """Bit offset of the narrow source in its register."""
    kind, count, _ = entry.options["source"]
    if entry.options["sdwa_word"]:
        select = inst.modifiers.get("src0_sel", "DWORD")
        if select not in _SDWA_WORD:
            raise UnsupportedError(f"src0_sel:{select} on {inst.mnemonic}", inst.line_number, inst.text)
        return 16 * _SDWA_WORD[select]
    bits = _BITS.get(kind, 32) * count
    if bits == 16:
        return 16 * opsel.take(0)
    return 8 * opsel.take(0, 1) if bits == 8 else 0


# -- sources ---------------------------------------------------------------------------------------------------------
def _gather(inst: Instruction, data: list[Operand], entry: Entry, ctx: BindContext, shift: int) -> Gather:
    kind, count, widths = entry.options["source"]
    words: list[list[Fetch]] = [_registers(inst, o, n, kind, ctx) for o, n in zip(data, widths, strict=True)]
    if kind == "f32":
        # two operands of 16 registers are interleaved, those of one register follow each other
        order = [f for pair in zip(*words, strict=True) for f in pair]
        return lambda w: [np.asarray(f(w)) for f in order]
    fetches = words[0]
    if kind in ("f16", "bf16"):
        return lambda w: [half for f in fetches for half in _halves(np.asarray(f(w)), kind)][:count]
    bits = _BITS[kind]
    if bits == 6:
        return lambda w: list(np.moveaxis(smallfloat.unpack6(np.stack([f(w) for f in fetches], axis=-1)), -1, 0))
    mask = U32((1 << bits) - 1)
    return lambda w: [(np.asarray(fetches[0](w)) >> U32(shift + i * bits)) & mask for i in range(count)]


def _registers(inst: Instruction, operand: Operand, count: int, kind: str, ctx: BindContext) -> list[Fetch]:
    """One fetch for each register of a data operand: float32 for f32, else uint32."""
    name = "f32" if kind == "f32" else "u32"
    if count == 1:
        if kind != "f32" and operand.kind == "float":
            raise UnsupportedError(f"float constant {operand} as a packed source", inst.line_number, inst.text)
        return [vector_source(inst, operand, name, ctx)]
    if operand.kind not in ("v", "a") or operand.count != count or operand.neg or operand.abs:
        raise AsmError(f"{inst.mnemonic} takes {count} vector registers, got {operand}", inst.line_number, inst.text)
    first = register_number(operand, ctx)
    return [_row(first + i, name) for i in range(count)]


def _row(r: int, name: str) -> Fetch:
    dtype = TYPES[name].dtype
    return lambda w: w.vget(r).view(dtype)


def _halves(word: Any, kind: str) -> tuple[Any, Any]:
    low, high = word & U32(0xFFFF), word >> U32(16)
    if kind == "bf16":
        return (low << U32(16)).view(np.float32), (high << U32(16)).view(np.float32)
    return low.astype(U16).view(np.float16), high.astype(U16).view(np.float16)


def _scale(inst: Instruction, operand: Operand, ctx: BindContext, needed: bool) -> Fetch | None:
    """Biased exponent of the f32 scale; None for a constant 1.0 where ``fn`` can do without."""
    if operand.kind in ("int", "float") and not operand.name:
        bits = U32(constant_bits(operand, TYPES["f32"]) & 0xFFFFFFFF)
        constant = smallfloat.scale_of(np.asarray(bits.view(np.float32)))
        return None if constant == smallfloat.SCALE_BIAS and not needed else lambda w: constant
    fetch = vector_source(inst, operand, "f32", ctx)
    return lambda w: smallfloat.scale_of(np.ascontiguousarray(fetch(w)))


# -- results ---------------------------------------------------------------------------------------------------------
def _scatter(
    inst: Instruction, dst: Operand, bits: int, count: int, registers: int, ctx: BindContext, opsel: _Opsel
) -> Scatter:
    if dst.kind not in ("v", "a") or dst.count != registers:
        raise AsmError(f"{inst.mnemonic} writes {registers} vector registers, not {dst}", inst.line_number, inst.text)
    first = register_number(dst, ctx)
    total = bits * count
    if total < 32:
        return _partial(first, bits, total, 16 * opsel.take(3) if total == 16 else 8 * opsel.take(2, 3))

    def put(w: Waves, elements: list[Any]) -> None:
        for i, word in enumerate(_words(elements, bits)):
            w.vput(first + i, word)

    return put


def _words(elements: list[Any], bits: int) -> list[Any]:
    if bits == 32:
        return [np.ascontiguousarray(x).view(U32) for x in elements]
    if bits == 16:
        codes = [_code(x) for x in elements]
        return [low | (high << U32(16)) for low, high in zip(codes[0::2], codes[1::2], strict=True)]
    return list(np.moveaxis(smallfloat.pack6(np.stack(elements, axis=-1)), -1, 0))


def _code(x: Any) -> Any:
    x = np.asarray(x)
    return (x.view(U16) if x.itemsize == 2 else x).astype(U32)


def _partial(r: int, bits: int, total: int, shift: int) -> Scatter:
    hole = U32(0xFFFFFFFF ^ (((1 << total) - 1) << shift))

    def put(w: Waves, elements: list[Any]) -> None:
        field: Any = U32(0)
        for i, x in enumerate(elements):
            field = field | (_code(x) << U32(shift + i * bits))
        w.vput(r, (w.vget(r) & hole) | field)

    return put
