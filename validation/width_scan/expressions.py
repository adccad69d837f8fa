"""Evaluates the expressions of a device function, arithmetic first of all."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from validation.width_scan import symbols
from validation.width_scan.bindings import bind
from validation.width_scan.calls import call, program_id
from validation.width_scan.frames import Env, Frame
from validation.width_scan.limits import INT32_MAX, LOOP, THREAD
from validation.width_scan.modules import dotted
from validation.width_scan.operations import arithmetic
from validation.width_scan.scopes import lookup
from validation.width_scan.typenames import type_value
from validation.width_scan.values import (
    BOOL,
    CONSTANT,
    DATA,
    NARROW,
    OTHER,
    WIDE,
    Function,
    Kind,
    Value,
    constant,
    integer,
    join,
    join_all,
    named_constant,
    quantity,
    sequence,
)
from validation.width_scan.walking import walk

_COMPILE_TIME_LOOPS = frozenset({"static_range", "range_constexpr"})


def evaluate(frame: Frame, node: ast.expr) -> Value:
    """The abstract value of `node`; what the table lacks is unknown, but its parts are evaluated."""
    handler = _EXPRESSIONS.get(type(node))
    if handler is not None:
        return handler(frame, node)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            evaluate(frame, child)
    return OTHER


def _constant(frame: Frame, node: ast.Constant) -> Value:
    if isinstance(node.value, bool):
        return replace(BOOL, literal=node.value)
    if isinstance(node.value, int):
        return constant(node.value)
    if isinstance(node.value, float):
        return DATA
    return replace(OTHER, literal=node.value)


def _name(frame: Frame, node: ast.Name) -> Value:
    value = lookup(frame, node.id)
    if value is not None:
        return value
    if node.id in frame.function.module.imports:
        inner = frame.function.module.imports[node.id][1]
        return named_constant(node.id) if inner and inner.isupper() else OTHER
    return OTHER


def _attribute(frame: Frame, node: ast.Attribute) -> Value:
    """``fx.block_idx.x``, ``plan.rows`` and the like; attributes of run-time objects are unknown."""
    if frame.analyzer.objects and isinstance(node.value, (ast.Name, ast.Attribute)):
        holder = lookup(frame, node.value.id) if isinstance(node.value, ast.Name) else evaluate(frame, node.value)
        if holder is not None and holder.fields is not None:
            return holder.fields.get(node.attr, OTHER)
    text = dotted(node)
    parts = text.split(".")
    if len(parts) > 1 and parts[-2] in ("block_idx", "blockIdx"):
        return program_id({"x": 0, "y": 1, "z": 2}.get(parts[-1], 0), text)
    if len(parts) > 1 and parts[-2] in ("thread_idx", "threadIdx"):
        return quantity(text, THREAD, NARROW, "thread id")
    base = lookup(frame, parts[0]) if parts[0] else evaluate(frame, node.value)
    named = type_value(node)
    if named is not None and base is None:
        return named
    if base is None:
        return OTHER
    if node.attr in ("ptr", "T") or base.kind in (Kind.POINTER, Kind.BUFFER):
        held = evaluate(frame, node.value)
        return held if node.attr in ("ptr", "T") else OTHER
    if base.is_constant or frame.host:
        return named_constant(text)
    return OTHER


def _binary(frame: Frame, node: ast.BinOp) -> Value:
    return arithmetic(frame, node, type(node.op), evaluate(frame, node.left), evaluate(frame, node.right))


def _unary(frame: Frame, node: ast.UnaryOp) -> Value:
    value = evaluate(frame, node.operand)
    if isinstance(node.op, ast.Not):
        return BOOL
    if value.literal is not None and isinstance(node.op, ast.USub) and isinstance(value.literal, int):
        return replace(value, literal=-value.literal)
    return value


def _compare(frame: Frame, node: ast.Compare) -> Value:
    for part in (node.left, *node.comparators):
        evaluate(frame, part)
    return BOOL


def _bool(frame: Frame, node: ast.BoolOp) -> Value:
    return join_all([evaluate(frame, part) for part in node.values])


def _if_expression(frame: Frame, node: ast.IfExp) -> Value:
    evaluate(frame, node.test)
    fixed = is_compile_time(frame, node.test)
    return join(evaluate(frame, node.body), evaluate(frame, node.orelse), fixed)


def is_compile_time(frame: Frame, node: ast.expr) -> bool:
    """Whether a condition is decided when the kernel is compiled: only constants and compile-time names in it."""
    if isinstance(node, ast.Call) and dotted(node.func).endswith("const_expr"):
        return True
    names = 0
    for part in walk(node):
        if isinstance(part, ast.Name):
            value = lookup(frame, part.id)
            if value is None or value.kind is Kind.FUNCTION or value.is_constant or value.literal is not None:
                names += 1
            else:
                return False
    return names > 0


def _subscript(frame: Frame, node: ast.Subscript) -> Value:
    value = evaluate(frame, node.value)
    index = evaluate(frame, node.slice)
    if value.kind in (Kind.POINTER, Kind.BUFFER) or (value.kind is Kind.OTHER and frame.dialect == "flydsl"):
        frame.analyzer.report(frame, index, node)
    if value.kind is Kind.SEQUENCE:
        items, at = value.items, index.literal
        if items is not None and isinstance(at, int) and -len(items) <= at < len(items):
            return items[at]
        return value.element or OTHER
    return value if value.kind is not Kind.FUNCTION else OTHER


def _sequence(frame: Frame, node: ast.Tuple | ast.List) -> Value:
    return sequence([evaluate(frame, part.value if isinstance(part, ast.Starred) else part) for part in node.elts])


def _dictionary(frame: Frame, node: ast.Dict) -> Value:
    values = [evaluate(frame, value) for value in node.values]
    return Value(Kind.SEQUENCE, element=join_all(values))


def _comprehension(frame: Frame, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> Value:
    before = dict(frame.env.variables)
    for generator in node.generators:
        value, _ = loop_variable(frame, generator.iter)
        bind(frame, generator.target, value, node.lineno)
        for test in generator.ifs:
            evaluate(frame, test)
    element = evaluate(frame, node.elt)
    frame.env.variables = before
    return Value(Kind.SEQUENCE, element=element, sites=element.sites)


def _lambda(frame: Frame, node: ast.Lambda) -> Value:
    known = frame.analyzer.nested.get(node)
    if known is None:
        name = f"{frame.function.qualified}.<lambda>"
        known = Function(node, frame.function.module, None, name, "plain", frame.dialect)
        frame.analyzer.nested[node] = known
    return Value(Kind.FUNCTION, function=(known, frame.env))


def _named(frame: Frame, node: ast.NamedExpr) -> Value:
    value = evaluate(frame, node.value)
    bind(frame, node.target, value, node.lineno)
    return value


def _slice(frame: Frame, node: ast.Slice) -> Value:
    for part in (node.lower, node.upper, node.step):
        if part is not None:
            evaluate(frame, part)
    return OTHER


_EXPRESSIONS: dict[type, Callable[..., Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _bool,
    ast.IfExp: _if_expression,
    ast.Subscript: _subscript,
    ast.Tuple: _sequence,
    ast.List: _sequence,
    ast.Dict: _dictionary,
    ast.ListComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.SetComp: _comprehension,
    ast.Lambda: _lambda,
    ast.NamedExpr: _named,
    ast.Slice: _slice,
    ast.Starred: lambda frame, node: evaluate(frame, node.value),
    ast.Call: call,
}


def loop_variable(frame: Frame, node: ast.expr) -> tuple[Value, symbols.Sym]:
    """A loop's variable, joined over all turns, and the number of turns."""
    turns = symbols.leaf("turns of the loop", LOOP)
    if not isinstance(node, ast.Call):
        value = evaluate(frame, node)
        return (value.element or OTHER if value.kind is Kind.SEQUENCE else OTHER), turns
    name = dotted(node.func).rpartition(".")[2]
    if name in ("range", *_COMPILE_TIME_LOOPS):
        return _range(frame, node, name in _COMPILE_TIME_LOOPS)
    if name in ("zip", "enumerate", "reversed", "list", "tuple"):
        parts = [evaluate(frame, part) for part in node.args]
        elements = [part.element or OTHER for part in parts]
        if name == "zip":
            return sequence(elements), turns
        if name == "enumerate":
            return sequence([named_constant("i"), elements[0] if elements else OTHER]), turns
        return (elements[0] if elements else OTHER), turns
    value = evaluate(frame, node)
    return (value.element or OTHER), turns


def _range(frame: Frame, node: ast.Call, compile_time: bool) -> tuple[Value, symbols.Sym]:
    parts = [evaluate(frame, part) for part in node.args]
    numbers = [part for part in parts if part.kind is Kind.INT]
    if not numbers or len(numbers) < len(parts):
        return quantity("turn of the loop", LOOP, NARROW, "loop"), symbols.leaf("turns of the loop", LOOP)
    start = numbers[0] if len(numbers) > 1 else constant(0)
    stop = numbers[min(1, len(numbers) - 1)]
    fixed = compile_time or frame.host
    widths = {n.width for n in numbers[:2]}
    width = CONSTANT if fixed else WIDE if WIDE in widths else NARROW
    sites: Any = start.sites | stop.sites
    role = "tile" if stop.is_constant else stop.role
    if frame.dialect != "flydsl" and width == NARROW:  # a larger argument is an int64 there, and makes the turns such
        stop = replace(stop, sym=symbols.within(stop.sym, INT32_MAX))
    turns = stop.sym
    if len(numbers) > 2 and numbers[2].kind is Kind.INT:
        turns = symbols.divide(stop.sym, numbers[2].sym)
    sym = symbols.before(stop.sym) if stop.sym.hi >= start.sym.hi else start.sym
    return integer(sym, width, "" if fixed else "loop", role, sites=sites), turns


__all__ = ["Env", "evaluate", "is_compile_time", "loop_variable"]
