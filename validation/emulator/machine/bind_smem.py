"""Binder of scalar memory loads (SMEM)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import AsmError
from ..isa.entry import Entry
from ..memory.access import Access, Kind, Space
from ..program.program import Instruction
from .fetch import reject_modifiers, scalar_source
from .waves import BindContext, Waves


def bind_smem(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``s_load_dwordxN sdst, sbase, offset`` and ``s_buffer_load_dwordxN``.

    Options: dwords - how many are loaded; buffer - the base is a 4-dword buffer descriptor with a range check.
    The offset is an immediate, an SGPR, or both (``s5 offset:16``). Address bits 1:0 are ignored (CDNA3 ISA, SMEM).
    """
    reject_modifiers(inst, {"offset", "sc0", "sc1", "nt", "glc"})
    if len(inst.operands) != 3:
        raise AsmError(f"{inst.mnemonic} takes a result, a base and an offset", inst.line_number, inst.text)
    dst, base, offset = inst.operands
    dwords, buffer = entry.options["dwords"], bool(entry.options.get("buffer"))
    if dst.kind != "s" or dst.count != dwords or base.kind != "s" or base.count != (4 if buffer else 2):
        raise AsmError(f"{inst.mnemonic} loads {dwords} dwords through a base pair", inst.line_number, inst.text)
    soffset = scalar_source(inst, offset, "i32" if offset.kind == "int" else "u32", ctx)
    immediate = int(inst.modifiers.get("offset", 0))

    def step(w: Waves) -> None:
        low, high = w.sget(base.index).astype(np.int64), w.sget(base.index + 1).astype(np.int64)
        if buffer:
            high = high & 0xFFFF
        relative = np.broadcast_to(np.asarray(soffset(w)).astype(np.int64) + immediate, (w.n,))
        start = (low | (high << 32)) & ~np.int64(3)
        address = (start + (relative & ~np.int64(3)))[:, None]
        values: list[Any] = []
        limit = w.sget(base.index + 2).astype(np.int64)[:, None] if buffer else None
        step_bytes = 4 if buffer else 4 * dwords
        for i in range(dwords if buffer else 1):
            here = address + 4 * i
            inside = here - start[:, None] + 4 <= limit if limit is not None else np.ones((w.n, 1), bool)
            access = Access(Space.GLOBAL, Kind.LOAD, here, inside, step_bytes, inst, clamped=~inside if buffer else None)
            values += w.port.read(w, access)
        for i, word in enumerate(values):
            w.sput(dst.index + i, word[:, 0])

    return step
