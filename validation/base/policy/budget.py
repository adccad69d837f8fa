"""Budgets: tables of what a call may cost, whose rows the change loosened or dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from validation.base.policy.finding import Finding, Tree, Trees

KIND = "budget"
#: What tells rows apart. Any other number of a row is a limit.
_KEYS = ("arch", "case")


def find(trees: Trees) -> Iterator[Finding]:
    """Each figure that grew, and each row that went."""
    for file in (name for name in trees.base.files if _is_budget(name)):
        before, after = _rows(trees.base, file), _rows(trees.head, file)
        for key, row in before.items():
            where = ".".join(key)
            if key not in after:
                yield Finding(KIND, file, where, "row removed", json.dumps(row), "")
                continue
            for figure, old in row.items():
                new = after[key].get(figure)
                if isinstance(old, (int, float)) and (new is None or new > old):
                    what = "limit removed" if new is None else "limit raised"
                    yield Finding(KIND, file, f"{where}.{figure}", what, str(old), "" if new is None else str(new))


def _is_budget(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix == ".json" and "budget" in path.stem and not path.stem.endswith(".schema")


def _rows(tree: Tree, file: str) -> dict[tuple[str, ...], dict[str, Any]]:
    """Rows by key; none of a file that is gone or is no table."""
    if file not in tree.files:
        return {}
    try:
        table = json.loads(tree.text(file))
    except ValueError:
        return {}
    rows = table.get("rows", ()) if isinstance(table, dict) else ()
    return {tuple(str(row.get(key)) for key in _KEYS): row for row in rows if isinstance(row, dict)}
