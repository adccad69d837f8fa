"""Names: what they mean in the calls and compile-time scopes around an expression."""

from __future__ import annotations

import ast

from validation.width_scan.frames import MAX_DEPTH, Env, Frame
from validation.width_scan.modules import Scope
from validation.width_scan.typenames import is_type
from validation.width_scan.values import OTHER, Function, Kind, Value, named_constant

_NOWHERE = ast.FunctionDef("<scope>", ast.arguments([], [], None, [], [], None, []), [], [])


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


def assigned(frame: Frame, name: str) -> ast.expr | None:
    """What a name was assigned in the compile-time scopes around, if it was by itself."""
    env = frame.env
    while env.parent is not None:
        env = env.parent
    scope = env.scope
    while scope is not None:
        if name in scope.assigned:
            node, position = scope.assigned[name]
            return node if position is None else None
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
        host = Frame(
            frame.analyzer,
            Function(_NOWHERE, scope.module, scope, ""),
            frame.dialect,
            Env({}, None, scope),
            frame,
            host=True,
        )
        value = OTHER if host.depth > 4 * MAX_DEPTH else host.evaluate(node)
        if position is not None:
            value = value.items[position] if value.items and position < len(value.items) else OTHER
        if value.kind is Kind.OTHER and not is_type(value) and not isinstance(node, (ast.List, ast.Dict)):
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
