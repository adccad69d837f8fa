"""Index arithmetic: a term of a sum is forgotten."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from validation.mutation.operators.base import KERNELS, Context, Operator, is_traced


def _drop_term(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and is_traced(context)):
        return
    if isinstance(node.left, ast.Constant) or isinstance(node.right, ast.Constant):
        return
    for kept in (node.left, node.right):
        yield f"({text(kept)})"


OPERATORS = (
    Operator(
        "index.drop-term",
        "a term of a sum is dropped",
        KERNELS,
        _drop_term,
        (
            ("def f():\n    p = base + row * stride\n", (
                "def f():\n    p = (base)\n",
                "def f():\n    p = (row * stride)\n",
            )),
            ("def f():\n    p = x + 1\n", ()),
            ("p = a + b\n", ()),
        ),
    ),
)  # fmt: skip
