"""Host-side checks: one requirement of a list is dropped, or never complains."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from validation.mutation.operators.base import CONTRACTS, HOST, Context, Operator, called


def _requirement(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    """An element of a list of requirements becomes ``None``, which is "no problem"."""
    if isinstance(context.parent, ast.List) and called(node, *_MUST):
        yield "None"


#: Single requirements of :mod:`hcgr.requirements`, called as ``must.<name>``.
_MUST = tuple(
    f"must.{name}"
    for name in (
        "is_tensor", "one_of", "is_bool", "positive_integer", "normal_float32", "dtype_in", "shape_in", "rank_is",
        "same_device", "inner_contiguous", "contiguous", "vector_row_stride", "vector_aligned", "disjoint", "on_device",
    )
)  # fmt: skip


def _problem(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    """``return Problem(...)`` becomes ``return None``, ``yield Problem(...)`` yields nothing."""
    if isinstance(node, ast.Return) and node.value is not None and called(node.value, "Problem"):
        yield "return None"
    value = node.value.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield) else None
    if value is not None and called(value, "Problem"):
        yield "yield from ()"


def _raise(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    if isinstance(node, ast.Raise) and node.exc is not None:
        yield "pass"


OPERATORS = (
    Operator(
        "host.drop-requirement",
        "a requirement of the contract is dropped",
        CONTRACTS,
        _requirement,
        (("x = [must.is_bool(a, b), c]\n", ("x = [None, c]\n",)),),
    ),
    Operator(
        "host.drop-problem",
        "a broken requirement is not reported",
        CONTRACTS,
        _problem,
        (
            ("def f():\n    return Problem(a)\n", ("def f():\n    return None\n",)),
            ("def f():\n    yield Problem(a)\n", ("def f():\n    yield from ()\n",)),
        ),
    ),
    Operator("host.drop-raise", "an error is not raised", HOST, _raise, (("raise ValueError(x)\n", ("pass\n",)),)),
)
