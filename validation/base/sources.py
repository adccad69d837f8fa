"""The code under test of two revisions: which files differ in what they do, and the base's put where workers import.

Two Python files are the same when their syntax trees are: comments and layout do nothing. Docstrings count, for code
may read them. Any other file counts byte by byte.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from validation.base.revision import Base, BaseError, package_folder
from validation.operation import Operation, registered_operations

_IGNORED = ("__pycache__",)
_COMPILED = (".pyc", ".pyo")


@dataclass(frozen=True)
class Code:
    """The base's code under test as workers import it, and how it differs from the head's.

    folder: what goes first on a worker's path. ``differing``: files of the packages, relative to ``folder``, that do
    not do the same in both. ``judges``: files that are the head's in ``folder`` too, for they describe and judge the
    operation. ``missing``: packages that the base does not have.
    """

    folder: Path
    packages: tuple[str, ...]
    differing: frozenset[str]
    judges: tuple[str, ...]
    missing: tuple[str, ...]


def judge_modules(operation: Operation, operation_name: str) -> list[str]:
    """Modules that describe and judge ``operation``: its own, and those of its drivers and scenarios."""
    reference = registered_operations().get(operation_name, operation_name)
    return list(dict.fromkeys([reference.partition(":")[0], *driver_modules(operation)]))


def driver_modules(operation: Operation) -> list[str]:
    """Modules that judge ``operation``: those of its drivers and scenarios."""
    references = [entry.driver for entry in operation.entry_points]
    references += [operation.cost.driver] if operation.cost else []
    references += [scenario.run for scenario in operation.protocol]
    return list(dict.fromkeys(each.partition(":")[0] for each in references))


def laid_out(base: Base, tree: Path, folder: Path, operation: Operation, operation_name: str) -> Code:
    """Put the base's packages, from its worktree ``tree``, into ``folder``, with the head's judges in them.

    Raises:
        BaseError: a package lies outside of the checkout.
    """
    repository = base.repository.resolve()
    heads = {package: package_folder(package) for package in operation.packages}
    missing = []
    for package, head in heads.items():
        if not head.is_relative_to(repository):
            raise BaseError(
                f"--base: package {package!r} is not in the checkout {str(repository)!r}, but in {str(head)!r}"
            )
        source = tree / head.relative_to(repository)
        if source.is_dir():
            shutil.copytree(source, folder / package, ignore=shutil.ignore_patterns(*_IGNORED), symlinks=False)
        else:
            missing.append(package)
    judges = []
    for module in judge_modules(operation, operation_name):
        package, *rest = module.split(".")
        if package in heads and package not in missing and rest:
            own = heads[package].joinpath(*rest)
            file = own / "__init__.py" if own.is_dir() else own.with_suffix(".py")
            place = folder / package / file.relative_to(heads[package])
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
            judges.append(place.relative_to(folder).as_posix())
    before = {f"{p}/{name}": value for p in heads for name, value in digests(folder / p)}
    after = {f"{p}/{name}": value for p, head in heads.items() for name, value in digests(head)}
    differing = frozenset(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return Code(folder, tuple(operation.packages), differing, tuple(judges), tuple(missing))


def digests(folder: Path) -> Iterator[tuple[str, str]]:
    """Each file below ``folder``, by its path from there, and a name for what it does."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix not in _COMPILED and not set(path.parts) & set(_IGNORED):
            yield path.relative_to(folder).as_posix(), meaning(path)


def meaning(path: Path) -> str:
    """A name for what a file does: the same for two Python files of one syntax tree."""
    content = path.read_bytes()
    if path.suffix == ".py":
        with suppress(SyntaxError, ValueError):  # no Python: its bytes stand for it
            content = ast.dump(ast.parse(content)).encode(errors="surrogatepass")
    return hashlib.sha256(content).hexdigest()


def search_path(folder: Path) -> str:
    """A ``PYTHONPATH`` on which ``folder`` is first, and behind it all that this process imports from."""
    return os.pathsep.join([str(folder), *(os.path.abspath(entry or ".") for entry in sys.path)])


def imports(file: Path, name: str, root: Path) -> set[str]:
    """Files below ``root`` that the module in ``file`` (``name`` from ``root``) names in an import, anywhere in it.

    A package's ``__init__`` counts where a name is imported from it that is no module of it.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found |= _module(alias.name.split("."), root)
        elif isinstance(node, ast.ImportFrom):
            base = list(PurePosixPath(name).parts[: -node.level]) if node.level else []
            base += node.module.split(".") if node.module else []
            for alias in node.names:
                found |= _module([*base, alias.name], root) or _module(base, root)
    return found


def _module(parts: Sequence[str], root: Path) -> set[str]:
    place = root.joinpath(*parts) if parts else root
    for file in (place.with_suffix(".py"), place / "__init__.py"):
        if parts and file.is_file():
            return {file.relative_to(root).as_posix()}
    return set()


def closure(files: set[str], root: Path) -> set[str]:
    """``files`` and all that they import, directly or not, of what lies below ``root``."""
    seen: set[str] = set()
    waiting = [file for file in files if (root / file).is_file()]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += imports(root / name, name, root)
    return seen
