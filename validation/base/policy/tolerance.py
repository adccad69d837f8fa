"""Tolerances, from the syntax trees of both revisions: named constants, literals, and the arithmetic around them.

Which way a number has to move to demand less, nobody can tell from the number. So each that moved is a finding, and so
is a function of the oracle whose numbers, operators, comparisons or calls are others; renaming a local variable, moving
a function or rewriting a comment is none.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch

from validation.base.policy.finding import Finding, Tree, Trees, called, scopes
from validation.base.revision import package_folder
from validation.base.sources import driver_modules

KIND = "tolerance"
#: Where tolerances live, beside the operation's drivers: the oracle, what drivers are made of, the gate of mutants.
PLACES = ("oracle/*.py", "validation/kit/*.py", "validation/mutation/gate.py", "validation/mutation/manifest.py")
#: A function of a driver counts when it calls, or names, something like these; the others draw inputs and make calls.
_JUDGING = ("check", "compar", "judge", "bound", "settle", "TOLERANCE", "SLACK")
_CONSTANT = re.compile(r"_{0,2}[A-Z][A-Z0-9_]*")


@dataclass(frozen=True)
class _Item:
    """A constant or function of one file."""

    file: str
    line: int
    text: str
    tokens: Mapping[str, int]


def find(trees: Trees) -> Iterator[Finding]:
    """Every constant that changed or went, and every function of the oracle that computes otherwise."""
    own = _driver_files(trees)
    before, after = (_items(tree, own) for tree in (trees.base, trees.head))
    for (file, name), old in before.items():
        new = after.get((file, name)) or _moved(after, name)
        if new is None:
            if old.tokens:
                yield Finding(KIND, file, name, "removed", old.text, "")
        elif old.tokens != new.tokens:
            gone, come = Counter(old.tokens) - Counter(new.tokens), Counter(new.tokens) - Counter(old.tokens)
            constant = old.text and new.text
            base, head = (old.text, new.text) if constant else (_shown(gone), _shown(come))
            what = "value changed" if constant else "computes otherwise"
            yield Finding(KIND, new.file, name, what, base, head, new.line)


def _moved(items: Mapping[tuple[str, str], _Item], name: str) -> _Item | None:
    """The only item called ``name``, wherever it is now."""
    found = [item for (_, each), item in items.items() if each == name]
    return found[0] if len(found) == 1 else None


def _driver_files(trees: Trees) -> frozenset[str]:
    """Files of modules that judge the operation, relative to the head's root."""
    found = set()
    for module in driver_modules(trees.operation):
        package, *rest = module.split(".")
        if rest:
            path = package_folder(package).joinpath(*rest).with_suffix(".py")
            if path.is_relative_to(trees.head.root.resolve()):
                found.add(path.relative_to(trees.head.root.resolve()).as_posix())
    return frozenset(found)


def _tracked(name: str, own: frozenset[str]) -> bool:
    return name in own or any(fnmatch(name, place) for place in PLACES)


def _items(tree: Tree, own: frozenset[str]) -> dict[tuple[str, str], _Item]:
    items: dict[tuple[str, str], _Item] = {}
    for file in (name for name in tree.files if name.endswith(".py") and _tracked(name, own)):
        module = tree.module(file)
        for name, node in _constants(module):
            value = ast.unparse(node.value) if node.value else ""
            items[file, name] = _Item(file, node.lineno, value, Counter([f"= {value}"]))
        for name, definition in scopes(module):
            if isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
                counted = tokens(definition)
                if file not in own or any(word in token for token in counted for word in _JUDGING):
                    items[file, name] = _Item(file, definition.lineno, "", counted)
    _imports(tree, own, items)
    return items


def _constants(module: ast.Module) -> Iterator[tuple[str, ast.Assign | ast.AnnAssign]]:
    """Assignments to names in capitals, of the module and of its classes."""
    bodies = [("", module.body)]
    bodies += [(f"{name}.", node.body) for name, node in scopes(module) if isinstance(node, ast.ClassDef)]
    for prefix, body in bodies:
        for node in body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
            for target in targets:
                for name in ast.walk(target):
                    numeric = bool(prefix) and isinstance(node, (ast.Assign, ast.AnnAssign)) and _has_number(node.value)
                    if isinstance(name, ast.Name) and (_CONSTANT.fullmatch(name.id) or numeric):
                        assert isinstance(node, (ast.Assign, ast.AnnAssign))
                        yield prefix + name.id, node


def _has_number(value: ast.AST | None) -> bool:
    return value is not None and any(_is_number(node) for node in ast.walk(value))


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool)


def _imports(tree: Tree, own: frozenset[str], items: dict[tuple[str, str], _Item]) -> None:
    """Constants that come in under another name: ``from x import LOOSE as SLACK``."""
    for file in {file for file, _ in items}:
        for node in ast.walk(tree.module(file)):
            if not isinstance(node, ast.ImportFrom):
                continue
            for alias in node.names:
                if alias.asname and _CONSTANT.fullmatch(alias.asname):
                    value = f"{'.' * node.level}{node.module or ''}.{alias.name}"
                    item = _Item(file, node.lineno, value, Counter([f"import {value}"]))
                    items.setdefault((file, alias.asname), item)


def tokens(function: ast.AST) -> Counter[str]:
    """What a function computes with: numbers, constants, operators, comparisons, calls, fixed answers."""
    found: Counter[str] = Counter()
    skipped: set[int] = set()
    for node in ast.walk(function):
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            skipped |= {id(inner) for inner in ast.walk(part)} if isinstance(part, ast.AST) else set()
        if id(node) not in skipped:
            found.update(_tokens_of(node))
    return found


def _tokens_of(node: ast.AST) -> Iterator[str]:
    if _is_number(node):
        yield repr(getattr(node, "value", None))
    elif isinstance(node, ast.Name) and _CONSTANT.fullmatch(node.id):
        yield node.id
    elif isinstance(node, ast.Attribute) and _CONSTANT.fullmatch(node.attr):
        yield node.attr
    elif isinstance(node, (ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.AugAssign)):
        yield type(node.op).__name__
    elif isinstance(node, ast.Compare):
        yield from (type(op).__name__ for op in node.ops)
    elif isinstance(node, ast.Call):
        yield f"{called(node) or 'call'}()"
    elif isinstance(node, ast.keyword) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool):
        yield f"{node.arg}={node.value.value}"
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool):
        yield f"return {node.value.value}"
    elif isinstance(node, (ast.Assert, ast.Raise, ast.Continue, ast.Try)):
        yield type(node).__name__.lower()


def _shown(counted: Counter[str]) -> str:
    return ", ".join(f"{token} ({times} times)" if times > 1 else token for token, times in sorted(counted.items()))
