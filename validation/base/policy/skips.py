"""Skips and expected failures that the change added to tests, drivers and scenarios."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from validation.base.policy.finding import Finding, Tree, Trees
from validation.base.policy.tables import imports_of

KIND = "skip"
#: Last parts of a dotted name that takes a test out, and what it must belong to.
_MARKS = {"skip": ("mark", "pytest", "unittest"), "skipif": ("mark",), "xfail": ("mark", "pytest")}
_MARKS |= {
    "importorskip": ("pytest",),
    "skipIf": ("unittest",),
    "skipUnless": ("unittest",),
    "expectedFailure": ("unittest",),
}
#: Assignments in a ``conftest.py`` that leave files out.
_IGNORED = ("collect_ignore", "collect_ignore_glob")
_RAISED = ("SkipCase", "SkipTest", "Skipped")
_WORDS = ("reason", "msg")


def find(trees: Trees) -> Iterator[Finding]:
    """Each place that takes a test or case out in the head, and that the base does not have."""
    before = {key for key, _, _ in _places(trees.base, trees)}
    for (where, what), file, line in _places(trees.head, trees):
        if (where, what) not in before:
            yield Finding(KIND, file, f"{where}.{what.partition('(')[0]}", "added", "", what, line)


def _places(tree: Tree, trees: Trees) -> Iterator[tuple[tuple[str, str], str, int]]:
    """``(scope, spelling)``, file and line of every skip in a file that changed; neither a move nor another reason
    changes the first."""
    for file in (name for name in tree.files if name.endswith(".py") and _looked_at(name) and not trees.same(name)):
        module = tree.module(file)
        yield from _skips(module, "", file, _aliases(module))


def _looked_at(name: str) -> bool:
    path = PurePosixPath(name)
    return "tests" in path.parts or path.name.startswith(("test_", "conftest")) or path.parts[0] == "validation"


def _aliases(module: ast.Module) -> dict[str, str]:
    """What a file calls those parts of pytest and unittest that it imports by name."""
    found = imports_of(module).items()
    return {name: own or part for name, (_, part, own) in found if part.partition(".")[0] in ("pytest", "unittest")}


def _skips(
    node: ast.AST, scope: str, file: str, aliases: Mapping[str, str]
) -> Iterator[tuple[tuple[str, str], str, int]]:
    inner = scope
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        inner = f"{scope}.{node.name}" if scope else node.name
    spelled = _spelling(node, aliases)
    if spelled:
        yield (inner or PurePosixPath(file).stem, spelled), file, getattr(node, "lineno", 1)
    elif isinstance(node, ast.Assign) and any(
        isinstance(t, ast.Name) and (t.id in _IGNORED or _is_no_test(t, node.value)) for t in node.targets
    ):
        yield (inner or PurePosixPath(file).stem, ast.unparse(node)), file, node.lineno
    called = node.func if spelled and isinstance(node, ast.Call) else None
    for child in ast.iter_child_nodes(node):
        if child is not called:
            yield from _skips(child, inner, file, aliases)


def _spelling(node: ast.AST, aliases: Mapping[str, str]) -> str | None:
    """A skip as it is written, without its reason; ``None`` for anything else."""
    if isinstance(node, ast.Raise) and node.exc is not None:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return f"raise {_last(raised)}" if _last(raised) in _RAISED else None
    called = node.func if isinstance(node, ast.Call) else node
    name = called.attr if isinstance(called, ast.Attribute) else ""
    if isinstance(called, ast.Name) and isinstance(called.ctx, ast.Load):
        name = aliases.get(called.id, "")
    owner = _last(called.value) if isinstance(called, ast.Attribute) else ""
    if name not in _MARKS or (isinstance(called, ast.Attribute) and aliases.get(owner, owner) not in _MARKS[name]):
        return None
    if not isinstance(node, ast.Call) or name == "skip":  # a skip's only argument is its reason
        return name
    given = [ast.unparse(argument) for argument in node.args]
    given += [f"{each.arg}={ast.unparse(each.value)}" for each in node.keywords if each.arg not in _WORDS]
    return f"{name}({', '.join(given)})"


def _is_no_test(target: ast.Name, value: ast.expr) -> bool:
    """``__test__ = False``, by which a class or module says that it holds no tests."""
    return target.id == "__test__" and not (isinstance(value, ast.Constant) and value.value)


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
