"""LDS instructions (CDNA3 and CDNA4 ISA, DS opcodes). GDS and GWS are not covered."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..memory.atomics import AtomicOp
from .atomic_ops import (
    ADD_F32,
    ADD_F64,
    INTEGER,
    MAX_F32,
    MAX_F64,
    MIN_F32,
    MIN_F64,
    PK_ADD_BF16,
    PK_ADD_F16,
)
from .entry import GFX950, define
from .memory_vector import moved

U32, U64 = np.uint32, np.uint64

#: Mnemonic -> format of ``machine.transfer.FORMATS``.
_READS = {
    "u8": "ubyte", "i8": "sbyte", "u16": "ushort", "i16": "sshort", "b32": "dword", "b64": "dwordx2",
    "b96": "dwordx3", "b128": "dwordx4", "u8_d16": "ubyte_d16", "u8_d16_hi": "ubyte_d16_hi", "i8_d16": "sbyte_d16",
    "i8_d16_hi": "sbyte_d16_hi", "u16_d16": "short_d16", "u16_d16_hi": "short_d16_hi",
}  # fmt: skip
_WRITES = {
    "b8": "byte", "b16": "short", "b32": "dword", "b64": "dwordx2", "b96": "dwordx3", "b128": "dwordx4",
    "b8_d16_hi": "byte_d16_hi", "b16_d16_hi": "short_d16_hi",
}  # fmt: skip
for _name, _format in _READS.items():
    define(f"ds_read_{_name}", "ds", "", "", moved, kind="load", format=_format)
for _name, _format in _WRITES.items():
    define(f"ds_write_{_name}", "ds", "", "", moved, kind="store", format=_format)

_SWAP = {4: INTEGER[4]["swap"], 8: INTEGER[8]["swap"]}
for _bits, _nbytes in (("b32", 4), ("b64", 8)):
    for _st64 in (False, True):
        _unit, _tag = (64 * _nbytes, "st64") if _st64 else (_nbytes, "")
        define(f"ds_read2{_tag}_{_bits}", "ds_two", "", "", moved, kind="load", nbytes=_nbytes, unit=_unit)
        define(f"ds_write2{_tag}_{_bits}", "ds_two", "", "", moved, kind="store", nbytes=_nbytes, unit=_unit)
        define(
            f"ds_wrxchg2{_tag}_rtn_{_bits}", "ds_two", "", "", moved,
            kind="atomic", nbytes=_nbytes, unit=_unit, op=_SWAP[_nbytes],
        )  # fmt: skip


def _mask_or(old: Any, value: Any, mask: Any) -> Any:
    return (old & ~mask) | value


def _swap_if_equal(old: Any, new: Any, compared: Any) -> Any:
    return np.where(old == compared, new, old)


def _wrap(old: Any, back: Any, limit: Any) -> Any:
    return np.where(old >= limit, old - limit, old + back)


def _conditional_swap(old: Any, x: Any) -> Any:
    """Each half is replaced by the operand's low 31 bits where the operand's bit 31 is set."""
    before, value = np.ascontiguousarray(old).view(U32), np.ascontiguousarray(x).view(U32)
    return np.where(value >> U32(31) != 0, value & U32(0x7FFFFFFF), before).view(U64)


#: Name, type tag, operation, operands. ``ds_<name>_<tag>`` and ``ds_<name>_rtn_<tag>`` exist unless said otherwise.
_ATOMICS: list[tuple[str, str, AtomicOp, int]] = []
for _nbytes, _w in ((4, "32"), (8, "64")):
    _ops = INTEGER[_nbytes]
    _ATOMICS += [(n, f"u{_w}", _ops[n], 1) for n in ("add", "sub", "rsub", "inc", "dec")]
    _ATOMICS += [("min", f"i{_w}", _ops["smin"], 1), ("max", f"i{_w}", _ops["smax"], 1)]
    _ATOMICS += [("min", f"u{_w}", _ops["umin"], 1), ("max", f"u{_w}", _ops["umax"], 1)]
    _ATOMICS += [(n, f"b{_w}", _ops[n], 1) for n in ("and", "or", "xor")]
    _ATOMICS += [("mskor", f"b{_w}", AtomicOp("mskor", _ops["and"].dtype, _mask_or), 2)]
    _ATOMICS += [("cmpst", f"b{_w}", _ops["cmpswap"], 2)]
_ATOMICS += [
    ("cmpst", "f32", AtomicOp("cmpst_f32", np.float32, _swap_if_equal), 2),
    ("cmpst", "f64", AtomicOp("cmpst_f64", np.float64, _swap_if_equal), 2),
    ("add", "f32", ADD_F32, 1),
    ("add", "f64", ADD_F64, 1),
    ("min", "f32", MIN_F32, 1),
    ("max", "f32", MAX_F32, 1),
    ("min", "f64", MIN_F64, 1),
    ("max", "f64", MAX_F64, 1),
    ("pk_add", "f16", PK_ADD_F16, 1),
    ("pk_add", "bf16", PK_ADD_BF16, 1),
]
for _name, _tag, _op, _count in _ATOMICS:
    define(f"ds_{_name}_{_tag}", "ds", "", "", moved, kind="atomic", op=_op, operands=_count)
    define(f"ds_{_name}_rtn_{_tag}", "ds", "", "", moved, kind="atomic", op=_op, operands=_count, returns=True)

#: Those that only exist with a result.
_RETURNING: tuple[tuple[str, AtomicOp, int], ...] = (
    ("ds_wrxchg_rtn_b32", _SWAP[4], 1),
    ("ds_wrxchg_rtn_b64", _SWAP[8], 1),
    ("ds_wrap_rtn_b32", AtomicOp("wrap", U32, _wrap), 2),
    ("ds_condxchg32_rtn_b64", AtomicOp("condxchg32", U64, _conditional_swap), 1),
)
for _name, _op, _count in _RETURNING:
    define(_name, "ds", "", "", moved, kind="atomic", op=_op, operands=_count, returns=True)

define("ds_append", "ds_count", "", "", moved, op=INTEGER[4]["add"])
define("ds_consume", "ds_count", "", "", moved, op=INTEGER[4]["sub"])
define("ds_read_addtid_b32", "ds_lane", "", "", moved, kind="load")
define("ds_write_addtid_b32", "ds_lane", "", "", moved, kind="store")
define("ds_swizzle_b32", "ds_swizzle", "", "", moved)
define("ds_permute_b32", "ds_permute", "", "", moved, pull=False)
define("ds_bpermute_b32", "ds_permute", "", "", moved, pull=True)
define("ds_nop", "nop", "", "", moved)
for _tag, _nbytes, _size in (("b64_tr_b16", 8, 16), ("b64_tr_b8", 8, 8), ("b64_tr_b4", 8, 4), ("b96_tr_b6", 12, 6)):
    define(f"ds_read_{_tag}", "ds_transpose", "", "", moved, GFX950, nbytes=_nbytes, bits=_size)
