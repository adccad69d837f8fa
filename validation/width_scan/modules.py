"""Parsed files: functions with their kind and dialect, imports, and scopes around kernels."""

from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from validation.width_scan.values import Function

_LANGUAGES = (
    ("gluon", re.compile(r"^triton\.experimental\.gluon")),
    ("triton", re.compile(r"^triton(\.language)?(\.|$)|^tl$")),
    ("flydsl", re.compile(r"^flydsl(\.|$)")),
)
_UNSUPPORTED_IMPORT = (
    ("CuTe DSL", re.compile(r"^cutlass(\.|$)")),
    ("TileLang", re.compile(r"^tilelang(\.|$)")),
    ("Pallas", re.compile(r"^jax\.experimental\.pallas")),
)
_JIT = {"jit": "device", "kernel": "kernel"}


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of a name or attribute chain; calls and subscripts on the way are left out; else ""."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, (ast.Call,)):
            node = node.func
        elif isinstance(node, ast.Name):
            parts.append(node.id)
            return ".".join(reversed(parts))
        else:
            return ""


@dataclass(slots=True)
class Module:
    """One parsed file."""

    path: str
    tree: ast.Module
    lines: list[str]
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)  # local name -> (module, name or "")
    functions: list[Function] = field(default_factory=list)
    by_node: dict[ast.AST, Function] = field(default_factory=dict)
    languages: set[str] = field(default_factory=set)
    unsupported: set[str] = field(default_factory=set)
    launched: set[str] = field(default_factory=set)
    called: set[str] = field(default_factory=set)

    @property
    def top(self) -> Scope:
        """The module's own scope."""
        return self._top

    _top: Scope = field(default=None, repr=False)  # type: ignore[assignment]


class Scope:
    """A compile-time scope around kernels: the module, or the body of a builder function.

    Only its assignments are known; the interpreter evaluates one when a kernel uses the name.
    """

    __slots__ = ("assigned", "cache", "functions", "module", "node", "parameters", "parent")

    def __init__(self, module: Module, node: ast.AST | None, parent: Scope | None) -> None:
        self.module, self.node, self.parent = module, node, parent
        self.assigned: dict[str, tuple[ast.expr, int | None]] = {}
        self.functions: dict[str, Function] = {}
        self.parameters: set[str] = set()
        self.cache: dict[str, object] = {}

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        """Note an assignment; tuples are taken apart."""
        if isinstance(target, ast.Name):
            self.assigned[target.id] = (value, None)
        elif isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                for t, v in zip(target.elts, value.elts, strict=True):
                    self.assign(t, v)
            else:
                for i, t in enumerate(target.elts):
                    if isinstance(t, ast.Name):
                        self.assigned[t.id] = (value, i)


def _decorator_kind(node: ast.FunctionDef | ast.AsyncFunctionDef, module: Module) -> tuple[str, str]:
    """("kernel" | "device" | "launcher" | "plain", dialect) from the decorators."""
    for decorator in node.decorator_list:
        name = dotted(decorator)
        head, _, tail = name.rpartition(".")
        if tail not in _JIT:
            continue
        origin = module.imports.get(name.split(".")[0], ("", ""))
        full = ".".join(part for part in (*origin, *name.split(".")[1:]) if part)
        if full.startswith("flydsl") or head in ("flyc", "fx"):
            return ("kernel" if tail == "kernel" else "launcher"), "flydsl"
        if full.startswith("triton.experimental.gluon") or head in ("gluon",):
            return "device", "gluon"
        if full.startswith("triton") or head in ("triton", "tl", "libentry"):
            return "device", "triton"
    return "plain", ""


class _Indexer:
    def __init__(self, module: Module) -> None:
        self.module = module

    def run(self) -> None:
        top = Scope(self.module, None, None)
        self.module._top = top
        self._imports()
        self._body(self.module.tree.body, top, "")

    def _imports(self) -> None:
        module = self.module
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._language(alias.name)
                    local = alias.asname or alias.name.split(".")[0]
                    module.imports[local] = (alias.name if alias.asname else local, "")
            elif isinstance(node, ast.ImportFrom):
                source = "." * node.level + (node.module or "")
                self._language(node.module or "")
                for alias in node.names:
                    self._language(f"{node.module}.{alias.name}" if node.level == 0 else "")
                    module.imports[alias.asname or alias.name] = (source, alias.name)
            elif isinstance(node, ast.Call):
                if isinstance(node.func, ast.Subscript) and isinstance(node.func.value, ast.Name):
                    module.launched.add(node.func.value.id)

    def _language(self, name: str) -> None:
        for language, pattern in _LANGUAGES:
            if pattern.match(name):
                self.module.languages.add(language)
        for language, pattern in _UNSUPPORTED_IMPORT:
            if pattern.match(name):
                self.module.unsupported.add(language)

    def _body(self, body: list[ast.stmt], scope: Scope, prefix: str) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                kind, dialect = _decorator_kind(node, self.module)
                function = Function(node, self.module, scope, prefix + node.name, kind, dialect)
                scope.functions[node.name] = function
                self.module.functions.append(function)
                self.module.by_node[node] = function
                if kind in ("plain", "launcher"):
                    inner = Scope(self.module, node, scope)
                    args = node.args
                    inner.parameters = {a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
                    self._body(node.body, inner, f"{prefix}{node.name}.")
            elif isinstance(node, ast.ClassDef):
                inner = Scope(self.module, node, scope)
                self._body(node.body, inner, f"{prefix}{node.name}.")
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    scope.assign(target, node.value)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                scope.assign(node.target, node.value)
            else:
                for name in ("body", "orelse", "finalbody"):
                    self._body(getattr(node, name, []) or [], scope, prefix)
                for handler in getattr(node, "handlers", []):
                    self._body(handler.body, scope, prefix)


def parse(source: str, path: str) -> Module:
    """Parse and index one file.

    Raises:
        SyntaxError, ValueError, RecursionError: what :func:`ast.parse` raises.
    """
    module = Module(path, ast.parse(source, filename=path), source.splitlines())
    _Indexer(module).run()
    for function in module.functions:
        if function.kind != "plain":
            for node in ast.walk(function.node):
                if isinstance(node, ast.Call):
                    module.called.add(dotted(node.func).rpartition(".")[2])
    return module


class Library:
    """Files reached by import from scanned ones, parsed at need. Nothing is imported or executed."""

    def __init__(self) -> None:
        self._modules: dict[str, Module | None] = {}

    def add(self, module: Module) -> None:
        """Make a scanned file known."""
        self._modules[os.path.realpath(module.path)] = module

    def resolve(self, module: Module, source: str) -> Module | None:
        """The module that `source` (absolute or relative dotted name) means in `module`, or None."""
        relative = len(source) - len(source.lstrip("."))
        parts = [part for part in source.lstrip(".").split(".") if part]
        base = Path(module.path).parent
        if relative:
            for _ in range(relative - 1):
                base = base.parent
            return self._load(base, parts)
        for _ in range(8):
            if parts and (base / parts[0]).is_dir():
                found = self._load(base, parts)
                if found is not None:
                    return found
            if base == base.parent:
                return None
            base = base.parent
        return None

    def _load(self, base: Path, parts: list[str]) -> Module | None:
        target = base.joinpath(*parts)
        for candidate in (target.with_suffix(".py") if parts else target / "__init__.py", target / "__init__.py"):
            key = os.path.realpath(candidate)
            if key in self._modules:
                return self._modules[key]
            if candidate.is_file():
                try:
                    self._modules[key] = parse(candidate.read_text(encoding="utf-8"), str(candidate))
                except (SyntaxError, ValueError, OSError, RecursionError):
                    # A helper that cannot be read is an unknown function; a scanned file is reported by the scan.
                    self._modules[key] = None
                return self._modules[key]
        return None
