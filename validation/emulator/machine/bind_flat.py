"""Binders of GLOBAL, FLAT and SCRATCH instructions (CDNA3 ISA, "Flat memory instructions")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import AsmError
from ..isa.entry import Entry
from ..memory.access import Access, Kind, Space
from ..memory.grids import Grid
from ..program.operands import PRIVATE_APERTURE, SHARED_APERTURE, Operand
from ..program.program import Instruction
from .fetch import register_number, reject_modifiers, scalar_source, vector_source
from .lane_addresses import offsets_of, pair_offsets_of
from .lds_dma import bind_lds_load
from .transfer import Locate, Piece, bind_load, bind_rmw, bind_store, cache_bits, data_registers, entry_format
from .types import U32
from .waves import LANES, BindContext, Waves

_ACCEPTED = {"offset", "sc0", "sc1", "nt"}
AddressOf = Callable[[Waves], NDArray[Any]]
GridOf = Callable[[Waves], "Grid | None"]


def _offset(inst: Instruction, low: int, high: int) -> int:
    value = int(inst.modifiers.get("offset", 0))
    if not low <= value <= high:
        raise AsmError(f"offset {value} is outside of {low}..{high}", inst.line_number, inst.text)
    return value


def global_address(inst: Instruction, vaddr: Operand, saddr: Operand, ctx: BindContext) -> AddressOf:
    """``v[a:b], off`` (64-bit address per lane) or ``v1, s[a:b]`` (scalar base plus unsigned 32-bit lane offset)."""
    offset = _offset(inst, -4096, 4095)
    if saddr.kind == "off":
        pair = vector_source(inst, vaddr, "u64", ctx)
        return (lambda w: pair(w).view(np.int64) + offset) if offset else (lambda w: pair(w).view(np.int64))
    if saddr.kind != "s" or saddr.count != 2:
        raise AsmError(f"{inst.mnemonic} takes a base pair or off, not {saddr}", inst.line_number, inst.text)
    lane = vector_source(inst, vaddr, "u32", ctx)
    base = saddr.index
    return lambda w: lane(w) + (w.sget64(base).view(np.int64)[:, None] + offset)


def global_grid(inst: Instruction, vaddr: Operand, saddr: Operand, ctx: BindContext) -> GridOf:
    """The same addresses as strides, where they have any (:func:`global_address` has checked the operands)."""
    offset, lane = int(inst.modifiers.get("offset", 0)), register_number(vaddr, ctx)
    if saddr.kind == "off":

        def of_pair(w: Waves) -> Grid | None:
            own = pair_offsets_of(w, lane)
            return None if own is None else Grid.of(own.first + offset, own.lanes)

        return of_pair
    base = saddr.index

    def of_base(w: Waves) -> Grid | None:
        own = offsets_of(w, lane)
        return None if own is None else Grid.of(own.first + (w.sget64(base).view(np.int64) + offset), own.lanes)

    return of_base


def _global(inst: Instruction, vaddr: Operand, saddr: Operand, ctx: BindContext) -> Locate:
    cache = cache_bits(inst)
    address, grid_of = global_address(inst, vaddr, saddr, ctx), global_grid(inst, vaddr, saddr, ctx)

    def locate(w: Waves, kind: Kind, nbytes: int) -> list[Piece]:
        atomic = kind is Kind.ATOMIC
        grid = None if atomic else grid_of(w)
        located = address(w) if grid is None else None
        access = Access(Space.GLOBAL, kind, located, w.em, nbytes, inst, cache, None, w.full, atomic, grid=grid)
        return [Piece(0, access)]

    return locate


def scratch_address(inst: Instruction, vaddr: Operand, saddr: Operand, ctx: BindContext) -> AddressOf:
    """Byte of the lane's private segment: ``v1, s2``, ``v1, off``, ``off, s2`` or ``off, off``, plus the offset."""
    offset = U32(_offset(inst, -4096, 4095) & 0xFFFFFFFF)
    parts: list[AddressOf] = []
    if vaddr.kind != "off":
        parts.append(vector_source(inst, vaddr, "u32", ctx))
    if saddr.kind != "off":
        scalar = scalar_source(inst, saddr, "u32", ctx)
        parts.append(lambda w: np.asarray(scalar(w)).reshape(-1, 1))

    def address(w: Waves) -> NDArray[Any]:
        total: Any = offset
        for part in parts:
            total = total + part(w)
        return np.broadcast_to(np.asarray(total, U32), (w.n, LANES))

    return address


def _one_space(inst: Instruction, space: Space, address: AddressOf) -> Locate:
    cache = cache_bits(inst)

    def locate(w: Waves, kind: Kind, nbytes: int) -> list[Piece]:
        strict = kind is Kind.ATOMIC
        return [Piece(0, Access(space, kind, address(w), w.em, nbytes, inst, cache, None, w.full, strict))]

    return locate


def _flat(inst: Instruction, vaddr: Operand, ctx: BindContext) -> Locate:
    """Each lane's address picks its space: the shared aperture is LDS, the private one scratch, the rest global."""
    pair = vector_source(inst, vaddr, "u64", ctx)
    offset, cache = _offset(inst, 0, 4095), cache_bits(inst)
    apertures = ((Space.LDS, SHARED_APERTURE >> 32), (Space.SCRATCH, PRIVATE_APERTURE >> 32))

    def locate(w: Waves, kind: Kind, nbytes: int) -> list[Piece]:
        address = pair(w).view(np.int64)
        high = address >> 32
        strict = kind is Kind.ATOMIC
        rest, pieces = w.em, []
        for space, prefix in apertures:
            here = (high == prefix) & w.em
            if here.any():
                inside = (address & 0xFFFFFFFF) + offset
                is_strict = strict or space is Space.LDS
                pieces.append(Piece(0, Access(space, kind, inside, here, nbytes, inst, cache, strict=is_strict)))
                rest = rest & ~here
        if not pieces or rest.any():
            everywhere = w.full and not pieces
            access = Access(Space.GLOBAL, kind, address + offset, rest, nbytes, inst, cache, None, everywhere, strict)
            pieces.append(Piece(0, access))
        return pieces

    return locate


def _locator(entry: Entry, inst: Instruction, operands: list[Operand], ctx: BindContext) -> Locate:
    """Takes the address operands off the ends of ``operands``: what remains is data."""
    vaddr = operands.pop(0)
    if entry.form == "flat":
        return _flat(inst, vaddr, ctx)
    saddr = operands.pop()
    if entry.form == "scratch":
        return _one_space(inst, Space.SCRATCH, scratch_address(inst, vaddr, saddr, ctx))
    return _global(inst, vaddr, saddr, ctx)


def bind_flat(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """Forms ``global``, ``flat`` and ``scratch``.

    Options: kind (``load``, ``store``, ``atomic``, ``lds`` for a load into LDS), format (name in
    ``transfer.FORMATS``), op (AtomicOp). An atomic returns the old value when it has sc0.
    """
    reject_modifiers(inst, _ACCEPTED)
    kind, operands = entry.options["kind"], list(inst.operands)
    returns = kind == "load" or (kind == "atomic" and "sc0" in inst.modifiers)
    expected = 1 + (entry.form != "flat") + (kind != "lds") + (returns and kind == "atomic")
    if len(operands) != expected:
        message = f"{inst.mnemonic} takes {expected} operands here, got {len(operands)}"
        raise AsmError(message, inst.line_number, inst.text)
    result = operands.pop(0) if returns else None
    locate = _locator(entry, inst, operands, ctx)
    if kind == "lds":
        return bind_lds_load(inst, entry_format(entry), ctx, locate)
    if kind == "load":
        assert result is not None
        return bind_load(inst, result, entry_format(entry), ctx, locate)
    if kind == "store":
        return bind_store(inst, operands[0], entry_format(entry), ctx, locate)
    return bind_rmw(inst, entry.options["op"], atomic_rows(entry, inst, operands[0], ctx), result, ctx, locate)


def atomic_rows(entry: Entry, inst: Instruction, data: Operand, ctx: BindContext) -> list[int]:
    """First register of each operand; compare-and-swap has the new value first, then the compared one."""
    op, count = entry.options["op"], entry.options.get("operands", 1)
    width = op.nbytes // 4
    first = data_registers(inst, data, width * count, ctx)
    return [first + width * i for i in range(count)]
