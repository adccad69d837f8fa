"""Operand types: how many dwords a value takes and as which NumPy dtype its semantics see it."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from ..program.operands import Operand

U16, U32, U64 = np.uint16, np.uint32, np.uint64
I16, I32, I64 = np.int16, np.int32, np.int64
F16, F32, F64 = np.float16, np.float32, np.float64


@dataclass(frozen=True, slots=True)
class ValueType:
    """``dtype`` as the semantics see it; ``bits`` of one element; ``dwords`` of registers; float kind for modifiers."""

    name: str
    dtype: type
    bits: int
    dwords: int
    is_float: bool = False
    signed: bool = False


#: ``m64`` is a 64-lane mask in a scalar register pair, seen as bool [waves, 64]. ``bf16`` is seen as raw uint16.
#: ``raw16``/``raw8`` do not exist on purpose: narrow memory data has its own formats.
TYPES: dict[str, ValueType] = {
    t.name: t
    for t in (
        ValueType("b32", U32, 32, 1, True),
        ValueType("u32", U32, 32, 1),
        ValueType("i32", I32, 32, 1, signed=True),
        ValueType("f32", F32, 32, 1, True),
        ValueType("b64", U64, 64, 2),
        ValueType("u64", U64, 64, 2),
        ValueType("i64", I64, 64, 2, signed=True),
        ValueType("f64", F64, 64, 2, True),
        ValueType("b16", U16, 16, 1),
        ValueType("u16", U16, 16, 1),
        ValueType("i16", I16, 16, 1, signed=True),
        ValueType("f16", F16, 16, 1, True),
        ValueType("bf16", U16, 16, 1, True),
        ValueType("m64", np.bool_, 64, 2),
    )
}
#: 1 / (2 pi) as f64, the only inline constant whose low half is not 0 (CDNA3 ISA, operand code 248).
INVERSE_TWO_PI = 0x3FC45F306DC9C882
#: Operands that the text does not show. ``vccmask`` is VCC seen lane by lane.
IMPLICIT = ("scc", "vcc", "vccmask", "exec", "m0")


def constant_bits(operand: Operand, kind: ValueType) -> int:
    """Raw bits of an inline or literal constant as an operand of that type.

    Source: CDNA3 ISA, "Scalar operand encodings" and "Literal constants": integers stand for themselves, inline
    floats take the operand's own format, a 32-bit literal fills the high half of an f64 and is sign-extended only
    for signed 64-bit operands. Of an f64 that is no inline constant the encoding thus has no room for the low half, and
    assemblers drop it (LLVM, with a warning).
    """
    mask = (1 << max(kind.bits, 32)) - 1
    value = operand.value
    if operand.kind == "int":
        number = int(value)
        if operand.name:  # an aperture constant: 64 bits wide as it stands
            return number & mask
        if kind.name == "f64" and not -16 <= number <= 64:
            return (number & 0xFFFFFFFF) << 32
        if kind.bits == 64 and number > 0x7FFFFFFF and kind.signed and number <= 0xFFFFFFFF:
            return (number - (1 << 32)) & mask
        return number & mask
    real = float(value)
    if kind.bits == 64:
        raw = struct.unpack("<Q", struct.pack("<d", real))[0]
        return raw if raw == INVERSE_TWO_PI else raw >> 32 << 32
    if kind.name == "f16":
        return int(np.float16(real).view(np.uint16))
    if kind.name == "bf16":
        return struct.unpack("<I", struct.pack("<f", real))[0] >> 16
    return struct.unpack("<I", struct.pack("<f", real))[0]
