"""Scans files: finds kernels, evaluates them, collects findings."""

from __future__ import annotations

import ast
import gc
import io
import os
import re
import tokenize
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from validation.width_scan import statements, symbols
from validation.width_scan.calls import body, default_values
from validation.width_scan.expressions import evaluate
from validation.width_scan.findings import FileStatus, ScanResult, group, suppress
from validation.width_scan.frames import Analyzer, Env, Frame
from validation.width_scan.innermost import families, innermost, of_rows, of_table_rows, of_weights
from validation.width_scan.languages import HANDLERS
from validation.width_scan.limits import (
    INNER_STRIDE,
    INNERMOST,
    OUTER_STRIDES,
    PLAIN_STRIDE,
    RANGE,
    TABLE_ROW,
    Role,
    constant_role,
    parameter_role,
)
from validation.width_scan.modules import (
    Library,
    Module,
    launches,
    may_hold_device_code,
    parse,
)
from validation.width_scan.prepass import asserted, parameters, pointers, range_ends
from validation.width_scan.typenames import type_value, type_width
from validation.width_scan.values import (
    CONSTANT,
    DATA,
    NARROW,
    OTHER,
    Function,
    Kind,
    Value,
    integer,
    named_constant,
    quantity,
)

#: Device languages without a scanner, by suffix.
UNSUPPORTED_SUFFIXES = {
    ".cu": "CUDA C++",
    ".cuh": "CUDA C++",
    ".hip": "HIP C++",
    ".cpp": "C++",
    ".cc": "C++",
    ".h": "C++",
    ".hpp": "C++",
    ".ipynb": "a notebook",
}
#: Of these, the ones that a directory's listing names: device code by suffix, or files that may hold some.
_LISTED_SUFFIXES = (".cu", ".cuh", ".hip", ".ipynb")
_UNKNOWN = "is not a language it knows"
_SKIPPED_DIRECTORIES = frozenset(
    {".git", "__pycache__", ".venv", "node_modules", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
)


class _Engine:
    handlers: Mapping[str, Callable[[Any], Value]] = HANDLERS
    evaluate = staticmethod(evaluate)
    run = staticmethod(statements.run)


def _entry_value(
    function: Function,
    arg: ast.arg,
    default: ast.expr | None,
    addresses: frozenset[str],
    siblings: list[str],
    roles: Mapping[str, Role],
) -> Value:
    """A kernel parameter's value when the host launches it."""
    annotation = ast.unparse(arg.annotation) if arg.annotation is not None else ""
    if "constexpr" in annotation.lower():
        value = type_value(default) or _compile_time(function, arg.arg, siblings)
        known = roles.get(arg.arg)
        if known is not None and known.limit < value.sym.hi:
            return integer(symbols.leaf(arg.arg, known), CONSTANT, role=known.name)
        return value
    if function.dialect == "flydsl":
        if "Pointer" in annotation:
            return Value(Kind.POINTER, variable=arg.arg)
        if any(word in annotation for word in ("Float", "bool", "Stream")):
            return DATA
        if annotation == "int":
            return named_constant(arg.arg)
        width = type_width(arg.annotation)
        return _parameter(arg, siblings, width, roles) if width else OTHER
    if arg.arg in addresses:
        return Value(Kind.POINTER, variable=arg.arg)
    width = type_width(arg.annotation)
    if width == 0 or annotation in ("float", "bool"):
        return DATA
    if isinstance(default, ast.Constant) and isinstance(default.value, (bool, str, float)):
        return named_constant(arg.arg)
    return _parameter(arg, siblings, width or NARROW, roles)


def _compile_time(function: Function, name: str, siblings: list[str]) -> Value:
    value = named_constant(name)
    role = constant_role(name, siblings)
    if role is None and value.role in OUTER_STRIDES:
        role = parameter_role(name, siblings)
    if role is not None:
        return integer(symbols.leaf(name, role), CONSTANT, role=role.name)
    if value.sym.hi > RANGE.limit and name in range_ends(function):
        return integer(symbols.leaf(name, RANGE), CONSTANT, role=RANGE.name)
    return value


def _parameter(arg: ast.arg, siblings: list[str], width: int, roles: Mapping[str, Role]) -> Value:
    role = parameter_role(arg.arg, siblings)
    known = roles.get(arg.arg, role)
    value = quantity(arg.arg, known if known.limit < role.limit else role, width, "parameter")
    return replace(value, variable=arg.arg, line=arg.lineno)


#: Operands of a product are passed transposed too: their last stride may be that of a row.
_OPERAND = re.compile(r"_*[a-z]?[knd]", re.I)


def _stride_roles(function: Function, names: list[str]) -> dict[str, Role]:
    """Rows of the table for strides that only their use, and the strides beside them, tell."""
    tensors = families(names)
    if not tensors:
        return {}
    found: dict[str, Role] = dict.fromkeys(of_weights(tensors), INNER_STRIDE)
    inner = innermost(function, tensors)
    found |= dict.fromkeys(of_rows(tensors, inner), PLAIN_STRIDE)
    found |= dict.fromkeys(of_table_rows(tensors, inner), TABLE_ROW)
    for name in inner:
        found[name] = INNER_STRIDE if _OPERAND.fullmatch(re.split("stride", name, flags=re.I)[-1]) else INNERMOST
    return found


def _within(frame: Frame, value: Value, bounds: list[tuple[ast.expr, bool]]) -> Value:
    """A parameter as the kernel's assertions leave it."""
    limits = [(frame.evaluate(node), strict) for node, strict in bounds]
    tops = [bound.literal - strict for bound, strict in limits if isinstance(bound.literal, int)]
    if value.kind is not Kind.INT or not tops or value.sym.role is None or min(tops) >= value.sym.hi:
        return value
    return replace(value, sym=symbols.leaf(value.sym.text, value.sym.role, max(min(tops), 0)))


def _entry(analyzer: Analyzer, function: Function) -> None:
    analyzer.visited.add(function.node)
    addresses = pointers(function, analyzer.library)
    formal = parameters(function)
    defaults = default_values(function)
    names = [arg.arg for arg in formal]
    roles = _stride_roles(function, names)
    values = {arg.arg: _entry_value(function, arg, defaults.get(arg.arg), addresses, names, roles) for arg in formal}
    values = {name: value for name, value in values.items() if not (name == "self" and value.kind is Kind.OTHER)}
    frame = Frame(analyzer, function, function.dialect, Env(values, None, function.scope))
    for name, bounds in asserted(function).items():
        if name in values:
            values[name] = _within(frame, values[name], bounds)
    analyzer.active.append(function.node)
    body(frame)
    analyzer.active.pop()


def _analyze(
    modules: list[Module], library: Library, result: ScanResult, launched: frozenset[str] = frozenset()
) -> dict[str, FileStatus]:
    """Evaluate every kernel of the modules; kernels first, then device functions that none of them called.

    Args:
        launched: names that other files launch.
    """
    launched = launched.union(*(m.launched for m in modules))
    called = frozenset[str]().union(*(m.called for m in modules)) if modules else frozenset()
    analyzer = Analyzer(library, _Engine())
    failures: dict[str, FileStatus] = {}
    functions = [(m, f) for m in modules for f in m.functions if f.kind in ("kernel", "device")]
    first = [(m, f) for m, f in functions if f.kind == "kernel" or _name(f) in launched or _name(f) not in called]
    for module, function in [*first, *functions]:
        if function.node in analyzer.visited:
            continue
        analyzer.active.clear()
        try:
            _entry(analyzer, function)
        except RecursionError:
            failures[module.path] = _failure(module, function, "expressions nested too deeply")
        except Exception as error:  # a defect of the scanner: the file is named, and the scan does not pass
            failures[module.path] = _failure(module, function, f"{type(error).__name__}: {error}")
    scanned = {module.path for module in modules}
    findings = [f for f in group(analyzer.found.values(), analyzer.sinks) if f.path in scanned]
    suppress(findings, {module.path: module.lines for module in modules}, result)
    return failures


def _failure(module: Module, function: Function, what: str) -> FileStatus:
    return FileStatus(module.path, "error", f"{function.qualified}: {what}")


def _name(function: Function) -> str:
    return function.qualified.rpartition(".")[2]


def _status(module: Module) -> FileStatus:
    kernels = sum(f.kind in ("kernel", "device") for f in module.functions)
    if kernels:
        return FileStatus(module.path, "scanned", kernels=kernels)
    if module.unsupported and not module.languages:
        return FileStatus(module.path, "unsupported", f"{', '.join(sorted(module.unsupported))} {_UNKNOWN}")
    return FileStatus(module.path, "no device code")


def scan_source(source: str, path: str = "<source>") -> ScanResult:
    """Scan one file's text.

    Raises:
        SyntaxError: `source` is not Python.
    """
    result, library = ScanResult(), Library()
    module = parse(source, path)
    library.add(module)
    failures = _analyze([module], library, result)
    result.files.append(failures.get(path, _status(module)))
    return result


def candidates(paths: Iterable[str | os.PathLike[str]]) -> tuple[list[Path], list[FileStatus]]:
    """Python files under the paths, and the files of other device languages met on the way.

    A file named by itself is taken whatever its suffix; in a directory, files of other languages are listed only if
    they are device code by suffix (.cu, .cuh, .hip), or notebooks. A directory that cannot be listed, or that holds
    nothing to scan, is named.
    """
    files: list[Path] = []
    others: list[FileStatus] = []
    for path in map(Path, paths):
        if path.is_dir():
            before = len(files) + len(others)
            for root, directories, names in os.walk(path, onerror=lambda error: others.append(_unlisted(error))):
                directories[:] = sorted(d for d in directories if d not in _SKIPPED_DIRECTORIES)
                for name in sorted(names):
                    suffix = os.path.splitext(name)[1]
                    if suffix == ".py":
                        files.append(Path(root, name))
                    elif suffix in _LISTED_SUFFIXES:
                        others.append(
                            FileStatus(
                                str(Path(root, name)), "not scanned", f"{UNSUPPORTED_SUFFIXES[suffix]} {_UNKNOWN}"
                            )
                        )
            if len(files) + len(others) == before:
                others.append(FileStatus(str(path), "unreadable", "no Python file in it"))
        elif path.suffix in UNSUPPORTED_SUFFIXES:
            others.append(FileStatus(str(path), "unsupported", f"{UNSUPPORTED_SUFFIXES[path.suffix]} {_UNKNOWN}"))
        else:
            files.append(path)
    return list(dict.fromkeys(files)), others


def _unlisted(error: OSError) -> FileStatus:
    return FileStatus(str(error.filename), "unreadable", f"{type(error).__name__}: {error}")


def _read(path: Path) -> str:
    data = path.read_bytes()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data.decode(encoding)


def scan_paths(paths: Iterable[str | os.PathLike[str]]) -> ScanResult:
    """Scan files and directories. A file that cannot be read or parsed has a status that says why.

    A file that names nothing that makes device code is parsed, and not looked into: it holds none.
    """
    files, others = candidates(paths)
    collecting = gc.isenabled()
    gc.disable()  # syntax trees hold no garbage, and walking them for it takes a third of the time
    try:
        return _scan_files(files, others)
    finally:
        if collecting:
            gc.enable()


def _scan_files(files: list[Path], others: list[FileStatus]) -> ScanResult:
    result, library, modules = ScanResult(), Library(), []
    launched: set[str] = set()
    for file in files:
        try:
            source = _read(file)
            if not may_hold_device_code(source):
                launched |= launches(source)
                ast.parse(source, filename=str(file))  # one that is cut off may have lost the telling word
                result.files.append(FileStatus(str(file), "no device code"))
                continue
            module = parse(source, str(file))
        except SyntaxError as error:
            where = f"line {error.lineno}: " if error.lineno is not None else ""  # none for a wrong encoding
            result.files.append(FileStatus(str(file), "unreadable", f"{where}{error.msg}"))
        except (OSError, ValueError, RecursionError) as error:
            result.files.append(FileStatus(str(file), "unreadable", f"{type(error).__name__}: {error}"))
        else:
            library.add(module)
            modules.append(module)
    failures = _analyze(modules, library, result, frozenset(launched))
    result.files += [failures.get(module.path, _status(module)) for module in modules]
    result.files += others
    result.files.sort(key=lambda file: file.path)
    return result


__all__ = ["candidates", "scan_paths", "scan_source"]
