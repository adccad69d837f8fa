"""Widths: an index is narrowed to 32 bits, or widened too late."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from validation.mutation.operators.base import KERNELS, Context, Operator, called


def _narrow(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    """``fx.Int64(x)`` becomes a value that was cut to 32 bits first."""
    if called(node, "fx.Int64") and context.functions:
        assert isinstance(node, ast.Call)
        yield f"fx.Int64(fx.Int32({text(node.args[0])}))"


def _late(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    """``fx.Int64(x) * y`` becomes ``fx.Int64(fx.Int32(x) * fx.Int32(y))``: widened after the product."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and called(node.left, "fx.Int64"):
        assert isinstance(node.left, ast.Call)
        yield f"fx.Int64(fx.Int32({text(node.left.args[0])}) * fx.Int32({text(node.right)}))"


OPERATORS = (
    Operator(
        "widths.narrow",
        "an index passes through 32 bits",
        KERNELS,
        _narrow,
        (("def f(r):\n    return fx.Int64(r)\n", ("def f(r):\n    return fx.Int64(fx.Int32(r))\n",)),),
    ),
    Operator(
        "widths.late",
        "an index is widened after its product",
        KERNELS,
        _late,
        (
            ("def f(r, s):\n    return fx.Int64(r) * s\n", (
                "def f(r, s):\n    return fx.Int64(fx.Int32(r) * fx.Int32(s))\n",
            )),
        ),
    ),
)  # fmt: skip
