"""Accumulators: a sum that is rounded to bf16 on the way."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from validation.mutation.operators.base import KERNELS, Context, Operator, called


def _accumulate(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    """``total = fma(a, b, total)`` and ``total = total + x`` keep bf16 only."""
    parent = context.parent
    if not (isinstance(parent, ast.Assign) and parent.value is node and context.functions):
        return
    target = text(parent.targets[0])
    grows = called(node, "fmath.fma", "mfma_step") and any(text(part) == target for part in node.args)  # type: ignore[attr-defined]
    adds = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and text(node.left) == target
    if grows or adds:
        yield f"({text(node)}).to(fx.BFloat16).to(fx.Float32)"


OPERATORS = (
    Operator(
        "dtype.accumulate-bf16",
        "a sum is kept in bf16",
        KERNELS,
        _accumulate,
        (
            ("def f(t, x):\n    t = t + x\n", (
                "def f(t, x):\n    t = (t + x).to(fx.BFloat16).to(fx.Float32)\n",
            )),
            ("def f(t, x):\n    t = fmath.fma(x, x, t)\n", (
                "def f(t, x):\n    t = (fmath.fma(x, x, t)).to(fx.BFloat16).to(fx.Float32)\n",
            )),
            ("def f(t, x):\n    u = t + x\n", ()),
        ),
    ),
)  # fmt: skip
