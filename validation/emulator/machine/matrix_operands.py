"""Operands of matrix instructions: A and B with reuse of what was unpacked, the accumulator, block scales."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import AsmError
from ..isa.entry import Entry
from ..numerics import smallfloat
from ..numerics.dot import Fragment, doubtful, products, settle
from ..numerics.scratch import scratch
from ..program.operands import Operand
from ..program.program import Instruction
from .fetch import register_number, vector_source
from .matrix_formats import element_format
from .matrix_layout import (
    element_places,
    f64_small_matrix,
    permute_lanes,
    product_of,
    registers_of,
    result_registers,
    row_order,
    to_matrix,
    true_k,
)
from .types import TYPES, U32, constant_bits
from .waves import LANES, BindContext, Waves

_DTYPE = {"f32": np.float32, "i32": np.int32, "f64": np.float64}
_CACHED_FRAGMENTS = 64
#: Integers that instructions hold as constants.
_INLINE = (-16, 64)
#: Elements of a product that are handled at a time: 512 KiB of float64.
_PART = 1 << 16
#: Value of each E8M0 code.
_POWERS = np.ldexp(1.0, np.arange(256) - smallfloat.SCALE_BIAS)
_POWERS[smallfloat.SCALE_NAN] = np.nan


def rows_of(w: Waves, first: int, count: int) -> Any:
    """uint32 [count, n, 64]; a view when all waves step."""
    block = w.file[first : first + count]
    return block if w.sel is None else block[:, w.sel]


class BlockScale:
    """E8M0 scales of one operand: a byte of a VGPR, where lane = size * (k / 32) + row, or the same one for all from an
    SGPR or an inline constant (LLVM, V_MFMA_LD_SCALE_B32: no literals)."""

    def __init__(self, inst: Instruction, operand: Operand, byte: int, ctx: BindContext) -> None:
        literal = operand.kind == "int" and not _INLINE[0] <= operand.value <= _INLINE[1]
        if literal or operand.kind not in ("v", "s", "int", "float") or operand.count != 1:
            message = f"{inst.mnemonic} takes scales in a VGPR, an SGPR or an inline constant, got {operand}"
            raise AsmError(message, inst.line_number, inst.text)
        self.fetch = vector_source(inst, operand, "u32", ctx)
        self.row = register_number(operand, ctx) if operand.kind == "v" else None
        self.constant = operand.kind not in ("v", "s")
        self.shift = U32(8 * byte)
        self.key = (operand, byte)

    def codes(self, w: Waves) -> Any:
        """uint8 [n, 64]."""
        codes = ((self.fetch(w) >> self.shift) & U32(0xFF)).astype(np.uint8)
        return np.ascontiguousarray(np.broadcast_to(codes, (w.n, LANES)))

    def stamp(self, w: Waves) -> int:
        """Time of the last change; scalar registers have none, so that what is made of them serves once."""
        if self.row is not None:
            return w.stamp(self.row, 1)
        return 0 if self.constant else w.clock + 1


class _Unpacked:
    """A fragment, and when and for which waves it was made. The arrays serve again for the next contents: fresh pages
    would cost as much as the conversion."""

    __slots__ = ("fragment", "sel", "stamp", "values", "words")

    def __init__(self, values: Any, words: Any) -> None:
        self.values, self.words = values, words
        self.sel: Any = None
        self.stamp = -1
        self.fragment: Any = None


class MatrixSource:
    """A or B: registers, format and shape. Unpacked values are reused while the registers stand.

    ``rearranged``: A's rows in ``row_order``. ``sorted_k``: fragments with ascending k, for when the formats of A and B
    deal k to the lanes differently.
    """

    def __init__(
        self,
        inst: Instruction,
        operand: Operand,
        kind: str,
        shape: tuple[int, int, int],
        ctx: BindContext,
        blgp: int = 0,
        rearranged: bool = False,
        sorted_k: bool = False,
        scale: BlockScale | None = None,
    ) -> None:
        self.kind, self.format, self.blgp, self.scale = kind, element_format(kind, ctx.arch), blgp, scale
        self.size, self.depth, self.blocks = shape
        self.slots = self.depth * self.size * self.blocks // 64
        self.groups = self.depth // self.slots
        self.count = self.format.registers(self.slots)
        if operand.kind not in ("v", "a") or operand.count != self.count:
            raise AsmError(f"{inst.mnemonic} takes {self.count} registers, got {operand}", inst.line_number, inst.text)
        self.first = register_number(operand, ctx)
        self.lanes = row_order(self.size) if rearranged and self.size != 4 else None
        k = true_k(self.slots, self.groups, self.format.chunk or self.slots)
        self.ascending = None if (np.diff(k) > 0).all() else np.argsort(k)
        self.scale_block = k // 32
        self.sort = self.ascending if sorted_k else None
        self.key = (self.first, kind, shape, blgp, rearranged, sorted_k, scale.key if scale else None)

    def words(self, w: Waves) -> Any:
        return rows_of(w, self.first, self.count)

    def matrix(self, w: Waves, dtype: Any) -> Any:
        """[n, blocks, depth, size] with ascending k."""
        elements, _ = self.format.decode(permute_lanes(self.words(w), self.blgp), None)
        if self.kind == "f64" and self.size == 4:
            return f64_small_matrix(elements[0, 0])
        matrix = to_matrix(elements, self.size, self.blocks, np.empty(self._shape(elements.shape[2]), dtype))
        matrix = matrix.reshape(-1, self.blocks, self.depth, self.size)
        return matrix if self.ascending is None else matrix[:, :, self.ascending]

    def fragment(self, w: Waves) -> Fragment:
        """[n * blocks, depth, size] as float64."""
        cache: dict[Any, _Unpacked] = w.extra.setdefault("fragments", {})
        known = cache.get(self.key)
        stamp = w.stamp(self.first, self.count)
        if self.scale is not None:
            stamp = max(stamp, self.scale.stamp(w))
        if known is not None and known.sel is w.sel and known.stamp >= stamp:
            return known.fragment
        words = self.words(w)
        if known is None or len(known.values) != words.shape[1] * self.blocks:
            if len(cache) >= _CACHED_FRAGMENTS:
                cache.clear()
            known = cache[self.key] = _Unpacked(np.empty(self._shape(words.shape[1])), np.empty(words.shape, U32))
        known.sel, known.stamp = w.sel, w.clock
        known.fragment = self._build(words, self.scale.codes(w) if self.scale is not None else None, known)
        return known.fragment

    def _shape(self, n: int) -> tuple[int, int, int]:
        return (n * self.blocks, self.depth, self.size)

    def _build(self, words: Any, codes: Any, room: _Unpacked) -> Fragment:
        words = permute_lanes(words, self.blgp)
        if self.lanes is not None:
            words = np.take(words, self.lanes, axis=2, mode="clip", out=room.words)
        elements, exponents = self.format.decode(words, room.words)
        values = to_matrix(elements, self.size, self.blocks, room.values)
        if codes is not None:
            if self.lanes is not None:
                codes = codes[:, self.lanes]
            values = values * _POWERS[codes].reshape(len(codes), -1, self.size)[:, self.scale_block]
        ascending = self.ascending
        if self.sort is not None:
            values, ascending = values[:, self.sort], None
        if exponents is None:
            return Fragment(values, None, 0, ascending)
        exponents.blocks, exponents.scale = self.blocks, codes
        return Fragment(values, exponents, exponents.grouped(), ascending)


class Accumulator:
    """C operand (registers or a constant) and D registers."""

    def __init__(self, inst: Instruction, entry: Entry, dst: Operand, c: Operand, ctx: BindContext) -> None:
        o = entry.options
        self.size, self.blocks, self.dtype = o["size"], o["blocks"], _DTYPE[o["result"]]
        self.wide = o["result"] == "f64"
        self.count = result_registers(self.size, self.blocks, self.wide)
        for operand in (dst, c):
            if operand.is_register and (operand.kind == "s" or operand.count != self.count):
                raise AsmError(
                    f"{inst.mnemonic} accumulates in {self.count} registers, got {operand}", inst.line_number, inst.text
                )
        if not dst.is_register:
            raise AsmError(f"{dst} cannot be the result of {inst.mnemonic}", inst.line_number, inst.text)
        self.dst = register_number(dst, ctx)
        self.source = register_number(c, ctx) if c.is_register else None
        bits = constant_bits(c, TYPES[o["result"]]) if not c.is_register else 0
        unsigned = np.uint64(bits) if self.wide else np.uint32(bits & 0xFFFFFFFF)
        self.constant = unsigned.view(self.dtype)

    def values(self, w: Waves) -> list[Any]:
        """Elements of C, one [n, 64] array each."""
        if self.source is None:
            per_element = 2 if self.wide else 1
            return [np.full((w.n, 64), self.constant, self.dtype)] * (self.count // per_element)
        rows = [w.vget(self.source + i) for i in range(self.count)]
        if not self.wide:
            return [r.view(self.dtype) for r in rows]
        return [
            (lo.astype(np.uint64) | (hi.astype(np.uint64) << np.uint64(32))).view(np.float64)
            for lo, hi in zip(rows[0::2], rows[1::2], strict=True)
        ]

    def put(self, w: Waves, values: list[Any]) -> None:
        """Write D, one [n, 64] array for each element."""
        for i, value in enumerate(values):
            if self.wide:
                bits = np.ascontiguousarray(value).view(np.uint64)
                self._row(w, 2 * i, bits.astype(np.uint32))
                self._row(w, 2 * i + 1, (bits >> np.uint64(32)).astype(np.uint32))
            else:
                self._row(w, i, np.asarray(value, self.dtype).view(np.uint32))

    def _row(self, w: Waves, i: int, bits: Any) -> None:
        w.touched(self.dst + i)
        if w.sel is None:
            w.file[self.dst + i] = bits
        else:
            w.file[self.dst + i, w.sel] = bits

    def _registers(self, w: Waves) -> Any:
        """C as [n, registers, 64] (a view when all waves step), or the constant."""
        if self.source is None:
            return self.constant
        return rows_of(w, self.source, self.count).view(self.dtype).transpose(1, 0, 2)

    def multiply_add(self, w: Waves, a: Fragment, b: Fragment) -> None:
        """D = round32(C + A B), by parts that stay in the cache; sums of doubtful matrices are settled before that."""
        c, size, blocks = self._registers(w), self.size, self.blocks
        w.touched(self.dst, self.count)
        result = np.empty((w.n, self.count, 64), np.uint32) if w.sel is not None else None
        waves = max(1, _PART // (size * size * blocks))
        unsure = doubtful(a, b)
        for first in range(0, w.n, waves):
            n = min(waves, w.n - first)
            part = slice(first * blocks, (first + n) * blocks)
            product = scratch("product", (n * blocks, size, size), np.float64)
            products(a, b, part, product)
            start = c if self.source is None else c[first : first + n]
            total = registers_of(product, size, blocks, n)
            np.add(total, start, out=total)
            if len(unsure) and len(at := unsure[(unsure >= part.start) & (unsure < part.stop)]):
                self._settle(a, b, at, part.start, total, start)
            self._narrow(w, total, first, result)
        if result is not None:
            w.file[self.dst : self.dst + self.count, w.sel] = result.transpose(1, 0, 2)

    def _settle(self, a: Fragment, b: Fragment, at: Any, first: int, total: Any, start: Any) -> None:
        """Make the sums ``total`` [n, registers, 64] good, whose matrices are those from ``first`` on."""
        inside = at - first

        def start_at(matrix: Any, i: Any, j: Any) -> Any:
            if self.source is None:
                return np.float64(start)
            return start[element_places(inside[matrix], i, j, self.size, self.blocks)].astype(np.float64)

        sums = product_of(total, self.size, self.blocks)
        if 2 * len(at) > len(sums):  # all of them rather than a copy
            at, inside = np.arange(first, first + len(sums)), np.arange(len(sums))
        some = sums[inside] if len(at) < len(sums) else sums
        settle(a, b, at, some, start_at)
        if some is not sums:
            sums[inside] = some
        if self.size == 4:  # a copy
            total[...] = registers_of(sums, self.size, self.blocks, len(total))

    def _narrow(self, w: Waves, total: Any, first: int, result: Any) -> None:
        if result is None:
            rows = w.file[self.dst : self.dst + self.count, first : first + len(total)]
            out = rows.view(self.dtype).transpose(1, 0, 2)
        else:
            out = result[first : first + len(total)].view(self.dtype)
        np.copyto(out, total, casting="unsafe")

    def add_integers(self, w: Waves, product: Any) -> None:
        """D = C + product, wrapped; product int32 [n * blocks, size, size]."""
        total = registers_of(product, self.size, self.blocks, w.n) + self._registers(w)
        for i in range(self.count):
            self._row(w, i, total[:, i].view(np.uint32))
