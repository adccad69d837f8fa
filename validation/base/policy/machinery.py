"""What judges, where the change touched it: files that decide what passes.

The head's judge judges both revisions, so a change to it is not seen in any case's colour. Whether such a change
loosens anything cannot be told from its text; that it came together with one of the code under test can, and is a
finding by area. A change of the judge alone is named in a note.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from validation.base.policy.finding import Finding, Trees, some
from validation.base.revision import package_folder
from validation.base.sources import judge_modules, meaning

JUDGE = "judge"
#: Folders of a checkout whose files decide what passes; what lies below :data:`SHOWING` only shows it, or is a tool.
JUDGING = ("validation", "oracle", "schemas")
SHOWING = ("validation/report/templates", "validation/width_scan")
_SHOWN = 6


def find(trees: Trees) -> Iterator[Finding]:
    """Areas of the judge that changed with the code under test."""
    code, judges = changed(trees)
    if code:
        for area, files in judges.items():
            yield Finding(JUDGE, "", area, f"changed together with {some(code, _SHOWN)}", "", some(files, _SHOWN))


def notes(trees: Trees) -> list[str]:
    """What changed of the judge in a change that leaves the code under test alone: one line."""
    code, judges = changed(trees)
    if code or not judges:
        return []
    files = [file for area in judges.values() for file in area]
    return [f"the change is to what judges, not to the code under test: {some(files, _SHOWN)}"]


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
    if trees.same(name):
        return False
    return not trees.both(name) or meaning(trees.base.root / name) != meaning(trees.head.root / name)


def _area(name: str) -> str:
    """The folder of a file, two levels deep at most."""
    return "/".join(PurePosixPath(name).parent.parts[:2])
