"""State of a scan: scopes at run time, the functions in evaluation, and what has been found."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from validation.width_scan import symbols
from validation.width_scan.modules import Library, Scope
from validation.width_scan.values import Function, Site, Value

#: Calls inside calls beyond this depth are unknown functions.
MAX_DEPTH = 14


class Engine(Protocol):
    """The evaluators, which need each other: expressions call functions, whose bodies are statements."""

    handlers: Mapping[str, Callable[[Any], Value]]

    def evaluate(self, frame: Frame, node: ast.expr) -> Value:
        """The abstract value of an expression."""

    def run(self, frame: Frame, body: list[ast.stmt]) -> bool:
        """Evaluate statements; True if control does not reach the end."""


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

    def evaluate(self, node: ast.expr) -> Value:
        """The abstract value of an expression here."""
        return self.analyzer.engine.evaluate(self, node)

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
    engine: Engine
    found: dict[tuple[str, int, int, str], Site] = field(default_factory=dict)
    sinks: dict[tuple[str, int, int, str], set[int]] = field(default_factory=dict)
    nested: dict[ast.AST, Function] = field(default_factory=dict)
    memo: dict[Any, Value] = field(default_factory=dict)
    active: list[ast.AST] = field(default_factory=list)
    visited: set[ast.AST] = field(default_factory=set)
    objects: bool = False  # whether an instance of some class has been made

    def report(self, frame: Frame, value: Value, node: ast.AST) -> None:
        """`value` is part of an address, at `node`: its sites are findings."""
        if not value.sites or frame.quiet:
            return
        for site in value.sites:
            self.found.setdefault(site.key, site)
            self.sinks.setdefault(site.key, set()).add(getattr(node, "lineno", site.line))
