"""Binder of LDS instructions that go through memory (DS; CDNA3 and CDNA4 ISA, "Data share")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import AsmError
from ..isa.entry import Entry
from ..memory.access import Access, Kind, Space
from ..memory.grids import Grid
from ..memory.views import Words
from ..program.operands import M0, Operand
from ..program.program import Instruction
from .fetch import operand_count, register_number, reject_modifiers, vector_source
from .lane_addresses import SPAN, offsets_of
from .transfer import (
    DataFormat,
    Locate,
    MemoryOperation,
    Piece,
    Request,
    bind_load,
    bind_rmw,
    bind_store,
    data_registers,
    element_source,
    element_words,
    entry_format,
    gather,
)
from .types import U32
from .waves import LANES, BindContext, Waves

#: Instructions of a chunk whose addresses are kept: 100 KiB each.
_KEPT_SITES = 128
AddressOf = Callable[[Waves], NDArray[np.uint32]]


def lds_access(w: Waves, kind: Kind, address: NDArray[Any] | None, nbytes: int, inst: Instruction) -> Access:
    # amdhsa runs in unaligned access mode: wide reads and writes need dwords only, and compilers rely on it (LLVM
    # AMDGPUUsage, "unaligned-access-mode"; Triton pads fp8 rows by 8 bytes); an atomic needs its own width
    alignment = 0 if kind is Kind.ATOMIC else min(nbytes, 4)
    return Access(Space.LDS, kind, address, w.em, nbytes, inst, everywhere=w.full, strict=True, alignment=alignment)


def _offset(inst: Instruction, name: str, limit: int) -> int:
    value = int(inst.modifiers.get(name, 0))
    if not 0 <= value <= limit:
        raise AsmError(f"{name} {value} is outside of 0..{limit}", inst.line_number, inst.text)
    return value


def ds_address(inst: Instruction, operand: Operand, offset: int, ctx: BindContext) -> AddressOf:
    """Byte address of each lane: the VGPR plus the offset, modulo 2**32."""
    lane = vector_source(inst, operand, "u32", ctx)
    return (lambda w: lane(w) + U32(offset)) if offset else lane


def locate_with(inst: Instruction, address: AddressOf) -> Locate:
    return lambda w, kind, nbytes: [Piece(0, lds_access(w, kind, address(w), nbytes, inst))]


@dataclass(frozen=True, slots=True, eq=False)
class LdsSite:
    """An instruction's address operand and offset. Kernels use the same LDS addresses in every turn of a loop: an
    access is kept for as long as the address register stands and all lanes of the same waves take part."""

    inst: Instruction
    row: int
    offset: int
    address: AddressOf

    def access(self, w: Waves, kind: Kind, nbytes: int) -> Access:
        if not w.full or kind is Kind.ATOMIC:
            return self._fresh(w, kind, nbytes)
        sites: dict[Any, tuple[Any, int, Access]] = w.extra.setdefault("lds_sites", {})
        known = sites.get(self)
        if known is not None and known[0] is w.sel and known[1] >= w.stamp(self.row, 1):
            known[2].lasting = True
            return known[2]
        access = self._fresh(w, kind, nbytes)
        if known is not None or len(sites) < _KEPT_SITES:
            if access.located is not None:
                access.located = np.array(access.located)
            sites[self] = (w.sel, w.clock, access)
        return access

    def _fresh(self, w: Waves, kind: Kind, nbytes: int) -> Access:
        own = None if kind is Kind.ATOMIC else offsets_of(w, self.row)
        if own is None or own.most + self.offset >= SPAN:  # it may wrap around
            return lds_access(w, kind, self.address(w), nbytes, self.inst)
        access = lds_access(w, kind, None, nbytes, self.inst)
        access.grid = Grid.of(own.first + self.offset, own.lanes)
        return access


AccessOf = Callable[[Waves, Kind, int], Access]


def lds_locate(inst: Instruction, operand: Operand, offset: int, ctx: BindContext) -> AccessOf:
    """Accesses by the address in a register."""
    address = ds_address(inst, operand, offset, ctx)
    if operand.kind == "v":
        return LdsSite(inst, register_number(operand, ctx), offset, address).access
    return lambda w, kind, nbytes: lds_access(w, kind, address(w), nbytes, inst)


def bind_ds(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``ds_read_*``, ``ds_write_*`` and the atomics: one address a lane, 16-bit offset.

    Options: kind (load, store, atomic), format, op, operands (of the atomic), returns.
    """
    reject_modifiers(inst, {"offset"})
    operands, kind = list(inst.operands), entry.options["kind"]
    count = entry.options.get("operands", 1)
    returns = kind == "load" or bool(entry.options.get("returns"))
    operand_count(inst, 1 + returns + (0 if kind == "load" else count))
    result = operands.pop(0) if returns else None
    access = lds_locate(inst, operands.pop(0), _offset(inst, "offset", 0xFFFF), ctx)

    def locate(w: Waves, kind: Kind, nbytes: int) -> list[Piece]:
        return [Piece(0, access(w, kind, nbytes))]

    if kind == "load":
        assert result is not None
        return bind_load(inst, result, entry_format(entry), ctx, locate)
    if kind == "store":
        return bind_store(inst, operands[0], entry_format(entry), ctx, locate)
    op = entry.options["op"]
    rows = [data_registers(inst, o, op.nbytes // 4, ctx) for o in operands]
    # the text gives compare before new value; the operation takes them the other way round
    return bind_rmw(inst, op, rows[::-1], result, ctx, locate)


def bind_ds_two(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``read2``, ``write2`` and ``wrxchg2``: two elements a lane at ``offset0`` and ``offset1`` in units.

    Options: kind, nbytes (of an element), unit (bytes: the element, or 64 of them for ``st64``), op.
    """
    reject_modifiers(inst, {"offset0", "offset1"})
    kind, nbytes, unit = entry.options["kind"], entry.options["nbytes"], entry.options["unit"]
    operands, dwords = list(inst.operands), nbytes // 4
    operand_count(inst, {"load": 2, "store": 3, "atomic": 4}[kind])
    result = operands.pop(0) if kind != "store" else None
    where = operands.pop(0)
    sites = [lds_locate(inst, where, unit * _offset(inst, name, 255), ctx) for name in ("offset0", "offset1")]
    element = DataFormat(nbytes)
    first = data_registers(inst, result, 2 * dwords, ctx) if result is not None else 0

    def put(w: Waves, words: Words) -> None:
        for i, word in enumerate(words):
            w.vput(first + i, word)

    def locate(w: Waves, kind: Kind) -> list[Piece]:
        return [Piece(i, access(w, kind, nbytes)) for i, access in enumerate(sites)]

    results = range(first, first + 2 * dwords)
    if kind == "load":

        def read(w: Waves, request: Request) -> Words:
            return [word for piece in request.pieces for word in w.port.read(w, piece.access)]

        return MemoryOperation(Kind.LOAD, lambda w: Request(locate(w, Kind.LOAD), []), read, put, results)
    if kind == "store":
        getters = [gather(inst, o, element, ctx) for o in operands]

        def store(w: Waves, request: Request) -> Words:
            for i, piece in enumerate(request.pieces):
                w.port.write(w, piece.access, request.data[i * dwords : (i + 1) * dwords])
            return []

        return MemoryOperation(
            Kind.STORE, lambda w: Request(locate(w, Kind.STORE), [x for get in getters for x in get(w)]), store
        )
    op = entry.options["op"]
    rows = [data_registers(inst, o, dwords, ctx) for o in operands]
    sources = [element_source(row, op) for row in rows]

    def swap(w: Waves, request: Request) -> Words:
        words: Words = []
        for piece, value in zip(request.pieces, request.data, strict=True):
            words += element_words(w.port.atomic(w, piece.access, op, [value]))
        return words

    return MemoryOperation(
        Kind.ATOMIC, lambda w: Request(locate(w, Kind.ATOMIC), [get(w) for get in sources]), swap, put, results
    )


def bind_ds_lane(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``ds_read_addtid_b32`` and ``ds_write_addtid_b32``: address M0[15:0] + offset + 4 * lane."""
    reject_modifiers(inst, {"offset"})
    operand_count(inst, 1)
    lanes = (np.arange(LANES, dtype=np.int64) * 4 + _offset(inst, "offset", 0xFFFF))[None, :]

    def address(w: Waves) -> Any:
        return (w.sget(M0) & U32(0xFFFF)).astype(np.int64)[:, None] + lanes

    bind_one = bind_load if entry.options["kind"] == "load" else bind_store
    return bind_one(inst, inst.operands[0], DataFormat(4), ctx, locate_with(inst, address))


def bind_ds_count(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``ds_append`` and ``ds_consume``: add or subtract the number of active lanes at M0[15:0] + offset, once a wave;
    every active lane gets the value from before. Option: op."""
    reject_modifiers(inst, {"offset"})
    operand_count(inst, 1)
    offset, op = _offset(inst, "offset", 0xFFFF), entry.options["op"]
    row = data_registers(inst, inst.operands[0], 1, ctx)

    def issue(w: Waves) -> Request:
        active = w.em.sum(axis=1, dtype=U32)[:, None]
        address = (w.sget(M0) & U32(0xFFFF)).astype(np.int64)[:, None] + offset
        return Request([Piece(0, Access(Space.LDS, Kind.ATOMIC, address, active > 0, 4, inst, strict=True))], [active])

    def perform(w: Waves, request: Request) -> Words:
        return [w.port.atomic(w, request.pieces[0].access, op, request.data)]

    return MemoryOperation(Kind.ATOMIC, issue, perform, lambda w, words: w.vput(row, words[0]), range(row, row + 1))
