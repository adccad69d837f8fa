"""Binder of MUBUF: buffer descriptors, address calculation, range checking (CDNA3 ISA, "Vector memory buffer")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import AsmError, UnsupportedError
from ..isa.entry import Entry
from ..memory.access import Access, Kind, Space
from ..memory.grids import Grid
from ..memory.views import Words
from ..program.operands import Operand
from ..program.program import Instruction
from .bind_flat import atomic_rows
from .fetch import register_number, reject_modifiers, scalar_source, vector_source
from .lane_addresses import offsets_of
from .lds_dma import bind_lds_load
from .transfer import (
    Locate,
    MemoryOperation,
    Piece,
    Request,
    bind_load,
    bind_rmw,
    bind_store,
    cache_bits,
    entry_format,
)
from .waves import LANES, BindContext, Waves

_ACCEPTED = {"offset", "offen", "idxen", "sc0", "sc1", "nt", "lds"}
_OFFSET = 0xFFFFFFFF
_LANE = np.arange(LANES, dtype=np.int64)[None, :]
#: Descriptors that a chunk remembers.
_REMEMBERED = 64
#: Bytes of an element of a swizzled buffer.
ELEMENT = 4


@dataclass(slots=True)
class Descriptor:
    """Fields of a buffer resource, one value per wave [n, 1] (CDNA3 ISA, "Buffer resource descriptor").

    base: bytes (48 bits). stride: bytes; 14 bits, 18 with add_tid, where the data format field holds the upper four.
    records: bytes, or strides for a structured access; ``least`` of all waves. plain: no stride, no
    swizzle, no lane number added, which is what compilers for compute emit.
    """

    base: NDArray[np.int64]
    stride: NDArray[np.int64]
    records: NDArray[np.int64]
    adds_lane: NDArray[np.bool_]
    swizzled: NDArray[np.bool_]
    index_count: NDArray[np.int64]
    plain: bool
    least: int

    @classmethod
    def decode(cls, words: NDArray[np.uint32]) -> Descriptor:
        """From the four SGPRs, uint32 [4, n]."""
        low, second, records, fourth = words.astype(np.int64)[:, :, None]
        adds_lane, swizzled = (fourth >> 23) & 1 != 0, (second >> 31) & 1 != 0
        stride = (second >> 16) & 0x3FFF
        plain = not (stride.any() or adds_lane.any() or swizzled.any())
        if not plain:
            stride = stride | np.where(adds_lane, ((fourth >> 15) & 0xF) << 14, 0)
        base, index_count = low | ((second & 0xFFFF) << 32), 8 << ((fourth >> 21) & 3)
        return cls(base, stride, records, adds_lane, swizzled, index_count, plain, int(records.min()))


class BufferAddress:
    """Address calculation of one MUBUF instruction.

    address = base + soffset + buffer offset, buffer offset = stride * index + (vector offset + instruction offset),
    the latter two, whose sum has 32 bits, swizzled when the descriptor says so: with -8 in the VGPR and offset:16 the
    access is at 8. Compilers rely on it: LLVM folds an addend into the instruction offset whether or not the addition
    wraps, except for targets later than these (SIISelLowering.cpp, splitBufferOffsets, which asks for "no unsigned
    wrap" on GFX1250 only), and Triton's output stores through it. The range check sees that sum but
    not soffset: with idxen and a stride the index is compared with num_records (strides), else the bytes of each
    dword must lie below num_records (GFX9 rules; LLVM's buffer intrinsics document the same for soffset).
    """

    def __init__(self, inst: Instruction, operands: list[Operand], ctx: BindContext) -> None:
        vaddr, resource, soffset = operands
        m = inst.modifiers
        self.inst, self.cache = inst, cache_bits(inst)
        self.offen, self.idxen = "offen" in m, "idxen" in m
        self.offset = int(m.get("offset", 0))
        if not 0 <= self.offset <= 4095:
            raise AsmError(f"offset {self.offset} is outside of 0..4095", inst.line_number, inst.text)
        if resource.kind != "s" or resource.count != 4 or resource.index % 4:
            raise AsmError(f"{resource} is no buffer descriptor (four aligned SGPRs)", inst.line_number, inst.text)
        self.first = resource.index
        self.scalar = scalar_source(inst, soffset, "u32", ctx)
        wanted = self.offen + self.idxen
        if (vaddr.kind == "off") != (wanted == 0) or (wanted and (vaddr.kind != "v" or vaddr.count != wanted)):
            message = f"{vaddr} as address: offen and idxen want {wanted} VGPRs"
            raise AsmError(message, inst.line_number, inst.text)
        registers = [Operand("v", vaddr.index + i) for i in range(wanted)]
        sources = [vector_source(inst, r, "u32", ctx) for r in registers]
        self.index = sources.pop(0) if self.idxen else None
        self.row = register_number(registers[-1], ctx) if self.offen else None
        self.voffset = sources.pop(0) if self.offen else None

    def _descriptor(self, w: Waves) -> Descriptor:
        """Decoded once for all instructions that find the same registers."""
        block = w.S[self.first : self.first + 4]
        words = block if w.sel is None else block[:, w.sel]
        known: dict[bytes, Descriptor] = w.extra.setdefault("descriptors", {})
        raw = words.tobytes()
        if raw not in known:
            if len(known) >= _REMEMBERED:
                known.clear()
            known[raw] = Descriptor.decode(words)
        return known[raw]

    def pieces(self, w: Waves, kind: Kind, nbytes: int) -> list[Piece]:
        d = self._descriptor(w)
        soffset = np.asarray(self.scalar(w)).astype(np.int64).reshape(-1, 1)
        if d.plain:
            grid = self._grid(w, d, soffset, nbytes) if kind is not Kind.ATOMIC else None
            if grid is not None:
                access = Access(Space.GLOBAL, kind, None, w.em, nbytes, self.inst, self.cache, None, w.full, grid=grid)
                return [Piece(0, access)]
            relative: Any = np.zeros((1, 1), np.uint32) if self.voffset is None else self.voffset(w)
            start = d.base + (soffset + self.offset)
            if int(relative.max()) + self.offset + nbytes <= d.least:
                address = relative + start
                if address.shape != w.em.shape:
                    address = np.broadcast_to(address, w.em.shape)
                access = Access(Space.GLOBAL, kind, address, w.em, nbytes, self.inst, self.cache, None, w.full,
                                kind is Kind.ATOMIC)  # fmt: skip
                return [Piece(0, access)]
            checked = (relative.astype(np.int64) + self.offset) & _OFFSET
            return self._cut(w, kind, nbytes, d.base + soffset + checked, checked, d.records)
        index: Any = np.int64(0) if self.index is None else self.index(w).astype(np.int64)
        index = index + np.where(d.adds_lane, _LANE, 0)
        offset = (self.offset + (np.int64(0) if self.voffset is None else self.voffset(w).astype(np.int64))) & _OFFSET
        where = linear = index * d.stride + offset
        if d.swizzled.any():
            where = np.where(d.swizzled, self._swizzle(d, index, offset, nbytes), linear)
        structured = (d.stride != 0) if self.idxen else np.zeros_like(d.stride, bool)
        if structured.any() and not structured.all():
            raise self._unsupported("waves that step together use descriptors with and without a stride")
        if structured.all():
            inside = np.broadcast_to(index < d.records, w.em.shape)
            return [self._piece(w, kind, nbytes, d.base + soffset + where, inside, 0)]
        return self._cut(w, kind, nbytes, d.base + soffset + where, linear, d.records)

    def _grid(self, w: Waves, d: Descriptor, soffset: NDArray[np.int64], nbytes: int) -> Grid | None:
        """The addresses as strides, where they have any and no lane is out of range."""
        if self.row is None:
            return None
        own = offsets_of(w, self.row)
        if own is None or own.most + self.offset + nbytes > d.least:
            return None
        return Grid.of(own.first + (d.base + soffset)[:, 0] + self.offset, own.lanes)

    def _swizzle(self, d: Descriptor, index: Any, offset: Any, nbytes: int) -> Any:
        """Elements of ``index_count`` consecutive records lie side by side (ISA, "Swizzled buffer addressing").

        An element is 4 bytes: GFX9 descriptors have no element size any more (LLVM, getScratchRsrcWords23).
        """
        if nbytes > ELEMENT or (d.stride % ELEMENT).any():
            raise self._unsupported("swizzled buffer access of more than 4 bytes or with a stride of broken dwords")
        high, low = index // d.index_count, index % d.index_count
        within = offset % ELEMENT
        return (high * d.stride + offset - within) * d.index_count + low * ELEMENT + within

    def _unsupported(self, what: str) -> UnsupportedError:
        return UnsupportedError(what, self.inst.line_number, self.inst.text)

    def _cut(self, w: Waves, kind: Kind, nbytes: int, address: Any, checked: Any, records: Any) -> list[Piece]:
        """Range check by dword: one piece unless a lane is cut in the middle. Atomics are in or out as a whole."""
        whole = np.broadcast_to(checked + nbytes <= records, w.em.shape)
        if nbytes <= 4 or kind is Kind.ATOMIC:
            return [self._piece(w, kind, nbytes, address, whole, 0)]
        start = np.broadcast_to(checked + 4 <= records, w.em.shape)
        if not (start & ~whole & w.em).any():
            return [self._piece(w, kind, nbytes, address, whole, 0)]
        pieces = []
        for i in range(nbytes // 4):
            inside = np.broadcast_to(checked + 4 * (i + 1) <= records, w.em.shape)
            pieces.append(self._piece(w, kind, 4, address + 4 * i, inside, i))
        return pieces

    def _piece(self, w: Waves, kind: Kind, nbytes: int, address: Any, inside: Any, first: int) -> Piece:
        clamped = w.em & ~inside
        strict = kind is Kind.ATOMIC
        access = Access(Space.GLOBAL, kind, np.broadcast_to(address, w.em.shape), w.em & inside, nbytes, self.inst,
                        self.cache, clamped if clamped.any() else None, False, strict)  # fmt: skip
        return Piece(first, access)


def bind_mubuf(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``op vdata, vaddr|off, srsrc, soffset``; with ``lds`` there is no vdata.

    Options: kind, format, op, operands as in ``bind_flat``; lds_archs: where the ``lds`` form exists.
    """
    reject_modifiers(inst, _ACCEPTED)
    operands, kind = list(inst.operands), entry.options["kind"]
    into_lds = "lds" in inst.modifiers
    if into_lds:
        if ctx.arch not in entry.options.get("lds_archs", ()):
            raise UnsupportedError(f"{inst.mnemonic} into LDS on {ctx.arch}", inst.line_number, inst.text)
        if len(operands) == 4 and operands[0].kind == "off":
            operands.pop(0)
    if len(operands) != 4 - into_lds:
        message = f"{inst.mnemonic} takes {4 - into_lds} operands here, got {len(operands)}"
        raise AsmError(message, inst.line_number, inst.text)
    data = None if into_lds else operands.pop(0)
    locate: Locate = BufferAddress(inst, operands, ctx).pieces
    if data is None:
        return bind_lds_load(inst, entry_format(entry), ctx, locate)
    if kind == "load":
        return bind_load(inst, data, entry_format(entry), ctx, locate)
    if kind == "store":
        return bind_store(inst, data, entry_format(entry), ctx, locate)
    rows, op = atomic_rows(entry, inst, data, ctx), entry.options["op"]
    result = Operand(data.kind, data.index, op.nbytes // 4) if "sc0" in inst.modifiers else None
    return bind_rmw(inst, op, rows, result, ctx, locate)


def bind_cache(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``buffer_wbl2`` and ``buffer_inv``: the scope bits go to the port. Option: what (Maintenance)."""
    reject_modifiers(inst, {"sc0", "sc1", "nt"})
    cache, what = cache_bits(inst), entry.options["what"]

    def maintain(w: Waves, request: Request) -> Words:
        w.port.maintain(w, what, cache, inst)
        return []

    return MemoryOperation(Kind.STORE, lambda w: Request([], []), maintain)
