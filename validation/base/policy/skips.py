"""Skips and expected failures that the change added to tests, drivers and scenarios."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath

from validation.base.policy.finding import Finding, Tree, Trees

KIND = "skip"
#: Last parts of a dotted name that takes a test out, and what it must belong to.
_MARKS = {"skip": ("mark", "pytest", "unittest"), "skipif": ("mark",), "xfail": ("mark", "pytest")}
_MARKS |= {
    "importorskip": ("pytest",),
    "skipIf": ("unittest",),
    "skipUnless": ("unittest",),
    "expectedFailure": ("unittest",),
}
_RAISED = ("SkipCase", "SkipTest", "Skipped")
_WORDS = ("reason", "msg")


def find(trees: Trees) -> Iterator[Finding]:
    """Each place that takes a test or case out in the head, and that the base does not have."""
    before = {key for key, _, _ in _places(trees.base)}
    for (where, what), file, line in _places(trees.head):
        if (where, what) not in before:
            yield Finding(KIND, file, f"{where}.{what.partition('(')[0]}", "added", "", what, line)


def _places(tree: Tree) -> Iterator[tuple[tuple[str, str], str, int]]:
    """``(scope, spelling)``, file and line of every skip; neither a move nor another reason changes the first."""
    for file in (name for name in tree.files if name.endswith(".py") and _looked_at(name)):
        yield from _skips(tree.module(file), "", file)


def _looked_at(name: str) -> bool:
    path = PurePosixPath(name)
    return "tests" in path.parts or path.name.startswith(("test_", "conftest")) or path.parts[0] == "validation"


def _skips(node: ast.AST, scope: str, file: str) -> Iterator[tuple[tuple[str, str], str, int]]:
    inner = scope
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        inner = f"{scope}.{node.name}" if scope else node.name
    spelled = _spelling(node)
    if spelled:
        yield (inner or PurePosixPath(file).stem, spelled), file, getattr(node, "lineno", 1)
    elif isinstance(node, ast.Assign) and any(
        isinstance(t, ast.Name) and t.id == "collect_ignore" for t in node.targets
    ):
        yield (inner or PurePosixPath(file).stem, ast.unparse(node)), file, node.lineno
    called = node.func if spelled and isinstance(node, ast.Call) else None
    for child in ast.iter_child_nodes(node):
        if child is not called:
            yield from _skips(child, inner, file)


def _spelling(node: ast.AST) -> str | None:
    """A skip as it is written, without its reason; ``None`` for anything else."""
    if isinstance(node, ast.Raise) and node.exc is not None:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return f"raise {_last(raised)}" if _last(raised) in _RAISED else None
    called = node.func if isinstance(node, ast.Call) else node
    if not isinstance(called, ast.Attribute) or called.attr not in _MARKS:
        return None
    if _last(called.value) not in _MARKS[called.attr]:
        return None
    if not isinstance(node, ast.Call) or called.attr == "skip":  # a skip's only argument is its reason
        return called.attr
    given = [ast.unparse(argument) for argument in node.args]
    given += [f"{each.arg}={ast.unparse(each.value)}" for each in node.keywords if each.arg not in _WORDS]
    return f"{called.attr}({', '.join(given)})"


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
