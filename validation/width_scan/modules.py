"""Parsed files: functions with their kind and dialect, imports, and scopes around kernels."""

from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass, field

from validation.width_scan.values import Function
from validation.width_scan.walking import statements, walk

_LANGUAGES = (
    ("gluon", re.compile(r"^triton\.experimental\.gluon")),
    ("triton", re.compile(r"^triton(\.language)?(\.|$)|^tl$")),
    ("flydsl", re.compile(r"^flydsl(\.|$)")),
)
#: A module of one of them.
DEVICE_LANGUAGE = re.compile(r"(?:triton|flydsl)(?:\.|$)")
_UNSUPPORTED_IMPORT = (
    ("CuTe DSL", re.compile(r"^cutlass(\.|$)")),
    ("TileLang", re.compile(r"^tilelang(\.|$)")),
    ("Pallas", re.compile(r"^jax\.experimental\.pallas")),
)
#: A file with none of these words has no device code that it knows, nor any that it can name.
_DEVICE_WORDS = ("triton", "flydsl", "gluon", "cutlass", "tilelang", "pallas")
_JIT = {"jit": "device", "kernel": "kernel"}
#: Without one of these words a file has no device code, though it may launch some.
_COMPILER_WORDS = re.compile(r"\b(?:jit|kernel)\b|cutlass|tilelang|pallas")
#: A compiler that is called, other than by a name of the file's own.
_COMPILER_CALL = re.compile(r"\b(?:jit|kernel)\s*\(")
_ASSERTIONS = re.compile(r"\bassert\b|_assert\b|\bassume\b")
_LAUNCH = re.compile(r"\]\s*\(")
_LAUNCHED = re.compile(r"(\w+)\s*$")


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
    methods: dict[str, list[Function]] = field(default_factory=dict)  # device functions of classes, by bare name
    classes: dict[str, tuple[ast.ClassDef, Scope]] = field(default_factory=dict)
    compiled: dict[str, tuple[str, str]] = field(default_factory=dict)  # ``k`` of ``triton.jit(k)`` -> kind, dialect

    asserts: bool = False  # whether anything in it asserts or assumes
    directory: str = ""

    def __post_init__(self) -> None:
        self.directory = os.path.dirname(os.path.realpath(self.path))

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


def _compiler_kind(decorator: ast.expr, module: Module) -> tuple[str, str] | None:
    """("kernel" | "device" | "launcher", dialect) of what makes device code (``triton.jit``), by whatever name."""
    name = dotted(decorator)
    origin = module.imports.get(name.split(".")[0], ("", ""))
    full = ".".join(part for part in (*origin, *name.split(".")[1:]) if part) or name
    head, _, tail = full.rpartition(".")
    if tail not in _JIT:
        return None
    named = name.rpartition(".")[0]
    if head.startswith("flydsl") or named in ("flyc", "fx"):
        return ("kernel" if tail == "kernel" else "launcher"), "flydsl"
    if head.startswith("triton.experimental.gluon") or named == "gluon":
        return "device", "gluon"
    if head.startswith("triton") or named in ("triton", "tl", "libentry"):
        return "device", "triton"
    return None


def _function_kind(node: ast.FunctionDef | ast.AsyncFunctionDef, module: Module) -> tuple[str, str]:
    """("kernel" | "device" | "launcher" | "plain", dialect) of a function."""
    found = (_compiler_kind(decorator, module) for decorator in node.decorator_list)
    return next((kind for kind in found if kind), module.compiled.get(node.name, ("plain", "")))


class _Indexer:
    def __init__(self, module: Module) -> None:
        self.module = module

    def run(self, source: str) -> None:
        top = Scope(self.module, None, None)
        self.module._top = top
        if may_hold_device_code(source):
            self._imports(source)
        else:  # without a device language only what other files import from here matters
            for node in self.module.tree.body:
                self._import(node)
        self._body(self.module.tree.body, top, "")

    def _imports(self, source: str) -> None:
        renamed = False
        for node in statements(self.module.tree.body):
            self._import(node)
            if isinstance(node, ast.Assign):
                renamed |= self._alias(node)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                renamed |= any(alias.name in _JIT and alias.asname for alias in node.names)
        if renamed or _COMPILER_CALL.search(source):
            for node in walk(self.module.tree):
                if isinstance(node, ast.Call):
                    self._compiled(node)

    def _alias(self, node: ast.Assign) -> bool:
        """``my_jit = triton.jit`` and ``my_jit = triton.jit(do_not_specialize=...)``: another name for it."""
        target, value = node.targets[0], node.value
        if isinstance(value, ast.Call) and not value.args:
            value = value.func
        if not isinstance(target, ast.Name) or not isinstance(value, (ast.Name, ast.Attribute)):
            return False
        if not _compiler_kind(value, self.module):
            return False
        first, *rest = dotted(value).split(".")
        *source, last = [*(part for part in self.module.imports.get(first, (first, "")) if part), *rest]
        self.module.imports[target.id] = (".".join(source), last)
        return True

    def _compiled(self, node: ast.Call) -> None:
        """``k = triton.jit(f)``: f is device code though nothing decorates it."""
        given = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "fn")]
        if given and isinstance(given[0], ast.Name):
            kind = _compiler_kind(node.func, self.module)
            if kind:
                self.module.compiled[given[0].id] = kind

    def _import(self, node: ast.AST) -> None:
        imports = self.module.imports
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._language(alias.name)
                local = alias.asname or alias.name.split(".")[0]
                imports[local] = (alias.name if alias.asname else local, "")
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            self._language(node.module or "")
            for alias in node.names:
                self._language(f"{node.module}.{alias.name}" if node.level == 0 else "")
                imports[alias.asname or alias.name] = (source, alias.name)

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
                kind, dialect = _function_kind(node, self.module)
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
                self.module.classes[node.name] = (node, inner)
                for name, function in inner.functions.items():
                    if function.kind == "device":
                        self.module.methods.setdefault(name, []).append(function)
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


def may_hold_device_code(source: str) -> bool:
    """Whether a file can hold device code at all: a language's name is in it, and a word that makes device code."""
    return any(word in source for word in _DEVICE_WORDS) and _COMPILER_WORDS.search(source) is not None


def launches(source: str) -> set[str]:
    """Names that a file's text launches (``kernel[grid](...)``), without parsing it."""
    names = set()
    for match in _LAUNCH.finditer(source):
        depth, at = 1, match.start()
        while depth and at > 0:
            at -= 1
            depth += {"]": 1, "[": -1}.get(source[at], 0)
        named = _LAUNCHED.search(source, max(0, at - 200), at)
        if not depth and named:
            names.add(named[1])
    return names


def parse(source: str, path: str) -> Module:
    """Parse and index one file.

    Raises:
        SyntaxError, ValueError, RecursionError: what :func:`ast.parse` raises.
    """
    module = Module(
        path, ast.parse(source, filename=path), source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    )
    module.launched = launches(source)
    module.asserts = _ASSERTIONS.search(source) is not None
    _Indexer(module).run(source)
    for function in module.functions:
        if function.kind != "plain":
            function.nodes = walk(function.node)
            for node in function.nodes:
                if isinstance(node, ast.Call):
                    module.called.add(dotted(node.func).rpartition(".")[2])
    return module


class Library:
    """Files reached by import from scanned ones, parsed at need. Nothing is imported or executed."""

    def __init__(self) -> None:
        self._modules: dict[str, Module | None] = {}
        self._resolved: dict[tuple[str, str], Module | None] = {}

    def add(self, module: Module) -> None:
        """Make a scanned file known."""
        self._modules[os.path.realpath(module.path)] = module

    def resolve(self, module: Module, source: str) -> Module | None:
        """The module that `source` (absolute or relative dotted name) means in `module`, or None."""
        base = module.directory
        key = (base, source)
        if key not in self._resolved:
            self._resolved[key] = self._find(base, source)
        return self._resolved[key]

    def _find(self, base: str, source: str) -> Module | None:
        parts = [part for part in source.lstrip(".").split(".") if part]
        relative = len(source) - len(source.lstrip("."))
        if relative:
            for _ in range(relative - 1):
                base = os.path.dirname(base)
            return self._load(base, parts)
        for _ in range(8):
            if parts and os.path.isdir(os.path.join(base, parts[0])):
                found = self._load(base, parts)
                if found is not None:
                    return found
            if base == os.path.dirname(base):
                break
            base = os.path.dirname(base)
        return None

    def _load(self, base: str, parts: list[str]) -> Module | None:
        target = os.path.join(base, *parts)
        for candidate in (f"{target}.py", os.path.join(target, "__init__.py")):
            key = os.path.realpath(candidate)
            if key not in self._modules and os.path.isfile(key):
                try:
                    with open(key, encoding="utf-8") as file:
                        self._modules[key] = parse(file.read(), candidate)
                except (SyntaxError, ValueError, OSError, RecursionError):
                    # A helper that cannot be read is an unknown function; a scanned file is reported by the scan.
                    self._modules[key] = None
            if self._modules.get(key) is not None:
                return self._modules[key]
        return None
