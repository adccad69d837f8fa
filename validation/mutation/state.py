"""What an interrupted run leaves behind: one line of JSON a result, appended as it comes.

A result is only taken up again for the same sources, arch and mutant: the key holds a hash of every file that takes
part and of the mutant's manifest. A line holds a hash of itself: one that is cut off, edited or not ours counts as
absent, and is run again. The hash is no signature.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from validation.operation import JsonDict

#: Folders of a root whose files decide an outcome (some mutants are killed by tests), and packages whose versions do.
PACKAGES = ("hcgr", "hcgr_examples", "mutants", "oracle", "schemas", "tests", "validation")
VERSIONS = ("flydsl", "torch", "numpy")
_SUFFIXES = (".py", ".json")


def sources_digest(root: Path) -> str:
    """A name for the sources below ``root`` and the packages that they run on."""
    total = hashlib.sha256(platform.python_version().encode())
    for name in VERSIONS:
        total.update(f"{name} {importlib.metadata.version(name)}\n".encode())
    for path in _files(root):
        total.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return total.hexdigest()[:16]


def _files(root: Path) -> Iterator[Path]:
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*")):
            if path.suffix in _SUFFIXES and path.is_file() and not _cached(path.relative_to(root)):
                yield path


def _cached(path: Path) -> bool:
    """Whether a run writes the file by itself: Python's caches, and those of tools in hidden folders."""
    return any(part == "__pycache__" or part.startswith(".") for part in path.parts[:-1])


def stamp(root: Path) -> frozenset[tuple[str, int, int]]:
    """Path, time of change and size of each file behind :func:`sources_digest`: cheap enough to look at often."""
    found = ((path, path.stat()) for path in _files(root))
    return frozenset((str(path), status.st_mtime_ns, status.st_size) for path, status in found)


def _sum(entry: JsonDict) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()[:16]


def _entry(line: bytes) -> JsonDict | None:
    """What :meth:`State.add` wrote, if the line is that and whole."""
    try:
        entry = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or entry.keys() != {"key", "item", "answer", "sum"}:
        return None
    told = entry.pop("sum")
    return entry if told == _sum(entry) else None


class State:
    """The results of one arch and one state of the sources, in a file that may hold others too."""

    def __init__(self, path: Path | None, sources: str, arch: str, resume: bool) -> None:
        self._path, self._key = path, {"sources": sources, "arch": arch}
        self._known: dict[str, JsonDict] = {}
        self._added: dict[str, None] = {}  # in order
        # a killed run may have left half a line: the next one must not be written behind it
        self._cut_off = path is not None and path.exists() and path.read_bytes()[-1:] not in (b"\n", b"")
        if path is not None and resume and path.exists():
            self._load(path)

    def _load(self, path: Path) -> None:
        for line in path.read_bytes().splitlines():
            entry = _entry(line)
            if entry is not None and entry["key"] == self._key:
                self._known[entry["item"]] = entry["answer"]

    def known(self, item: str) -> JsonDict | None:
        """The answer for ``item``, if an earlier run got one that stands: crashes and timeouts are tried again."""
        answer = self._known.get(item)
        return answer if answer is not None and answer["ended"] in ("done", "invalid") else None

    def add(self, item: str, answer: JsonDict) -> None:
        """Keep an answer."""
        self._added[item] = None
        self._write(item, answer)

    def void(self, items: Iterable[str] | None = None) -> None:
        """Take back what was added here for ``items``, or all of it: it is run again, also by a run that resumes."""
        for item in list(self._added) if items is None else items:
            if item in self._added:
                del self._added[item]
                self._write(item, {"ended": "void"})

    def _write(self, item: str, answer: JsonDict) -> None:
        self._known[item] = answer
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            entry: dict[str, Any] = {"key": self._key, "item": item, "answer": answer}
            line = ("\n" if self._cut_off else "") + json.dumps({**entry, "sum": _sum(entry)}) + "\n"
            with self._path.open("ab", buffering=0) as stream:  # one write: another run may append at the same time
                stream.write(line.encode())
            self._cut_off = False
