"""Binder of DS instructions that move data between lanes: swizzle, permute, bpermute, transposing reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import AsmError, ReservedError
from ..isa.entry import Entry
from ..memory.access import Kind
from ..program.program import Instruction
from .bind_ds import ds_address, lds_access
from .fetch import operand_count, register_number, reject_modifiers, vector_source
from .transfer import MemoryOperation, Piece, Request, data_registers
from .types import U32
from .waves import LANES, BindContext, Waves

_LANE = np.arange(LANES)
_SWIZZLE = re.compile(r"swizzle\((.*)\)", re.DOTALL)
#: Transposed elements that NumPy has a type for.
_ELEMENT: dict[int, Any] = {16: np.uint16, 8: np.uint8}
#: Characters of a BITMASK_PERM string -> and, or, xor bit.
_MASK_BITS = {"0": (0, 0, 0), "1": (0, 1, 0), "p": (1, 0, 0), "i": (1, 0, 1)}


def swizzle_code(inst: Instruction) -> int:
    """16-bit swizzle pattern of the offset field: a number or ``swizzle(MODE, ...)`` (LLVM AMDGPUOperandSyntax)."""
    value = inst.modifiers.get("offset", 0)
    if isinstance(value, int):
        return value
    match = _SWIZZLE.fullmatch(value)
    if match is None:
        raise AsmError(f"{value!r} is no swizzle pattern", inst.line_number, inst.text)
    mode, *texts = [p.strip() for p in match[1].split(",")]
    if mode == "BITMASK_PERM":
        bits = texts[0].strip('"')
        if len(bits) != 5 or set(bits) - set(_MASK_BITS):
            raise AsmError(f"{bits!r}: five of 0, 1, p and i", inst.line_number, inst.text)
        masks = [sum(_MASK_BITS[c][k] << (4 - i) for i, c in enumerate(bits)) for k in range(3)]
        return masks[0] | masks[1] << 5 | masks[2] << 10
    numbers = [int(t, 0) for t in texts]
    if mode == "QUAD_PERM" and len(numbers) == 4:
        return 0x8000 | sum(n << (2 * i) for i, n in enumerate(numbers))
    if mode == "BROADCAST" and len(numbers) == 2:
        return (32 - numbers[0]) | numbers[1] << 5
    if mode == "SWAP" and len(numbers) == 1:
        return 0x1F | numbers[0] << 10
    if mode == "REVERSE" and len(numbers) == 1:
        return 0x1F | (numbers[0] - 1) << 10
    if mode == "FFT" and len(numbers) == 1:
        return 0xE000 | numbers[0]
    if mode == "ROTATE" and len(numbers) == 2:
        return 0xC000 | numbers[0] << 10 | numbers[1] << 5
    raise AsmError(f"{value!r} is no swizzle pattern", inst.line_number, inst.text)


def swizzle_lanes(code: int) -> NDArray[np.intp]:
    """Source lane of each lane (CDNA3 ISA, DS_SWIZZLE_B32): groups of 32 lanes, of 4 for quad permute."""
    group, lane = _LANE & 32, _LANE & 31
    if code >= 0xE000:
        mask = code & 0x1F
        reverse = np.array([int(f"{i:05b}"[::-1], 2) for i in lane])
        return ((reverse >> mask.bit_count()) | (lane & mask)) | group
    if code >= 0xC000:
        turn, mask = (code >> 5) & 0x1F, code & 0x1F
        turn = -turn if code & 0x400 else turn
        return ((lane & mask) | ((lane + turn) & ~mask & 0x1F)) | group
    if code & 0x8000:
        picks = np.array([(code >> (2 * i)) & 3 for i in range(4)])
        return (_LANE & ~3) | picks[_LANE & 3]
    keep, put, flip = code & 0x1F, (code >> 5) & 0x1F, (code >> 10) & 0x1F
    return (((lane & keep) | put) ^ flip) | group


def bind_ds_swizzle(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """A lane whose source lane is inactive gets 0."""
    reject_modifiers(inst, {"offset"})
    operand_count(inst, 2)
    source = vector_source(inst, inst.operands[1], "u32", ctx)
    row = register_number(inst.operands[0], ctx)
    lanes = swizzle_lanes(swizzle_code(inst))

    def issue(w: Waves) -> Request:
        value = np.take(source(w), lanes, axis=1)
        if not w.full:
            value = np.where(np.take(w.em, lanes, axis=1), value, U32(0))
        return Request([], [value])

    return _exchange(inst, issue, row)


def _exchange(inst: Instruction, issue: Callable[[Waves], Request], row: int) -> MemoryOperation:
    """An operation that passes lanes through the LDS hardware but touches no memory."""

    def move(w: Waves, request: Request) -> Any:
        if w.port.observers:
            w.port.moved(w, inst)
        return request.data

    return MemoryOperation(Kind.LOAD, issue, move, lambda w, words: w.vput(row, words[0]), range(row, row + 1))


def bind_ds_permute(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """Option ``pull``: bpermute (each lane picks its source) instead of permute (each lane picks its target).

    The address is in bytes, divided by 4, modulo 64. Data of inactive lanes reads as 0; of several lanes that push to
    one the highest wins; a lane that nobody pushes to gets 0.
    """
    reject_modifiers(inst, {"offset"})
    operand_count(inst, 3)
    offset = U32(int(inst.modifiers.get("offset", 0)))
    address = vector_source(inst, inst.operands[1], "u32", ctx)
    data = vector_source(inst, inst.operands[2], "u32", ctx)
    row = register_number(inst.operands[0], ctx)

    def pull(w: Waves) -> Request:
        lanes = ((address(w) + offset) >> U32(2)) & U32(63)
        value = data(w) if w.full else np.where(w.em, data(w), U32(0))
        return Request([], [value.reshape(-1).take(lanes + np.arange(0, w.n * LANES, LANES)[:, None])])

    def push(w: Waves) -> Request:
        lanes = (((address(w) + offset) >> U32(2)) & U32(63)).astype(np.intp)
        result = np.zeros((w.n, LANES), U32)
        wave, lane = np.nonzero(w.em)
        # in lane order, so that the highest lane is the last to write
        result[wave, lanes[wave, lane]] = data(w)[wave, lane]
        return Request([], [result])

    return _exchange(inst, pull if entry.options["pull"] else push, row)


def transpose_words(words: list[Any], bits: int) -> list[Any]:
    """What 16 lanes have read, as 16 * n elements of ``bits`` in lane order, dealt out again one element a lane.

    Lane t of a group gets elements t, t + 16, t + 32, ... of the group's data (FlyDSL's CDNA4 copy atom gives the same
    thread-value layout: lib/Dialect/FlyROCDL/CDNA4/CopyAtom.cpp).
    """
    waves = words[0].shape[0]
    packed = np.empty((*words[0].shape, len(words)), U32)
    for i, word in enumerate(words):
        packed[..., i] = word
    if bits in _ELEMENT:
        elements = packed.view(_ELEMENT[bits]).reshape(waves, 4, -1, 16)
        result = np.ascontiguousarray(elements.swapaxes(2, 3)).view(U32).reshape(waves, LANES, len(words))
        return [result[..., i] for i in range(len(words))]
    raw = packed.view(np.uint8)
    flat = np.unpackbits(raw.reshape(waves, 4, -1), axis=2, bitorder="little")
    dealt = flat.reshape(waves, 4, -1, 16, bits).transpose(0, 1, 3, 2, 4)
    again = np.packbits(np.ascontiguousarray(dealt).reshape(waves, LANES, -1), axis=2, bitorder="little")
    result = again.view(U32)
    return [result[..., i] for i in range(len(words))]


def bind_ds_transpose(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``ds_read_b64_tr_b16``, ``_b8``, ``_b4`` and ``ds_read_b96_tr_b6`` (gfx950): options nbytes, bits."""
    reject_modifiers(inst, {"offset"})
    operand_count(inst, 2)
    nbytes, bits = entry.options["nbytes"], entry.options["bits"]
    address = ds_address(inst, inst.operands[1], int(inst.modifiers.get("offset", 0)), ctx)
    row = data_registers(inst, inst.operands[0], nbytes // 4, ctx)

    def issue(w: Waves) -> Request:
        if not w.full and (w.em.any(axis=1) & ~w.em.all(axis=1)).any():
            raise ReservedError(f"{inst.text}: a transposing LDS read needs all 64 lanes active (CDNA4 ISA)")
        return Request([Piece(0, lds_access(w, Kind.LOAD, address(w), nbytes, inst))], [])

    def read(w: Waves, request: Request) -> Any:
        return transpose_words(w.port.read(w, request.pieces[0].access), bits)

    def put(w: Waves, words: Any) -> None:
        for i, word in enumerate(words):
            w.vput(row + i, word)

    return MemoryOperation(Kind.LOAD, issue, read, put, range(row, row + nbytes // 4))
