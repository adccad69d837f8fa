"""What a policy finding is, and the two trees that it is found in."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from validation.base.git import git
from validation.operation import JsonDict, Operation

_SKIPPED = ("__pycache__",)


@dataclass(frozen=True)
class Finding:
    """One thing by which the head demands less than the base did, or may.

    kind: what was touched. subject: what in ``file``, so that ``name`` stays the same when lines move. what: the change
    in words; base, head: both values, as they are written (empty: there is none).
    """

    kind: str
    file: str
    subject: str
    what: str
    base: str = ""
    head: str = ""
    line: int | None = None

    @property
    def name(self) -> str:
        """What ``--accept-policy`` takes: one line, without the ``;`` that parts names in a workflow's input."""
        whole = f"{self.kind}:{self.file}:{self.subject}" if self.file else f"{self.kind}:{self.subject}"
        return " ".join(whole.replace(";", ",").split())

    def as_json(self, accepted: bool) -> JsonDict:
        """The form the report holds."""
        return {
            "name": self.name,
            "kind": self.kind,
            "file": self.file or None,
            "line": self.line,
            "what": self.what,
            "base": self.base,
            "head": self.head,
            "accepted": accepted,
        }


@dataclass(frozen=True)
class Tree:
    """The files of one revision: a worktree, or the checkout with what is not committed yet."""

    root: Path

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Every file that git knows or would add, relative to the root."""
        listed = git(self.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
        return tuple(sorted({name for name in listed if name and (self.root / name).is_file()}))

    @cached_property
    def known(self) -> frozenset[str]:
        """The same as a set."""
        return frozenset(self.files)

    def text(self, name: str) -> str:
        """The content of a file, which is there."""
        return (self.root / name).read_text(encoding="utf-8", errors="replace")

    def module(self, name: str) -> ast.Module:
        """The syntax tree of a Python file, parsed once; an empty one for a file that is no Python."""
        if name not in self._modules:
            try:
                self._modules[name] = ast.parse(self.text(name))
            except (SyntaxError, ValueError):
                self._modules[name] = ast.Module([], [])
        return self._modules[name]

    @cached_property
    def _modules(self) -> dict[str, ast.Module]:
        return {}


@dataclass(frozen=True, eq=False)
class Trees:
    """Both revisions, and the operation that is validated: ``seed`` is that of its grid."""

    base: Tree
    head: Tree
    operation: Operation
    operation_name: str
    seed: int

    def listed(self, keep: Callable[[str], bool]) -> list[str]:
        """Files of either that ``keep`` is true of, sorted."""
        return sorted(name for name in self.base.known | self.head.known if keep(name))

    def both(self, name: str) -> bool:
        """Whether both have the file."""
        return name in self.base.known and name in self.head.known

    def same(self, name: str) -> bool:
        """Whether both have the file, byte for byte: it need not be parsed. Looked at once."""
        if name not in self._same:
            self._same[name] = (
                self.both(name) and (self.base.root / name).read_bytes() == (self.head.root / name).read_bytes()
            )
        return self._same[name]

    @cached_property
    def _same(self) -> dict[str, bool]:
        return {}


def some(names: Sequence[str], most: int) -> str:
    """The first ``most`` of ``names``, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def called(call: ast.Call) -> str:
    """The last part of the name of what is called; empty for what has none."""
    function = call.func
    return getattr(function, "attr", "") or getattr(function, "id", "")


def scopes(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Functions and classes by qualified name, outer ones first; what is nested in a function belongs to it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{prefix}{node.name}"
            yield name, node
            if isinstance(node, ast.ClassDef):
                yield from scopes(node, f"{name}.")
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from scopes(node, prefix)
