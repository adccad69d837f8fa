"""What the vector memory binders share: moving data between memory words and vector registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


from ..errors import AsmError
from ..isa.entry import Entry
from ..memory.access import CacheBits
from ..memory.spaces import Words
from ..program.operands import Operand
from ..program.program import Instruction
from .fetch import register_number
from .types import U32
from .waves import BindContext, Waves

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


def cache_bits(inst: Instruction) -> CacheBits:
    m = inst.modifiers
    return CacheBits(bool(m.get("sc0") or m.get("glc")), bool(m.get("sc1")), bool(m.get("nt")))


def data_registers(inst: Instruction, operand: Operand, count: int, ctx: BindContext) -> int:
    """First row of a data operand; AsmError when its width is not ``count`` dwords."""
    if operand.kind not in ("v", "a") or operand.count != count:
        raise AsmError(f"{inst.mnemonic} moves {count} dwords, {operand} is {operand.count}", inst.line_number, inst.text)
    return register_number(operand, ctx)


def writeback(inst: Instruction, operand: Operand, form: DataFormat, ctx: BindContext) -> Writeback:
    """Closure that puts loaded words into the destination of the active lanes."""
    first = data_registers(inst, operand, form.registers, ctx)
    sign = U32(1 << (8 * form.nbytes - 1)) if form.nbytes < 4 else U32(0)

    def put(w: Waves, words: Words) -> None:
        if form.nbytes >= 4:
            for i, word in enumerate(words):
                w.vput(first + i, word)
            return
        word: Any = words[0]
        if form.signed:
            word = (word ^ sign) - sign
        if form.half == "lo":
            word = (w.vget(first) & U32(0xFFFF0000)) | (word & U32(0xFFFF))
        elif form.half == "hi":
            word = (w.vget(first) & U32(0x0000FFFF)) | (word << U32(16))
        w.vput(first, word)

    return put


def gather(inst: Instruction, operand: Operand, form: DataFormat, ctx: BindContext) -> Gather:
    """Closure that reads the words to store."""
    first = data_registers(inst, operand, form.registers, ctx)
    if form.half == "hi":
        return lambda w: [w.vget(first) >> U32(16)]
    rows = range(first, first + form.registers)
    return lambda w: [w.vget(r) for r in rows]


def entry_format(entry: Entry) -> DataFormat:
    form = entry.options["format"]
    return form if isinstance(form, DataFormat) else FORMATS[form]


