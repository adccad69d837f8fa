"""Binder of scalar memory instructions (SMEM): loads, stores and atomics of one value a wave."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import AsmError
from ..isa.entry import Entry
from ..memory.access import Access, Kind, Space
from ..memory.faults import describe_dropped_bits
from ..memory.views import Words
from ..program.operands import Operand
from ..program.program import Instruction
from .fetch import reject_modifiers, scalar_source
from .transfer import MemoryOperation, Piece, Request, cache_bits, element_words, scalar_key
from .types import U32
from .waves import BindContext, Waves

_NONE = Operand("int", value=0)


class ScalarAddress:
    """Address calculation: base + offset, an immediate, an SGPR, or both (``s5 offset:16``), or nothing.

    Hardware ignores bits 1:0 of base and offset; a kernel that sets them gets a finding. With a buffer descriptor as
    base, num_records counts strides where there is a stride, else bytes; loads and stores are checked dword by dword,
    atomics as a whole. EXEC does not matter (CDNA3 ISA, SMEM).
    """

    def __init__(self, inst: Instruction, base: Operand, offset: Operand, buffer: bool, ctx: BindContext) -> None:
        if base.kind != "s" or base.count != (4 if buffer else 2):
            wanted = "a buffer descriptor" if buffer else "a base pair"
            raise AsmError(f"{inst.mnemonic} takes {wanted}, not {base}", inst.line_number, inst.text)
        self.inst, self.base, self.buffer, self.cache = inst, base.index, buffer, cache_bits(inst)
        self.scalar = scalar_source(inst, offset, "i32" if offset.kind == "int" else "u32", ctx)
        self.immediate = int(inst.modifiers.get("offset", 0))

    def accesses(self, w: Waves, kind: Kind, dwords: int) -> list[Piece]:
        """Addresses and masks are [n, 1]."""
        low, high = w.sget(self.base).astype(np.int64), w.sget(self.base + 1).astype(np.int64)
        start = low | ((high & 0xFFFF if self.buffer else high) << 32)
        relative = np.broadcast_to(np.asarray(self.scalar(w)).astype(np.int64) + self.immediate, (w.n,))
        ignored, nbytes = (start | relative) & 3, 4 * dwords
        if ignored.any():
            describe_dropped_bits(w.port, w, self.inst, (start, relative), ignored != 0)
        start, relative = start & ~np.int64(3), relative & ~np.int64(3)
        address = (start + relative)[:, None]
        if not self.buffer:
            return [Piece(0, self._access(kind, address, nbytes))]
        stride = (high >> 16) & 0x3FFF
        limit = w.sget(self.base + 2).astype(np.int64) * np.maximum(stride, 1)
        if (relative + nbytes <= limit).all():
            return [Piece(0, self._access(kind, address, nbytes))]
        step = nbytes if kind is Kind.ATOMIC else 4
        cut = []
        for i in range(0, nbytes, step):
            inside = (relative + i + step <= limit)[:, None]
            cut.append(Piece(i // 4, self._access(kind, address + i, step, inside)))
        return cut

    def _access(self, kind: Kind, address: Any, nbytes: int, inside: Any = None) -> Access:
        mask = np.ones(address.shape, bool) if inside is None else inside
        clamped = None if inside is None else ~inside
        strict = kind is Kind.ATOMIC
        whole = inside is None
        return Access(Space.GLOBAL, kind, address, mask, nbytes, self.inst, self.cache, clamped, whole, strict)


def bind_smem(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``s_load_dwordxN sdata, sbase, offset`` and its kin.

    Options: kind (load, store, atomic); dwords of sdata; buffer: the base is a buffer descriptor; op of an atomic,
    which returns the old value with ``glc``; compare-and-swap has the new value first, then the compared one.
    """
    reject_modifiers(inst, {"offset", "sc0", "sc1", "nt", "glc"})
    kind, dwords = entry.options["kind"], entry.options["dwords"]
    if len(inst.operands) not in (2, 3):
        raise AsmError(f"{inst.mnemonic} takes data, a base and an offset", inst.line_number, inst.text)
    data, base = inst.operands[:2]
    if data.kind != "s" or data.count != dwords:
        raise AsmError(f"{inst.mnemonic} moves {dwords} dwords, not {data}", inst.line_number, inst.text)
    offset = inst.operands[2] if len(inst.operands) == 3 else _NONE
    where = ScalarAddress(inst, base, offset, bool(entry.options.get("buffer")), ctx)
    first = data.index

    def put(w: Waves, words: Words) -> None:
        for i, word in enumerate(words):
            w.sput(first + i, word[:, 0])

    def get(w: Waves) -> Words:
        return [w.sget(first + i)[:, None] for i in range(dwords)]

    keys = range(scalar_key(first), scalar_key(first + dwords))
    if kind == "load":
        return MemoryOperation(
            Kind.LOAD,
            lambda w: Request(where.accesses(w, Kind.LOAD, dwords), []),
            lambda w, request: [word for piece in request.pieces for word in w.port.read(w, piece.access)],
            put,
            keys,
        )
    if kind == "store":

        def store(w: Waves, request: Request) -> Words:
            for piece in request.pieces:
                w.port.write(w, piece.access, request.data[piece.first : piece.first + piece.access.nbytes // 4])
            return []

        return MemoryOperation(Kind.STORE, lambda w: Request(where.accesses(w, Kind.STORE, dwords), get(w)), store)
    op = entry.options["op"]
    size = op.nbytes // 4

    def issue(w: Waves) -> Request:
        words = np.ascontiguousarray(np.stack(get(w), axis=-1), U32)
        operands = [words[..., i : i + size].copy().view(op.dtype)[..., 0] for i in range(0, dwords, size)]
        return Request(where.accesses(w, Kind.ATOMIC, size), operands)

    def perform(w: Waves, request: Request) -> Words:
        (piece,) = request.pieces
        return element_words(w.port.atomic(w, piece.access, op, request.data))

    if "glc" not in inst.modifiers:
        return MemoryOperation(Kind.ATOMIC, issue, perform)
    return MemoryOperation(Kind.ATOMIC, issue, perform, put, range(keys.start, keys.start + size))
