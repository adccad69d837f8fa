"""Semantics of the memory atomics, shared by GLOBAL, FLAT, MUBUF and DS (CDNA3 and CDNA4 ISA, opcode chapters).

Float addition rounds to nearest even whatever MODE says. In memory (L2) it keeps denormals; LDS obeys the MODE
register's denormal fields, except for f64, which is never flushed (LLVM pull requests 89468 and 96443).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..memory.atomics import AtomicOp
from ..numerics.fma import add16, add32, add64
from ..numerics.formats import bf16_to_f32, f32_to_bf16
from ..numerics.ieee import FLUSH_NONE, flush_inputs, flush_outputs

if TYPE_CHECKING:
    from ..machine.waves import FloatMode

U16, U32, U64, I32, I64 = np.uint16, np.uint32, np.uint64, np.int32, np.int64
Semantics = Callable[..., Any]


def _inc(old: Any, limit: Any) -> Any:
    return np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))


def _dec(old: Any, limit: Any) -> Any:
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


def _swap_if_equal(old: Any, new: Any, compared: Any) -> Any:
    return np.where(old == compared, new, old)


def _swap(old: Any, new: Any) -> Any:
    return new


def _last(a: Any, b: Any) -> Any:
    return b


def _minimum(old: Any, x: Any) -> Any:
    # a NaN in memory stays, a NaN operand is ignored: the comparison is false for both
    return np.where(x < old, x, old)


def _maximum(old: Any, x: Any) -> Any:
    return np.where(x > old, x, old)


def _pk_add_f16(old: Any, x: Any) -> Any:
    a, b = _halves(old), _halves(x)
    return _joined(add16(a.view(np.float16), b.view(np.float16)).view(U16))


def _pk_add_bf16(old: Any, x: Any) -> Any:
    return _joined(f32_to_bf16(add32(bf16_to_f32(_halves(old)), bf16_to_f32(_halves(x)))))


def _halves(word: Any) -> Any:
    return np.ascontiguousarray(word).view(U16)


def _joined(halves: Any) -> Any:
    return np.ascontiguousarray(halves, U16).view(U32)


def _whole(u: Any, i: Any) -> dict[str, AtomicOp]:
    """Integer operations on elements of one size; ``u`` and ``i`` are its unsigned and signed types."""
    return {
        "add": AtomicOp("add", u, np.add, np.add),
        "sub": AtomicOp("sub", u, np.subtract, np.add),
        "rsub": AtomicOp("rsub", u, lambda old, x: x - old),
        "smin": AtomicOp("smin", i, np.minimum, np.minimum),
        "umin": AtomicOp("umin", u, np.minimum, np.minimum),
        "smax": AtomicOp("smax", i, np.maximum, np.maximum),
        "umax": AtomicOp("umax", u, np.maximum, np.maximum),
        "and": AtomicOp("and", u, np.bitwise_and, np.bitwise_and),
        "or": AtomicOp("or", u, np.bitwise_or, np.bitwise_or),
        "xor": AtomicOp("xor", u, np.bitwise_xor, np.bitwise_xor),
        "inc": AtomicOp("inc", u, _inc),
        "dec": AtomicOp("dec", u, _dec),
        "swap": AtomicOp("swap", u, _swap, _last),
        "cmpswap": AtomicOp("cmpswap", u, _swap_if_equal),
    }


#: Operation name -> AtomicOp on 4-byte and on 8-byte elements.
INTEGER = {4: _whole(U32, I32), 8: _whole(U64, I64)}

ADD_F32 = AtomicOp("add_f32", np.float32, add32, accumulate=(np.add, np.float32(-0.0)))
ADD_F64 = AtomicOp("add_f64", np.float64, add64, accumulate=(np.add, np.float64(-0.0)))
MIN_F32 = AtomicOp("min_f32", np.float32, _minimum)
MAX_F32 = AtomicOp("max_f32", np.float32, _maximum)
MIN_F64 = AtomicOp("min_f64", np.float64, _minimum)
MAX_F64 = AtomicOp("max_f64", np.float64, _maximum)
PK_ADD_F16 = AtomicOp("pk_add_f16", U32, _pk_add_f16)
PK_ADD_BF16 = AtomicOp("pk_add_bf16", U32, _pk_add_bf16)


def in_lds(op: AtomicOp, mode: FloatMode) -> AtomicOp:
    """The operation as LDS performs it: with the denormal fields of the MODE register."""
    if op is ADD_F32 and mode.denorm_32 != FLUSH_NONE:
        return replace(op, fn=_flushing(add32, mode.denorm_32), accumulate=None)
    if op is PK_ADD_F16 and mode.denorm_16_64 != FLUSH_NONE:
        half = _flushing(add16, mode.denorm_16_64)
        return replace(op, fn=lambda old, x: _joined(half(*(_halves(v).view(np.float16) for v in (old, x))).view(U16)))
    return op


def _flushing(add: Semantics, denorm: int) -> Semantics:
    return lambda old, x: flush_outputs(add(flush_inputs(old, denorm), flush_inputs(x, denorm)), denorm)
