"""What a machine must have in common with the one that hands out the work: Python, packages, and every source file."""

from __future__ import annotations

import hashlib
import importlib.util
import platform
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from validation.operation import JsonDict
from validation.stages.environment import versions

#: Packages of this project that take part in every run.
PACKAGES = ("validation", "oracle", "schemas")
_SUFFIXES = (".py", ".json", ".toml", ".j2")
_COMPARED = ("python", "versions", "sources")


def identify(packages: Sequence[str]) -> JsonDict:
    """Name of this machine, versions, and the digest of the sources of :data:`PACKAGES` and ``packages``."""
    return {
        "machine": socket.gethostname(),
        "python": platform.python_version(),
        "versions": {name: version for name, version in versions().items() if name not in ("rich", "jsonschema")},
        "sources": digest(packages),
    }


def differences(ours: Mapping[str, object], theirs: Mapping[str, object]) -> list[str]:
    """What two identities of :func:`identify` do not have in common, in words; the machine may be another."""
    return [f"{what}: {theirs[what]}, here {ours[what]}" for what in _COMPARED if ours[what] != theirs[what]]


def digest(packages: Sequence[str]) -> str:
    """A name for the sources, whatever folder they are in; a package that is not there counts as that."""
    total = hashlib.sha256()
    for package in _all(packages):
        total.update(f"{package}\n".encode())
        for name, path in _files(package):
            total.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return total.hexdigest()[:16]


def stamp(packages: Sequence[str]) -> int:
    """Changes when a file behind :func:`digest` does: cheap enough to look at before each task."""
    found = [(str(path), path.stat()) for package in _all(packages) for _, path in _files(package)]
    return hash(tuple((name, status.st_mtime_ns, status.st_size) for name, status in found))


def _all(packages: Sequence[str]) -> list[str]:
    return sorted({*PACKAGES, *packages})


def _files(package: str) -> Iterator[tuple[str, Path]]:
    spec = importlib.util.find_spec(package.partition(".")[0])  # imports nothing
    if spec is None:
        return
    for folder in map(Path, spec.submodule_search_locations or ()):
        for path in sorted(folder.rglob("*")):
            if path.suffix in _SUFFIXES and path.is_file():
                yield str(path.relative_to(folder)), path
    if not spec.submodule_search_locations and spec.origin:
        yield Path(spec.origin).name, Path(spec.origin)
