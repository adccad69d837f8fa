"""Loading ``hc_gated_residual_tuned.json`` and finding the entry for a call.

``{arch: {section: {token count: entry}}}``. Sections are ``k1`` and ``k1_n<n_pad>`` (a section for one n_pad
replaces the general one), ``up_gate_mix`` and ``up_gate_mix_n<row stride of lora>`` (which holds only for
exactly its token counts). An entry is a method, the tile that it takes, the shape and CU count it was chosen
for, and how that was established.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from hcgr.arch import ARCHS

PATH = Path(__file__).with_name("hc_gated_residual_tuned.json")

Entry = Mapping[str, Any]
Section = Mapping[int, Entry]

#: Fields that every entry has: shape, compute units, evidence and the command that made it.
COMMON_COUNTS = ("hc", "hidden", "n_pad", "cus")
EVIDENCE = ("modelled", "measured")
#: Positive integers that an entry has besides, by kind of section and method.
METHOD_COUNTS: dict[str, dict[str, tuple[str, ...]]] = {
    "k1": {
        "heuristic": (),
        "split_k": ("split_k", "row_tiles", "waves"),
        "decoupled": ("stages", "column_groups", "row_tiles", "waves"),
    },
    "up_gate_mix": {
        "heuristic": (),
        "tile": ("block_rows", "column_waves", "stream_waves", "passes"),
    },
}
_SECTION = re.compile(r"(k1|up_gate_mix)(?:_n([1-9][0-9]*))?")
_COUNT = re.compile(r"[1-9][0-9]*")


class TunedTableError(ValueError):
    """The table is not what it must be; the message names the place, what it holds and what is accepted."""


def _require(condition: bool, place: str, accepted: str, given: Any) -> None:
    if not condition:
        raise TunedTableError(f"{place} must be {accepted}, got {given!r}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def check_entry(place: str, kind: str, entry: Any) -> None:
    """Raise :class:`TunedTableError` unless `entry` is one of a ``k1`` or ``up_gate_mix`` section."""
    _require(isinstance(entry, dict), place, "an object", entry)
    methods = METHOD_COUNTS[kind]
    method = entry.get("method")
    _require(method in methods, f"{place}/method", f"one of {', '.join(methods)}", method)
    counts = (*COMMON_COUNTS, *methods[method])
    names = {"method", "evidence", "command", *counts}
    _require(set(entry) == names, place, f"of the fields {', '.join(sorted(names))}", sorted(entry))
    for name in counts:
        _require(_is_count(entry[name]), f"{place}/{name}", "a positive integer", entry[name])
    _require(entry["hidden"] % entry["hc"] == 0, f"{place}/hidden", "a multiple of hc", entry["hidden"])
    _require(entry["evidence"] in EVIDENCE, f"{place}/evidence", f"one of {', '.join(EVIDENCE)}", entry["evidence"])
    command = entry["command"]
    _require(isinstance(command, str) and bool(command), f"{place}/command", "the command that made it", command)


def parse(data: Any) -> dict[str, dict[str, Section]]:
    """The table in `data`, as read from JSON, with integer token counts in rising order.

    Raises:
        TunedTableError: if it is not one.
    """
    _require(isinstance(data, dict), "table", "an object", data)
    parsed: dict[str, dict[str, Section]] = {}
    for arch, sections in data.items():
        _require(arch in ARCHS, "arch", f"one of {', '.join(ARCHS)}", arch)
        _require(isinstance(sections, dict), arch, "an object", sections)
        parsed[arch] = {}
        for name, entries in sections.items():
            match = _SECTION.fullmatch(name)
            place = f"{arch}/{name}"
            if match is None:
                raise TunedTableError(f"{place} must be k1, up_gate_mix or one of them with _n<columns>, got {name!r}")
            _require(isinstance(entries, dict) and bool(entries), place, "an object with entries", entries)
            for tokens, entry in entries.items():
                _require(bool(_COUNT.fullmatch(tokens)), place, "keyed by token counts", tokens)
                check_entry(f"{place}/{tokens}", match[1], entry)
            parsed[arch][name] = {int(t): entries[t] for t in sorted(entries, key=int)}
    return parsed


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON whose keys are told apart: of two equal ones, JSON readers keep the last without a word."""
    for key, found in Counter(key for key, _ in pairs).items():
        _require(found == 1, PATH.name, f"without a second {key!r} in one object", f"{found} of them")
    return dict(pairs)


@lru_cache(maxsize=1)
def loaded() -> dict[str, dict[str, Section]]:
    """The committed table.

    Raises:
        TunedTableError: if it is malformed: a damaged table is no reason to run something else silently.
    """
    try:
        return parse(json.loads(PATH.read_text(encoding="utf-8"), object_pairs_hook=_once))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise TunedTableError(f"{PATH.name} must be JSON in UTF-8, got {error}") from error


def nearest(section: Section, tokens: int) -> Entry | None:
    """The entry whose token count is closest to `tokens` in log space; ``None`` below the smallest one."""
    if tokens < min(section):
        return None
    return section[min(section, key=lambda key: abs(math.log(key / tokens)))]


def k1_entry(arch: str, tokens: int, n_pad: int) -> Entry | None:
    """The K1 entry for `tokens` rows; the section of this n_pad if there is one, else the general one."""
    sections = loaded().get(arch, {})
    section = sections.get(f"k1_n{n_pad}") or sections.get("k1")
    return None if section is None else nearest(section, tokens)


def up_gate_mix_entry(arch: str, tokens: int, lora_stride: int) -> Entry | None:
    """The K2 entry for `tokens` rows: one of this row stride for exactly that count, else the general one."""
    sections = loaded().get(arch, {})
    exact = sections.get(f"up_gate_mix_n{lora_stride}", {}).get(tokens)
    if exact is not None:
        return exact
    section = sections.get("up_gate_mix")
    return None if section is None else nearest(section, tokens)
