"""Vector compares: one mask bit a lane; v_cmpx_* also make it the new EXEC mask (CDNA3 ISA, VOPC opcode table)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..numerics.ieee import class_test
from .entry import define

I16 = np.int16
Predicate = Callable[[Any, Any], Any]

_FALSE, _TRUE = np.zeros((1, 64), bool), np.ones((1, 64), bool)

_ORDERED: dict[str, Predicate] = {
    "f": lambda a, b: _FALSE,
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
INTEGER_PREDICATES: dict[str, Predicate] = {
    **_ORDERED,
    "ne": lambda a, b: a != b,
    "t": lambda a, b: _TRUE,
}


def _less_or_greater(a: Any, b: Any) -> Any:
    return (a < b) | (a > b)


def _both_numbers(a: Any, b: Any) -> Any:
    return (a == a) & (b == b)


#: A comparison with NaN is false; the predicates that begin with ``n`` are the negations of the others.
FLOAT_PREDICATES: dict[str, Predicate] = {
    **_ORDERED,
    "lg": _less_or_greater,
    "o": _both_numbers,
    "u": lambda a, b: (a != a) | (b != b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~_less_or_greater(a, b),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: a != b,
    "nlt": lambda a, b: ~(a < b),
    "tru": lambda a, b: _TRUE,
}


def _f16_keys(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """Integers in the order of the float16 values, -0 equal to +0, and where neither is NaN.

    NumPy compares float16 about ten times slower than integers.
    """
    keys, magnitudes = [], []
    for x in (a.view(I16), b.view(I16)):
        sign, magnitude = x >> I16(15), x & I16(0x7FFF)
        keys.append((magnitude ^ sign) - sign)
        magnitudes.append(magnitude)
    return keys[0], keys[1], np.maximum(*magnitudes) <= I16(0x7C00)


def _of_f16(fn: Predicate, negated: bool) -> Predicate:
    def compare(a: Any, b: Any) -> Any:
        x, y, numbers = _f16_keys(a, b)
        result = fn(x, y) & numbers
        return ~result if negated else result

    return compare


_BASE: dict[str, Predicate] = {**_ORDERED, "lg": lambda a, b: a != b, "o": lambda a, b: _TRUE}
_NEGATIONS = {"nge": "ge", "nlg": "lg", "ngt": "gt", "nle": "le", "neq": "eq", "nlt": "lt", "u": "o", "tru": "f"}
F16_PREDICATES: dict[str, Predicate] = {
    name: _of_f16(_BASE[_NEGATIONS.get(name, name)], name in _NEGATIONS) for name in FLOAT_PREDICATES
}


def _define_compare(predicate: str, kind: str, fn: Predicate, src: str, **options: Any) -> None:
    define(f"v_cmp_{predicate}_{kind}", "valu", "m64", src, fn, compare=True, **options)
    define(f"v_cmpx_{predicate}_{kind}", "valu", "m64", src, fn, compare=True, writes_exec=True, **options)


for _kind in ("i16", "u16", "i32", "u32", "i64", "u64"):
    for _name, _fn in INTEGER_PREDICATES.items():
        _define_compare(_name, _kind, _fn, f"{_kind} {_kind}")
for _kind in ("f16", "f32", "f64"):
    for _name, _fn in (F16_PREDICATES if _kind == "f16" else FLOAT_PREDICATES).items():
        _define_compare(_name, _kind, _fn, f"{_kind} {_kind}", flushes=True)
    # the class is that of the value as it stands: input denormals are not flushed
    _define_compare("class", _kind, class_test, f"{_kind} u32")
