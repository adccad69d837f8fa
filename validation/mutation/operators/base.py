"""What operators are made of: replacements of syntax-tree nodes, and where they are in the text."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

#: (node, text to put in its place).
Replacement = tuple[ast.AST, str]


@dataclass(frozen=True)
class Site:
    """A place in a text: ``start`` and ``end`` in characters, ``line`` from 1, ``function`` as dotted names."""

    start: int
    end: int
    line: int
    function: str
    before: str
    after: str

    def applied_to(self, text: str) -> str:
        """``text`` with this place changed."""
        return text[: self.start] + self.after + text[self.end :]

    def __str__(self) -> str:
        return f"{self.function or 'module'}:{self.line}: {_one_line(self.before)} -> {_one_line(self.after)}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


@dataclass(frozen=True)
class Context:
    """Where a node stands: the functions around it, outermost first, and its parent."""

    functions: tuple[ast.FunctionDef, ...]
    parent: ast.AST | None

    def parameters(self) -> list[str]:
        """Names of the parameters of the innermost function that has a decorator: a kernel's, usually."""
        for function in reversed(self.functions):
            if function.decorator_list:
                return [argument.arg for argument in function.args.args]
        return []


@dataclass(frozen=True)
class Operator:
    """A kind of mistake. ``find(node, context, text of)`` yields what may replace a node.

    ``files`` are patterns of the files where it makes sense; ``examples`` are (before, all afters) of one-line or
    longer programs, in the order in which the places occur.
    """

    name: str
    title: str
    files: tuple[str, ...]
    find: Callable[[ast.AST, Context, Callable[[ast.AST], str]], Iterator[str]]
    examples: tuple[tuple[str, tuple[str, ...]], ...]


def sites_of(operator: Operator, text: str) -> Iterator[Site]:
    """Every place of ``operator`` in ``text``, in the order of the text."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines()

    def offset(line: int, column: int) -> int:  # ast counts bytes of UTF-8
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def span(node: ast.AST) -> tuple[int, int]:
        return (
            offset(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            offset(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def text_of(node: ast.AST) -> str:
        start, end = span(node)
        return text[start:end]

    found: list[Site] = []

    def visit(node: ast.AST, context: Context) -> None:
        for after in operator.find(node, context, text_of):
            start, end = span(node)
            names = ".".join(function.name for function in context.functions)
            found.append(Site(start, end, node.lineno, names, text[start:end], after))  # type: ignore[attr-defined]
        functions = context.functions
        if isinstance(node, ast.FunctionDef):
            functions = (*functions, node)
        for child in ast.iter_child_nodes(node):
            visit(child, Context(functions, node))

    visit(ast.parse(text), Context((), None))
    found.sort(key=lambda site: (site.start, site.end))
    yield from found


def called(node: ast.AST, *names: str) -> bool:
    """Whether ``node`` calls a function, or a method, of one of ``names`` (``gpu.barrier`` or ``select``)."""
    if not isinstance(node, ast.Call):
        return False
    whole = ast.unparse(node.func)
    return any(whole == name or whole.endswith(f".{name}") for name in names)


def is_traced(context: Context) -> bool:
    """Whether the code is traced into a kernel: below ``build``, or a module-level helper of a kernel module."""
    return bool(context.functions)


#: Kernel modules; their helpers are traced too.
KERNELS = ("hcgr/kernels/*.py",)
#: Host code that decides which calls are legal.
CONTRACTS = ("hcgr/contract/*.py", "hcgr/requirements.py")
#: Host code that plans and launches.
HOST = ("hcgr/k1.py", "hcgr/k2.py", "hcgr/counters.py", "hcgr/dispatch.py", "hcgr/plan/*.py")
