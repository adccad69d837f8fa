"""Scalar ALU: SOP1, SOP2, SOPC, SOPK (CDNA3 ISA, chapter "Scalar ALU Operations" and the SOP opcode tables).

Functions see uint32/int32/uint64 values [n], one per wave, and return results in the order of their destinations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .entry import define

U32, I32, U64, I64 = np.uint32, np.int32, np.uint64, np.int64
_M5, _M6 = U32(31), U64(63)
_ONES64 = U64(0xFFFFFFFFFFFFFFFF)


def _u64(x: Any) -> Any:
    return np.asarray(x).astype(U64)


def _k(x: Any) -> Any:
    """Sign-extended 16-bit immediate, however the text spells it."""
    return ((x & U32(0xFFFF)) ^ U32(0x8000)) - U32(0x8000)


def _with_scc(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Result plus SCC = (result != 0)."""

    def run(*args: Any) -> tuple[Any, Any]:
        result = np.asarray(fn(*args))
        return result, result != 0

    return run


# -- arithmetic ------------------------------------------------------------------------------------------------------
def _add_u32(a: Any, b: Any) -> Any:
    total = _u64(a) + _u64(b)
    return total.astype(U32), total >> U64(32) != 0


def _addc(a: Any, b: Any, scc: Any) -> Any:
    total = _u64(a) + _u64(b) + _u64(scc)
    return total.astype(U32), total >> U64(32) != 0


def _sub_u32(a: Any, b: Any) -> Any:
    return a - b, a < b


def _subb(a: Any, b: Any, scc: Any) -> Any:
    need = _u64(b) + _u64(scc)
    return (_u64(a) - need).astype(U32), need > _u64(a)


def _signed(op: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Wrapped 32-bit result plus SCC = signed overflow."""

    def run(a: Any, b: Any) -> tuple[Any, Any]:
        exact = op(np.asarray(a).astype(I64), np.asarray(b).astype(I64))
        result = exact.astype(I32)
        return result, result != exact

    return run


def _mul_hi(dtype: Any) -> Callable[..., Any]:
    wide = U64 if dtype is U32 else I64
    return lambda a, b: ((np.asarray(a).astype(wide) * np.asarray(b).astype(wide)) >> wide(32)).astype(dtype)


def _lshl_add(shift: int) -> Callable[..., Any]:
    def run(a: Any, b: Any) -> tuple[Any, Any]:
        total = (_u64(a) << U64(shift)) + _u64(b)
        return total.astype(U32), total >> U64(32) != 0

    return run


def _abs(a: Any) -> Any:
    result = np.where(a < 0, I32(0) - a, a)
    return result, result != 0


def _absdiff(a: Any, b: Any) -> Any:
    difference = np.asarray(a) - np.asarray(b)
    result = np.where(difference < 0, I32(0) - difference, difference)
    return result, result != 0


# -- bits ------------------------------------------------------------------------------------------------------------
def _bfe_u(bits: int, dtype: Any) -> Callable[..., Any]:
    def run(a: Any, b: Any) -> tuple[Any, Any]:
        offset = (b & U32(bits - 1)).astype(dtype)
        width = (b >> U32(16)) & U32(0x7F)
        low = np.where(
            width >= bits, dtype((1 << bits) - 1), (dtype(1) << (width & U32(bits - 1)).astype(dtype)) - dtype(1)
        )
        result = (a >> offset) & low
        return result, result != 0

    return run


def _bfe_s(bits: int, dtype: Any, unsigned: Any) -> Callable[..., Any]:
    def run(a: Any, b: Any) -> tuple[Any, Any]:
        offset = (b & U32(bits - 1)).astype(I64)
        width = ((b >> U32(16)) & U32(0x7F)).astype(I64)
        up = np.maximum(bits - offset - width, 0)
        shifted = (np.asarray(a).view(unsigned) << up.astype(unsigned)).view(dtype)
        down = np.where(offset + width < bits, bits - width, offset)
        result = np.where(width == 0, dtype(0), shifted >> np.minimum(down, bits - 1).astype(dtype))
        return result, result != 0

    return run


def _bfm(bits: int, dtype: Any) -> Callable[..., Any]:
    mask = U32(bits - 1)
    return lambda a, b: (((dtype(1) << (a & mask).astype(dtype)) - dtype(1)) << (b & mask).astype(dtype)).astype(dtype)


def _reverse(bits: int) -> Callable[[Any], Any]:
    dtype = U32 if bits == 32 else U64

    def run(a: Any) -> Any:
        raw = np.atleast_1d(np.asarray(a, dtype))
        order = np.unpackbits(raw.view(np.uint8).reshape(len(raw), bits // 8), axis=1, bitorder="little")
        return np.packbits(order[:, ::-1], axis=1, bitorder="little").view(dtype)[:, 0]

    return run


def _first_one(a: Any) -> Any:
    """Position of the lowest set bit; -1 when there is none."""
    low = a & (~a + a.dtype.type(1))
    return np.where(a == 0, I32(-1), np.bitwise_count(low - a.dtype.type(1)).astype(I32))


def _leading_zeros(a: Any) -> Any:
    """Zeros above the highest set bit; -1 when there is none."""
    bits = 8 * a.dtype.itemsize
    smeared = a.copy() if isinstance(a, np.ndarray) else np.asarray(a)
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < bits:
            smeared = smeared | (smeared >> a.dtype.type(shift))
    return np.where(a == 0, I32(-1), bits - np.bitwise_count(smeared).astype(I32))


def _leading_sign(a: Any) -> Any:
    """Bits from the top that equal the sign bit; -1 when all do."""
    return _leading_zeros(np.where(a >> a.dtype.type(8 * a.dtype.itemsize - 1) != 0, ~a, a))


def _quads(a: Any) -> Any:
    """Bit 4i set where any bit of quad i is set."""
    one = a.dtype.type(1)
    any_set = a | (a >> one) | (a >> a.dtype.type(2)) | (a >> a.dtype.type(3))
    return any_set & a.dtype.type(0x1111111111111111 & ((1 << (8 * a.dtype.itemsize)) - 1))


def _quadmask(a: Any) -> Any:
    heads, result = _quads(a), np.zeros_like(a)
    for i in range(2 * a.dtype.itemsize):
        result = result | (((heads >> a.dtype.type(4 * i)) & a.dtype.type(1)) << a.dtype.type(i))
    return result


def _replicate(a: Any) -> Any:
    result, wide = U64(0), _u64(a)
    for i in range(32):
        result = result | (((wide >> U64(i)) & U64(1)) * U64(3) << U64(2 * i))
    return result


def _bitset(value: int, dtype: Any, mask: Any) -> Callable[..., Any]:
    def run(old: Any, position: Any) -> Any:
        bit = dtype(1) << (position & mask).astype(dtype)
        return old | bit if value else old & ~bit

    return run


def _bitcmp(value: int, dtype: Any, mask: Any) -> Callable[..., Any]:
    return lambda a, b: ((a >> (b & mask).astype(dtype)) & dtype(1)) == dtype(value)


def _halves(high_a: bool, high_b: bool) -> Callable[..., Any]:
    def run(a: Any, b: Any) -> Any:
        low = a >> U32(16) if high_a else a & U32(0xFFFF)
        return low | (b & U32(0xFFFF0000) if high_b else b << U32(16))

    return run


_LOGIC: dict[str, Callable[[Any, Any], Any]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
}
#: with the roles swapped: s_andn1_saveexec computes ~src & exec
_N1: dict[str, Callable[[Any, Any], Any]] = {"andn1": lambda a, b: ~a & b, "orn1": lambda a, b: ~a | b}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b,
    "lg": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}


def _save_exec(op: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def run(a: Any, exec_: Any) -> tuple[Any, Any, Any]:
        new = op(a, exec_)
        return exec_, new, new != 0

    return run


def _write_exec(op: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def run(a: Any, exec_: Any) -> tuple[Any, Any, Any]:
        new = op(a, exec_)
        return new, new, new != 0

    return run


#: mnemonic, destinations, sources, semantics
_ROWS: list[tuple[str, str, str, Callable[..., Any]]] = [
    # SOP1
    ("s_mov_b32", "b32", "b32", lambda a: a),
    ("s_mov_b64", "b64", "b64", lambda a: a),
    ("s_not_b32", "b32 scc", "b32", _with_scc(lambda a: ~a)),
    ("s_not_b64", "b64 scc", "b64", _with_scc(lambda a: ~a)),
    ("s_wqm_b32", "b32 scc", "b32", _with_scc(lambda a: _quads(a) * U32(15))),
    ("s_wqm_b64", "b64 scc", "b64", _with_scc(lambda a: _quads(a) * U64(15))),
    ("s_brev_b32", "b32", "b32", _reverse(32)),
    ("s_brev_b64", "b64", "b64", _reverse(64)),
    ("s_bcnt0_i32_b32", "i32 scc", "b32", _with_scc(lambda a: np.bitwise_count(~a).astype(I32))),
    ("s_bcnt0_i32_b64", "i32 scc", "b64", _with_scc(lambda a: np.bitwise_count(~a).astype(I32))),
    ("s_bcnt1_i32_b32", "i32 scc", "b32", _with_scc(lambda a: np.bitwise_count(a).astype(I32))),
    ("s_bcnt1_i32_b64", "i32 scc", "b64", _with_scc(lambda a: np.bitwise_count(a).astype(I32))),
    ("s_ff0_i32_b32", "i32", "b32", lambda a: _first_one(~a)),
    ("s_ff0_i32_b64", "i32", "b64", lambda a: _first_one(~a)),
    ("s_ff1_i32_b32", "i32", "b32", _first_one),
    ("s_ff1_i32_b64", "i32", "b64", _first_one),
    ("s_flbit_i32_b32", "i32", "b32", _leading_zeros),
    ("s_flbit_i32_b64", "i32", "b64", _leading_zeros),
    ("s_flbit_i32", "i32", "b32", _leading_sign),
    ("s_flbit_i32_i64", "i32", "b64", _leading_sign),
    ("s_sext_i32_i8", "b32", "b32", lambda a: ((a & U32(0xFF)) ^ U32(0x80)) - U32(0x80)),
    ("s_sext_i32_i16", "b32", "b32", _k),
    ("s_quadmask_b32", "b32 scc", "b32", _with_scc(_quadmask)),
    ("s_quadmask_b64", "b64 scc", "b64", _with_scc(_quadmask)),
    ("s_abs_i32", "i32 scc", "i32", _abs),
    ("s_bitreplicate_b64_b32", "b64", "b32", _replicate),
    # SOP2
    ("s_add_u32", "u32 scc", "u32 u32", _add_u32),
    ("s_sub_u32", "u32 scc", "u32 u32", _sub_u32),
    ("s_add_i32", "i32 scc", "i32 i32", _signed(lambda a, b: a + b)),
    ("s_sub_i32", "i32 scc", "i32 i32", _signed(lambda a, b: a - b)),
    ("s_addc_u32", "u32 scc", "u32 u32 scc", _addc),
    ("s_subb_u32", "u32 scc", "u32 u32 scc", _subb),
    ("s_min_i32", "i32 scc", "i32 i32", lambda a, b: (np.minimum(a, b), a < b)),
    ("s_min_u32", "u32 scc", "u32 u32", lambda a, b: (np.minimum(a, b), a < b)),
    ("s_max_i32", "i32 scc", "i32 i32", lambda a, b: (np.maximum(a, b), a > b)),
    ("s_max_u32", "u32 scc", "u32 u32", lambda a, b: (np.maximum(a, b), a > b)),
    ("s_cselect_b32", "b32", "b32 b32 scc", lambda a, b, scc: np.where(scc, a, b)),
    ("s_cselect_b64", "b64", "b64 b64 scc", lambda a, b, scc: np.where(scc, a, b)),
    ("s_lshl_b32", "b32 scc", "b32 u32", _with_scc(lambda a, b: a << (b & _M5))),
    ("s_lshl_b64", "b64 scc", "b64 u32", _with_scc(lambda a, b: a << (_u64(b) & _M6))),
    ("s_lshr_b32", "b32 scc", "b32 u32", _with_scc(lambda a, b: a >> (b & _M5))),
    ("s_lshr_b64", "b64 scc", "b64 u32", _with_scc(lambda a, b: a >> (_u64(b) & _M6))),
    ("s_ashr_i32", "i32 scc", "i32 u32", _with_scc(lambda a, b: a >> (b & _M5).astype(I32))),
    ("s_ashr_i64", "i64 scc", "i64 u32", _with_scc(lambda a, b: a >> (_u64(b) & _M6).astype(I64))),
    ("s_bfm_b32", "b32", "u32 u32", _bfm(32, U32)),
    ("s_bfm_b64", "b64", "u32 u32", _bfm(64, U64)),
    ("s_mul_i32", "u32", "u32 u32", lambda a, b: a * b),
    ("s_mul_hi_u32", "u32", "u32 u32", _mul_hi(U32)),
    ("s_mul_hi_i32", "i32", "i32 i32", _mul_hi(I32)),
    ("s_bfe_u32", "u32 scc", "u32 u32", _bfe_u(32, U32)),
    ("s_bfe_u64", "u64 scc", "u64 u32", _bfe_u(64, U64)),
    ("s_bfe_i32", "i32 scc", "i32 u32", _bfe_s(32, I32, U32)),
    ("s_bfe_i64", "i64 scc", "i64 u32", _bfe_s(64, I64, U64)),
    ("s_absdiff_i32", "i32 scc", "i32 i32", _absdiff),
    ("s_lshl1_add_u32", "u32 scc", "u32 u32", _lshl_add(1)),
    ("s_lshl2_add_u32", "u32 scc", "u32 u32", _lshl_add(2)),
    ("s_lshl3_add_u32", "u32 scc", "u32 u32", _lshl_add(3)),
    ("s_lshl4_add_u32", "u32 scc", "u32 u32", _lshl_add(4)),
    ("s_pack_ll_b32_b16", "b32", "b32 b32", _halves(False, False)),
    ("s_pack_lh_b32_b16", "b32", "b32 b32", _halves(False, True)),
    ("s_pack_hh_b32_b16", "b32", "b32 b32", _halves(True, True)),
    # SOPC
    ("s_bitcmp0_b32", "scc", "b32 u32", _bitcmp(0, U32, U32(31))),
    ("s_bitcmp1_b32", "scc", "b32 u32", _bitcmp(1, U32, U32(31))),
    ("s_bitcmp0_b64", "scc", "b64 u32", _bitcmp(0, U64, U32(63))),
    ("s_bitcmp1_b64", "scc", "b64 u32", _bitcmp(1, U64, U32(63))),
    ("s_cmp_eq_u64", "scc", "u64 u64", lambda a, b: a == b),
    ("s_cmp_lg_u64", "scc", "u64 u64", lambda a, b: a != b),
    # SOPK
    ("s_movk_i32", "b32", "b32", _k),
]
#: the destination is read too: it arrives as first source
_READ_MODIFY: list[tuple[str, str, str, Callable[..., Any]]] = [
    ("s_cmov_b32", "b32", "b32 scc", lambda old, a, scc: np.where(scc, a, old)),
    ("s_cmov_b64", "b64", "b64 scc", lambda old, a, scc: np.where(scc, a, old)),
    ("s_cmovk_i32", "b32", "b32 scc", lambda old, a, scc: np.where(scc, _k(a), old)),
    ("s_addk_i32", "i32 scc", "b32", lambda old, k: _signed(lambda a, b: a + b)(old, _k(k).view(I32))),
    ("s_mulk_i32", "u32", "b32", lambda old, k: old * _k(k)),
    ("s_bitset0_b32", "b32", "u32", _bitset(0, U32, U32(31))),
    ("s_bitset1_b32", "b32", "u32", _bitset(1, U32, U32(31))),
    ("s_bitset0_b64", "b64", "u32", _bitset(0, U64, U32(63))),
    ("s_bitset1_b64", "b64", "u32", _bitset(1, U64, U32(63))),
]

for _row in _ROWS:
    define(_row[0], "salu", *_row[1:])
for _row in _READ_MODIFY:
    define(_row[0], "salu", *_row[1:], dst_is_source=True)
for _name, _op in _LOGIC.items():
    for _bits in ("b32", "b64"):
        define(f"s_{_name}_{_bits}", "salu", f"{_bits} scc", f"{_bits} {_bits}", _with_scc(_op))
for _name, _op in {**_LOGIC, **_N1}.items():
    define(f"s_{_name}_saveexec_b64", "salu", "b64 exec scc", "b64 exec", _save_exec(_op))
for _name, _op in (("andn1", _N1["andn1"]), ("andn2", _LOGIC["andn2"])):
    define(f"s_{_name}_wrexec_b64", "salu", "b64 exec scc", "b64 exec", _write_exec(_op))
for _name, _op in _COMPARE.items():
    for _kind in ("i32", "u32"):
        define(f"s_cmp_{_name}_{_kind}", "salu", "scc", f"{_kind} {_kind}", _op)
    define(f"s_cmpk_{_name}_i32", "salu", "scc", "i32 b32", lambda a, k, op=_op: op(a, _k(k).view(I32)))
    define(f"s_cmpk_{_name}_u32", "salu", "scc", "u32 b32", lambda a, k, op=_op: op(a, k & U32(0xFFFF)))
