"""Hardware registers (s_getreg, s_setreg), the clock, the program counter, relative scalar moves, traps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import AsmError, KernelFault, UnsupportedError
from ..isa.entry import Entry
from ..memory.access import Kind, Space
from ..program.operands import M0, Operand
from ..program.program import Instruction
from .fetch import operand_count, reject_modifiers, scalar_source, scalar_store
from .transfer import MemoryOperation, Request, scalar_key
from .types import TYPES
from .waves import BindContext, FloatMode, Waves

#: id -> name (LLVM AMDGPU, SIDefines.h "Hwreg"; CDNA3 ISA "Hardware registers").
HWREG_NAMES = {"HW_REG_MODE": 1, "HW_REG_STATUS": 2, "HW_REG_TRAPSTS": 3, "HW_REG_HW_ID": 4, "HW_REG_XCC_ID": 20}
MODE, TRAPSTS, HW_ID, XCC_ID = 1, 3, 4, 20
#: Ticks that the clock moves between two reads: the emulator has no time, only order.
CLOCK_STEP = 64


def mode_bits(mode: FloatMode) -> int:
    """The MODE register: FP_ROUND 3:0, FP_DENORM 7:4, DX10_CLAMP 8, IEEE 9, FP16_OVFL 23."""
    value = mode.round_32 | mode.round_16_64 << 2 | mode.denorm_32 << 4 | mode.denorm_16_64 << 6
    return value | mode.dx10_clamp << 8 | mode.ieee << 9 | mode.fp16_overflow << 23


def mode_from_bits(bits: int, old: FloatMode) -> FloatMode:
    return replace(
        old,
        round_32=bits & 3,
        round_16_64=bits >> 2 & 3,
        denorm_32=bits >> 4 & 3,
        denorm_16_64=bits >> 6 & 3,
        dx10_clamp=bool(bits >> 8 & 1),
        ieee=bool(bits >> 9 & 1),
        fp16_overflow=bool(bits >> 23 & 1),
    )


def parse_hwreg(inst: Instruction, operand: Operand) -> tuple[int, int, int]:
    """(register id, first bit, bit count) of ``hwreg(NAME, offset, size)`` or a raw 16-bit encoding."""
    if operand.kind == "int":
        raw = int(operand.value)
        return raw & 0x3F, raw >> 6 & 0x1F, (raw >> 11 & 0x1F) + 1
    if operand.kind != "call" or operand.name != "hwreg":
        raise AsmError(f"{operand} is no hardware register", inst.line_number, inst.text)
    name, *field = operand.args
    number = HWREG_NAMES.get(name) or (int(name, 0) if name[:1].isdigit() else 0)
    if number not in HWREG_NAMES.values():
        raise UnsupportedError(f"hardware register {name}", inst.line_number, inst.text)
    offset, size = (int(field[0], 0), int(field[1], 0)) if field else (0, 32)
    return number, offset, size


def bind_setreg(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """Returns the new FloatMode to the engine. Only MODE can be written."""
    reject_modifiers(inst, frozenset())
    operand_count(inst, 2)
    number, offset, size = parse_hwreg(inst, inst.operands[0])
    if number != MODE:
        raise UnsupportedError("s_setreg of a register other than MODE", inst.line_number, inst.text)
    source = scalar_source(inst, inst.operands[1], "b32", ctx)
    field = ((1 << size) - 1) << offset

    def step(w: Waves) -> FloatMode:
        values = np.unique(source(w))
        if len(values) > 1:
            raise UnsupportedError("waves that step together set different modes", inst.line_number, inst.text)
        bits = mode_bits(w.mode) & ~field | (int(values[0]) << offset & field)
        return mode_from_bits(bits, w.mode)

    return step


def bind_getreg(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """MODE as set; XCC_ID: workgroups dealt round robin over the XCDs; HW_ID and TRAPSTS read 0."""
    reject_modifiers(inst, frozenset())
    operand_count(inst, 2)
    number, offset, size = parse_hwreg(inst, inst.operands[1])
    store = scalar_store(inst, inst.operands[0], "b32")
    if number not in (MODE, TRAPSTS, HW_ID, XCC_ID):
        raise UnsupportedError(f"s_getreg of register {number}", inst.line_number, inst.text)

    def step(w: Waves) -> None:
        value: Any = 0
        if number == MODE:
            value = mode_bits(w.mode)
        elif number == XCC_ID:
            value = (w.ident.linear if w.sel is None else w.ident.linear[w.sel]) % w.port.spaces[Space.GLOBAL].xcds
        field = (np.asarray(value, np.int64) >> offset) & ((1 << size) - 1)
        store(w, np.broadcast_to(field.astype(np.uint32), (w.n,)))

    return step


def bind_clock(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """A counter that moves on at each read and nowhere else, so that runs repeat exactly."""
    store = scalar_store(inst, inst.operands[0], "u64")

    def read(w: Waves) -> Request:
        w.extra["clock"] = w.extra.get("clock", 0) + CLOCK_STEP
        return Request([], [np.full((w.n, 1), w.extra["clock"], np.uint64)])

    first = scalar_key(inst.operands[0].index)
    return MemoryOperation(
        Kind.LOAD,
        read,
        lambda w, request: request.data,
        lambda w, words: store(w, words[0][:, 0]),
        range(first, first + 2),
    )


def bind_getpc(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    store = scalar_store(inst, inst.operands[0], "u64")
    following = np.uint64(ctx.code_base + 8 * (inst.index + 1))
    return lambda w: store(w, following)


def bind_trap(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    def step(w: Waves) -> None:
        wave = 0 if w.sel is None else int(w.sel[0])
        group = tuple(int(x) for x in w.ident.workgroup[wave])
        raise KernelFault(f"{inst.text} at {inst.place}, workgroup {group} wave {int(w.ident.wave[wave])}")

    return step


def bind_movrel(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``s_movrels``: source register number plus M0; ``s_movreld``: destination register number plus M0."""
    operand_count(inst, 2)
    dst, src = inst.operands
    width = TYPES[entry.dst[0]].dwords
    if dst.kind != "s" or src.kind != "s":
        raise UnsupportedError("relative move of a constant", inst.line_number, inst.text)
    from_source = entry.options["indexed"] == "source"

    def step(w: Waves) -> None:
        index = w.sget(M0).astype(np.int64)
        rows = np.arange(w.count) if w.sel is None else w.sel
        if (index + (src if from_source else dst).index + width > 102).any():
            raise KernelFault(f"{inst.text}: M0 leads outside of the scalar registers")
        values = [w.S[(src.index + i + index) if from_source else src.index + i, rows].copy() for i in range(width)]
        for i, value in enumerate(values):
            if from_source:
                w.sput(dst.index + i, value)
            else:
                w.S[dst.index + i + index, rows] = value
                for written in set((dst.index + i + index).tolist()):
                    w.forget(written)

    return step
