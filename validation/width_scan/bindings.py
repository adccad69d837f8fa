"""Assignment: targets, and the bounds that masks give to names."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from validation.width_scan import symbols
from validation.width_scan.frames import Frame
from validation.width_scan.limits import (
    HEAD_PART,
    INT32_MAX,
    LOOP,
    PROGRAM_ID,
    constant_role,
    index_role,
    role_of,
)
from validation.width_scan.prepass import caps, parameters
from validation.width_scan.scopes import assign, lookup
from validation.width_scan.sites import new_site
from validation.width_scan.values import CONSTANT, NARROW, OTHER, Kind, Value, join
from validation.width_scan.walking import walk


def bind(frame: Frame, target: ast.expr, value: Value, line: int) -> None:
    """Assign to a target; names get the bound that masks give them."""
    if isinstance(target, ast.Name):
        if value.kind is Kind.INT:
            value = cap(frame, target.id, named_index(frame, target.id, value))
            value = replace(value, variable=target.id, line=line)
        elif value.kind is Kind.BUFFER:
            value = replace(value, variable=target.id, line=line)
        assign(frame, target.id, value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        if value.items is not None and len(value.items) == len(target.elts):
            for part, item in zip(target.elts, value.items, strict=True):
                bind(frame, part, item, line)
        else:
            item = value.element or (OTHER if value.kind is Kind.SEQUENCE else value)
            for part in target.elts:
                bind(frame, part.value if isinstance(part, ast.Starred) else part, item, line)
    elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        held = lookup(frame, target.value.id)
        if held is not None and held.fields is not None:
            held.fields[target.attr] = replace(value, variable=target.attr, line=line)
    elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        held = lookup(frame, target.value.id)
        if held is not None and held.kind in (Kind.SEQUENCE, Kind.OTHER):
            element = value if held.element is None else join(held.element, value)
            assign(frame, target.value.id, Value(Kind.SEQUENCE, element=element, sites=held.sites | value.sites))


#: Such a variable holds an offset, not an index.
_PLACE = re.compile(r"start|offset|base|ptr|begin", re.I)


#: Blocks of a key's or value's width.
_WIDTH_BLOCK = re.compile(r"i_[kvd]")


def named_index(frame: Frame, name: str, value: Value) -> Value:
    """A block id, or a loaded value, as the name of the variable that takes it bounds it."""
    if value.source not in ("program id", "loaded value") or value.width == CONSTANT or value.sites or value.tile:
        return value
    role = index_role(name)
    if role is None or (value.sym.op == "*" or _PLACE.search(name)):
        return value
    siblings = [arg.arg for arg in parameters(frame.function)]
    if name == "i_n" and value.sym.role is PROGRAM_ID[0] and not any(map(_is_sequence, siblings)):
        return value  # the n of a matrix of rows: a batch has sequences
    if _WIDTH_BLOCK.fullmatch(name) and constant_role(name[-1].upper(), siblings) is not None:
        role = HEAD_PART
    raised = role.name == "row index" and value.sym.op == "leaf" and value.sym.role is PROGRAM_ID[1]
    if raised or (value.sym.hi > role.limit and role.name != "row index"):
        return replace(
            value, sym=symbols.leaf(name, role), role=role.name if role.name == "split index" else value.role
        )
    return value


def _is_sequence(name: str) -> bool:
    return role_of(name).name == "sequence"


def cap(frame: Frame, name: str, value: Value) -> Value:
    """`value` as the masks of its function leave it."""
    if frame.host or value.is_constant or name in frame.capping:
        return value
    bounds = caps(frame.function).get(name)
    if not bounds:
        return value
    frame.capping.add(name)
    quiet, frame.quiet = frame.quiet, frame.quiet + 1
    known = [(frame.evaluate(node), strict) for node, strict in bounds if _bound_is_known(frame, node)]
    limits = [(v, strict) for v, strict in known if v.kind is Kind.INT]
    frame.quiet = quiet
    frame.capping.discard(name)
    if not limits:
        return value
    bound, strict = max(limits, key=lambda limit: limit[0].sym.hi - limit[1])
    top = max(bound.sym.hi - strict, 0)
    role = bound.sym.role or replace(LOOP, name="bound", limit=bound.sym.hi, typical=min(bound.sym.hi, 131072))
    below = bound.sym.text if bound.source == "parameter" and bound.sym.op == "leaf" else ""
    if value.tile is not None and not value.sites:
        own = {q.text for q in symbols.quantities(value.sym) if q.hi <= INT32_MAX}
        if bound.sym.hi > INT32_MAX and not own.isdisjoint(q.text for q in symbols.quantities(bound.sym)):
            return value  # where the bound takes more than 32 bits, so does the value that is made of it
        value = replace(value, sym=symbols.leaf(name, role, top, below))
        if value.width == NARROW and bound.sym.hi > INT32_MAX and value.tile is not None:
            return replace(value, sites=new_site(frame, "product", value.tile, value.sym, value, value))
        return value
    if bound.sym.hi < value.sym.hi and bound.sym.hi + 1024 <= INT32_MAX and bound.sym.hi > 0:
        return replace(value, sym=symbols.leaf(name, role, top, below), sites=frozenset())
    return value


def _bound_is_known(frame: Frame, node: ast.expr) -> bool:
    return all(
        lookup(frame, n.id) is not None or n.id in frame.function.module.imports
        for n in walk(node)
        if isinstance(n, ast.Name)
    )
