"""Evaluates device functions over abstract values: scopes, statements and branches."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from validation.width_scan import symbols
from validation.width_scan.guards import branch_widths
from validation.width_scan.limits import INT32_MAX, LOOP
from validation.width_scan.modules import Library, Module, Scope, dotted
from validation.width_scan.prepass import caps
from validation.width_scan.values import (
    CONSTANT,
    NARROW,
    OTHER,
    WIDE,
    Function,
    Kind,
    Site,
    Value,
    integer,
    join,
    join_all,
    named_constant,
    quantity,
    sequence,
)

MAX_DEPTH = 14
#: Bodies of loops nested deeper than this are evaluated once.
REPEATED_LOOPS = 2


@dataclass(slots=True)
class Env:
    """Variables of one call, inside those of the functions around it."""

    variables: dict[str, Value]
    parent: Env | None = None
    scope: Scope | None = None

    def owner(self, name: str) -> Env | None:
        """The environment that holds `name`."""
        env: Env | None = self
        while env is not None:
            if name in env.variables:
                return env
            env = env.parent
        return None


@dataclass(slots=True)
class Frame:
    """One function in evaluation."""

    analyzer: Analyzer
    function: Function
    dialect: str
    env: Env
    caller: Frame | None = None
    call: ast.Call | None = None
    returns: list[Value] = field(default_factory=list)
    quiet: int = 0
    trips: list[symbols.Sym] = field(default_factory=list)
    shared_names: set[str] = field(default_factory=set)
    capping: set[str] = field(default_factory=set)
    host: bool = False

    @property
    def depth(self) -> int:
        """Number of calls around this one."""
        depth, frame = 0, self.caller
        while frame is not None:
            depth, frame = depth + 1, frame.caller
        return depth


@dataclass(slots=True)
class Analyzer:
    """State of one scan: what has been found, and results of calls by kind of arguments."""

    library: Library
    found: dict[tuple[str, int, int, str], Site] = field(default_factory=dict)
    sinks: dict[tuple[str, int, int, str], set[int]] = field(default_factory=dict)
    memo: dict[Any, Value] = field(default_factory=dict)
    active: list[ast.AST] = field(default_factory=list)
    visited: set[ast.AST] = field(default_factory=set)

    def report(self, frame: Frame, value: Value, node: ast.AST) -> None:
        """`value` is part of an address, at `node`: its sites are findings."""
        if not value.sites or frame.quiet:
            return
        for site in value.sites:
            self.found.setdefault(site.key, site)
            self.sinks.setdefault(site.key, set()).add(getattr(node, "lineno", site.line))


def lookup(frame: Frame, name: str) -> Value | None:
    """The value of a name, through the calls and compile-time scopes around; None if nothing defines it."""
    env: Env | None = frame.env
    last = env
    while env is not None:
        if name in env.variables:
            return env.variables[name]
        last, env = env, env.parent
    scope = last.scope if last is not None else None
    while scope is not None:
        value = scope_value(frame, scope, name)
        if value is not None:
            return value
        scope = scope.parent
    return None


def scope_value(frame: Frame, scope: Scope, name: str) -> Value | None:
    """A name's value in a compile-time scope."""
    if name in scope.cache:
        return scope.cache[name]  # type: ignore[return-value]
    if name in scope.functions:
        return Value(Kind.FUNCTION, function=(scope.functions[name], None))
    if name in scope.assigned:
        scope.cache[name] = named_constant(name)  # in case the assignment refers to itself
        node, position = scope.assigned[name]
        host = Frame(frame.analyzer, Function(ast.Lambda(), scope.module, scope, ""), frame.dialect,
                     Env({}, None, scope), frame, host=True)
        value = OTHER if host.depth > 4 * MAX_DEPTH else evaluate(host, node)
        if position is not None:
            value = value.items[position] if value.items and position < len(value.items) else OTHER
        if value.kind is Kind.OTHER and not isinstance(node, (ast.List, ast.Dict)):
            value = named_constant(name)
        scope.cache[name] = value
        return value
    if name in scope.parameters:
        return named_constant(name)
    if scope.parent is None and name in scope.module.imports:
        source, inner = scope.module.imports[name]
        target = frame.analyzer.library.resolve(scope.module, source) if inner else None
        if target is not None and target is not scope.module:
            return scope_value(frame, target.top, inner)
    return None


def assign(frame: Frame, name: str, value: Value) -> None:
    """Set a variable where it lives."""
    owner = frame.env.owner(name) if name in frame.shared_names else None
    (owner or frame.env).variables[name] = value


def bind(frame: Frame, target: ast.expr, value: Value, line: int) -> None:
    """Assign to a target; names get the bound that masks give them."""
    if isinstance(target, ast.Name):
        if value.kind is Kind.INT:
            value = cap(frame, target.id, value)
            value = replace(value, variable=target.id, line=line)
        assign(frame, target.id, value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        if value.items is not None and len(value.items) == len(target.elts):
            for element, item in zip(target.elts, value.items, strict=True):
                bind(frame, element, item, line)
        else:
            item = value.element or (OTHER if value.kind is Kind.SEQUENCE else value)
            for element in target.elts:
                bind(frame, element.value if isinstance(element, ast.Starred) else element, item, line)
    elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        held = lookup(frame, target.value.id)
        if held is not None and held.kind in (Kind.SEQUENCE, Kind.OTHER):
            element = value if held.element is None else join(held.element, value)
            assign(frame, target.value.id, Value(Kind.SEQUENCE, element=element, sites=held.sites | value.sites))


def cap(frame: Frame, name: str, value: Value) -> Value:
    """`value` as the masks of its function leave it."""
    if frame.host or value.is_constant or name in frame.capping:
        return value
    bounds = caps(frame.function).get(name)
    if not bounds:
        return value
    frame.capping.add(name)
    quiet, frame.quiet = frame.quiet, frame.quiet + 1
    limits = [v for v in (evaluate(frame, node) for node in bounds if _bound_is_known(frame, node)) if v.kind is Kind.INT]
    frame.quiet = quiet
    frame.capping.discard(name)
    if not limits:
        return value
    bound = max(limits, key=lambda v: v.sym.hi)
    role = bound.sym.role or replace(LOOP, name="bound", limit=bound.sym.hi, typical=min(bound.sym.hi, 131072))
    if value.tile is not None and not value.sites:
        value = replace(value, sym=symbols.leaf(name, role, bound.sym.hi))
        if value.width == NARROW and bound.sym.hi > INT32_MAX and value.tile is not None:
            return replace(value, sites=new_site(frame, "product", value.tile, value.sym, value, value))
        return value
    if bound.sym.hi < value.sym.hi and bound.sym.hi + 1024 <= INT32_MAX and bound.sym.hi > 0:
        return replace(value, sym=symbols.leaf(name, role, bound.sym.hi), sites=frozenset())
    return value


def _bound_is_known(frame: Frame, node: ast.expr) -> bool:
    return all(lookup(frame, n.id) is not None or n.id in frame.function.module.imports
               for n in ast.walk(node) if isinstance(n, ast.Name))


def run(frame: Frame, body: list[ast.stmt]) -> bool:
    """Evaluate statements. True if control does not reach the end (return, continue, break, raise)."""
    for statement in body:
        handler = _STATEMENTS.get(type(statement))
        if handler is not None and handler(frame, statement):
            return True
    return False


def _assign(frame: Frame, node: ast.Assign) -> None:
    value = evaluate(frame, node.value)
    for target in node.targets:
        if isinstance(target, ast.Name) and isinstance(node.value, ast.BinOp) and _adds_to(node.value, target.id):
            value = accumulate(frame, target, node.value, value)
        bind(frame, target, value, node.lineno)


def _adds_to(node: ast.BinOp, name: str) -> bool:
    return isinstance(node.op, ast.Add) and isinstance(node.left, ast.Name) and node.left.id == name


def _ann_assign(frame: Frame, node: ast.AnnAssign) -> None:
    if node.value is None:
        return
    value = evaluate(frame, node.value)
    if dotted(node.annotation).endswith("constexpr") and value.kind is Kind.INT:
        value = replace(value, width=CONSTANT)
    bind(frame, node.target, value, node.lineno)


def _aug_assign(frame: Frame, node: ast.AugAssign) -> None:
    combined = ast.copy_location(ast.BinOp(_loaded(node.target), node.op, node.value), node)
    value = evaluate(frame, combined)
    if isinstance(node.target, ast.Name) and isinstance(node.op, ast.Add):
        value = accumulate(frame, node.target, combined, value)
    bind(frame, node.target, value, node.lineno)


def _loaded(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    return target


def accumulate(frame: Frame, target: ast.Name, node: ast.BinOp, value: Value) -> Value:
    """``x += step`` in a loop: the sum after the loop's last turn."""
    if not frame.trips or value.kind is not Kind.INT or value.width != NARROW or value.sites:
        return value
    before = lookup(frame, target.id)
    if before is None or before.kind is not Kind.INT:
        return value
    if before.role == "accumulated":
        return before
    step = evaluate(frame, node.right)
    if step.kind is not Kind.INT or step.is_constant:
        # a constant step walks along one dimension, whose length bounds it
        return replace(value, role="accumulated") if step.kind is Kind.INT else value
    total = symbols.add(before.sym, symbols.multiply(step.sym, frame.trips[-1]))
    value = replace(value, sym=total, role="accumulated")
    if total.hi > INT32_MAX:
        value = replace(value, sites=new_site(frame, "increment", node, total, before, step))
    return value


def _if(frame: Frame, node: ast.If) -> bool:
    from validation.width_scan.expressions import is_compile_time

    evaluate(frame, node.test)
    fixed = is_compile_time(frame, node.test)
    narrow_body, narrow_else = branch_widths(node) if fixed else (False, False)
    before = dict(frame.env.variables)
    frame.quiet += narrow_body
    body_ends = run(frame, node.body)
    frame.quiet -= narrow_body
    after_body = frame.env.variables
    frame.env.variables = before
    frame.quiet += narrow_else
    else_ends = run(frame, node.orelse)
    frame.quiet -= narrow_else
    if body_ends and else_ends:
        return True
    if body_ends:
        return False
    frame.env.variables = after_body if else_ends else merge(after_body, frame.env.variables, fixed)
    return False


def merge(a: dict[str, Value], b: dict[str, Value], guarded: bool) -> dict[str, Value]:
    """Variables after either of two paths."""
    merged = dict(b)
    for name, value in a.items():
        other = b.get(name)
        merged[name] = value if other is None else join(value, other, guarded)
    return merged


def _loop(frame: Frame, body: list[ast.stmt], trip: symbols.Sym, again: Callable[[], None]) -> None:
    frame.trips.append(trip)
    for _ in range(2 if len(frame.trips) <= REPEATED_LOOPS else 1):
        before = dict(frame.env.variables)
        again()
        run(frame, body)
        frame.env.variables = merge(frame.env.variables, before, False)
    frame.trips.pop()


def _for(frame: Frame, node: ast.For) -> None:
    from validation.width_scan.expressions import loop_variable

    value, trip = loop_variable(frame, node.iter)
    _loop(frame, node.body, trip, lambda: bind(frame, node.target, value, node.lineno))
    run(frame, node.orelse)


def _while(frame: Frame, node: ast.While) -> None:
    turns = symbols.leaf("turns of the loop", LOOP)
    _loop(frame, node.body, turns, lambda: (evaluate(frame, node.test), None)[1])


def _return(frame: Frame, node: ast.Return) -> bool:
    frame.returns.append(evaluate(frame, node.value) if node.value is not None else OTHER)
    return True


def _function(frame: Frame, node: ast.FunctionDef) -> None:
    known = Function(node, frame.function.module, None, f"{frame.function.qualified}.{node.name}", "plain", frame.dialect)
    frame.env.variables[node.name] = Value(Kind.FUNCTION, function=(known, frame.env))


def _with(frame: Frame, node: ast.With) -> bool:
    for item in node.items:
        value = evaluate(frame, item.context_expr)
        if item.optional_vars is not None:
            bind(frame, item.optional_vars, value, node.lineno)
    return run(frame, node.body)


def _try(frame: Frame, node: ast.Try) -> None:
    run(frame, [*node.body, *node.orelse, *node.finalbody])


def _shared(frame: Frame, node: ast.Nonlocal) -> None:
    frame.shared_names.update(node.names)


_STATEMENTS: dict[type, Callable[..., Any]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _ann_assign,
    ast.AugAssign: _aug_assign,
    ast.If: _if,
    ast.For: _for,
    ast.While: _while,
    ast.Return: _return,
    ast.FunctionDef: _function,
    ast.With: _with,
    ast.Try: _try,
    ast.Nonlocal: _shared,
    ast.Global: _shared,
    ast.Expr: lambda frame, node: (evaluate(frame, node.value), False)[1],
    ast.Assert: lambda frame, node: (evaluate(frame, node.test), False)[1],
    ast.Continue: lambda frame, node: True,
    ast.Break: lambda frame, node: True,
    ast.Raise: lambda frame, node: True,
}


def evaluate(frame: Frame, node: ast.expr) -> Value:
    """The abstract value of an expression."""
    from validation.width_scan.expressions import evaluate as evaluate_expression

    return evaluate_expression(frame, node)


def new_site(frame: Frame, *arguments: Any, **keywords: Any) -> frozenset[Site]:
    """See :func:`validation.width_scan.sites.new_site`."""
    from validation.width_scan.sites import new_site as make

    return make(frame, *arguments, **keywords)


__all__ = ["MAX_DEPTH", "WIDE", "Analyzer", "Env", "Frame", "Module", "bind", "evaluate", "integer", "join_all",
           "lookup", "merge", "quantity", "run", "sequence"]
