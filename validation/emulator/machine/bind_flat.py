"""Binder of GLOBAL instructions (FLAT and SCRATCH build on the same address rules)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import AsmError
from ..isa.entry import Entry
from ..memory.access import Access, Kind, Space
from ..program.operands import Operand
from ..program.program import Instruction
from .fetch import reject_modifiers, vector_source
from .transfer import cache_bits, entry_format, gather, writeback
from .waves import LANES, BindContext, Waves

_ACCEPTED = {"offset", "sc0", "sc1", "nt", "off"}
AddressOf = Callable[[Waves], NDArray[np.int64]]


def global_address(inst: Instruction, vaddr: Operand, saddr: Operand, ctx: BindContext) -> AddressOf:
    """``v[a:b], off`` (64-bit address per lane) or ``v1, s[a:b]`` (scalar base plus unsigned 32-bit lane offset)."""
    offset = int(inst.modifiers.get("offset", 0))
    if saddr.kind == "off":
        pair = vector_source(inst, vaddr, "u64", ctx)
        return lambda w: pair(w).view(np.int64) + offset
    if saddr.kind != "s" or saddr.count != 2:
        raise AsmError(f"{inst.mnemonic} takes a base pair or off, not {saddr}", inst.line_number, inst.text)
    lane = vector_source(inst, vaddr, "u32", ctx)
    base = saddr.index
    return lambda w: lane(w).astype(np.int64) + (w.sget64(base).view(np.int64)[:, None] + offset)


def bind_global(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """Options: kind (``load``/``store``), format (name in ``transfer.FORMATS``)."""
    reject_modifiers(inst, _ACCEPTED)
    kind, form, cache = Kind(entry.options["kind"]), entry_format(entry), cache_bits(inst)
    if len(inst.operands) != 3:
        raise AsmError(f"{inst.mnemonic} takes data, address and base", inst.line_number, inst.text)
    if kind is Kind.LOAD:
        data, vaddr, saddr = inst.operands
        put = writeback(inst, data, form, ctx)
    else:
        vaddr, data, saddr = inst.operands
        get = gather(inst, data, form, ctx)
    address = global_address(inst, vaddr, saddr, ctx)

    def access(w: Waves) -> Access:
        where = np.broadcast_to(address(w), (w.n, LANES))
        return Access(Space.GLOBAL, kind, where, w.em, form.nbytes, inst, cache)

    if kind is Kind.LOAD:
        return lambda w: put(w, w.port.read(w, access(w)))
    return lambda w: w.port.write(w, access(w), get(w))
