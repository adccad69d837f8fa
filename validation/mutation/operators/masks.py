"""Masks: a conjunct, a select or a whole guard is dropped."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from validation.mutation.operators.base import KERNELS, Context, Operator


def _conjunct(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd) and context.functions:
        if isinstance(node.right, ast.Constant):
            return  # a bit mask
        yield text(node.left)
        yield text(node.right)


def _select(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    """``condition.select(a, b)`` becomes ``a``."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "select"
        and len(node.args) == 2
        and context.functions
    ):
        yield f"({text(node.args[0])})"


def _guard(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    """The test of a traced ``if`` becomes one that always holds."""
    parent = context.parent
    if isinstance(parent, ast.If) and node is parent.test and context.functions and not parent.orelse:
        compares = [part for part in ast.walk(node) if isinstance(part, ast.Compare)]
        if len(compares) >= 1 and "const_expr" not in text(node):
            left = text(compares[0].left)
            yield f"({left}) == ({left})"


OPERATORS = (
    Operator(
        "masks.conjunct",
        "half of a condition is dropped",
        KERNELS,
        _conjunct,
        (
            ("def f(a, b):\n    return (a < 1) & b\n", (
                "def f(a, b):\n    return a < 1\n".replace("a < 1", "a < 1"),
                "def f(a, b):\n    return b\n",
            )),
            ("def f(a):\n    return a & 7\n", ()),
        ),
    ),
    Operator(
        "masks.select",
        "a select always takes its first value",
        KERNELS,
        _select,
        (("def f(c, a, b):\n    return c.select(a, b)\n", ("def f(c, a, b):\n    return (a)\n",)),),
    ),
    Operator(
        "masks.guard",
        "a guard that always holds",
        KERNELS,
        _guard,
        (
            ("def f(a, n):\n    if a < n:\n        g()\n", ("def f(a, n):\n    if (a) == (a):\n        g()\n",)),
            ("def f(a, n):\n    if const_expr(a < n):\n        g()\n", ()),
        ),
    ),
)  # fmt: skip
