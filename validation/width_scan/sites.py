"""Makes sites: which operation exceeds which range, and which operand to widen."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from validation.width_scan.limits import INT32_MAX
from validation.width_scan.symbols import Sym, quantities
from validation.width_scan.values import CONSTANT, NO_SITES, Operand, Site, Sites, Value

if TYPE_CHECKING:
    from validation.width_scan.interpreter import Frame


def _operand(node: ast.expr, value: Value) -> Operand:
    return Operand(node, ast.unparse(node), value.variable if isinstance(_stripped(node), ast.Name) else "",
                   value.line, value.source, value.width == CONSTANT)


def _stripped(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def new_site(frame: Frame, rule: str, node: ast.expr, sym: Sym, left: Value, right: Value, *,
             threshold: int = INT32_MAX, unit: str = "elements", level: str = "error") -> Sites:
    """The set of one new site; empty on a deliberate 32-bit path and in compile-time code.

    Args:
        rule: "product", "sum", "shift", "increment", "span" or "narrowing".
        node: the operation; for a binary one, `left` and `right` are its operands.
    """
    if frame.quiet or frame.host or not quantities(sym):
        return NO_SITES
    operands: tuple[Operand, ...] = ()
    if isinstance(node, ast.BinOp):
        operands = (_operand(node.left, left), _operand(node.right, right))
    return frozenset({
        Site(rule, frame.function.module.path, frame.function.qualified, frame.dialect, node, node.lineno,
             node.col_offset, node.end_lineno or node.lineno, ast.unparse(node), sym, threshold, unit, operands, level)
    })
