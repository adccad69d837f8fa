"""Type expressions: how wide an integer of that type is. A name for one (``INDEX = tl.int64``) is followed."""

from __future__ import annotations

import ast
from dataclasses import replace

from validation.width_scan.frames import Frame
from validation.width_scan.modules import dotted
from validation.width_scan.values import NARROW, OTHER, WIDE, Value

_WIDE_TYPES = frozenset(
    {"int64", "uint64", "i64", "Int64", "Uint64", "index", "Index", "IndexType", "get_index", "longlong"}
)
_OTHER_TYPES = ("float", "bfloat", "bf16", "f32", "f16", "fp8", "int1")
_NARROW_TYPES = frozenset(
    {"int32", "uint32", "i32", "Int32", "Uint32", "int16", "uint16", "i16", "int8", "uint8", "i8"}
)


def type_width(node: ast.expr | None) -> int | None:
    """64 or 32 of an integer type expression, 0 of another type, None if that is not known."""
    if node is None:
        return None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        parts = [node.value.rpartition(".")[2]]
    else:
        parts = dotted(node).split(".")
    for part in reversed(parts):
        if part in _WIDE_TYPES:
            return WIDE
        if part in _NARROW_TYPES:
            return NARROW
    last = parts[-1]
    return 0 if last in ("element_ty", "dtype") or last.lower().startswith(_OTHER_TYPES) else None


def type_value(node: ast.expr | None) -> Value | None:
    """The value of ``tl.int64``: no number, but what a cast can read. None if `node` is no attribute that names one."""
    if isinstance(node, ast.Attribute) and (node.attr in _WIDE_TYPES or node.attr in _NARROW_TYPES):
        return replace(OTHER, literal=node.attr)
    return None


def is_type(value: Value) -> bool:
    """Whether `value` is one of :func:`type_value`."""
    return isinstance(value.literal, str) and (value.literal in _WIDE_TYPES or value.literal in _NARROW_TYPES)


def width_of(frame: Frame, node: ast.expr | None) -> int | None:
    """:func:`type_width`, also of a variable, parameter or module constant that holds a type."""
    width = type_width(node)
    if width is None and isinstance(node, ast.Name):
        held = frame.evaluate(node)
        return type_width(ast.Constant(held.literal)) if is_type(held) else None
    return width
