"""Branches that the host chooses by tensor size: a kernel's deliberate 32-bit path is not a finding."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from validation.width_scan.modules import dotted
from validation.width_scan.walking import walk

#: A condition with such a name is true where 32 bits are enough, or where they are not.
_NARROW_WHEN = re.compile(
    r"(?:^|_)(?:within|fits?|small|is_?32|use_?(?:int|i)32|int32|i32|32_?bit|below|under)(?:_|$)", re.I
)
_WIDE_WHEN = re.compile(r"(?:^|_)(?:long|large|big|huge|int_?64|i64|64_?bit|wide)(?:_|$)", re.I)
_WIDE_NAMES = frozenset({"int64", "Int64", "uint64", "Uint64", "i64"})


Meaning = Callable[[str], ast.expr | None]


def _polarity(test: ast.expr, meaning: Meaning, depth: int = 2) -> str:
    """ "narrow" if the condition is true on the 32-bit path only, "wide" if on the 64-bit one only, else ""."""
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
        held = meaning(name) if isinstance(test, ast.Name) and depth and not negated else None
        if isinstance(held, ast.BoolOp) and isinstance(held.op, ast.And):  # ``fast = aligned and not BIG_OUT``
            return "narrow" if any(_polarity(part, meaning, depth - 1) == "narrow" for part in held.values) else ""
        return ""
    return "narrow" if narrow != negated else "wide"


def _is_wide(node: ast.AST) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr in _WIDE_NAMES) or (
        isinstance(node, ast.Name) and node.id in _WIDE_NAMES
    )


def _widens(body: list[ast.stmt]) -> bool:
    return any(_is_wide(node) for statement in body for node in walk(statement))


def _leaves(node: ast.AST) -> set[str]:
    """Names and calls that a number is made of; what a load's address is made of makes no part of what it loads."""
    found: set[str] = set()
    stack = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, ast.Name):
            found.add(part.id)
        elif isinstance(part, ast.Call):
            held = part.func.value if isinstance(part.func, ast.Attribute) and part.func.attr in _CASTS else None
            if held is None or (isinstance(held, ast.Name) and part.args[1:]):  # ``tl.cast(x, t)``
                found.add(ast.unparse(part))
                stack += part.args[:1] if held is not None else []
            else:
                stack.append(held)
        elif isinstance(part, (ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Subscript, ast.Tuple)):
            stack += [child for child in ast.iter_child_nodes(part) if isinstance(child, ast.expr)]
    return found


_CASTS = frozenset({"to", "cast", "astype"})


def _widened(body: list[ast.stmt]) -> set[str]:
    """What of a path is converted to 64 bits."""
    found: set[str] = set()
    for statement in body:
        for node in walk(statement):
            if not isinstance(node, ast.Call):
                continue
            if any(_is_wide(argument) for argument in (*node.args, *(k.value for k in node.keywords))):
                method = isinstance(node.func, ast.Attribute) and len(node.args) + len(node.keywords) == 1
                found |= _leaves(node.func.value if method and isinstance(node.func, ast.Attribute) else node.args[0])
            elif _is_wide(node.func) and node.args:
                found |= _leaves(node.args[0])
    return found


def _takes_part(body: list[ast.stmt], widened: set[str]) -> bool:
    """Whether a path multiplies, or assigns, what the other one widens: then it does the same, in 32 bits."""
    for statement in body:
        for node in walk(statement):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                part: ast.expr | None = node
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                part = node.value
            else:
                continue
            if part is not None and not widened.isdisjoint(_leaves(part)):
                return True
    return False


def branch_widths(node: ast.If, meaning: Meaning) -> tuple[bool, bool]:
    """Whether the body, and the else part, of a compile-time branch are 32-bit on purpose.

    Args:
        meaning: what a name was assigned at compile time, if it was.

    So they are where the condition's name says it, or where only the other part widens what both compute with. A
    path that widens something of its own (``bos`` for packed sequences, ``i_n`` for padded ones) says nothing of the
    other.
    """
    polarity = _polarity(node.test, meaning)
    if polarity:
        return polarity == "narrow", polarity == "wide"
    if not node.orelse:
        return False, False
    body, other = _widens(node.body), _widens(node.orelse)
    if body == other:
        return False, False
    deliberate = _same_in_64_bits(node)
    return (other and deliberate), (body and deliberate)


def chooses_width(node: ast.If, meaning: Meaning) -> bool:
    """Whether what one path widens is, after the branch, as wide as that: on the other path the host knows it small."""
    return bool(_polarity(node.test, meaning)) or not node.orelse or _same_in_64_bits(node)


def _same_in_64_bits(node: ast.If) -> bool:
    """Whether one path does in 64 bits what the other does in 32."""
    paths = [(wide, narrow) for wide, narrow in ((node.body, node.orelse), (node.orelse, node.body)) if _widens(wide)]
    widened = [(_widened(wide), narrow) for wide, narrow in paths]
    return not paths or any(not subjects or _takes_part(narrow, subjects) for subjects, narrow in widened)
