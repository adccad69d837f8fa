"""Binder of SMFMAC: A holds two of every four consecutive k of a row, an index register says which.

Source: CDNA3 ISA, "Sparse matrices"; layouts: AMD's matrix instruction calculator. *Inferred*: each stored element of A
multiplies the element of B that its index names, whatever the other index is; the wider gfx950 shapes hold their
elements and indices in the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import AsmError
from ..isa.entry import Entry
from ..program.program import Instruction
from .fetch import operand_count, register_number, reject_modifiers
from .matrix_layout import accumulator_to_registers, registers_to_accumulator
from .matrix_operands import Accumulator, MatrixSource
from .types import U32
from .waves import BindContext, Waves


def bind_smfmac(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """D += A * B. Options: size, depth (of B), blocks, a, b, result.

    With cbsz:0, abid picks one of the sets of indices that fit in the register; otherwise the first is used.
    """
    reject_modifiers(inst, {"cbsz", "abid"})
    operand_count(inst, 4)
    o = entry.options
    size, depth, integers = o["size"], o["depth"], o["result"] == "i32"
    dst, a_operand, b_operand, index_operand = inst.operands
    a = MatrixSource(inst, a_operand, o["a"], (size, depth // 2, 1), ctx)
    b = MatrixSource(inst, b_operand, o["b"], (size, depth, 1), ctx)
    accumulator = Accumulator(inst, entry, dst, dst, ctx)
    if index_operand.kind != "v" or index_operand.count != 1:
        raise AsmError(f"{inst.mnemonic} takes its indices in a VGPR, got {index_operand}", inst.line_number, inst.text)
    index_row = register_number(index_operand, ctx)
    cbsz, abid = int(inst.modifiers.get("cbsz", 0)), int(inst.modifiers.get("abid", 0))
    index_bits = 2 * a.slots
    if abid >= 32 // index_bits and cbsz == 0:
        raise AsmError(f"abid:{abid}: there are {32 // index_bits} sets of indices", inst.line_number, inst.text)
    first = index_bits * abid if cbsz == 0 else 0
    dtype = np.int64 if integers else np.float64

    def step(w: Waves) -> None:
        values = a.matrix(w, dtype)[:, 0]  # [n, depth / 2, rows]
        dense = b.matrix(w, dtype)[:, 0]  # [n, depth, columns]
        chosen = _chosen_k(w.vget(index_row), first, a)
        waves = np.arange(w.n)[:, None]
        total: Any = np.zeros((w.n, size, size), dtype)
        for k in range(depth // 2):
            total += values[:, k, :, None] * dense[waves, chosen[:, k]]
        c = registers_to_accumulator(accumulator.values(w), size, 1)
        accumulator.put(w, accumulator_to_registers((c + total[:, None]).astype(accumulator.dtype)))

    return step


def _chosen_k(indices: Any, first: int, a: MatrixSource) -> Any:
    """k in B of each stored element, [n, depth / 2, rows], from the index words [n, 64]."""
    slot = np.arange(a.slots, dtype=U32)
    position = (indices[:, None, :] >> (U32(first) + U32(2) * slot)[None, :, None]) & U32(3)  # [n, slots, lanes]
    position = position.reshape(len(indices), a.slots, a.groups, a.size).transpose(0, 2, 1, 3)
    stored = np.arange(a.depth).reshape(a.groups, a.slots)
    return (4 * (stored // 2)[None, :, :, None] + position).reshape(len(indices), a.depth, a.size).astype(np.intp)
