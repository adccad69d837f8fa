"""Atomics and publication: a weaker ordering, a smaller scope, a plain access."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from validation.mutation.operators.base import KERNELS, Context, Operator

#: Ordering to weaker ones.
_WEAKER: dict[str, tuple[str, ...]] = {
    "acq_rel": ("monotonic", "acquire", "release"),
    "seq_cst": ("acq_rel", "monotonic"),
}
#: Scope to smaller ones.
_SMALLER: dict[str, tuple[str, ...]] = {"agent": ("workgroup", "wavefront")}


def _ordering(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Attribute, ast.Name)):
        owner = text(node.value)
        if owner.endswith("AtomicOrdering"):
            yield from (f"{owner}.{weaker}" for weaker in _WEAKER.get(node.attr, ()))


def _scope(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(context.parent, ast.keyword) and context.parent.arg == "syncscope":
        yield from (repr(smaller).replace("'", '"') for smaller in _SMALLER.get(str(node.value), ()))


def _volatile(node: ast.AST, context: Context, text: Callable[[ast.AST], str]) -> Iterator[str]:
    parent = context.parent
    if isinstance(node, ast.Constant) and node.value is True and isinstance(parent, ast.keyword):
        yield from ("False",) if parent.arg == "volatile" else ()


OPERATORS = (
    Operator(
        "atomics.ordering",
        "a weaker ordering",
        KERNELS,
        _ordering,
        (("f(o=llvm.AtomicOrdering.acq_rel)\n", (
            "f(o=llvm.AtomicOrdering.monotonic)\n",
            "f(o=llvm.AtomicOrdering.acquire)\n",
            "f(o=llvm.AtomicOrdering.release)\n",
        )),),
    ),
    Operator(
        "atomics.scope",
        "a smaller scope",
        KERNELS,
        _scope,
        (('f(syncscope="agent")\n', ('f(syncscope="workgroup")\n', 'f(syncscope="wavefront")\n')),),
    ),
    Operator(
        "atomics.volatile",
        "an access that caches may answer",
        KERNELS,
        _volatile,
        (("load(p, volatile=True)\n", ("load(p, volatile=False)\n",)), ("load(p, nontemporal=True)\n", ())),
    ),
)  # fmt: skip
