"""Strides of a tensor's innermost dimension, told by how a kernel declares and uses them.

Nearly every tensor's last stride is 1, and a kernel takes it as a parameter all the same. It is known by two signs:
it is declared last of its tensor's strides, and the addresses that it is a factor in have no index that no stride
multiplies. Where there is one (``x + row * stride_xb + pos * stride_xs + cols``), the last stride was left out as 1,
and the last declared is that of another dimension.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from validation.width_scan.modules import dotted
from validation.width_scan.prepass import ADDRESS_CALLS, leftmost, nodes, parameters
from validation.width_scan.values import Function
from validation.width_scan.walking import walk

_STRIDE = re.compile(r"strides?(?=_|[a-z0-9]|$)|_ld$", re.I)
#: What two strides have in common that says nothing of a tensor.
_COMMON = re.compile(r"_*strides?_*", re.I)
_EXPERT = re.compile(r"_*(?:e|experts?|groups?)", re.I)
#: Terms looked at in one address, through the variables that it is made of.
_MOST_TERMS = 80


def _shared(names: list[str]) -> str:
    """What all names begin with."""
    first, last = min(names), max(names)  # those in between begin no differently
    for at, letter in enumerate(first):
        if at == len(last) or letter != last[at]:
            return first[:at]
    return first


Families = list[list[str]]


def families(names: Iterable[str]) -> Families:
    """Strides of one tensor each, in the order of declaration: neighbours that begin alike."""
    found: list[list[str]] = [[]]
    for name in names:
        if not _STRIDE.search(name):
            found.append([])
        elif found[-1] and _belongs(name, found[-1]):
            found[-1].append(name)
        else:
            found.append([name])
    return [family for family in found if len(family) > 1]


def _belongs(name: str, family: list[str]) -> bool:
    """Whether a stride is one more of the same tensor: ``stride_qh`` after ``stride_qz``."""
    stem = _shared([*family, name])
    ends = [other[len(stem) :] for other in (*family, name)]
    if _COMMON.fullmatch(stem) or (len(family) > 1 and len(stem) < len(_shared(family))):
        return False
    if not stem.endswith("_") and any(len(end) > 2 for end in ends):
        return False
    own = ends.pop()
    return not any(own.endswith(end) or own.rpartition("_")[2] == end.rpartition("_")[2] for end in ends)


def of_weights(tensors: Families) -> frozenset[str]:
    """Strides beside one over experts: those of a weight matrix, whose rows are no longer than a hidden size."""
    found: set[str] = set()
    for family in tensors:
        stem = _shared(family)
        if _EXPERT.fullmatch(family[0][len(stem) :]):
            found.update(family[1:])
    return frozenset(found)


#: Dimensions of a table: experts or heads, of which a row holds few.
_FEW = re.compile(r"(?:experts?|heads?|top_?k)", re.I)


def of_table_rows(tensors: Families, inner: frozenset[str]) -> frozenset[str]:
    """Strides over the rows of a table whose innermost dimension is that of experts or heads."""
    found = set()
    for family in tensors:
        if family[-1] in inner and _FEW.fullmatch(family[-1][len(_shared(family)) :]):
            found.add(family[-2])
    return frozenset(found)


#: Dimensions of columns.
_COLUMNS = re.compile(r"_*(?:n|k|d|c|cols?|columns?|h?dim|hidden)", re.I)


def of_rows(tensors: Families, inner: frozenset[str]) -> frozenset[str]:
    """Strides beside one of columns alone: those of a row, whatever the rows are (``bias[expert, column]``)."""
    matrices = (family for family in tensors if len(family) == 2 and family[1] in inner)
    return frozenset(first for first, last in matrices if _COLUMNS.fullmatch(last[len(_shared([first, last])) :]))


def innermost(function: Function, tensors: Families) -> frozenset[str]:
    """Parameters that are strides of an innermost dimension, of the families of its strides."""
    last = {family[-1] for family in tensors}
    assigned: dict[str, list[ast.expr]] = {}
    for node in nodes(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    assigned.setdefault(target.id, []).append(node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            assigned.setdefault(node.target.id, []).append(node.value)
    strides = {arg.arg for arg in parameters(function) if _STRIDE.search(arg.arg)}
    multiplied: set[str] = set()
    beside: set[str] = set()  # those with an index that nothing multiplies
    for node in nodes(function):
        if not isinstance(node, ast.Call) or not node.args or "." not in dotted(node.func):
            continue
        if dotted(node.func).rpartition(".")[2] not in ADDRESS_CALLS:
            continue
        names, bare = _terms(node.args[0], assigned, strides)
        multiplied |= names
        if bare:
            beside |= names
    return frozenset((last & multiplied) - beside)


def _terms(address: ast.expr, assigned: dict[str, list[ast.expr]], strides: set[str]) -> tuple[set[str], bool]:
    """The strides that are factors in an address, and whether some index in it is multiplied by none."""
    base = leftmost(address)
    factors: set[str] = set()
    bare = False
    stack, seen, count = [address], set[str](), 0
    while stack:
        node = stack.pop()
        count += 1
        if count > _MOST_TERMS:
            return factors, True
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            stack += [node.left, node.right]
        elif isinstance(node, ast.Subscript):
            stack.append(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cast"):
            stack.append(node.args[0] if node.args[1:] else node.func.value)
        elif isinstance(node, ast.Name):
            if node.id in seen:
                continue
            seen.add(node.id)
            if node.id in assigned:
                stack += assigned[node.id]
                base = base if node.id != base else leftmost(assigned[node.id][0])
            elif node.id != base and node.id not in strides:
                bare = bare or not node.id.isupper()
        elif not isinstance(node, ast.Constant):
            named = {part.id for part in walk(node) if isinstance(part, ast.Name)} & strides
            factors |= named
            bare = bare or not named
    return factors, bare
