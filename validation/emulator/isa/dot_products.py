"""Dot products of packed values, added to a 32-bit accumulator.

Order and rounding of the float forms follow the manuals' pseudocode: one rounding to f32 for each product (exact for
f16) and each sum, from the accumulator upwards, except ``V_DOT2_F32_BF16``, which adds the accumulator last. They flush
f32 denormals whatever MODE says: LLVM, SITargetLowering::performFMACombine, states it for f16; for bf16 it is
*inferred*. Integer ``clamp`` saturates the exact sum (*inferred*: no manual gives intermediate widths).
Source: CDNA3 and CDNA4 ISA manuals, ``V_DOT*``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..numerics import fma, formats
from ..numerics.bits import flush_denormals
from .entry import BOTH, GFX950, define

U32, I64 = np.uint32, np.int64
Words = Any  # uint32 arrays or scalars


def _f16_halves(x: Words) -> tuple[Any, Any]:
    low, high = formats.unpack16(x)
    return formats.f16_to_f32(low.view(np.float16)), formats.f16_to_f32(high.view(np.float16))


def _bf16_halves(x: Words) -> tuple[Any, Any]:
    return formats.bf16_to_f32(x), formats.bf16_to_f32(np.asarray(x) >> U32(16))


def _add(a: Any, b: Any) -> Any:
    return flush_denormals(np.asarray(fma.add32(flush_denormals(np.asarray(a)), flush_denormals(np.asarray(b)))))


def _float_dot(halves: Callable[[Words], tuple[Any, Any]], accumulator_last: bool = False) -> Callable[..., Any]:
    def dot(a: Words, b: Words, c: Any) -> Any:
        first, second = (fma.mul32(x, y) for x, y in zip(halves(a), halves(b), strict=True))
        return _add(_add(first, second), c) if accumulator_last else _add(_add(c, first), second)

    return dot


def _fields(x: Words, bits: int, signed: bool) -> list[Any]:
    """The 32 / bits fields of words as int64, lowest first."""
    mask, sign = I64((1 << bits) - 1), I64(1 << (bits - 1))
    wide = np.asarray(x).astype(I64)
    fields = [(wide >> I64(i)) & mask for i in range(0, 32, bits)]
    return [(f ^ sign) - sign for f in fields] if signed else fields


def _exact_sum(a: Words, b: Words, c: Any, bits: int, signed: bool) -> Any:
    total = np.asarray(c).astype(I64)
    for x, y in zip(_fields(a, bits, signed), _fields(b, bits, signed), strict=True):
        total = total + x * y
    return total


def _integer_dot(bits: int, signed: bool, saturating: bool) -> Callable[..., Any]:
    dtype = np.int32 if signed else np.uint32
    limits = np.iinfo(dtype)

    def dot(a: Words, b: Words, c: Any) -> Any:
        total = _exact_sum(a, b, c, bits, signed)
        if saturating:
            return np.clip(total, limits.min, limits.max).astype(dtype)
        return total.astype(U32).view(dtype)

    return dot


#: elements, their type, accumulator type, element bits
_INTEGER = [(2, "i16", "i32", 16), (2, "u16", "u32", 16), (4, "i8", "i32", 8), (4, "u8", "u32", 8), (8, "i4", "i32", 4),
            (8, "u4", "u32", 4)]  # fmt: skip
for _count, _element, _result, _bits in _INTEGER:
    _signed = _result == "i32"
    _plain, _clamped = (_integer_dot(_bits, _signed, saturating) for saturating in (False, True))
    define(f"v_dot{_count}_{_result}_{_element}", "dot", _result, f"u32 u32 {_result}", _plain, saturate=_clamped)
    if _signed:
        define(f"v_dot{_count}c_{_result}_{_element}", "dot_accumulate", _result, "u32 u32", _plain, saturate=_clamped,
               dst_is_source=True)  # fmt: skip
for _element, _halves, _archs in (("f16", _f16_halves, BOTH), ("bf16", _bf16_halves, GFX950)):
    define(f"v_dot2_f32_{_element}", "dot", "f32", "u32 u32 f32", _float_dot(_halves, _element == "bf16"), _archs)
    define(f"v_dot2c_f32_{_element}", "dot_accumulate", "f32", "u32 u32", _float_dot(_halves), _archs,
           dst_is_source=True)  # fmt: skip
