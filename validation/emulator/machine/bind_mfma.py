"""Binder of MFMA instructions.

They ignore EXEC: every lane takes part (CDNA3 ISA, "Matrix Arithmetic Instructions").
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..isa.entry import Entry
from ..numerics import fma
from ..numerics.dot import Fragment
from ..program.program import Instruction
from .fetch import operand_count, reject_modifiers
from .matrix_layout import accumulator_to_registers, broadcast_blocks, registers_to_accumulator
from .matrix_operands import Accumulator, BlockScale, MatrixSource
from .waves import BindContext, Waves

_FLOATS = ("f16", "bf16", "fp8", "bf8", "xf32")
_F8F6F4 = ("fp8", "bf8", "fp6", "bf6", "fp4")


def bind_mfma(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """Options: size (M = N), depth (K), blocks, a/b (input types), result (``f32``, ``i32``, ``f64``)."""
    reject_modifiers(inst, {"cbsz", "abid", "blgp", "neg"})
    operand_count(inst, 4)
    o = entry.options
    shape = (o["size"], o["depth"], o["blocks"])
    cbsz, abid = _broadcast_modifiers(inst, o["blocks"])
    is_f64 = o["result"] == "f64"
    if "neg" in inst.modifiers and not is_f64:
        raise UnsupportedError(f"modifier neg on {inst.mnemonic}", inst.line_number, inst.text)
    blgp = 0 if is_f64 else int(inst.modifiers.get("blgp", 0))
    dst, a_operand, b_operand, c_operand = inst.operands
    blas = o["a"] in (*_FLOATS, "i8")
    a = MatrixSource(inst, a_operand, o["a"], shape, ctx, rearranged=blas)
    b = MatrixSource(inst, b_operand, o["b"], shape, ctx, blgp)
    accumulator = Accumulator(inst, entry, dst, c_operand, ctx)
    if o["a"] == "i8":
        return _integer_step(a, b, accumulator, cbsz, abid)
    if blas:
        return _float_step(a, b, accumulator, cbsz, abid)
    return _sequential_step(a, b, accumulator, cbsz, abid, _f64_signs(inst) if is_f64 else (0, 0, 0))


def _broadcast_modifiers(inst: Instruction, blocks: int) -> tuple[int, int]:
    cbsz, abid = int(inst.modifiers.get("cbsz", 0)), int(inst.modifiers.get("abid", 0))
    if (1 << cbsz) > blocks or abid >= (1 << cbsz):
        raise UnsupportedError(f"cbsz:{cbsz} abid:{abid} with {blocks} blocks", inst.line_number, inst.text)
    return cbsz, abid


def _float_step(a: MatrixSource, b: MatrixSource, accumulator: Accumulator, cbsz: int = 0, abid: int = 0) -> Any:
    def step(w: Waves) -> None:
        fa, fb = a.fragment(w), b.fragment(w)
        if cbsz:
            fa = _exchanged(fa, a.blocks, cbsz, abid)
        accumulator.multiply_add(w, fa, fb)

    return step


def _exchanged(f: Fragment, blocks: int, cbsz: int, abid: int) -> Fragment:
    """Blocks of A spread as the modifiers say; each may now hold what any block of its wave did."""
    values = f.values.reshape(-1, blocks, *f.values.shape[1:])
    exponents = f.exponents
    if exponents is not None:
        each = np.repeat(exponents.each().reshape(-1, blocks).max(axis=1), blocks)
        exponents = replace(exponents, _each=each)
    return Fragment(broadcast_blocks(values, cbsz, abid).reshape(f.values.shape), exponents, f.reach, f.ascending)


def _integer_step(a: MatrixSource, b: MatrixSource, accumulator: Accumulator, cbsz: int, abid: int) -> Any:
    """Sums of products of bytes are far below 2**53: float64 holds them in any order of adding."""

    def step(w: Waves) -> None:
        fa, fb = a.fragment(w), b.fragment(w)
        x = broadcast_blocks(fa.values.reshape(w.n, a.blocks, a.depth, a.size), cbsz, abid).reshape(fa.values.shape)
        accumulator.add_integers(w, np.matmul(x.transpose(0, 2, 1), fb.values).astype(np.int32))

    return step


def _sequential_step(
    a: MatrixSource, b: MatrixSource, accumulator: Accumulator, cbsz: int, abid: int, signs: tuple[int, int, int]
) -> Any:
    """D = C + a0 b0, + a1 b1, ..., fused and rounded to the result's type at each step (f32, f64)."""
    wide = accumulator.wide
    fused = fma.fma64 if wide else fma.fma32

    def step(w: Waves) -> None:
        x = broadcast_blocks(a.matrix(w, accumulator.dtype), cbsz, abid)
        y = b.matrix(w, accumulator.dtype)
        total: Any = registers_to_accumulator(accumulator.values(w), a.size, a.blocks, wide)
        x, y, total = (-v if sign else v for v, sign in zip((x, y, total), signs, strict=True))
        for k in range(a.depth):
            total = fused(x[:, :, k, :, None], y[:, :, k, None, :], total)
        accumulator.put(w, accumulator_to_registers(total, wide))

    return step


def _f64_signs(inst: Instruction) -> tuple[int, int, int]:
    """neg:[a,b,c], which for f64 takes the place of blgp (gfx940)."""
    if "neg" in inst.modifiers:
        bits = tuple(inst.modifiers["neg"])
        return bits[0], bits[1], bits[2]
    code = int(inst.modifiers.get("blgp", 0))
    return code & 1, code >> 1 & 1, code >> 2 & 1


def bind_mfma_f8f6f4(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """gfx950 ``*_f8f6f4``: cbsz and blgp are the formats of A and B: 0 fp8, 1 bf8, 2 fp6, 3 bf6, 4 fp4.

    Options: size, depth, blocks, result; ``scaled``: two more operands hold E8M0 scales of A and B, one for each row
    and 32 k; op_sel is the low and op_sel_hi the high bit of the byte taken (both 0 when left out, as LLVM encodes it).
    """
    o = entry.options
    scaled = o["scaled"]
    reject_modifiers(inst, {"cbsz", "blgp", "op_sel", "op_sel_hi"} if scaled else {"cbsz", "blgp"})
    operand_count(inst, 6 if scaled else 4)
    formats = [int(inst.modifiers.get(name, 0)) for name in ("cbsz", "blgp")]
    for name, code in zip(("cbsz", "blgp"), formats, strict=True):
        if code >= len(_F8F6F4):
            raise UnsupportedError(f"{name}:{code} is no format; 0 to 4 are {', '.join(_F8F6F4)}", inst.line_number,
                                   inst.text)  # fmt: skip
    dst, a_operand, b_operand, c_operand, *scale_operands = inst.operands
    scales: list[BlockScale | None] = [None, None]
    if scaled:
        low, high = ((*inst.modifiers.get(name, ()), 0, 0, 0) for name in ("op_sel", "op_sel_hi"))
        if low[2] or high[2]:
            raise UnsupportedError("op_sel of the accumulator", inst.line_number, inst.text)
        scales = [BlockScale(inst, s, low[i] + 2 * high[i], ctx) for i, s in enumerate(scale_operands)]
    shape = (o["size"], o["depth"], 1)
    mixed = (formats[0] < 2) != (formats[1] < 2)  # only one of them has 8 bits
    a = MatrixSource(
        inst, a_operand, f"f8f6f4:{formats[0]}", shape, ctx, rearranged=True, sorted_k=mixed, scale=scales[0]
    )
    b = MatrixSource(inst, b_operand, f"f8f6f4:{formats[1]}", shape, ctx, sorted_k=mixed, scale=scales[1])
    return _float_step(a, b, Accumulator(inst, entry, dst, c_operand, ctx))
