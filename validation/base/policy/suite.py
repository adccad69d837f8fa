"""Tests that went or say less: removed, emptied, with fewer or other parameters, or with fewer drawn examples.

Parameters are those of a test, of its class and of its file, and those of fixtures, whatever file their table stands in
(:mod:`.tables`). What they compute cannot be counted; where such a table changed, :func:`notes` says so.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from validation.base.policy.asserts import Asserts, asserts_of
from validation.base.policy.finding import Finding, Tree, Trees, called, scopes, some
from validation.base.policy.tables import Row, Tables, definitions

KIND = "test"
_SHOWN = 4
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class _Table:
    """What a test or fixture is run with: ``rows``; ``None`` if they are computed, with a name for their source."""

    rows: list[Row] | None
    source: str


@dataclass(frozen=True)
class _Item:
    """One function of a test's file: a test, a fixture, a helper. Its tables by what they set, and what it asserts."""

    file: str
    name: str
    line: int
    tables: dict[str, _Table]
    asserts: Asserts
    examples: int | None
    test: bool

    @property
    def computed(self) -> list[str]:
        """What is set by tables that cannot be counted."""
        return [name for name, table in self.tables.items() if table.rows is None]

    @property
    def total(self) -> int | None:
        """How often it runs; ``None``: nobody can tell."""
        counts = [len(table.rows) for table in self.tables.values() if table.rows is not None]
        return math.prod(counts) if len(counts) == len(self.tables) else None


def find(trees: Trees) -> Iterator[Finding]:
    """Every test, and fixture with parameters, that demands less."""
    for old, new in _pairs(trees):
        if new is None:
            if old.test or old.tables:
                yield Finding(KIND, old.file, old.name, "removed", old.name, "", old.line)
            continue
        yield from _parameters(old, new)
        if old.asserts.live and not new.asserts.live:
            yield Finding(
                KIND, new.file, f"{new.name}.asserts", "asserts nothing", str(old.asserts.live), "0", new.line
            )
        for what, was, now in (
            ("never run", old.asserts.dead, new.asserts.dead),
            ("cannot fail it, for what they raise is caught", old.asserts.caught, new.asserts.caught),
        ):
            if now > was:
                name = f"{new.name}.asserts.{'dead' if what == 'never run' else 'caught'}"
                yield Finding(KIND, new.file, name, f"assertions {what}", str(was), str(now), new.line)
        if old.examples is not None and new.examples is not None and new.examples < old.examples:
            counts = str(old.examples), str(new.examples)
            yield Finding(KIND, new.file, f"{new.name}.examples", "fewer examples are drawn", *counts, new.line)


def notes(trees: Trees) -> list[str]:
    """Tables that changed and cannot be counted: one line, or none."""
    unseen = [
        f"{new.file}::{new.name} ({', '.join(computed)})"
        for old, new in _pairs(trees)
        if new is not None and (computed := _changed(old, new))
    ]
    what = "tables of parameters that are computed changed, whether they hold less cannot be told"
    return [f"not seen: {what}: {some(unseen, _SHOWN)}"] if unseen else []


def _changed(old: _Item, new: _Item) -> list[str]:
    """Tables that are computed on either side, from other sources."""
    names = dict.fromkeys([*old.computed, *new.computed])
    return [n for n in names if n not in old.tables or n not in new.tables or _source(old, n) != _source(new, n)]


def _source(item: _Item, name: str) -> str:
    return item.tables[name].source


def _parameters(old: _Item, new: _Item) -> Iterator[Finding]:
    where = f"{new.name}.parameters"
    if old.total is not None and new.total is not None and new.total < old.total:
        yield Finding(KIND, new.file, where, "fewer parameters", str(old.total), str(new.total), new.line)
        return
    for name, table in old.tables.items():
        rows, now = table.rows, new.tables[name].rows if name in new.tables else None
        if rows is None or now is None:
            continue
        gone, come = Counter(rows) - Counter(now), Counter(now) - Counter(rows)
        if len(now) < len(rows):
            counts = str(len(rows)), str(len(now))
            yield Finding(KIND, new.file, f"{where}.{name}", "fewer parameters", *counts, new.line)
        elif named := sorted(label for label in gone.elements() if label is not None):
            instead = sorted(label or "a row" for label in come.elements())
            yield Finding(
                KIND,
                new.file,
                f"{where}.{name}",
                "parameters went",
                some(named, _SHOWN),
                some(instead, _SHOWN),
                new.line,
            )


# -- items -------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _pairs(trees: Trees) -> list[tuple[_Item, _Item | None]]:
    """Each item of the base that demands something, in files that changed or may take a table from one that did; and
    what became of it. Findings and notes ask alike."""
    files = _looked_at(trees)
    before = [item for item in _found(trees.base, files) if item.test or item.tables or item.asserts.live]
    after = list(_found(trees.head, files))
    there = Counter(item.name for item in after if item.test or item.tables)
    places = {(item.file, item.name): item for item in after}
    # of items of one name, those still in their files are the ones that stayed
    moved = there - Counter(item.name for item in before if (item.file, item.name) in places)
    by_name = {item.name: item for item in after if item.test or item.tables}
    pairs: list[tuple[_Item, _Item | None]] = []
    for old in before:
        new = places.get((old.file, old.name))
        new = None if new is not None and old.test and not new.test else new
        if new is None and (old.test or old.tables) and moved[old.name] > 0:
            moved[old.name] -= 1
            new = by_name[old.name]
        pairs.append((old, new))
    return pairs


def _looked_at(trees: Trees) -> list[str]:
    """Tests, and what else lies beside them: those that changed, and those that name a module that did."""
    touched = set(trees.listed(lambda name: name.endswith(".py") and not trees.same(name)))
    words = {
        PurePosixPath(name).parent.name if name.endswith("__init__.py") else PurePosixPath(name).stem
        for name in touched
    }
    if not words:
        return []
    named = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(words)))})\b")
    return [
        name
        for name in trees.listed(_of_tests)
        if name in touched
        or any(named.search(tree.text(name)) for tree in (trees.base, trees.head) if name in tree.known)
    ]


def _of_tests(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix == ".py" and ("tests" in path.parts or path.name.startswith(("test_", "conftest")))


def _is_test(name: str) -> bool:
    return PurePosixPath(name).name.startswith("test_")


def _found(tree: Tree, files: Iterable[str]) -> Iterator[_Item]:
    tables = Tables(tree)
    for file in files:
        if file not in tree.known:
            continue
        module = tree.module(file)
        marks = [each.value for each in definitions(module, "pytestmark") if isinstance(each, ast.Assign)]
        shared = [each for mark in marks for each in (mark.elts if isinstance(mark, ast.List | ast.Tuple) else [mark])]
        classes = {name: node.decorator_list for name, node in scopes(module) if isinstance(node, ast.ClassDef)}
        for name, node in scopes(module):
            if isinstance(node, _Function):
                outer = [mark for owner, given in classes.items() if name.startswith(f"{owner}.") for mark in given]
                yield from _item(tables, file, name, node, [*node.decorator_list, *outer, *shared])


def _item(tables: Tables, file: str, name: str, node: _Function, marks: list[ast.expr]) -> Iterator[_Item]:
    test = node.name.startswith("test") and _is_test(file)
    found: dict[str, _Table] = {}
    for call in (mark for mark in marks if isinstance(mark, ast.Call)):
        what, values = _argument(call) if test else _params(call)
        if values is not None:
            rows = tables.rows(file, values)
            found[what] = _Table(rows, tables.source(file, values) if rows is None else "")
    asserts = asserts_of(node, ast.Assert | ast.Call if test else ast.Assert)
    yield _Item(file, name, node.lineno, found, asserts, _examples(node), test)


def _argument(call: ast.Call) -> tuple[str, ast.expr | None]:
    """Names and values of ``parametrize``."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "parametrize":
        return "", None
    given: dict[str, ast.expr] = dict(zip(("argnames", "argvalues"), call.args, strict=False))
    given |= {each.arg: each.value for each in call.keywords if each.arg}
    names = given.get("argnames")
    return _names(names) if names is not None else "", given.get("argvalues")


def _names(node: ast.expr) -> str:
    """Names as a test runner reads them: a sequence, or one text with commas."""
    parts = (
        [getattr(e, "value", "") for e in node.elts]
        if isinstance(node, ast.List | ast.Tuple)
        else [getattr(node, "value", "")]
    )
    return ",".join(part.strip() for each in parts for part in str(each).split(","))


def _params(call: ast.Call) -> tuple[str, ast.expr | None]:
    """Values of a fixture."""
    values = [each.value for each in call.keywords if each.arg == "params"]
    return ("params", values[0]) if called(call) == "fixture" and values else ("", None)


def _examples(node: _Function) -> int | None:
    """How many examples the settings of a property test ask for, if they say it."""
    for mark in node.decorator_list:
        for each in mark.keywords if isinstance(mark, ast.Call) else ():
            if each.arg == "max_examples" and isinstance(each.value, ast.Constant) and type(each.value.value) is int:
                return each.value.value
    return None
