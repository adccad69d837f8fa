"""How much a test's function asserts: what runs, what never does, and what cannot fail it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import UnionType

#: Exceptions that stand for a failed assertion, where one is caught.
_FAILURES = ("AssertionError", "Exception", "BaseException")


@dataclass(frozen=True)
class Asserts:
    """Assertions that run, that stand where nothing runs (behind a return, under ``if False``), that are caught."""

    live: int
    dead: int
    caught: int


def asserts_of(function: ast.FunctionDef | ast.AsyncFunctionDef, kinds: type | UnionType) -> Asserts:
    """Count nodes of ``kinds``: of a test also calls, each of which may expect an exception or hold assertions."""
    every = [node for part in function.body for node in ast.walk(part) if isinstance(node, kinds)]
    live = {id(node) for part in _running(function.body) for node in ast.walk(part)}
    for part in function.body:
        for node in ast.walk(part):
            if isinstance(node, ast.If | ast.While):
                live -= {id(each) for branch in _never(node) for each in ast.walk(branch)}
            for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
                if isinstance(body, list):
                    kept = {id(each) for each in _running(body)}
                    live -= {id(each) for each in body if id(each) not in kept for each in ast.walk(each)}
    caught = {
        id(node)
        for part in function.body
        for attempt in ast.walk(part)
        if isinstance(attempt, ast.Try)
        for inner in attempt.body
        for node in ast.walk(inner)
        if _swallows(attempt, isinstance(node, ast.Assert))
    }
    dead = [node for node in every if id(node) not in live]
    held = [node for node in every if id(node) in live and id(node) in caught]
    return Asserts(len(every) - len(dead), len(dead), len(held))


def _running(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements up to the first that ends the block."""
    for node in body:
        yield node
        if isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue):
            return


def _never(node: ast.If | ast.While) -> Sequence[ast.stmt]:
    """The branch of a condition that is decided already."""
    if not isinstance(node.test, ast.Constant):
        return ()
    return (node.orelse if isinstance(node, ast.If) else ()) if node.test.value else node.body


def _swallows(attempt: ast.Try, assertion: bool) -> bool:
    """Whether a failed assertion in it ends there; one in a call, only where the handler says that it means these."""
    for handler in attempt.handlers:
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        named = [getattr(kind, "id", getattr(kind, "attr", "")) for kind in kinds if kind is not None]
        failures = _FAILURES if assertion else _FAILURES[:1]
        meant = (handler.type is None and assertion) or any(name in failures for name in named)
        if meant and not _goes_on(handler):
            return True
    return False


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Whether a handler raises, or looks at what it has caught."""
    return any(isinstance(node, ast.Raise | ast.Assert) for part in handler.body for node in ast.walk(part))
