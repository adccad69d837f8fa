"""Vector integer arithmetic: moves, sums, products, extrema, sums of absolute differences.

Semantics: CDNA3 and CDNA4 ISA manuals, VOP1, VOP2 and VOP3 opcode tables. Sources arrive as arrays of the type in the
row (or NumPy scalars), so sums wrap and products keep their low bits without any masking.

Which 16-bit results clear the other half of the register and which keep it: LLVM,
``GCNSubtarget::zeroesHigh16BitsOfDest`` (found by experiment, it says). Opcodes which also exist as VOP2 clear it;
gfx9's own VOP3 opcodes, the ones with op_sel, write one half only (``keep_half``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..numerics import integer
from ..numerics.into import into, move, placed, swapped, then
from .entry import BOTH, GFX950, define

U16, U32, U64 = np.uint16, np.uint32, np.uint64
I16, I32 = np.int16, np.int32
Fn = Callable[..., Any]


@into(0, 1)
def _choose(a: Any, b: Any, take_b: Any, out: Any = None) -> Any:
    """``b`` where the mask is set. By bits: np.where costs ten times as much on masks without a pattern."""
    if not np.count_nonzero(take_b):
        return placed(a, out)
    ones = np.negative(take_b.view(np.int8), dtype=np.int32, casting="unsafe").view(U32)
    return np.bitwise_xor(a, (a ^ b) & ones, out=out)


_MOVES = (
    ("v_mov_b32", "u32", "u32", move),
    ("v_mov_b64", "u64", "u64", lambda a: a),
    ("v_cndmask_b32", "b32", "b32 b32 m64", _choose),
)


def _add_carry(a: Any, b: Any) -> tuple[Any, Any]:
    total = a + b
    return total, total < a


def _add_with_carry(a: Any, b: Any, carry: Any) -> tuple[Any, Any]:
    partial_sum = a + b
    total = partial_sum + carry
    return total, (partial_sum < a) | (total < partial_sum)


def _sub_borrow(a: Any, b: Any) -> tuple[Any, Any]:
    return a - b, a < b


def _sub_with_borrow(a: Any, b: Any, borrow: Any) -> tuple[Any, Any]:
    difference = a - b
    return difference - borrow, (a < b) | (difference < borrow)


_SUMS = (
    ("v_add_co_u32", "u32 m64", "u32 u32", _add_carry),
    ("v_sub_co_u32", "u32 m64", "u32 u32", _sub_borrow),
    ("v_subrev_co_u32", "u32 m64", "u32 u32", lambda a, b: _sub_borrow(b, a)),
    ("v_addc_co_u32", "u32 m64", "u32 u32 m64", _add_with_carry),
    ("v_subb_co_u32", "u32 m64", "u32 u32 m64", _sub_with_borrow),
    ("v_subbrev_co_u32", "u32 m64", "u32 u32 m64", lambda a, b, c: _sub_with_borrow(b, a, c)),
    ("v_add3_u32", "u32", "u32 u32 u32", then(np.add, np.add)),
    ("v_xad_u32", "u32", "u32 u32 u32", then(np.bitwise_xor, np.add)),
)


def _saturating(fn: Fn, bits: int, signed: bool, swap: bool = False) -> Fn:
    """Variant of a sum for the CLAMP modifier: the exact result limited to the range of the type."""
    if swap:
        return lambda a, b: fn(b, a, bits=bits, signed=signed)
    return partial(fn, bits=bits, signed=signed)


#: mnemonic, type, operands reversed, subtract, keep_half
_CLAMPED_SUMS = (
    ("v_add_u32", "u32", False, False, False),
    ("v_sub_u32", "u32", False, True, False),
    ("v_subrev_u32", "u32", True, True, False),
    ("v_add_i32", "i32", False, False, False),
    ("v_sub_i32", "i32", False, True, False),
    ("v_add_u16", "u16", False, False, False),
    ("v_sub_u16", "u16", False, True, False),
    ("v_subrev_u16", "u16", True, True, False),
    ("v_add_i16", "i16", False, False, True),
    ("v_sub_i16", "i16", False, True, True),
)
_WRAPPING: dict[tuple[bool, bool], Fn] = {
    (False, False): np.add,
    (False, True): np.subtract,
    (True, True): swapped(np.subtract),
}


def _define_sums() -> None:
    for name, kind, reverse, subtract, keep in _CLAMPED_SUMS:
        exact = integer.sub_saturating if subtract else integer.add_saturating
        saturate = _saturating(exact, int(kind[1:]), kind[0] == "i", reverse)
        fn = _WRAPPING[reverse, subtract]
        define(name, "valu", kind, f"{kind} {kind}", fn, saturate=saturate, keep_half=keep)


_PRODUCTS = (
    ("v_mul_lo_u32", "u32", "u32 u32", np.multiply),
    ("v_mul_lo_i32", "u32", "u32 u32", np.multiply),
    ("v_mul_hi_u32", "u32", "u32 u32", integer.mul_hi_u32),
    ("v_mul_hi_i32", "u32", "u32 u32", integer.mul_hi_i32),
    ("v_mul_lo_u16", "u16", "u16 u16", lambda a, b: a * b),
    ("v_mul_u32_u24", "u32", "u32 u32", lambda a, b: integer.unsigned24(a) * integer.unsigned24(b)),
    ("v_mul_i32_i24", "u32", "u32 u32", lambda a, b: integer.signed24(a) * integer.signed24(b)),
    ("v_mul_hi_u32_u24", "u32", "u32 u32", integer.mul_hi_u24),
    ("v_mul_hi_i32_i24", "u32", "u32 u32", integer.mul_hi_i24),
    ("v_mad_u32_u24", "u32", "u32 u32 u32", integer.mad_u24),
    ("v_mad_i32_i24", "u32", "u32 u32 u32", integer.mad_i24),
    ("v_mad_u32_u16", "u32", "u16 u16 u32", lambda a, b, c: a.astype(U32) * b + c),
    ("v_mad_i32_i16", "i32", "i16 i16 i32", lambda a, b, c: a.astype(I32) * b + c),
    ("v_mad_u64_u32", "u64 m64", "u32 u32 u64", integer.mad_u64_u32),
    ("v_mad_i64_i32", "u64 m64", "u32 u32 u64", integer.mad_i64_i32),
    ("v_mad_legacy_u16", "u16", "u16 u16 u16", lambda a, b, c: a * b + c),
    ("v_mad_legacy_i16", "i16", "i16 i16 i16", lambda a, b, c: a * b + c),
)
for _kind in ("u16", "i16"):
    define(
        f"v_mad_{_kind}", "valu", _kind, f"{_kind} {_kind} {_kind}", lambda a, b, c: a * b + c, keep_half=True,
        saturate=partial(integer.mad_saturating, bits=16, signed=_kind == "i16"),
    )  # fmt: skip


def _median(a: Any, b: Any, c: Any) -> Any:
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


for _kind in ("i16", "u16", "i32", "u32"):
    _keep = _kind.endswith("16")
    define(f"v_min_{_kind}", "valu", _kind, f"{_kind} {_kind}", np.minimum)
    define(f"v_max_{_kind}", "valu", _kind, f"{_kind} {_kind}", np.maximum)
    _src = " ".join([_kind] * 3)
    define(f"v_min3_{_kind}", "valu", _kind, _src, lambda a, b, c: np.minimum(np.minimum(a, b), c), keep_half=_keep)
    define(f"v_max3_{_kind}", "valu", _kind, _src, lambda a, b, c: np.maximum(np.maximum(a, b), c), keep_half=_keep)
    define(f"v_med3_{_kind}", "valu", _kind, _src, _median, keep_half=_keep)


def _pack_i16(a: Any, b: Any) -> Any:
    low, high = (np.clip(x, I32(-0x8000), I32(0x7FFF)) for x in (a, b))
    return ((low & I32(0xFFFF)) | (high << I32(16))).view(U32)


def _pack_u16(a: Any, b: Any) -> Any:
    return np.minimum(a, U32(0xFFFF)) | (np.minimum(b, U32(0xFFFF)) << U32(16))


def _saturate_bytes(a: Any) -> Any:
    """Two signed 16-bit values to two unsigned bytes."""
    low, high = a.astype(U16).view(I16), (a >> U32(16)).astype(U16).view(I16)
    low, high = (np.clip(x, I16(0), I16(255)).view(U16) for x in (low, high))
    return low | (high << U16(8))


_PACKS = (
    ("v_cvt_pk_i16_i32", "u32", "i32 i32", _pack_i16, BOTH),
    ("v_cvt_pk_u16_u32", "u32", "u32 u32", _pack_u16, BOTH),
    ("v_sat_pk_u8_i16", "u16", "u32", _saturate_bytes, BOTH),
    ("v_ashr_pk_i8_i32", "u16", "u32 u32 u32", partial(integer.ashr_pk, signed=True), GFX950),
    ("v_ashr_pk_u8_i32", "u16", "u32 u32 u32", partial(integer.ashr_pk, signed=False), GFX950),
)
for _name, _dst, _sources, _fn, _archs in _PACKS:
    define(_name, "valu", _dst, _sources, _fn, _archs, keep_half=_archs is GFX950)


def _windows(a: Any) -> list[Any]:
    """The four words of a 64-bit value that start at bytes 0, 1, 2 and 3."""
    return [(a >> U64(8 * i)).astype(U32) for i in range(4)]


def _quad(sad: Fn, a: Any, b: Any, c: Any) -> Any:
    """Four byte sums of sliding windows, each added to 16 bits of ``c``; every sum keeps its low 16 bits."""
    total: Any = U64(0)
    for i, window in enumerate(_windows(a)):
        addend = (c >> U64(16 * i)).astype(U32) & U32(0xFFFF)
        total = total | ((sad(window, b, addend) & U32(0xFFFF)).astype(U64) << U64(16 * i))
    return total


def _quad_u32(a: Any, b: Any, *addends: Any) -> tuple[Any, ...]:
    return tuple(integer.msad_u8(window, b, c) for window, c in zip(_windows(a), addends, strict=True))


_DIFFERENCES = (
    ("v_sad_u8", "u32", "u32 u32 u32", integer.sad_u8),
    ("v_sad_hi_u8", "u32", "u32 u32 u32", integer.sad_hi_u8),
    ("v_sad_u16", "u32", "u32 u32 u32", integer.sad_u16),
    ("v_sad_u32", "u32", "u32 u32 u32", integer.sad_u32),
    ("v_msad_u8", "u32", "u32 u32 u32", integer.msad_u8),
    ("v_qsad_pk_u16_u8", "u64", "u64 u32 u64", partial(_quad, integer.sad_u8)),
    ("v_mqsad_pk_u16_u8", "u64", "u64 u32 u64", partial(_quad, integer.msad_u8)),
    ("v_lerp_u8", "u32", "u32 u32 u32", integer.lerp_u8),
)
define("v_mqsad_u32_u8", "valu", "u32 u32 u32 u32", "u64 u32 u32 u32 u32 u32", _quad_u32, quads=True)


def _random(a: Any) -> Any:
    """One step of a linear feedback shift register."""
    return (a << U32(1)) ^ ((a >> U32(31)) * U32(197))


define("v_prng_b32", "valu", "u32", "u32", _random, GFX950)

for _row in (*_MOVES, *_SUMS, *_PRODUCTS, *_DIFFERENCES):
    define(_row[0], "valu", _row[1], _row[2], _row[3])
_define_sums()
