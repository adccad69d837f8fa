"""Evaluates the statements of a device function: branches, loops, assignments."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from validation.width_scan import symbols
from validation.width_scan.bindings import bind
from validation.width_scan.expressions import evaluate, is_compile_time, loop_variable
from validation.width_scan.frames import Frame
from validation.width_scan.guards import branch_widths, chooses_width
from validation.width_scan.limits import INT32_MAX, LOOP
from validation.width_scan.modules import dotted
from validation.width_scan.scopes import assigned, lookup
from validation.width_scan.sites import new_site
from validation.width_scan.values import CONSTANT, NARROW, OTHER, Function, Kind, Value, join

#: Bodies of loops nested deeper than this are evaluated once.
REPEATED_LOOPS = 2


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
    evaluate(frame, node.test)
    fixed = is_compile_time(frame, node.test)
    narrow_body = narrow_else = guarded = False
    if fixed:
        narrow_body, narrow_else = branch_widths(node, lambda name: assigned(frame, name))
        guarded = chooses_width(node, lambda name: assigned(frame, name))
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
    frame.env.variables = after_body if else_ends else merge(after_body, frame.env.variables, guarded)
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
    value, trip = loop_variable(frame, node.iter)
    _loop(frame, node.body, trip, lambda: bind(frame, node.target, value, node.lineno))
    run(frame, node.orelse)


def _while(frame: Frame, node: ast.While) -> None:
    counter = _counter(frame, node)

    def again() -> None:
        evaluate(frame, node.test)
        if counter is not None:
            bind(frame, *counter[:2], node.lineno)

    _loop(frame, node.body, counter[2] if counter else symbols.leaf("turns of the loop", LOOP), again)


def _counter(frame: Frame, node: ast.While) -> tuple[ast.Name, Value, symbols.Sym] | None:
    """The ``i`` of ``i = 0; while i < n: ...; i += step``, its value and turns: those of ``range(0, n, step)``."""
    test = node.test
    if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name) or len(test.ops) > 1:
        return None
    before, end, step = lookup(frame, test.left.id), test.comparators[0], _step(node, test.left.id)
    if step is None or before is None or before.kind is not Kind.INT or not before.is_constant:
        return None
    if not isinstance(test.ops[0], (ast.Lt, ast.LtE)) or evaluate(frame, end).is_constant:
        return None
    turns = ast.Call(ast.Name("range", ast.Load()), [ast.Constant(0), end, step], [])
    return test.left, *loop_variable(frame, ast.fix_missing_locations(ast.copy_location(turns, node)))


def _step(loop: ast.While, name: str) -> ast.expr | None:
    """What the body of a loop adds to a variable."""
    for node in ast.walk(loop):
        match node:
            case ast.AugAssign(target=ast.Name(id=target), op=ast.Add(), value=step) if target == name:
                return step
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.BinOp() as total) if target == name:
                if _adds_to(total, name):
                    return total.right
    return None


def _return(frame: Frame, node: ast.Return) -> bool:
    frame.returns.append(evaluate(frame, node.value) if node.value is not None else OTHER)
    return True


def _function(frame: Frame, node: ast.FunctionDef) -> None:
    known = frame.analyzer.nested.get(node)
    if known is None:
        name = f"{frame.function.qualified}.{node.name}"
        known = Function(node, frame.function.module, None, name, "plain", frame.dialect)
        frame.analyzer.nested[node] = known
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
