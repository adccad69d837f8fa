"""Element formats of MFMA operands: registers to values and their exponents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics import smallfloat
from ..numerics.dot import Exponents
from ..numerics.scratch import scratch
from .matrix_layout import Words

U16, U32 = np.uint16, np.uint32
_HIGH = U32(0xFFFF0000)
Decode = Callable[[Words, Any], tuple[Any, Exponents | None]]


@dataclass(frozen=True, slots=True)
class ElementFormat:
    """One input type.

    bits: of an element. decode: words [registers, n, 64] -> elements [x, y, n, 64] (slot = x * len(y) + y) of a dtype
    that holds them exactly, good until the next call, and their exponents, None for types whose sums are exact or go in
    order anyway. Its second argument is memory of the words' shape where the exponents may stay (the words themselves
    may lie there), or None.
    chunk: consecutive k that a lane holds before the next lane group goes on; 0 for all of its slots.
    """

    bits: int
    decode: Decode
    chunk: int = 0

    def registers(self, slots: int) -> int:
        return max(1, slots * self.bits // 32)


def _bf16(words: Words, room: Any = None) -> tuple[Any, Exponents | None]:
    registers, n, _ = words.shape
    out = scratch("bf16", (registers, 2, n, 64), U32)
    np.left_shift(words, U32(16), out=out[:, 0])
    np.bitwise_and(words, _HIGH, out=out[:, 1])
    halves = np.ascontiguousarray(words).view(U16)
    codes = np.bitwise_and(halves, U16(0x7FFF), out=None if room is None else room.view(U16))
    return out.view(np.float32), _exponents(codes, 7, 0x7F80)


def _f16(words: Words, _room: Any = None) -> tuple[Any, Exponents | None]:
    registers, n, _ = words.shape
    halves = np.ascontiguousarray(words).view(U16)
    elements = halves.view(np.float16).reshape(registers, n, 64, 2).transpose(0, 3, 1, 2)
    return elements, _exponents(halves & U16(0x7FFF), 10, 0x7C00)


def _exponents(codes: NDArray[Any], mantissa_bits: int, infinity: int) -> Exponents:
    """``codes`` are used up."""
    return Exponents(np.subtract(codes, codes.dtype.type(1), out=codes), mantissa_bits, infinity)


def _f32(words: Words, _room: Any = None) -> tuple[Any, Exponents | None]:
    return np.ascontiguousarray(words).view(np.float32)[:, None], None


def _xf32(words: Words, _room: Any = None) -> tuple[Any, Exponents | None]:
    """xf32 keeps 10 fraction bits of float32; the rest is dropped (*inferred*: no manual says how it is rounded)."""
    kept = words & U32(0xFFFFE000)
    return kept.view(np.float32)[:, None], _exponents((kept & U32(0x7FFFFFFF)) >> U32(13), 10, 0xFF << 10)


def _f64(words: Words, _room: Any = None) -> tuple[Any, Exponents | None]:
    wide = words[0::2].astype(np.uint64) | (words[1::2].astype(np.uint64) << np.uint64(32))
    return wide.view(np.float64)[:, None], None


def _bytes(words: Words) -> NDArray[np.uint8]:
    """[registers, 4, n, 64]."""
    registers, n, _ = words.shape
    return np.ascontiguousarray(
        np.ascontiguousarray(words).view(np.uint8).reshape(registers, n, 64, 4).transpose(0, 3, 1, 2)
    )


def _i8(words: Words, _room: Any = None) -> tuple[Any, Exponents | None]:
    return _bytes(words).view(np.int8), None


def _nibbles(words: Words) -> NDArray[np.uint8]:
    """[registers * 4, 2, n, 64]."""
    raw = _bytes(words)
    pairs = raw.reshape(-1, *raw.shape[2:])
    return np.stack([pairs & np.uint8(15), pairs >> np.uint8(4)], axis=1)


def _six_bits(words: Words) -> NDArray[np.uint8]:
    """[1, registers * 16 / 3, n, 64]; elements may straddle registers."""
    registers, n, _ = words.shape
    out = np.empty((1, registers * 32 // 6, n, 64), np.uint8)
    for i in range(out.shape[1]):
        register, shift = divmod(6 * i, 32)
        code = words[register] >> U32(shift)
        if shift > 26:
            code = code | (words[register + 1] << U32(32 - shift))
        out[0, i] = code & U32(63)
    return out


def _small_exponents(codes: NDArray[np.uint8], fmt: smallfloat.Format) -> Exponents:
    sign = 1 << (fmt.bits - 1)
    magnitudes = codes & np.uint8(sign - 1)
    if fmt.fnuz:
        magnitudes[codes == fmt.nan_code] = sign
    beyond = sign if fmt.fnuz else fmt.max_code + 1
    return _exponents(magnitudes.reshape(-1, *codes.shape[-2:]), fmt.mantissa_bits, beyond)


def _small(fmt: smallfloat.Format, unpack: Callable[[Words], NDArray[np.uint8]]) -> Decode:
    table = smallfloat.decode_table(fmt)

    def decode(words: Words, _room: Any = None) -> tuple[Any, Exponents | None]:
        codes = unpack(words)
        return table[codes], _small_exponents(codes, fmt)

    return decode


def element_format(kind: str, arch: str) -> ElementFormat:
    """Format of ``bf16``, ``f16``, ``f32``, ``xf32``, ``f64``, ``i8``, ``fp8``, ``bf8``; ``f8f6f4:<code>`` for the
    operands of the gfx950 instructions of that name (codes of cbsz and blgp: fp8, bf8, fp6, bf6, fp4)."""
    fp8, bf8 = smallfloat.FP8[arch], smallfloat.BF8[arch]
    table: dict[str, ElementFormat] = {
        "bf16": ElementFormat(16, _bf16),
        "f16": ElementFormat(16, _f16),
        "f32": ElementFormat(32, _f32),
        "xf32": ElementFormat(32, _xf32),
        "f64": ElementFormat(64, _f64),
        "i8": ElementFormat(8, _i8),
        "fp8": ElementFormat(8, _small(fp8, _bytes)),
        "bf8": ElementFormat(8, _small(bf8, _bytes)),
        "f8f6f4:0": ElementFormat(8, _small(fp8, _bytes), 16),
        "f8f6f4:1": ElementFormat(8, _small(bf8, _bytes), 16),
        "f8f6f4:2": ElementFormat(6, _small(smallfloat.E2M3, _six_bits)),
        "f8f6f4:3": ElementFormat(6, _small(smallfloat.E3M2, _six_bits)),
        "f8f6f4:4": ElementFormat(4, _small(smallfloat.E2M1, _nibbles)),
    }
    return table[kind]
