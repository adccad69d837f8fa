"""Comparison bounds: off by one, either way."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from validation.mutation.operators.base import HOST, KERNELS, Context, Operator

_WIDER: dict[type[ast.cmpop], str] = {ast.Lt: "<=", ast.Gt: ">=", ast.LtE: "<", ast.GtE: ">"}


def _boundary(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    if not (isinstance(node, ast.Compare) and len(node.ops) == 1 and context.functions):
        return
    sign = _WIDER.get(type(node.ops[0]))
    if sign:
        yield f"{text(node.left)} {sign} {text(node.comparators[0])}"


def _last(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    """``count - 1`` becomes ``count``."""
    if (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub)
        and context.functions
        and isinstance(node.right, ast.Constant)
        and node.right.value == 1
    ):
        yield f"({text(node.left)})"


OPERATORS = (
    Operator(
        "bounds.boundary",
        "< for <=, > for >=, and back",
        (*KERNELS, *HOST),
        _boundary,
        (
            ("def f(a, b):\n    return a < b\n", ("def f(a, b):\n    return a <= b\n",)),
            ("def f(a, b):\n    return a >= b + 1\n", ("def f(a, b):\n    return a > b + 1\n",)),
            ("def f(a, b):\n    return a == b\n", ()),
        ),
    ),
    Operator(
        "bounds.last",
        "the count for the last index",
        (*KERNELS, *HOST),
        _last,
        (("def f(n):\n    return n - 1\n", ("def f(n):\n    return (n)\n",)),),
    ),
)
