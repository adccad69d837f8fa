"""What judges, where the change touched it: tests that went or say less, and files that decide what passes.

The head's judge judges both revisions, so a change to it is not seen in any case's colour. Whether such a change
loosens anything cannot be told from its text; that it came together with one of the code under test can, and is a
finding by area. A change of the judge alone is named in a note.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from validation.base.policy.finding import Finding, Tree, Trees, scopes
from validation.base.revision import package_folder
from validation.base.sources import judge_modules, meaning

TEST, JUDGE = "test", "judge"
#: Folders of a checkout whose files decide what passes; what lies below :data:`SHOWING` only shows it, or is a tool.
JUDGING = ("validation", "oracle", "schemas")
SHOWING = ("validation/report/templates", "validation/width_scan")
_SHOWN = 6


def find(trees: Trees) -> Iterator[Finding]:
    """Tests removed, emptied or with fewer parameters; areas of the judge that changed with the code under test."""
    yield from _tests(trees)
    code, judges = changed(trees)
    if code:
        for area, files in judges.items():
            yield Finding(JUDGE, "", area, f"changed together with {_some(code)}", "", _some(files))


def notes(trees: Trees) -> list[str]:
    """What changed of the judge in a change that leaves the code under test alone: one line."""
    code, judges = changed(trees)
    if code or not judges:
        return []
    files = [file for area in judges.values() for file in area]
    return [f"the change is to what judges, not to the code under test: {_some(files)}"]


def changed(trees: Trees) -> tuple[list[str], dict[str, list[str]]]:
    """Files of the code under test that differ, and files that judge, by area. Comments and layout do nothing."""
    root = trees.head.root.resolve()
    own = [folder for package in trees.operation.packages if (folder := _within(package_folder(package), root))]
    drivers = set(_files_of(trees, root))
    names = sorted({*trees.base.files, *trees.head.files})
    code: list[str] = []
    judges: dict[str, list[str]] = {}
    for name in names:
        under_test = any(name.startswith(f"{folder}/") for folder in own) and name not in drivers
        judging = name in drivers or (name.startswith(tuple(f"{each}/" for each in JUDGING)) and not _shows(name))
        if not (under_test or judging) or not _differs(trees, name):
            continue
        if under_test:
            code.append(name)
        elif name in trees.base.files:  # a new file judges nothing until an old one, or the operation, names it
            judges.setdefault(_area(name), []).append(name)
    return code, judges


def _shows(name: str) -> bool:
    return name.startswith(tuple(f"{each}/" for each in SHOWING))


def _within(folder: Path, root: Path) -> str:
    return folder.relative_to(root).as_posix() if folder.is_relative_to(root) else ""


def _files_of(trees: Trees, root: Path) -> Iterator[str]:
    """Files that describe and judge the operation, relative to the checkout."""
    for module in judge_modules(trees.operation, trees.operation_name):
        package, *rest = module.split(".")
        if rest:
            place = package_folder(package).joinpath(*rest)
            file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
            if file.is_relative_to(root):
                yield file.relative_to(root).as_posix()


def _differs(trees: Trees, name: str) -> bool:
    if _same_bytes(trees, name):
        return False
    return not _both(trees, name) or meaning(trees.base.root / name) != meaning(trees.head.root / name)


def _both(trees: Trees, name: str) -> bool:
    return name in trees.base.files and name in trees.head.files


def _same_bytes(trees: Trees, name: str) -> bool:
    """Whether both have the file, unchanged: it need not be parsed."""
    return _both(trees, name) and (trees.base.root / name).read_bytes() == (trees.head.root / name).read_bytes()


def _area(name: str) -> str:
    """The folder of a file, two levels deep at most."""
    return "/".join(PurePosixPath(name).parent.parts[:2])


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


# -- tests ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Test:
    """One test function: how many parameters its decorators list in words, and how many things it asserts."""

    file: str
    name: str
    line: int
    parameters: int | None
    asserts: int


def _tests(trees: Trees) -> Iterator[Finding]:
    names = sorted({name for tree in (trees.base, trees.head) for name in tree.files if _is_test(name)})
    touched = [name for name in names if not _same_bytes(trees, name)]
    before, after = list(_found(trees.base, touched)), list(_found(trees.head, touched))
    there = Counter(test.name for test in after)
    places = {(test.file, test.name): test for test in after}
    # of tests of one name, those still in their files are the ones that stayed
    moved = there - Counter(test.name for test in before if (test.file, test.name) in places)
    by_name = {test.name: test for test in after}
    for old in before:
        new = places.get((old.file, old.name))
        if new is None:
            if moved[old.name] <= 0:
                yield Finding(TEST, old.file, old.name, "removed", old.name, "", old.line)
                continue
            moved[old.name] -= 1
            new = by_name[old.name]
        if old.parameters is not None and new.parameters is not None and new.parameters < old.parameters:
            counts = str(old.parameters), str(new.parameters)
            yield Finding(TEST, new.file, f"{new.name}.parameters", "fewer parameters", *counts, new.line)
        if old.asserts and not new.asserts:
            yield Finding(TEST, new.file, f"{new.name}.asserts", "asserts nothing", str(old.asserts), "0", new.line)


def _is_test(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix == ".py" and path.name.startswith("test_")


def _found(tree: Tree, files: Iterable[str]) -> Iterator[_Test]:
    for file in files:
        for name, node in scopes(tree.module(file)) if file in tree.files else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                yield _Test(file, name, node.lineno, _parameters(node), _asserts(node.body))


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int | None:
    """Product of the lengths of all lists of parameters; ``None`` when one is computed."""
    total = 1
    for each in node.decorator_list:
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "parametrize":
            values = each.args[1] if len(each.args) > 1 else None
            if not isinstance(values, ast.List | ast.Tuple):
                return None
            total *= len(values.elts)
    return total


def _asserts(body: list[ast.stmt]) -> int:
    """Assertions, and calls: any may expect an exception, or hold assertions of its own."""
    return sum(isinstance(each, ast.Assert | ast.Call) for part in body for each in ast.walk(part))
