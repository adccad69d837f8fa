"""Vector bit operations: logic, shifts, bit fields, counting, permutations of bits and bytes.

Semantics: CDNA3 and CDNA4 ISA manuals, VOP1, VOP2 and VOP3 opcode tables. Shift amounts use only as many bits as the
operand needs; the mask is applied first, so that a constant amount costs one scalar operation.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..numerics import integer
from ..numerics.into import into, placed, shift_left, shift_right, swapped, then
from .boolean3 import boolean3
from .entry import GFX950, define

U16, U32, U64 = np.uint16, np.uint32, np.uint64
I16, I32, I64 = np.int16, np.int32, np.int64
_M4, _M5, _M6 = U16(15), U32(31), U32(63)

_LOGIC = (
    ("v_and_b32", "u32", "u32 u32", np.bitwise_and),
    ("v_or_b32", "u32", "u32 u32", np.bitwise_or),
    ("v_xor_b32", "u32", "u32 u32", np.bitwise_xor),
    ("v_xnor_b32", "u32", "u32 u32", lambda a, b: ~(a ^ b)),
    ("v_not_b32", "u32", "u32", np.bitwise_not),
    ("v_and_or_b32", "u32", "u32 u32 u32", then(np.bitwise_and, np.bitwise_or)),
    ("v_or3_b32", "u32", "u32 u32 u32", then(np.bitwise_or, np.bitwise_or)),
    ("v_bfi_b32", "u32", "u32 u32 u32", lambda mask, a, b: (mask & (a ^ b)) ^ b),
)
_SHIFTS = (
    ("v_lshlrev_b32", "u32", "u32 u32", swapped(shift_left)),
    ("v_lshrrev_b32", "u32", "u32 u32", swapped(shift_right)),
    ("v_ashrrev_i32", "i32", "i32 i32", swapped(shift_right)),
    ("v_lshlrev_b64", "u64", "u32 u64", lambda n, a: a << (n & _M6)),
    ("v_lshrrev_b64", "u64", "u32 u64", lambda n, a: a >> (n & _M6)),
    ("v_ashrrev_i64", "i64", "i32 i64", lambda n, a: a >> (n & I32(63))),
    ("v_lshlrev_b16", "u16", "u16 u16", lambda n, a: a << (n & _M4)),
    ("v_lshrrev_b16", "u16", "u16 u16", lambda n, a: a >> (n & _M4)),
    ("v_ashrrev_i16", "i16", "i16 i16", lambda n, a: a >> (n & I16(15))),
    ("v_lshl_add_u32", "u32", "u32 u32 u32", then(shift_left, np.add)),
    ("v_lshl_or_b32", "u32", "u32 u32 u32", then(shift_left, np.bitwise_or)),
    ("v_add_lshl_u32", "u32", "u32 u32 u32", then(np.add, shift_left)),
    ("v_lshl_add_u64", "u64", "u64 u32 u64", lambda a, n, c: (a << (n & U32(7))) + c),
)

_LANE = np.arange(64, dtype=np.uint64)
_BELOW = (U64(1) << _LANE) - U64(1)
_BELOW_LOW, _BELOW_HIGH = _BELOW.astype(U32), (_BELOW >> U64(32)).astype(U32)


def _count_below(mask: Any) -> Any:
    """Ones of the first operand in lanes below one's own, within 32 lanes, plus the second operand."""
    return lambda a, b: np.bitwise_count(a & mask) + b


@cache
def _byte_moves(selector: int) -> tuple[tuple[tuple[int, int, Any], ...], Any] | None:
    """V_PERM_B32 with one selector as shifts: (0 low or 1 high source, bits to the left, mask or None), and the ones.

    Returns None for a selector that asks for signs (8..11).
    """
    masks: dict[tuple[int, int], int] = {}
    ones = 0
    for i, pick in enumerate(selector.to_bytes(4, "little")):
        if pick > 12:
            ones |= 0xFF << (8 * i)
        elif pick < 8:
            key = (pick >> 2, 8 * (i - (pick & 3)))
            masks[key] = masks.get(key, 0) | 0xFF << (8 * i)
        elif pick < 12:
            return None
    moves = []
    for (source, left), mask in masks.items():
        reached = (0xFFFFFFFF << left & 0xFFFFFFFF) if left >= 0 else 0xFFFFFFFF >> -left
        moves.append((source, left, None if mask == reached else U32(mask)))
    return tuple(moves), U32(ones)


@into()
def _permute_bytes(high: Any, low: Any, selector: Any, out: Any = None) -> Any:
    """V_PERM_B32; a selector that is the same everywhere becomes a few shifts."""
    first = int(selector.flat[0]) if np.ndim(selector) else int(selector)
    uniform = not np.ndim(selector) or bool((selector == U32(first)).all())
    plan = _byte_moves(first) if uniform else None
    if plan is None:
        return placed(integer.perm(high, low, selector), out)
    moves, ones = plan
    result = None
    for source, left, mask in moves:
        part = high if source else low
        target = out if result is None else None
        if left:
            part = (
                np.left_shift(part, U32(left), out=target) if left > 0 else np.right_shift(part, U32(-left), out=target)
            )
        if mask is not None:
            part = np.bitwise_and(part, mask, out=target)
        result = part if result is None else np.bitwise_or(result, part, out=out)
    if result is None:
        result = ones
    elif ones:
        result = np.bitwise_or(result, ones, out=out)
    return placed(result, out)


def _align_bits(high: Any, low: Any, shift: Any) -> Any:
    if np.ndim(shift):
        return integer.alignbit(high, low, shift)
    right = shift & _M5
    return (low >> right) | (high << (U32(32) - right)) if right else low


_FIELDS = (
    ("v_bfe_u32", "u32", "u32 u32 u32", integer.bfe_u32),
    ("v_bfe_i32", "u32", "u32 u32 u32", integer.bfe_i32),
    ("v_bfm_b32", "u32", "u32 u32", integer.bfm),
    ("v_bfrev_b32", "u32", "u32", integer.bfrev),
    ("v_bcnt_u32_b32", "u32", "u32 u32", integer.bcnt),
    ("v_ffbh_u32", "u32", "u32", integer.ffbh_u32),
    ("v_ffbh_i32", "u32", "u32", integer.ffbh_i32),
    ("v_ffbl_b32", "u32", "u32", integer.ffbl),
    ("v_mbcnt_lo_u32_b32", "u32", "u32 u32", _count_below(_BELOW_LOW)),
    ("v_mbcnt_hi_u32_b32", "u32", "u32 u32", _count_below(_BELOW_HIGH)),
    ("v_alignbit_b32", "u32", "u32 u32 u32", _align_bits),
    ("v_alignbyte_b32", "u32", "u32 u32 u32", integer.alignbyte),
)


define("v_perm_b32", "valu", "u32", "u32 u32 u32", _permute_bytes)
for _row in (*_LOGIC, *_SHIFTS, *_FIELDS):
    define(_row[0], "valu", _row[1], _row[2], _row[3])


def _bitop3(a: Any, b: Any, c: Any, bitop3: int) -> Any:
    return boolean3(bitop3)(a, b, c)


define("v_bitop3_b32", "valu", "u32", "u32 u32 u32", _bitop3, GFX950, keywords={"bitop3": 0})
define("v_bitop3_b16", "valu", "u16", "u16 u16 u16", _bitop3, GFX950, keywords={"bitop3": 0}, keep_half=True)
