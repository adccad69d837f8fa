"""Exact source edits, and an overlay that serves the edited sources to this process in place of the real ones.

An edit names a file, a text that occurs there exactly once, and what to put in its place: a text that has moved, or
occurs twice, is an error and never a guess. The edited files go to a private folder, because FlyDSL reads the source
of a kernel from its file; nothing in the real tree changes.

For broken variants of some modules of a running process, which may have imported the real ones already::

    edits = [Edit("hcgr/kernels/memory.py", "scope=AGENT", "scope=WORKGROUP")]
    with variant(edits, reload=("hcgr.kernels.k1_skinny",)):
        ...  # importlib.import_module("hcgr.kernels.k1_skinny") is the broken one here
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Protocol

#: The folder that holds the packages ``hcgr``, ``oracle`` and ``validation``.
ROOT = Path(__file__).resolve().parents[2]


class EditError(ValueError):
    """An edit does not fit the sources; the message names the file, what was given and what is accepted."""


class Change(Protocol):
    """An edit of one file: a patch, or an operator at a place (:mod:`validation.mutation.operators`)."""

    @property
    def file(self) -> str:
        """Path of the file, relative to the root."""

    def applied_to(self, text: str) -> str:
        """The text after the edit; :class:`EditError` if it does not fit."""


@dataclass(frozen=True)
class Edit:
    """One replacement: ``file`` relative to the root, ``find`` must occur in it exactly once."""

    file: str
    find: str
    replace: str

    def applied_to(self, text: str) -> str:
        """``text`` after the edit; :class:`EditError` unless ``find`` occurs exactly once and is changed."""
        if self.find == self.replace:
            raise EditError(f"{self.file}: find and replace are the same text: {_shown(self.find)}")
        times = text.count(self.find) if self.find else 0
        if times != 1:
            raise EditError(
                f"{self.file}: the text to find occurs {times} times, must occur once: {_shown(self.find)}; "
                "the source has changed or the text needs more context"
            )
        return text.replace(self.find, self.replace)


def _shown(text: str) -> str:
    lines = text.strip().splitlines() or [""]
    return repr(lines[0]) + (f" and {len(lines) - 1} more lines" if len(lines) > 1 else "")


def edited_sources(edits: Iterable[Change], root: Path = ROOT) -> dict[str, str]:
    """File to its text after all edits, in the order given; Python files must still parse.

    Raises:
        EditError: a file is missing or outside ``root``, an edit does not fit, or the result is no Python.
    """
    texts: dict[str, str] = {}
    for edit in edits:
        if edit.file not in texts:
            texts[edit.file] = _read(edit.file, root)
        texts[edit.file] = edit.applied_to(texts[edit.file])
    for file, text in texts.items():
        if file.endswith(".py"):
            try:
                ast.parse(text)
            except SyntaxError as error:
                raise EditError(f"{file}: line {error.lineno} is no Python after the edit: {error.msg}") from error
    return texts


def _read(file: str, root: Path) -> str:
    path = (root / file).resolve()
    if not path.is_relative_to(root.resolve()) or not path.is_file():
        raise EditError(f"{file}: no such file below {root.name}/, give a path relative to the root")
    return path.read_text()


def module_name(file: str) -> str:
    """The dotted name that imports ``file``, a path relative to the root; a package for its ``__init__.py``."""
    parts = Path(file).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class Overlay(importlib.abc.MetaPathFinder):
    """Serves edited files, written to ``folder``, to every import that happens while it is installed.

    Where a file is edited that is no Python module, the modules of its folder are served from ``folder`` too, with
    the files beside them, so that a path built from ``__file__`` leads to the edited one.
    """

    def __init__(self, sources: Mapping[str, str], folder: Path, root: Path = ROOT) -> None:
        self.folder, self.root = folder, root
        self.modules: dict[str, Path] = {}
        served = dict.fromkeys(file for file in sources if file.endswith(".py"))
        for data in (file for file in sources if not file.endswith(".py")):
            for path in sorted((root / data).parent.iterdir()):
                if path.is_file():
                    place = folder / path.relative_to(root)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, place)
                    if path.suffix == ".py":
                        served[str(path.relative_to(root))] = None
        for file, text in sources.items():
            place = folder / file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        for file in served:
            self.modules[module_name(file)] = folder / file

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a served module; ``None`` leaves the name to the other finders."""
        place = self.modules.get(fullname)
        if place is None:
            return None
        below = None
        if place.name == "__init__.py":  # modules that are not served come from the real folder
            real = self.root / place.parent.relative_to(self.folder)
            below = [str(place.parent), str(real)]
        return importlib.util.spec_from_file_location(fullname, place, submodule_search_locations=below)

    def install(self) -> None:
        """Put this overlay before every other finder.

        Raises:
            EditError: if a module that it serves is imported already, so that the edit would have no effect.
        """
        late = [name for name in self.modules if name in sys.modules]
        if late:
            raise EditError(f"{', '.join(late)}: imported before the edit, which would have no effect")
        sys.meta_path.insert(0, self)
        importlib.invalidate_caches()

    def remove(self) -> None:
        """Serve nothing from now on; modules that were imported meanwhile stay."""
        sys.meta_path.remove(self)

    def real_paths(self, text: str) -> str:
        """``text`` with paths below the overlay's folder made relative to the root."""
        return text.replace(f"{self.folder}/", "")


@contextmanager
def variant(edits: Iterable[Change], reload: Sequence[str] = (), root: Path = ROOT) -> Iterator[dict[str, ModuleType]]:
    """Within the block, ``sys.modules`` (and the parent packages) hold edited versions of the edited modules.

    Modules that imported *names* from an edited one keep the real ones; name them in ``reload`` to have them
    imported anew, unedited, against the edited ones. Caches of compiled kernels (``hcgr.dispatch``) are the
    caller's to empty, and ``FLYDSL_RUNTIME_CACHE_DIR`` must be private: FlyDSL's key does not see every edit.

    Yields:
        Module name to module, of the edited and the reloaded ones.

    Raises:
        EditError: if an edit does not fit.
    """
    sources = edited_sources(edits, root)
    with tempfile.TemporaryDirectory(prefix="hcgr-variant-") as folder:
        overlay = Overlay(sources, Path(folder), root)
        names = list(dict.fromkeys((*overlay.modules, *reload)))
        real = {name: importlib.import_module(name) for name in names}
        for name in names:
            del sys.modules[name]
        overlay.install()
        try:
            yield {name: importlib.import_module(name) for name in names}
        finally:
            overlay.remove()
            for name, module in real.items():
                sys.modules[name] = module
                parent, _, leaf = name.rpartition(".")
                if parent:
                    setattr(sys.modules[parent], leaf, module)
