"""What the vector memory binders share: data formats, and moving data between memory words and vector registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import AsmError
from ..isa.atomic_ops import in_lds
from ..isa.entry import Entry
from ..memory.access import Access, CacheBits, Kind, Space
from ..memory.atomics import AtomicOp
from ..memory.views import Words
from ..program.operands import Operand
from ..program.program import Instruction
from .fetch import register_number
from .types import U32
from .waves import BindContext, Waves

#: Where the keys of scalar registers begin, see :func:`scalar_key`.
SCALAR_KEYS = 1 << 16
Writeback = Callable[[Waves, Words], None]
Gather = Callable[[Waves], Words]


@dataclass(frozen=True, slots=True)
class DataFormat:
    """How memory data sits in registers.

    nbytes: bytes a lane. signed: narrow loads sign-extend. half: ``lo``/``hi`` for d16 forms, which keep the other half
    of the register; empty for whole registers.
    """

    nbytes: int
    signed: bool = False
    half: str = ""

    @property
    def registers(self) -> int:
        return max(1, self.nbytes // 4)


#: Suffix of load and store mnemonics -> format (CDNA3 ISA, MUBUF, FLAT and DS opcode tables).
FORMATS: dict[str, DataFormat] = {
    "ubyte": DataFormat(1),
    "sbyte": DataFormat(1, signed=True),
    "ushort": DataFormat(2),
    "sshort": DataFormat(2, signed=True),
    "byte": DataFormat(1),
    "short": DataFormat(2),
    "dword": DataFormat(4),
    "dwordx2": DataFormat(8),
    "dwordx3": DataFormat(12),
    "dwordx4": DataFormat(16),
    "ubyte_d16": DataFormat(1, half="lo"),
    "ubyte_d16_hi": DataFormat(1, half="hi"),
    "sbyte_d16": DataFormat(1, signed=True, half="lo"),
    "sbyte_d16_hi": DataFormat(1, signed=True, half="hi"),
    "short_d16": DataFormat(2, half="lo"),
    "short_d16_hi": DataFormat(2, half="hi"),
    "byte_d16_hi": DataFormat(1, half="hi"),
}


@dataclass(slots=True)
class Piece:
    """Part of an instruction's memory operation: the dwords from ``first`` on that ``access`` covers.

    One piece covers everything in most cases; FLAT has one for each space, a buffer access that a descriptor cuts in
    the middle of a lane one for each dword.
    """

    first: int
    access: Access


Locate = Callable[[Waves, Kind, int], list[Piece]]


@dataclass(slots=True)
class Request:
    """What an issued operation has taken from the registers: where it goes (``pieces``), and words to store or operands
    of an atomic (``data``: arrays of [n, 64] or [n, 1])."""

    pieces: list[Piece]
    data: list[Any]

    def rows(self, index: Any) -> Request:
        """Of some of the waves."""
        return Request([Piece(p.first, p.access.rows(index)) for p in self.pieces], [x[index] for x in self.data])

    def detached(self, count: int) -> Request:
        """A copy that later changes of the registers do not reach, one row for each of ``count`` waves."""
        data = [np.array(np.broadcast_to(x, (count, np.shape(x)[-1]))) for x in self.data]
        return Request([Piece(p.first, p.access.detached(count)) for p in self.pieces], data)


@dataclass(slots=True)
class MemoryOperation:
    """A bound memory operation, in three steps that a completion model may run at different times.

    issue: read addresses and data from the registers. effect: do it, which gives the words that come back (none for a
    store). put: write these to the registers; None when nothing comes back.
    results: register keys (:func:`vector_key`, :func:`scalar_key`) that ``put`` writes.
    """

    kind: Kind
    issue: Callable[[Waves], Request]
    effect: Callable[[Waves, Request], Words]
    put: Writeback | None = None
    results: range = range(0)

    def __call__(self, w: Waves) -> None:
        words = self.effect(w, self.issue(w))
        if self.put is not None:
            self.put(w, words)


@dataclass(slots=True)
class VectorLoad(MemoryOperation):
    """A load of whole dwords into vector registers, from ``results.start`` on."""

    def __call__(self, w: Waves) -> None:
        request = self.issue(w)
        (first, *rest), row = request.pieces, self.results.start
        if rest or first.first or w.sel is not None or not w.full:
            words = self.effect(w, request)
        else:
            # nothing else looks at these registers meanwhile
            words = w.port.read(w, first.access, w.rows[np.uint32][row : self.results.stop])
            if not words:
                w.touched(row, len(self.results))
                return
        assert self.put is not None
        self.put(w, words)


def scalar_key(index: int) -> int:
    """Key of a scalar register; a vector register's key is its row of the file."""
    return SCALAR_KEYS + index


def cache_bits(inst: Instruction) -> CacheBits:
    m = inst.modifiers
    return CacheBits(bool(m.get("sc0") or m.get("glc")), bool(m.get("sc1")), bool(m.get("nt")))


def data_registers(inst: Instruction, operand: Operand, count: int, ctx: BindContext) -> int:
    """First row of a data operand; AsmError when its width is not ``count`` dwords."""
    if operand.kind not in ("v", "a") or operand.count != count:
        message = f"{inst.mnemonic} moves {count} dwords, {operand} is {operand.count}"
        raise AsmError(message, inst.line_number, inst.text)
    return register_number(operand, ctx)


def writeback(inst: Instruction, operand: Operand, form: DataFormat, ctx: BindContext) -> Writeback:
    """Closure that puts loaded words into the destination of the active lanes."""
    first = data_registers(inst, operand, form.registers, ctx)

    def put_words(w: Waves, words: Words) -> None:
        for i, word in enumerate(words):
            w.vput(first + i, word)

    def put_half(w: Waves, words: Words) -> None:
        word = extend(words[0], form)
        if form.half == "lo":
            word = (w.vget(first) & U32(0xFFFF0000)) | (word & U32(0xFFFF))
        else:
            word = (w.vget(first) & U32(0x0000FFFF)) | (word << U32(16))
        w.vput(first, word)

    if form.half:
        return put_half
    if form.signed:
        return lambda w, words: w.vput(first, extend(words[0], form))
    return put_words


def extend(word: NDArray[np.uint32], form: DataFormat) -> Any:
    """Sign-extend a narrow value where its format says so."""
    if not form.signed:
        return word
    sign = U32(1 << (8 * form.nbytes - 1))
    return (word ^ sign) - sign


def gather(inst: Instruction, operand: Operand, form: DataFormat, ctx: BindContext) -> Gather:
    """Closure that reads the words to store."""
    first = data_registers(inst, operand, form.registers, ctx)
    if form.half == "hi":
        return lambda w: [w.vget(first) >> U32(16)]
    rows = range(first, first + form.registers)
    return lambda w: [w.vget(r) for r in rows]


def read_pieces(w: Waves, pieces: list[Piece], dwords: int) -> Words:
    """Words of all pieces; lanes that a piece does not cover contribute zeros."""
    if len(pieces) == 1 and pieces[0].first == 0:
        return w.port.read(w, pieces[0].access)
    words: list[Any] = [U32(0)] * dwords
    for piece in pieces:
        for i, word in enumerate(w.port.read(w, piece.access), piece.first):
            words[i] = words[i] | word
    return [np.broadcast_to(word, w.em.shape) for word in words]


def bind_load(inst: Instruction, data: Operand, form: DataFormat, ctx: BindContext, locate: Locate) -> MemoryOperation:
    dwords = form.registers
    first = data_registers(inst, data, dwords, ctx)
    whole = form.nbytes >= 4 or not (form.signed or form.half)
    return (VectorLoad if whole else MemoryOperation)(
        Kind.LOAD,
        lambda w: Request(locate(w, Kind.LOAD, form.nbytes), []),
        lambda w, request: read_pieces(w, request.pieces, dwords),
        writeback(inst, data, form, ctx),
        range(first, first + dwords),
    )


def bind_store(inst: Instruction, data: Operand, form: DataFormat, ctx: BindContext, locate: Locate) -> MemoryOperation:
    get = gather(inst, data, form, ctx)

    def store(w: Waves, request: Request) -> Words:
        for piece in request.pieces:
            count = max(1, piece.access.nbytes // 4)
            w.port.write(w, piece.access, request.data[piece.first : piece.first + count])
        return []

    return MemoryOperation(Kind.STORE, lambda w: Request(locate(w, Kind.STORE, form.nbytes), get(w)), store)


def element_source(row: int, op: AtomicOp) -> Callable[[Waves], Any]:
    """Closure that reads registers from ``row`` on as elements of the atomic's type, [n, 64]."""
    if op.nbytes == 4:
        return lambda w: w.vget(row).view(op.dtype)

    def pair(w: Waves) -> Any:
        v = np.empty((w.n, 64, 2), U32)
        v[..., 0], v[..., 1] = w.vget(row), w.vget(row + 1)
        return v.view(op.dtype)[..., 0]

    return pair


def element_words(value: NDArray[Any]) -> Words:
    """Elements of 4 or 8 bytes [n, 64] -> their words."""
    words = np.ascontiguousarray(value).view(U32)
    if value.itemsize == 4:
        return [words]
    parts = words.reshape(*value.shape, 2)
    return [parts[..., 0], parts[..., 1]]


def bind_rmw(
    inst: Instruction,
    op: AtomicOp,
    rows: list[int],
    result: Operand | None,
    ctx: BindContext,
    locate: Locate,
) -> MemoryOperation:
    """``rows``: first register of each operand of ``op``; ``result``: where the old value goes, or None."""
    sources = [element_source(row, op) for row in rows]
    op_of = {Space.GLOBAL: op, Space.SCRATCH: op, Space.LDS: in_lds(op, ctx.mode)}

    def issue(w: Waves) -> Request:
        return Request(locate(w, Kind.ATOMIC, op.nbytes), [get(w) for get in sources])

    def perform(w: Waves, request: Request) -> Words:
        pieces, operands = request.pieces, request.data
        first = pieces[0].access
        old = w.port.atomic(w, first, op_of[first.space], operands, result is not None)
        for piece in pieces[1:]:
            more = w.port.atomic(w, piece.access, op_of[piece.access.space], operands, result is not None)
            old = np.where(piece.access.mask, more, old)
        return element_words(old)

    if result is None:
        return MemoryOperation(Kind.ATOMIC, issue, perform)
    form = DataFormat(op.nbytes)
    row = data_registers(inst, result, form.registers, ctx)
    return MemoryOperation(
        Kind.ATOMIC, issue, perform, writeback(inst, result, form, ctx), range(row, row + form.registers)
    )


def entry_format(entry: Entry) -> DataFormat:
    form = entry.options["format"]
    return form if isinstance(form, DataFormat) else FORMATS[form]
