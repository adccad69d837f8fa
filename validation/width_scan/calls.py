"""Calls in device functions: known functions are evaluated with their arguments, language calls by table."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from validation.width_scan.frames import MAX_DEPTH, Env, Frame
from validation.width_scan.limits import PROGRAM_ID
from validation.width_scan.modules import dotted
from validation.width_scan.prepass import parameters, pointers
from validation.width_scan.scopes import lookup
from validation.width_scan.typenames import type_value
from validation.width_scan.values import (
    NARROW,
    OTHER,
    WIDE,
    Function,
    Kind,
    Value,
    constant,
    integer,
    join_all,
    named_constant,
    quantity,
)


@dataclass(slots=True)
class Call:
    """A call in evaluation. `receiver` is the object of a method call, None for a function."""

    frame: Frame
    node: ast.Call
    name: str
    receiver: Value | None
    args: list[Value]
    keywords: dict[str, Value]

    def argument(self, position: int, *names: str) -> Value | None:
        """An argument by position or by one of its keywords."""
        for name in names:
            if name in self.keywords:
                return self.keywords[name]
        return self.args[position] if position < len(self.args) else None

    def expression(self, position: int, *names: str) -> ast.expr | None:
        """Its syntax."""
        for keyword in self.node.keywords:
            if keyword.arg in names:
                return keyword.value
        return self.node.args[position] if position < len(self.node.args) else None

    def report(self, *values: Value | None) -> None:
        """These are addresses, or parts of one."""
        for value in values:
            if value is not None:
                self.frame.analyzer.report(self.frame, value, self.node)

    def everything(self) -> list[Value]:
        """Receiver, arguments and keyword arguments."""
        return [*([self.receiver] if self.receiver is not None else []), *self.args, *self.keywords.values()]


def program_id(axis: int, text: str) -> Value:
    """A block id along a grid axis."""
    role = PROGRAM_ID[min(axis, 1)]
    return quantity(text, role, NARROW, "program id")


def call(frame: Frame, node: ast.Call) -> Value:
    """The value of a call."""
    receiver, name, known = _callee(frame, node.func)
    args = _arguments(frame, node)
    keywords = {keyword.arg or "**": frame.evaluate(keyword.value) for keyword in node.keywords}
    if known is None and receiver is None and isinstance(node.func, ast.Name):
        made = _instance(frame, node, args, keywords)
        if made is not None:
            return made
    if known is not None:
        function, env = known
        if receiver is not None:
            args = [receiver, *args]
        return enter(frame, node, function, env, args, keywords)
    this = Call(frame, node, name, receiver, args, keywords)
    handler: Callable[[Call], Value] | None = frame.analyzer.engine.handlers.get(name)
    if handler is None and name.startswith(("atomic_", "buffer_atomic", "raw_buffer", "raw_ptr_buffer")):
        handler = frame.analyzer.engine.handlers["atomic" if name.startswith("atomic_") else "buffer_load"]
    return handler(this) if handler is not None else unknown(this)


#: Tells instances apart while they have no fields.
_NUMBERS = itertools.count(1)


def _instance(frame: Frame, node: ast.Call, args: list[Value], keywords: dict[str, Value]) -> Value | None:
    """``Rows(x_ptr, stride)``: an instance of a class of a file at hand; None if it is no such call."""
    module, name = frame.function.module, node.func.id if isinstance(node.func, ast.Name) else ""
    if name not in module.classes and name in module.imports:
        source, inner = module.imports[name]
        module, name = (frame.analyzer.library.resolve(module, source) if inner else None) or module, inner
    if name not in module.classes or lookup(frame, name) is not None:
        return None
    definition, scope = module.classes[name]
    frame.analyzer.objects = True
    made = Value(Kind.OTHER, role=name, fields={}, line=next(_NUMBERS))
    start = scope.functions.get("__init__")
    if start is not None:
        enter(frame, node, start, None, [made, *args], keywords)
        return made
    declared = [
        part.target.id
        for part in definition.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    ]
    assert made.fields is not None
    made.fields.update(zip(declared, args, strict=False))
    made.fields.update((field, value) for field, value in keywords.items() if field in declared)
    return made


def _arguments(frame: Frame, node: ast.Call) -> list[Value]:
    """Positional arguments; a starred tuple of known parts gives its parts."""
    args: list[Value] = []
    for part in node.args:
        if isinstance(part, ast.Starred):
            held = frame.evaluate(part.value)
            args += held.items if held.items is not None else [held.element or held]
        else:
            args.append(frame.evaluate(part))
    return args


def _callee(frame: Frame, func: ast.expr) -> tuple[Value | None, str, tuple[Function, Env | None] | None]:
    """Receiver, last name, and the function if it is a known one."""
    if isinstance(func, ast.Name):
        value = lookup(frame, func.id)
        if value is not None and value.kind is Kind.FUNCTION:
            return None, func.id, value.function
        _, inner = frame.function.module.imports.get(func.id, ("", ""))
        return None, (inner or func.id) if value is None else func.id, None
    if isinstance(func, ast.Attribute):
        root = dotted(func).split(".")[0]
        method = _method(frame, func)
        if method is not None:
            return method
        imported = root in frame.function.module.imports or root in ("tl", "gl", "fx", "arith", "self")
        if isinstance(func.value, ast.Call):
            imported = False
        if imported and root and frame.env.owner(root) is None:
            return None, func.attr, _imported(frame, func)
        return frame.evaluate(func.value), func.attr, None
    value = frame.evaluate(func)
    return None, "", value.function if value.kind is Kind.FUNCTION else None


def _method(frame: Frame, func: ast.Attribute) -> tuple[Value | None, str, tuple[Function, None]] | None:
    """The device function of a class of this file: of the class that is named, or the only one of that name.

    A method that is called as the language calls one of its own is only taken by the name of its class.
    """
    found = frame.function.module.methods.get(func.attr, [])
    named = dotted(func.value).rpartition(".")[2] if isinstance(func.value, (ast.Name, ast.Attribute)) else ""
    if not found:
        return None
    if not any(function.qualified.split(".")[-2] == named for function in found):
        holder = frame.evaluate(func.value) if frame.analyzer.objects else OTHER
        named = holder.role if holder.fields is not None else named
    mine = [function for function in found if function.qualified.split(".")[-2] == named]
    if not mine and (len(found) != 1 or func.attr in frame.analyzer.engine.handlers):
        return None
    function = (mine or found)[0]
    owner = function.qualified.split(".")[-2]
    static = any(dotted(decorator) == "staticmethod" for decorator in function.node.decorator_list)
    bound = not static and dotted(func.value).rpartition(".")[2] != owner
    return (frame.evaluate(func.value) if bound else None), func.attr, (function, None)


def _imported(frame: Frame, func: ast.Attribute) -> tuple[Function, Env | None] | None:
    """``module.helper(...)`` where the module is a file at hand."""
    if not isinstance(func.value, ast.Name):
        return None
    source = frame.function.module.imports.get(func.value.id)
    if source is None:
        return None
    place, name = source
    whole = place + name if place.endswith(".") else f"{place}.{name}" if name else place
    target = frame.analyzer.library.resolve(frame.function.module, whole)
    function = target.top.functions.get(func.attr) if target is not None else None
    return (function, None) if function is not None else None


def _key(value: Value, within: tuple[int, ...] = ()) -> Any:
    """What tells calls apart; `within` are the instances whose field this is: one may hold itself."""
    if value.kind is Kind.SEQUENCE:
        parts = tuple(_key(v, within) for v in value.items[:8]) if value.items else None
        return ("s", parts or _key(value.element or OTHER, within))
    if value.kind is Kind.FUNCTION:
        return id(value.function[0])
    if value.fields is not None:
        own = id(value.fields)
        if own in within:
            return (value.role, within.index(own))
        # one without fields is under construction, and each is constructed for itself
        held = tuple((name, _key(field, (*within, own))) for name, field in value.fields.items())
        return (value.role, held or value.line)
    sites = frozenset(site.key for site in value.sites) if value.sites else None
    return (
        value.kind,
        value.width,
        value.sym.hi,
        value.source,
        value.role,
        value.tile is not None,
        sites,
        value.literal,
    )


def enter(
    frame: Frame,
    node: ast.Call | None,
    function: Function,
    env: Env | None,
    args: list[Value],
    keywords: dict[str, Value],
) -> Value:
    """Evaluate a known function with these arguments; the same kind of call is evaluated once."""
    analyzer = frame.analyzer
    analyzer.visited.add(function.node)
    key = (
        id(function.node),
        id(env),
        tuple(_key(v) for v in args),
        tuple((name, _key(v)) for name, v in keywords.items()),
        frame.quiet > 0,
        frame.host,
    )
    if key in analyzer.memo:
        return analyzer.memo[key]
    if function.node in analyzer.active or frame.depth > MAX_DEPTH:
        return replace(OTHER, sites=join_all([*args, *keywords.values()]).sites)
    variables = _parameters(analyzer, function, args, keywords)
    inner = Frame(
        analyzer,
        function,
        function.dialect or frame.dialect,
        Env(variables, env, function.scope),
        frame,
        node,
        quiet=frame.quiet,
        host=frame.host,
    )
    analyzer.active.append(function.node)
    result = body(inner)
    analyzer.active.pop()
    analyzer.memo[key] = result
    return result


def body(frame: Frame) -> Value:
    """Evaluate a function's body in its frame; the join of what it returns."""
    node = frame.function.node
    if isinstance(node, ast.Lambda):
        return frame.evaluate(node.body)
    frame.analyzer.engine.run(frame, node.body)
    return join_all(frame.returns)


def _parameters(analyzer: Any, function: Function, args: list[Value], keywords: dict[str, Value]) -> dict[str, Value]:
    formal = parameters(function)
    addresses = pointers(function, analyzer.library) if function.kind == "device" else frozenset()
    defaults = default_values(function)
    values = dict(zip((arg.arg for arg in formal), args, strict=False))
    values |= {name: value for name, value in keywords.items() if name != "**"}
    for arg in formal:
        value = values.get(arg.arg)
        if value is None:
            value = _default(arg.arg, defaults.get(arg.arg))
        if arg.arg in addresses and value.kind in (Kind.INT, Kind.OTHER):
            value = Value(Kind.POINTER, sites=value.sites, variable=arg.arg)
        values[arg.arg] = value
    return values


def default_values(function: Function) -> dict[str, ast.expr]:
    """Default expressions by parameter."""
    args = function.node.args
    positional = [*args.posonlyargs, *args.args]
    found = {a.arg: d for a, d in zip(reversed(positional), reversed(args.defaults), strict=False)}
    return found | {a.arg: d for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None}


def _default(name: str, node: ast.expr | None) -> Value:
    named = type_value(node)
    if named is not None:
        return named
    literal = node.value if isinstance(node, ast.Constant) else None
    if isinstance(literal, int) and not isinstance(literal, bool):
        return constant(literal)
    return OTHER if literal is None else named_constant(name)


def unknown(this: Call) -> Value:
    """A function nobody here knows: it may return any of its integers, and call any function it is given."""
    values = this.everything()
    sites = frozenset[Any]().union(*(v.sites for v in values)) if values else frozenset()
    for value in values:
        if value.kind is Kind.BUFFER:
            this.report(*values)
        if value.kind is Kind.FUNCTION:
            function, env = value.function
            count = len(parameters(function))
            result = enter(this.frame, this.node, function, env, [OTHER] * count, {})
            sites = sites | result.sites
    numbers = [v for v in values if v.kind is Kind.INT and not v.is_constant]
    if this.frame.host and not numbers:
        return OTHER
    if not numbers:
        return replace(OTHER, sites=sites)
    biggest = max(numbers, key=lambda v: v.sym.hi)
    index = next((v for v in numbers if v.is_index), biggest)
    width = WIDE if any(v.width == WIDE for v in numbers) else NARROW
    return integer(biggest.sym, width, index.source, biggest.role, sites=sites)
