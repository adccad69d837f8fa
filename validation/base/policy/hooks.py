"""What pytest is told of by a ``conftest.py``: hooks, fixtures that every test gets, plugins.

What such code does to a test, nobody can tell from its text: it may take tests out, change what they compare or what
their outcome is. So each that came, went or changed is a finding.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from pathlib import PurePosixPath

from validation.base.policy.finding import Finding, Tree, Trees, scopes, some

KIND = "pytest"
#: Assignments that a test runner reads; those that leave files out are skips (:mod:`.skips`).
_NAMES = ("pytest_plugins", "pytestmark")
_SHOWN = 6


def find(trees: Trees) -> Iterator[Finding]:
    """Each hook, fixture with ``autouse`` and list of plugins that is not what it was."""
    for file in _files(trees):
        before, after = _told(trees.base, file), _told(trees.head, file)
        for name in sorted(before.keys() | after.keys()):
            old, new = before.get(name), after.get(name)
            if (old and old[0]) != (new and new[0]):
                what = "added" if old is None else "removed" if new is None else "changed"
                line = new[1] if new else old[1] if old else None
                was, now = ("" if each is None else _first(each[0]) for each in (old, new))
                said = f"{what}: it may change which tests run, or their outcome"
                yield Finding(KIND, file, name, said, was, now, line)


def notes(trees: Trees) -> list[str]:
    """Files for pytest that changed in other places: one line, or none."""
    files = [
        file for file in _files(trees) if not trees.same(file) and _rest(trees.base, file) != _rest(trees.head, file)
    ]
    return [f"not seen: what the change to {some(files, _SHOWN)} does to tests"] if files else []


def _files(trees: Trees) -> list[str]:
    return trees.listed(lambda name: PurePosixPath(name).name == "conftest.py" and not trees.same(name))


def _told(tree: Tree, file: str) -> dict[str, tuple[str, int]]:
    """By name, the text and line of what pytest calls, or gives to every test, without being asked."""
    if file not in tree.known:
        return {}
    module = tree.module(file)
    found = {
        name: (_text(node), node.lineno) for name, node in scopes(module) if _counts(node) and hasattr(node, "lineno")
    }
    for node in module.body:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Name) and target.id in _NAMES:
                found[target.id] = ast.unparse(node), node.lineno
    return found


def _counts(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    automatic = any(
        each.arg == "autouse" and not (isinstance(each.value, ast.Constant) and not each.value.value)
        for mark in node.decorator_list
        if isinstance(mark, ast.Call)
        for each in mark.keywords
    )
    return node.name.startswith("pytest_") or automatic


def _rest(tree: Tree, file: str) -> list[str]:
    """The text of all that :func:`_told` leaves."""
    body = tree.module(file).body if file in tree.known else []
    told = _told(tree, file)
    return [_text(node) for node in body if getattr(node, "name", "") not in told]


def _text(node: ast.stmt | ast.AST) -> str:
    """``node`` as source, without the docstring of a function."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node) is not None:
        node = copy.copy(node)
        node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(node)


def _first(text: str) -> str:
    """The line that names it."""
    return next((line for line in text.splitlines() if not line.startswith("@")), text)[:120]
