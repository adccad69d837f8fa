"""Arithmetic on abstract values, and where it overflows."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable
from dataclasses import replace

from validation.width_scan import symbols
from validation.width_scan.frames import Frame
from validation.width_scan.limits import (
    BUFFER_SPAN,
    DECODE_TOKENS,
    FLAT_TOKENS,
    GRID,
    HEADS,
    INT32_MAX,
    POSITION,
    PROGRAMS,
    SPLIT_POSITION,
    SUM_MARGIN,
    counts_tiles,
    index_role,
    is_summary,
)
from validation.width_scan.sites import new_site
from validation.width_scan.values import (
    BOOL,
    CONSTANT,
    DATA,
    NARROW,
    NO_SITES,
    OTHER,
    WIDE,
    Kind,
    Sites,
    Value,
    constant,
    integer,
    join,
)

_RULES = {ast.Mult: "product", ast.Add: "sum", ast.LShift: "shift"}


def arithmetic(frame: Frame, node: ast.expr, op: type[ast.operator], a: Value, b: Value) -> Value:
    """The value of ``a op b``. Adding to a pointer or descriptor is an address: what overflowed is reported."""
    sites = a.sites | b.sites
    kinds = {a.kind, b.kind}
    if Kind.POINTER in kinds or Kind.BUFFER in kinds:
        return _address(frame, node, op, a, b)
    if kinds == {Kind.BOOL}:
        return BOOL
    if Kind.SEQUENCE in kinds:
        return _sequence(a, b)
    if Kind.DATA in kinds or (op is ast.Div and frame.dialect != "flydsl" and not frame.host):
        return DATA
    a, b = (constant(1) if v.kind is Kind.BOOL else v for v in (a, b))
    if a.kind is not Kind.INT or b.kind is not Kind.INT:
        return replace(OTHER, sites=sites)
    return _integers(frame, node, op, a, b)


def _sequence(a: Value, b: Value) -> Value:
    if a.kind is b.kind:
        return Value(Kind.SEQUENCE, element=join(a.element or OTHER, b.element or OTHER), sites=a.sites | b.sites)
    return replace(a if a.kind is Kind.SEQUENCE else b, items=None)


def _address(frame: Frame, node: ast.expr, op: type[ast.operator], a: Value, b: Value) -> Value:
    base, offset = (a, b) if a.kind in (Kind.POINTER, Kind.BUFFER) else (b, a)
    if offset.sites and base.kind is Kind.POINTER and base.variable and is_summary(base.variable):
        offset = replace(offset, sites=NO_SITES)
    frame.analyzer.report(frame, offset, node)
    if op not in (ast.Add, ast.Sub) or offset.kind is base.kind:
        return replace(OTHER, sites=base.sites | offset.sites)
    if base.kind is Kind.BUFFER:
        frame.analyzer.report(frame, replace(base, sites=base.sites | buffer_offset(frame, node, base, offset)), node)
    return base


def buffer_offset(frame: Frame, node: ast.expr, base: Value, offset: Value) -> Sites:
    """The site of an offset that 32 bits of bytes do not hold, for a descriptor whose size is not known.

    Widening does not help: the instruction takes 32 bits of offset.
    """
    if base.sym.hi or offset.kind is not Kind.INT or offset.sym.hi < BUFFER_SPAN or offset.is_constant:
        return NO_SITES
    if offset.sites or (base.variable and is_summary(base.variable)):
        return NO_SITES  # what overflows 32 bits of elements is reported; re-basing mends both
    anchor = (base.variable, base.line)
    return new_site(
        frame, "span", node, offset.sym, base, offset, threshold=BUFFER_SPAN - 1, unit="bytes", anchor=anchor
    )


def _width(a: Value, b: Value) -> int:
    if WIDE in (a.width, b.width):
        return WIDE
    return NARROW if NARROW in (a.width, b.width) else CONSTANT


def _integers(frame: Frame, node: ast.expr, op: type[ast.operator], a: Value, b: Value) -> Value:
    if op is ast.Mult and a.source == b.source == "loaded value" and a.sym.op == b.sym.op == "leaf":
        return DATA  # a scaled value: no index is the product of two loaded ones
    handler = _OPERATORS.get(op)
    if handler is None:
        return replace(OTHER, sites=a.sites | b.sites)
    result = handler(node, a, b)
    width = _width(a, b)
    sites = a.sites | b.sites
    source = a.source if a.is_index else b.source if b.is_index else a.source or b.source
    result = replace(
        result,
        width=width,
        sites=sites,
        source=source,
        variable="",
        line=0,
        literal=_literal(op, a, b) if width == CONSTANT else None,
    )
    maximum = SUM_MARGIN if op is ast.Add else INT32_MAX
    if width == NARROW and not sites and op in _RULES and result.sym.hi > maximum:
        result = replace(result, sites=new_site(frame, _RULES[op], node, result.sym, a, b))
    return result


_LITERAL: dict[type, Callable[[int, int], int]] = {
    ast.Add: lambda x, y: x + y,
    ast.Sub: lambda x, y: x - y,
    ast.Mult: lambda x, y: x * y,
    ast.FloorDiv: lambda x, y: x // y if y else 0,
    ast.Mod: lambda x, y: x % y if y else 0,
}


def _literal(op: type[ast.operator], a: Value, b: Value) -> int | None:
    if isinstance(a.literal, int) and isinstance(b.literal, int) and op in _LITERAL:
        result = _LITERAL[op](a.literal, b.literal)
        return result if abs(result) < 2**63 else None
    return None


def is_tile(value: Value) -> bool:
    """A compile-time extent of a tile: some factor of it is named so."""
    if not value.is_constant:
        return False
    return _names_tile(value.sym)


def _names_tile(sym: symbols.Sym) -> bool:
    return any(q.role is not None and q.role.name == "tile" for q in symbols.quantities(sym))


#: A tile of a head's elements, not of heads.
_HEAD_WIDTH = re.compile(r"d_?model|d_?head|head_?d|head_?size|dim|_d\b|_dv?\b|\bBD\b", re.I)


def _is_named(value: Value, role: str) -> bool:
    """Whether the variable's name says that it is such an index."""
    if value.sym.op == "leaf" and value.sym.role is not None and value.sym.role.name == role:
        return True
    named = index_role(value.variable) if value.variable else None
    return named is not None and named.name == role


def _multiply(node: ast.expr, a: Value, b: Value) -> Value:
    if all(v.role == PROGRAMS.name or (v.variable and counts_tiles(v.variable)) for v in (a, b)):
        return integer(symbols.leaf(_text(node), PROGRAMS), NARROW, role=PROGRAMS.name)
    for x, y in ((a, b), (b, a)):
        if y.role == "speculated tokens" and x.sym.hi <= DECODE_TOKENS.limit:
            return integer(symbols.leaf(_text(node), DECODE_TOKENS), NARROW, x.source, "tokens")
        counts_sequences = x.source in ("program id", "loaded value") or x.role == "batch"
        if y.role == "sequence" and counts_sequences and (not y.is_constant or _is_named(x, "batch index")):
            return _flat_tokens(node, x.sym, y.sym)
        if x.source == "program id" and y.sym.op == "//" and y.sym.b is not None and _names_tile(y.sym.b):
            product = symbols.multiply(x.sym, y.sym)
            return integer(product if product.hi <= GRID.limit else symbols.leaf(_text(node), GRID), NARROW)
        if x.role in ("splits", "split index") and is_tile(y):
            return integer(symbols.leaf(_text(node), SPLIT_POSITION), NARROW, role="position")
        if _is_named(x, "head index") and is_tile(y) and not _HEAD_WIDTH.search(y.sym.text):
            return integer(symbols.leaf(_text(node), HEADS), NARROW, role="position")
        if x.is_index and is_tile(y) and x.role != "tokens":
            sym = symbols.multiply(x.sym, y.sym)
            if sym.op == "*" and sym.hi > POSITION.limit:
                beside = [factor for factor in symbols.factors(y.sym) if not _names_tile(factor)]
                if beside:  # x * (tile * width) is (x * tile) * width
                    tiles = [factor for factor in symbols.factors(y.sym) if _names_tile(factor)]
                    text = " * ".join(q.text for q in (*symbols.quantities(x.sym), *tiles))
                    sym = functools.reduce(symbols.multiply, beside, symbols.leaf(text, POSITION))
                    return integer(sym, NARROW)
                sym = symbols.leaf(_text(node), POSITION)
            return integer(sym, NARROW, role="position", tile=node)
    return integer(symbols.multiply(a.sym, b.sym), NARROW)


def _flat_tokens(node: ast.expr, sequences: symbols.Sym, length: symbols.Sym) -> Value:
    """Sequences times their length; ``(batch * H + head) * T`` counts each token of the batch H times."""
    while sequences.op == "+" and sequences.a is not None and sequences.b is not None:
        sequences = max(sequences.a, sequences.b, key=lambda part: part.hi)
    counted, *times = symbols.factors(sequences)
    heads = [factor for factor in times if factor.role is not None and factor.role.name == "heads"]
    text = " * ".join(q.text for part in (counted, length) for q in symbols.quantities(part)) if heads else _text(node)
    return integer(functools.reduce(symbols.multiply, heads, symbols.leaf(text, FLAT_TOKENS)), NARROW, role="tokens")


def _text(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:57] + "..."


def _add(node: ast.expr, a: Value, b: Value) -> Value:
    bigger = a if a.sym.hi >= b.sym.hi else b
    return integer(symbols.add(a.sym, b.sym), NARROW, role=bigger.role, tile=a.tile or b.tile)


def _subtract(node: ast.expr, a: Value, b: Value) -> Value:
    return integer(symbols.subtract(a.sym, b.sym), NARROW, role=a.role, tile=a.tile)


def _divide(node: ast.expr, a: Value, b: Value) -> Value:
    return integer(symbols.divide(a.sym, b.sym), NARROW, role=a.role)


def _modulo(node: ast.expr, a: Value, b: Value) -> Value:
    return integer(symbols.modulo(a.sym, b.sym), NARROW, role=b.role if not b.is_constant or b.role == "splits" else "")


def _shift_left(node: ast.expr, a: Value, b: Value) -> Value:
    places = b.literal if isinstance(b.literal, int) else min(b.sym.hi, 10)
    return integer(symbols.multiply(a.sym, symbols.num(2 ** max(0, min(places, 64)))), NARROW)


def _shift_right(node: ast.expr, a: Value, b: Value) -> Value:
    places = b.literal if isinstance(b.literal, int) else 0
    return integer(symbols.divide(a.sym, symbols.num(2 ** max(0, min(places, 64)))), NARROW, role=a.role)


def _and(node: ast.expr, a: Value, b: Value) -> Value:
    return integer(symbols.minimum(a.sym, b.sym), NARROW)


def _or(node: ast.expr, a: Value, b: Value) -> Value:
    return integer(symbols.add(a.sym, b.sym), NARROW)


def _power(node: ast.expr, a: Value, b: Value) -> Value:
    if isinstance(a.literal, int) and isinstance(b.literal, int) and 0 <= b.literal <= 64 and abs(a.literal) <= 2**16:
        return constant(a.literal**b.literal)
    return integer(symbols.multiply(a.sym, a.sym), NARROW)


_OPERATORS: dict[type, Callable[[ast.expr, Value, Value], Value]] = {
    ast.Mult: _multiply,
    ast.Add: _add,
    ast.Sub: _subtract,
    ast.FloorDiv: _divide,
    ast.Div: _divide,
    ast.Mod: _modulo,
    ast.LShift: _shift_left,
    ast.RShift: _shift_right,
    ast.BitAnd: _and,
    ast.BitOr: _or,
    ast.BitXor: _or,
    ast.Pow: _power,
}
