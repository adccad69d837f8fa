"""Loads from memory straight into LDS (``buffer_load_* lds``, ``global_load_lds_*``, ``scratch_load_lds_*``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..memory.access import Access, Kind, Space
from ..memory.views import Words
from ..program.operands import M0
from ..program.program import Instruction
from .transfer import DataFormat, Locate, MemoryOperation, Piece, Request, cache_bits, extend, read_pieces
from .types import U32
from .waves import LANES, BindContext, Waves


def bind_lds_load(inst: Instruction, form: DataFormat, ctx: BindContext, locate: Locate) -> MemoryOperation:
    """LDS byte address: M0 + instruction offset + lane * size.

    A lane takes 4 bytes of LDS for a dword or less (narrow data is extended to a dword), 12 and 16 for dwordx3 and
    dwordx4 (gfx950). The instruction offset counts for memory and LDS alike. CDNA3 ISA, "Memory buffer load to LDS";
    LLVM's SIISelLowering gives narrow loads a 4-byte LDS memory operand. M0 is 16 bits wide where LDS has 64 KiB.
    Lanes whose memory address a descriptor drops write zeros, as their load returns.
    """
    size = max(4, form.nbytes)
    offset = int(inst.modifiers.get("offset", 0))
    lanes = (np.arange(LANES, dtype=np.int64) * size + offset)[None, :]
    m0_mask = U32(0xFFFF if ctx.arch == "gfx942" else 0xFFFFFFFF)
    cache = cache_bits(inst)
    dwords = form.registers

    def issue(w: Waves) -> Request:
        address = (w.sget(M0) & m0_mask).astype(np.int64)[:, None] + lanes
        # M0 holds a dword address: wider forms write dwords (Triton pads fp8 rows by 8 bytes under 16-byte loads)
        target = Access(
            Space.LDS,
            Kind.STORE,
            address,
            w.em,
            size,
            inst,
            cache,
            everywhere=w.full,
            strict=True,
            alignment=min(size, 4),
        )
        return Request([*locate(w, Kind.LOAD, form.nbytes), Piece(0, target)], [])

    def move(w: Waves, request: Request) -> Words:
        *source, target = request.pieces
        words = read_pieces(w, source, dwords)
        data: list[Any] = [extend(words[0], form)] if form.signed else words
        w.port.write(w, target.access, data)
        return []

    return MemoryOperation(Kind.LOAD, issue, move)
