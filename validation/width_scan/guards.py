"""Branches that the host chooses by tensor size: a kernel's deliberate 32-bit path is not a finding."""

from __future__ import annotations

import ast
import re

from validation.width_scan.modules import dotted
from validation.width_scan.walking import walk

#: A condition with such a name is true where 32 bits are enough, or where they are not.
_NARROW_WHEN = re.compile(
    r"(?:^|_)(?:within|fits?|small|is_?32|use_?(?:int|i)32|int32|i32|32_?bit|below|under)(?:_|$)", re.I
)
_WIDE_WHEN = re.compile(r"(?:^|_)(?:long|large|big|huge|int_?64|i64|64_?bit|wide)(?:_|$)", re.I)
_WIDE_NAMES = frozenset({"int64", "Int64", "uint64", "Uint64", "i64"})


def _polarity(test: ast.expr) -> str:
    """ "narrow" if the condition is true on the 32-bit path, "wide" if on the 64-bit one, else ""."""
    negated = False
    while True:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            negated, test = not negated, test.operand
        elif isinstance(test, ast.Call) and len(test.args) == 1:
            test = test.args[0]
        elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
            test = test.left
        else:
            break
    name = dotted(test).rpartition(".")[2]
    if not name:
        return ""
    narrow, wide = bool(_NARROW_WHEN.search(name)), bool(_WIDE_WHEN.search(name))
    if narrow == wide:
        return ""
    return "narrow" if narrow != negated else "wide"


def _widens(body: list[ast.stmt]) -> bool:
    for statement in body:
        for node in walk(statement):
            if isinstance(node, ast.Attribute) and node.attr in _WIDE_NAMES:
                return True
            if isinstance(node, ast.Name) and node.id in _WIDE_NAMES:
                return True
    return False


def branch_widths(node: ast.If) -> tuple[bool, bool]:
    """Whether the body, and the else part, of a compile-time branch are 32-bit on purpose.

    So they are where the condition's name says it, or where only the other part widens.
    """
    polarity = _polarity(node.test)
    if polarity:
        return polarity == "narrow", polarity == "wide"
    if not node.orelse:
        return False, False
    body, other = _widens(node.body), _widens(node.orelse)
    return (other and not body), (body and not other)
