"""What the base asks of its environment and the head does not, or otherwise: both ran in the head's."""

from __future__ import annotations

import tomllib
from pathlib import Path


def _lines(path: Path) -> set[str]:
    """Requirements of a file with one a line."""
    bare = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return {line for line in bare if line}


def _project(path: Path) -> set[str]:
    """What ``pyproject.toml`` asks for: the interpreter, dependencies, extras, and what builds it."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    project = table.get("project", {})
    wanted = {f"python {project['requires-python']}"} if "requires-python" in project else set()
    wanted |= set(project.get("dependencies", ()))
    for extra, names in project.get("optional-dependencies", {}).items():
        wanted |= {f"{name} [{extra}]" for name in names}
    return wanted | {f"{name} [build]" for name in table.get("build-system", {}).get("requires", ())}


_READERS = {"pyproject.toml": _project, "constraints.txt": _lines, "requirements.txt": _lines}


def notes(base: Path, head: Path) -> list[str]:
    """One line for each file of requirements that differs between two checkouts; none: the pins are the same."""
    found = []
    for name, read in _READERS.items():
        old, new = (read(root / name) if (root / name).is_file() else set() for root in (base, head))
        if old != new:
            parts = [f"only the base asks for {', '.join(sorted(old - new))}"] if old - new else []
            parts += [f"only the head asks for {', '.join(sorted(new - old))}"] if new - old else []
            found.append(f"{name}: {'; '.join(parts)}; both ran in the head's environment")
    return found
