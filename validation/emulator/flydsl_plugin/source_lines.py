"""Call sites in the line table: which line of the kernel an instruction belongs to, also when a helper emitted it.

FlyDSL notes the whole chain of Python frames, but a ``.loc`` directive has room for one place only, and LLVM keeps the
innermost: every load would seem to come from the one helper that all kernels share. This rewrites each chain before
compilation to the kernel's own line, under a file name that carries the helper's place after ``VIA``; the parser of
the emulator splits it again.

A chain also holds a frame for each dynamic ``if`` and loop around an operation. So the kernel's own line is the
innermost frame in the kernel's body, functions defined inside of it excepted, and not simply the outermost frame.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ..program.program import VIA


def keep_call_sites(module: Any) -> None:
    """Rewrite the location of every operation of the kernels in `module` that was traced through a helper."""
    with module.context:
        for top in module.body.operations:
            if top.operation.name != "gpu.module":
                continue
            for view in top.operation.regions[0].blocks[0].operations:
                if view.operation.name == "gpu.func":
                    _rewrite(view.operation)


def _rewrite(kernel: Any) -> None:
    place = kernel.location
    body = _body_lines(place.filename, place.start_line) if _is_file(place) else frozenset()
    known: dict[Any, Any] = {}
    for operation in operations_in(kernel):
        location = operation.location
        if _is_call_site(location):
            key = location.attr  # MLIR keeps one of each
            if key not in known:
                known[key] = _flattened(location, getattr(place, "filename", ""), body)
            operation.location = known[key]


def operations_in(root: Any) -> Iterator[Any]:
    """Every operation below ``root``, an MLIR operation."""
    for region in root.regions:
        for block in region.blocks:
            for view in block.operations:
                yield view.operation
                yield from operations_in(view.operation)


def _is_call_site(location: Any) -> bool:
    from flydsl._mlir import ir

    return isinstance(location, ir.CallSiteLoc)


def _is_file(location: Any) -> bool:
    return not _is_call_site(location) and bool(getattr(location, "filename", ""))


def _frames(location: Any) -> Iterator[Any]:
    """The chain's places, innermost first."""
    if _is_call_site(location):
        yield from _frames(location.callee)
        yield from _frames(location.caller)
    elif _is_file(location):
        yield location


def _flattened(location: Any, file: str, body: frozenset[int]) -> Any:
    """The kernel's own frame, under a name that carries the innermost one's place too if that is another."""
    from flydsl._mlir import ir

    frames = list(_frames(location))
    if not frames:
        return location
    inner = frames[0]
    own = next((f for f in frames if f.filename == file and f.start_line in body), frames[-1])
    if (inner.filename, inner.start_line) == (own.filename, own.start_line):
        return inner
    name = f"{own.filename}{VIA}{inner.filename}:{inner.start_line}"
    return ir.Location.file(name, own.start_line, own.start_col)


@lru_cache(maxsize=256)
def _body_lines(path: str, line: int) -> frozenset[int]:
    """Lines of the function at `line` of a file, without those of functions defined inside of it.

    Empty for a source that is not a file, or that is another one by now.
    """
    try:
        with open(path, encoding="utf-8") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, UnicodeDecodeError):
        return frozenset()
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    around = [f for f in functions if line in _span(f)]
    if not around:
        return frozenset()
    kernel = max(around, key=lambda f: f.lineno)
    lines = set(_span(kernel))
    for inner in functions:
        if inner is not kernel and inner.lineno in _span(kernel):
            lines -= set(_span(inner))
    return frozenset(lines)


def _span(function: ast.FunctionDef | ast.AsyncFunctionDef) -> range:
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    return range(first, (function.end_lineno or function.lineno) + 1)
