"""Waits and barriers: dropped, or counted too high."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from validation.mutation.operators.base import KERNELS, Context, Operator, called


def _barrier(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    if isinstance(node, ast.Expr) and called(node.value, "gpu.barrier"):
        yield "pass"


def _wait(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    if isinstance(node, ast.Expr) and called(node.value, "s_waitcnt"):
        yield "pass"


def _loosen(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    if isinstance(context.parent, ast.keyword) and context.parent.arg in ("vmcnt", "lgkmcnt"):
        yield f"{text(node)} + 1"


OPERATORS = (
    Operator(
        "waits.no-barrier",
        "a barrier is dropped",
        KERNELS,
        _barrier,
        (("gpu.barrier()\n", ("pass\n",)), ("rocdl.sched_barrier(0)\n", ())),
    ),
    Operator("waits.no-wait", "a wait is dropped", KERNELS, _wait, (("rocdl.s_waitcnt(vmcnt=0)\n", ("pass\n",)),)),
    Operator(
        "waits.loosen",
        "a wait leaves one more operation pending",
        KERNELS,
        _loosen,
        (("rocdl.s_waitcnt(vmcnt=n)\n", ("rocdl.s_waitcnt(vmcnt=n + 1)\n",)),),
    ),
)
