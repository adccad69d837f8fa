"""Strides: another argument's stride, or none."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from validation.mutation.operators.base import KERNELS, Context, Operator


def _is_stride(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id.endswith("stride") and isinstance(node.ctx, ast.Load)


def _swap(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    if _is_stride(node):
        yield from (name for name in context.parameters() if name.endswith("stride") and name != text(node))


def _ignore(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    """``row * stride`` becomes ``row``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and context.functions and _is_stride(node.right):
        yield f"({text(node.left)})"


_BEFORE = "@kernel\ndef f(x, a_stride, b_stride):\n    p = x * a_stride\n"
OPERATORS = (
    Operator(
        "strides.swap",
        "the stride of another argument",
        KERNELS,
        _swap,
        ((_BEFORE, (_BEFORE.replace("x * a_stride", "x * b_stride"),)),),
    ),
    Operator(
        "strides.ignore",
        "a stride of one",
        KERNELS,
        _ignore,
        ((_BEFORE, (_BEFORE.replace("x * a_stride", "(x)"),)), ("q = x * a_stride\n", ())),
    ),
)
