"""Binder of MFMA instructions. They ignore EXEC: every lane takes part (CDNA3 ISA, "Matrix Arithmetic Instructions")."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import AsmError
from ..isa.entry import Entry
from ..numerics import fma
from ..numerics.dot import Fragment, fragment, sum_of_products
from ..program.operands import Operand
from ..program.program import Instruction
from .fetch import operand_count, register_number, reject_modifiers
from .matrix_layout import (
    accumulator_to_registers,
    broadcast_blocks,
    decoder,
    permute_lanes,
    registers_to_accumulator,
    result_registers,
    to_matrix,
)
from .types import TYPES, constant_bits
from .waves import BindContext, Waves

_DTYPE = {"f32": np.float32, "i32": np.int32, "f64": np.float64}
_CACHED_FRAGMENTS = 64


class _Source:
    """A or B operand: registers, decoder and matrix shape; unpacked values are reused while the registers stand."""

    def __init__(self, inst: Instruction, operand: Operand, kind: str, entry: Entry, ctx: BindContext, blgp: int) -> None:
        per_dword, self.bits, self.decode = decoder(kind, ctx.arch)
        o = entry.options
        self.size, self.depth, self.blocks = o["size"], o["depth"], o["blocks"]
        elements = self.depth * self.size * self.blocks // 64
        self.count = max(1, int(elements / per_dword))
        if operand.kind not in ("v", "a") or operand.count != self.count:
            raise AsmError(f"{inst.mnemonic} takes {self.count} registers, got {operand}", inst.line_number, inst.text)
        self.first = register_number(operand, ctx)
        self.blgp = blgp
        self.wide = kind == "f64"
        self.key = (self.first, kind, self.size, self.depth, self.blocks, blgp)

    def words(self, w: Waves) -> Any:
        block = w.V[self.first : self.first + self.count]
        return block if w.sel is None else block[:, w.sel]

    def matrix(self, w: Waves) -> Any:
        """[n, blocks, depth, size] in the decoded dtype."""
        return to_matrix(self.decode(permute_lanes(self.words(w), self.blgp)), self.size, self.depth, self.blocks,
                         self.wide)

    def fragment(self, w: Waves) -> Fragment:
        """[n * blocks, depth, size] with exponent spans."""
        words = self.words(w)
        cache = w.extra.setdefault("fragments", {})
        known = cache.get(self.key)
        if known is not None and known[0].shape == words.shape and np.array_equal(known[0], words):
            return known[1]
        matrix = self.matrix(w)
        built = fragment(matrix.reshape(-1, self.depth, self.size), self.bits)
        if len(cache) >= _CACHED_FRAGMENTS:
            cache.clear()
        cache[self.key] = (np.array(words), built)
        return built


def bind_mfma(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """Options: size (M = N), depth (K), blocks, a/b (input types), result (``f32``, ``i32``, ``f64``)."""
    reject_modifiers(inst, {"cbsz", "abid", "blgp", "neg"})
    operand_count(inst, 4)
    o = entry.options
    cbsz, abid = int(inst.modifiers.get("cbsz", 0)), int(inst.modifiers.get("abid", 0))
    blgp = 0 if o["result"] == "f64" else int(inst.modifiers.get("blgp", 0))
    signs = _f64_signs(inst) if o["result"] == "f64" else (0, 0, 0)
    dst, a_operand, b_operand, c_operand = inst.operands
    a = _Source(inst, a_operand, o["a"], entry, ctx, 0)
    b = _Source(inst, b_operand, o["b"], entry, ctx, blgp)
    accumulator = _Accumulator(inst, entry, dst, c_operand, ctx)
    size, blocks = o["size"], o["blocks"]

    def floats(w: Waves) -> None:
        fa, fb = a.fragment(w), b.fragment(w)
        if cbsz:
            fa = _broadcast(fa, blocks, cbsz, abid)
        product = sum_of_products(fa, fb).reshape(w.n, blocks, size, size)
        accumulator.add(w, product)

    def in_order(w: Waves) -> None:
        x, y = broadcast_blocks(a.matrix(w), cbsz, abid), b.matrix(w)
        accumulator.fold(w, x if not signs[0] else -x, y if not signs[1] else -y, bool(signs[2]))

    return floats if o["a"] in ("f16", "bf16", "fp8", "bf8", "xf32") else in_order


def _f64_signs(inst: Instruction) -> tuple[int, int, int]:
    """neg:[a,b,c], which for f64 takes the place of blgp (gfx940)."""
    if "neg" in inst.modifiers:
        bits = tuple(inst.modifiers["neg"])
        return bits[0], bits[1], bits[2]
    code = int(inst.modifiers.get("blgp", 0))
    return code & 1, code >> 1 & 1, code >> 2 & 1


def _broadcast(f: Fragment, blocks: int, cbsz: int, abid: int) -> Fragment:
    def spread(x: Any) -> Any:
        return broadcast_blocks(x.reshape(-1, blocks, *x.shape[1:]), cbsz, abid).reshape(x.shape)

    return Fragment(spread(f.values), spread(f.top), spread(f.bottom))


class _Accumulator:
    """C operand (registers or a constant) and D registers."""

    def __init__(self, inst: Instruction, entry: Entry, dst: Operand, c: Operand, ctx: BindContext) -> None:
        o = entry.options
        self.size, self.blocks, self.dtype = o["size"], o["blocks"], _DTYPE[o["result"]]
        self.wide = o["result"] == "f64"
        self.count = result_registers(self.size, self.blocks, self.wide)
        for operand in (dst, c):
            if operand.is_register and (operand.kind == "s" or operand.count != self.count):
                raise AsmError(f"{inst.mnemonic} accumulates in {self.count} registers, got {operand}", inst.line_number,
                               inst.text)  # fmt: skip
        self.dst = register_number(dst, ctx)
        self.source = register_number(c, ctx) if c.is_register else None
        bits = constant_bits(c, TYPES[o["result"]]) if not c.is_register else 0
        unsigned = np.uint64(bits) if self.wide else np.uint32(bits & 0xFFFFFFFF)
        self.constant = unsigned.view(self.dtype)

    def _values(self, w: Waves) -> list[Any]:
        assert self.source is not None
        rows = [w.vget(self.source + i) for i in range(self.count)]
        if not self.wide:
            return [r.view(self.dtype) for r in rows]
        return [
            (lo.astype(np.uint64) | (hi.astype(np.uint64) << np.uint64(32))).view(np.float64)
            for lo, hi in zip(rows[0::2], rows[1::2])
        ]

    def _put(self, w: Waves, values: list[Any]) -> None:
        for i, value in enumerate(values):
            if self.wide:
                bits = np.ascontiguousarray(value).view(np.uint64)
                self._row(w, 2 * i, bits.astype(np.uint32))
                self._row(w, 2 * i + 1, (bits >> np.uint64(32)).astype(np.uint32))
            else:
                self._row(w, i, np.asarray(value, self.dtype).view(np.uint32))

    def _row(self, w: Waves, i: int, bits: Any) -> None:
        if w.sel is None:
            w.V[self.dst + i] = bits
        else:
            w.V[self.dst + i, w.sel] = bits

    def add(self, w: Waves, product: Any) -> None:
        """D = round32(C + product), product float64 [n, blocks, size, size]."""
        parts = accumulator_to_registers(product)
        if self.source is None:
            self._put(w, [(p + np.float64(self.constant)).astype(np.float32) for p in parts])
        else:
            self._put(w, [(p + c).astype(np.float32) for p, c in zip(parts, self._values(w))])

    def fold(self, w: Waves, a: Any, b: Any, negate_c: bool) -> None:
        """D = C + a0 b0, + a1 b1, ... one rounding each (f32, f64), or wrapped integers."""
        n = a.shape[0]
        if self.source is None:
            total: Any = np.full((n, self.blocks, self.size, self.size), self.constant, self.dtype)
        else:
            total = registers_to_accumulator(self._values(w), self.size, self.blocks, self.wide)
        if negate_c:
            total = -total
        for k in range(a.shape[2]):
            x, y = a[:, :, k, :, None], b[:, :, k, None, :]
            if self.dtype is np.int32:
                total = total + x * y
            else:
                total = fma.fma64(x, y, total) if self.wide else fma.fma32(x, y, total)
        self._put(w, accumulator_to_registers(total, self.wide))
