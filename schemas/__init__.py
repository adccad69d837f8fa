"""JSON Schemas of the files that this project writes and reads, as package data.

The package is the top-level folder ``schemas`` of a checkout and is installed under the same name, so
:func:`load_schema` finds the files in both.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def load_schema(name: str) -> dict[str, Any]:
    """The schema called ``name`` (``report`` for ``report.schema.json``); ``LookupError`` names those there are."""
    folder = resources.files(__name__)
    file = folder / f"{name}.schema.json"
    if not file.is_file():
        known = sorted(f.name.removesuffix(".schema.json") for f in folder.iterdir() if f.name.endswith(".json"))
        raise LookupError(f"no schema {name!r} (schemas: {', '.join(known)})")
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema
