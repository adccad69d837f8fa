"""Makes sites: which operation exceeds which range, and which operand to widen."""

from __future__ import annotations

import ast

from validation.width_scan.frames import Frame
from validation.width_scan.limits import INT32_MAX
from validation.width_scan.scopes import lookup
from validation.width_scan.symbols import Sym, quantities
from validation.width_scan.values import CONSTANT, NARROW, NO_SITES, OTHER, Kind, Operand, Site, Sites, Value
from validation.width_scan.walking import walk


def _operand(frame: Frame, node: ast.expr, value: Value) -> Operand:
    held = value
    inner = _stripped(node)
    if not isinstance(inner, ast.Name):
        held = _holder(frame, inner)
    return Operand(node, ast.unparse(node), held.variable, held.line, value.source, value.width == CONSTANT)


def _stripped(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def _holder(frame: Frame, node: ast.expr) -> Value:
    """The variable inside an operand that is best widened: a run-time index, else any 32-bit integer."""
    named = [lookup(frame, part.id) for part in walk(node) if isinstance(part, ast.Name)]
    narrow = [v for v in named if v is not None and v.kind is Kind.INT and v.width == NARROW and v.variable]
    return next((v for v in narrow if v.is_index), narrow[0] if narrow else OTHER)


def new_site(
    frame: Frame,
    rule: str,
    node: ast.expr,
    sym: Sym,
    left: Value,
    right: Value,
    *,
    threshold: int = INT32_MAX,
    unit: str = "elements",
    level: str = "error",
    anchor: tuple[str, int] = ("", 0),
) -> Sites:
    """The set of one new site; empty on a deliberate 32-bit path and in compile-time code.

    Args:
        rule: "product", "sum", "shift", "increment", "span" or "narrowing".
        anchor: variable and line of the descriptor whose re-basing is the fix, where it is known.
        node: the operation; for a binary one, `left` and `right` are its operands.
    """
    if frame.quiet or frame.host or (rule != "span" and not quantities(sym)):
        return NO_SITES
    operands: tuple[Operand, ...] = ()
    if isinstance(node, ast.BinOp):
        operands = (_operand(frame, node.left, left), _operand(frame, node.right, right))
    return frozenset(
        {
            Site(
                rule,
                frame.function.module.path,
                frame.function.qualified,
                frame.dialect,
                node,
                node.lineno,
                node.col_offset,
                node.end_lineno or node.lineno,
                ast.unparse(node),
                sym,
                threshold,
                unit,
                operands,
                level,
                anchor,
            )
        }
    )
