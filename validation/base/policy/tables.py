"""Tables of parameters as source text has them, wherever a test's own file takes them from.

A table is read, never run: literals, names that are assigned once (here or in a module that is imported from), sums of
these, and the few calls and comprehensions that change no count. Any other is *computed*: how many rows it has, nobody
can tell from its text; only whether that text, and what it names, is another one.
"""

from __future__ import annotations

import ast
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from validation.base.policy.finding import Tree, called
from validation.base.sources import meaning

#: What a row is called: a plain value, a key or an id. ``None``: it has several parts, and only counts.
Row = str | None
_DEEPEST = 8
#: A table of more rows counts as computed.
_MOST = 100_000
#: Calls that hand on the rows of their only argument.
_SAME = ("list", "tuple", "sorted", "set", "frozenset", "reversed", "enumerate", "dict", "iter", "fromkeys")
_METHODS = ("items", "keys", "values", "copy")


@dataclass(frozen=True)
class Tables:
    """The tables of one revision."""

    tree: Tree
    _imports: dict[str, dict[str, tuple[int, str, str]]] = field(default_factory=dict)

    def rows(self, file: str, expression: ast.expr, depth: int = 0) -> list[Row] | None:
        """The rows of ``expression`` as it stands in ``file``; ``None``: it is computed."""
        read = _READ.get(type(expression))
        return read(self, file, expression, depth + 1) if read and depth < _DEEPEST else None

    def source(self, file: str, expression: ast.expr) -> str:
        """A name for the text of ``expression`` and of all that it names: the same text computes the same table."""
        return hashlib.sha256("\n".join(self._texts(file, expression, set())).encode()).hexdigest()

    def _texts(self, file: str, node: ast.AST, seen: set[tuple[str, str]]) -> list[str]:
        texts = [ast.unparse(node)]
        for name in sorted({each.id for each in ast.walk(node) if isinstance(each, ast.Name)}):
            if (file, name) in seen:
                continue
            seen.add((file, name))
            for definition in definitions(self.tree.module(file), name):
                texts += self._texts(file, definition, seen)
            found = self.imported(file, name)
            if found:
                texts.append(meaning(self.tree.root / found[0]))
        return texts

    def imported(self, file: str, name: str) -> tuple[str, str] | None:
        """File and own name of what ``file`` imports as ``name``, from this tree; the name is empty for a module."""
        if file not in self._imports:
            self._imports[file] = imports_of(self.tree.module(file))
        found = self._imports[file].get(name)
        if found is None:
            return None
        level, module, own = found
        whole = self._file(file, level, f"{module}.{own}".strip("."))
        place = whole or self._file(file, level, module)
        return (place, "" if whole else own) if place else None

    def _file(self, file: str, level: int, module: str) -> str | None:
        """The file of ``module``: beside ``file`` or above it, as a test runner puts both on the path."""
        parents = list(PurePosixPath(file).parents)
        for parent in parents[level - 1 : level] if level else parents:
            for ending in (".py", "/__init__.py"):
                place = (parent / (module.replace(".", "/") + ending)).as_posix()
                if place in self.tree.known:
                    return place
        return None


def imports_of(module: ast.Module) -> dict[str, tuple[int, str, str]]:
    """By the name that it has here, level, module and own name of what is imported; no own name for a module."""
    found: dict[str, tuple[int, str, str]] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            found |= {a.asname or a.name: (node.level, node.module or "", a.name) for a in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.asname or a.name: (0, a.name, "") for a in node.names}
    return found


def definitions(module: ast.Module, name: str) -> list[ast.stmt]:
    """Statements of ``module`` that define ``name``, or add to it."""
    found: list[ast.stmt] = []
    for node in module.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, (ast.AnnAssign, ast.AugAssign)) else targets
        own = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == name
        if own or any(isinstance(target, ast.Name) and target.id == name for target in targets):
            found.append(node)
    return found


# -- what is read of an expression: one function for each kind of syntax ----------------------------------------------


def _label(node: ast.expr) -> Row:
    """What a row of one part is called; of ``pytest.param(..., id="x")``, its id."""
    if isinstance(node, ast.Call):
        ids = [each.value for each in node.keywords if each.arg == "id"]
        alone = node.args[0] if len(node.args) == 1 and getattr(node.func, "attr", "") == "param" else None
        return _label(ids[0]) if ids else _label(alone) if alone else None
    plain = isinstance(node, ast.Constant) or (isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant))
    return ast.unparse(node) if plain else None


def _sequence(tables: Tables, file: str, node: ast.expr, depth: int) -> list[Row] | None:
    assert isinstance(node, (ast.List, ast.Tuple, ast.Set))
    parts = [(each.value, True) if isinstance(each, ast.Starred) else (each, False) for each in node.elts]
    return _listed(tables, file, parts, depth)


def _dict(tables: Tables, file: str, node: ast.expr, depth: int) -> list[Row] | None:
    assert isinstance(node, ast.Dict)
    parts = [(value, True) if key is None else (key, False) for key, value in zip(node.keys, node.values, strict=True)]
    return _listed(tables, file, parts, depth)


def _listed(tables: Tables, file: str, parts: Sequence[tuple[ast.expr, bool]], depth: int) -> list[Row] | None:
    """Rows one by one; a part that is marked is unpacked, and stands for rows of its own."""
    rows: list[Row] = []
    for part, unpacked in parts:
        own = tables.rows(file, part, depth) if unpacked else [_label(part)]
        if own is None:
            return None
        rows += own
    return rows


def _name(tables: Tables, file: str, node: ast.expr, depth: int) -> list[Row] | None:
    assert isinstance(node, ast.Name)
    return _defined(tables, file, node.id, depth)


def _attribute(tables: Tables, file: str, node: ast.expr, depth: int) -> list[Row] | None:
    assert isinstance(node, ast.Attribute)
    found = tables.imported(file, ast.unparse(node.value))
    return _defined(tables, found[0], node.attr, depth) if found and not found[1] else None


def _defined(tables: Tables, file: str, name: str, depth: int) -> list[Row] | None:
    """The rows of a name: of its one assignment and what is added to it, or of what it is imported from."""
    found = definitions(tables.tree.module(file), name)
    if not found:
        place = tables.imported(file, name)
        return _defined(tables, *place, depth + 1) if place and place[1] and depth < _DEEPEST else None
    rows: list[Row] = []
    for i, node in enumerate(found):
        value = getattr(node, "value", None)
        own = tables.rows(file, value, depth) if value is not None else None
        if own is None or (i > 0) != isinstance(node, ast.AugAssign):
            return None
        rows += own
    return rows


def _sum(tables: Tables, file: str, node: ast.expr, depth: int) -> list[Row] | None:
    assert isinstance(node, ast.BinOp)
    if not isinstance(node.op, (ast.Add, ast.BitOr)):
        return None
    left, right = (tables.rows(file, side, depth) for side in (node.left, node.right))
    return None if left is None or right is None else left + right


def _call(tables: Tables, file: str, node: ast.expr, depth: int) -> list[Row] | None:
    assert isinstance(node, ast.Call)
    name, owner = called(node), getattr(node.func, "value", None)
    if name == "range":
        return _range(tables, file, node.args, depth)
    if name == "split" and isinstance(owner, ast.Constant):
        return [repr(word) for word in str(owner.value).split()] if not node.args else None
    if owner is not None and name in _METHODS and not node.args:
        return tables.rows(file, owner, depth)
    parts = [tables.rows(file, each, depth) for each in node.args]
    known = [part for part in parts if part is not None]
    if not parts or len(known) < (1 if name == "fromkeys" else len(parts)):
        return None
    if name in _SAME and (len(parts) == 1 or name == "fromkeys"):
        return known[0]
    counts = [len(part) for part in known]
    total = {"product": math.prod(counts), "zip": min(counts), "chain": sum(counts)}.get(name)
    return None if total is None or total > _MOST or node.keywords else [None] * total


def _range(tables: Tables, file: str, arguments: Sequence[ast.expr], depth: int) -> list[Row] | None:
    numbers = []
    for each in arguments:
        rows = None
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "len" and each.args:
            rows = tables.rows(file, each.args[0], depth)
        value = len(rows) if rows is not None else getattr(each, "value", None)
        if type(value) is not int:
            return None
        numbers.append(value)
    count = len(range(*numbers)) if numbers else _MOST + 1
    return [None] * count if count <= _MOST else None  # a number of a range names nothing that lasts


def _comprehension(tables: Tables, file: str, node: ast.expr, depth: int) -> list[Row] | None:
    assert isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp))
    parts = [None if each.ifs else tables.rows(file, each.iter, depth) for each in node.generators]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    made = node.key if isinstance(node, ast.DictComp) else node.elt
    alone = len(parts) == 1 and ast.unparse(made) == ast.unparse(node.generators[0].target)
    total = math.prod(len(part) for part in known)
    return known[0] if alone else [None] * total if total <= _MOST else None


_Read = Callable[[Tables, str, ast.expr, int], list[Row] | None]
_READ: dict[type[ast.expr], _Read] = {
    ast.List: _sequence,
    ast.Tuple: _sequence,
    ast.Set: _sequence,
    ast.Dict: _dict,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.BinOp: _sum,
    ast.Call: _call,
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp), _comprehension),
}
