"""Packed math (VOP3P) on pairs of f32 and of 16-bit values, and moves to and from AGPRs.

Source: CDNA3 and CDNA4 ISA manuals, VOP3P opcode tables. ``V_ACCVGPR_*`` obey EXEC as every move does (*inferred*: the
manual excepts only the MFMA operations from it).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..numerics import fma, ieee
from ..numerics.into import move
from .entry import GFX950, define

I16, U16, I32, I64 = np.int16, np.uint16, np.int32, np.int64
_SHIFT = U16(15)


def _no_move(*_: Any) -> Any:
    raise AssertionError("executed by its binder")


def _clipped(op: Callable[..., Any], dtype: type) -> Callable[..., Any]:
    """The integer operation in 64 bits, saturated to ``dtype`` (the clamp modifier)."""
    limits = np.iinfo(dtype)
    return lambda *x: np.clip(op(*[np.asarray(a).astype(I64) for a in x]), limits.min, limits.max).astype(dtype)


def _shift(op: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Only the low four bits of the amount count; ``op`` takes value and amount."""
    return lambda amount, x: op(x, (amount & _SHIFT).astype(x.dtype))


# -- f32 pairs -------------------------------------------------------------------------------------------------------
define("v_pk_add_f32", "packed32", "f32", "f32 f32", fma.add32, rounds=True)
define("v_pk_mul_f32", "packed32", "f32", "f32 f32", fma.mul32, rounds=True)
define("v_pk_fma_f32", "packed32", "f32", "f32 f32 f32", fma.fma32, rounds=True)
define("v_pk_mov_b32", "packed_move", "u32", "u32 u32", _no_move)

# -- f16 pairs -------------------------------------------------------------------------------------------------------
define("v_pk_add_f16", "packed16", "f16", "f16 f16", fma.add16, rounds=True)
define("v_pk_mul_f16", "packed16", "f16", "f16 f16", fma.mul16, rounds=True)
define("v_pk_fma_f16", "packed16", "f16", "f16 f16 f16", fma.fma16, rounds=True)
define("v_pk_fmac_f16", "packed16", "f16", "f16 f16", fma.fma16, rounds=True, dst_is_source=True)
define("v_pk_min_f16", "packed16", "f16", "f16 f16", ieee.minimum, flushes=True, ieee=True)
define("v_pk_max_f16", "packed16", "f16", "f16 f16", ieee.maximum, flushes=True, ieee=True)
define("v_pk_minimum3_f16", "packed16", "f16", "f16 f16 f16", ieee.minimum3, GFX950, flushes=True)
define("v_pk_maximum3_f16", "packed16", "f16", "f16 f16 f16", ieee.maximum3, GFX950, flushes=True)

# -- 16-bit integers: name, sources, operation, whether clamp saturates it -------------------------------------------
_INTEGER: list[tuple[str, int, Callable[..., Any], bool]] = [
    ("add", 2, lambda a, b: a + b, True),
    ("sub", 2, lambda a, b: a - b, True),
    ("mad", 3, lambda a, b, c: a * b + c, True),
    ("min", 2, np.minimum, False),
    ("max", 2, np.maximum, False),
]
for _name, _sources, _op, _saturates in _INTEGER:
    for _t, _dtype in (("i16", I16), ("u16", U16)):
        _clamped = _clipped(_op, _dtype) if _saturates else None
        define(f"v_pk_{_name}_{_t}", "packed16", _t, " ".join([_t] * _sources), _op, saturate=_clamped)
define("v_pk_mul_lo_u16", "packed16", "u16", "u16 u16", lambda a, b: a * b)
define("v_pk_lshlrev_b16", "packed16", "u16", "u16 u16", _shift(lambda x, n: x << n))
define("v_pk_lshrrev_b16", "packed16", "u16", "u16 u16", _shift(lambda x, n: x >> n))
define("v_pk_ashrrev_i16", "packed16", "i16", "u16 i16", _shift(lambda x, n: x >> n))

# -- moves to and from the accumulation registers --------------------------------------------------------------------
for _name in ("read", "write", "mov"):
    define(f"v_accvgpr_{_name}_b32", "valu", "u32", "u32", move)
