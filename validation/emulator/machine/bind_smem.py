"""Binder of scalar memory loads (SMEM)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import AsmError
from ..isa.entry import Entry
from ..memory.access import Access, Kind, Space
from ..memory.views import Words
from ..program.program import Instruction
from .fetch import reject_modifiers, scalar_source
from .transfer import MemoryLoad, cache_bits
from .waves import BindContext, Waves


def bind_smem(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``s_load_dwordxN sdst, sbase, offset`` and ``s_buffer_load_dwordxN``.

    Options: dwords - how many are loaded; buffer - the base is a 4-dword buffer descriptor with a range check.
    The offset is an immediate, an SGPR, or both (``s5 offset:16``). Address bits 1:0 are ignored (CDNA3 ISA, SMEM).
    num_records of a descriptor counts strides where it has one, else bytes; each dword is checked by itself.
    """
    reject_modifiers(inst, {"offset", "sc0", "sc1", "nt", "glc"})
    if len(inst.operands) != 3:
        raise AsmError(f"{inst.mnemonic} takes a result, a base and an offset", inst.line_number, inst.text)
    dst, base, offset = inst.operands
    dwords, buffer = entry.options["dwords"], bool(entry.options.get("buffer"))
    if dst.kind != "s" or dst.count != dwords or base.kind != "s" or base.count != (4 if buffer else 2):
        raise AsmError(f"{inst.mnemonic} loads {dwords} dwords through a base pair", inst.line_number, inst.text)
    soffset = scalar_source(inst, offset, "i32" if offset.kind == "int" else "u32", ctx)
    immediate, cache = int(inst.modifiers.get("offset", 0)), cache_bits(inst)

    def pieces(w: Waves) -> list[Access]:
        low, high = w.sget(base.index).astype(np.int64), w.sget(base.index + 1).astype(np.int64)
        start = (low | ((high & 0xFFFF if buffer else high) << 32)) & ~np.int64(3)
        relative = np.broadcast_to(np.asarray(soffset(w)).astype(np.int64) + immediate, (w.n,)) & ~np.int64(3)
        address, everyone = (start + relative)[:, None], np.ones((w.n, 1), bool)
        if not buffer:
            return [Access(Space.GLOBAL, Kind.LOAD, address, everyone, 4 * dwords, inst, cache, everywhere=True)]
        stride = (high >> 16) & 0x3FFF
        limit = w.sget(base.index + 2).astype(np.int64) * np.maximum(stride, 1)
        if (relative + 4 * dwords <= limit).all():
            return [Access(Space.GLOBAL, Kind.LOAD, address, everyone, 4 * dwords, inst, cache, everywhere=True)]
        cut = []
        for i in range(dwords):
            inside = (relative + 4 * (i + 1) <= limit)[:, None]
            cut.append(Access(Space.GLOBAL, Kind.LOAD, address + 4 * i, inside, 4, inst, cache, ~inside))
        return cut

    def read(w: Waves) -> Words:
        return [word for access in pieces(w) for word in w.port.read(w, access)]

    def put(w: Waves, words: Words) -> None:
        for i, word in enumerate(words):
            w.sput(dst.index + i, word[:, 0])

    return MemoryLoad(read, put)
