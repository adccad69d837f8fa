"""What an operation asks of the code under test, as plain data. Also a script: run on another revision's packages.

As a script it is given the operation's name and a seed, imports whatever ``validation`` is on the path, and prints the
description as JSON. It takes from that package only what every revision of it has; a field that is not there is empty.
"""

from __future__ import annotations

import inspect
import itertools
import json
import sys
from typing import Any


def describe(operation: Any, seed: int) -> dict[str, Any]:
    """Axes, legal pairs, cases, contract, limits, costs and scenarios of an operation, by name."""
    cost = getattr(operation, "cost", None)
    return {
        "entries": {entry.name: _entry(entry, seed) for entry in operation.entry_points},
        "cost": {arch: [case.name for case in cost.cases(arch)] for arch in ("gfx942", "gfx950")} if cost else {},
        "protocol": {scenario.name: _scenario(scenario) for scenario in getattr(operation, "protocol", ())},
    }


def _scenario(scenario: Any) -> dict[str, Any]:
    return {
        "teeth": [tooth.name for tooth in scenario.teeth],
        "settings": [str(setting) for setting in scenario.settings("default", 0)],
    }


def _entry(entry: Any, seed: int) -> dict[str, Any]:
    grid = entry.grid
    cases = {case.name: case for case in grid.pairwise(seed)}
    return {
        "axes": {axis.name: _axis(axis) for axis in grid.axes},
        "pairs": list(_pairs(grid)),
        "anchors": [_spelled(anchor.labels) for anchor in grid.anchors],
        "uncovered": len(grid.uncovered(list(cases.values()))),
        "cases": {name: _case(entry, case) for name, case in cases.items()},
        "contract": {row.name: {"error": row.error, "mentions": list(row.mentions)} for row in entry.contract},
        "limits": dict(entry.limits),
        "invalid": {name: repr(value) for name, value in getattr(entry, "invalid", {}).items()},
    }


def _axis(axis: Any) -> dict[str, Any]:
    between = getattr(axis, "between", None)
    values = (*axis.values, *getattr(axis, "apart", ()))
    return {
        "values": {value.label: None if callable(value.value) else repr(value.value) for value in values},
        "between": [between.low, between.high, between.step] if between else None,
    }


def _pairs(grid: Any) -> Any:
    """Pairs of labels that may meet in a cover, one text each."""
    options = {"cover": True} if "cover" in inspect.signature(grid.broken).parameters else {}
    for a, b in itertools.combinations(grid.axes, 2):
        for left, right in itertools.product(a.values, b.values):
            if not grid.broken({a.name: left.label, b.name: right.label}, **options):
                yield f"{a.name}={left.label} {b.name}={right.label}"


def _spelled(labels: Any) -> str:
    return " ".join(f"{axis}={label}" for axis, label in sorted(labels.items()))


def _case(entry: Any, case: Any) -> dict[str, Any]:
    paths, shapes = getattr(entry, "paths", None), getattr(entry, "shapes", None)
    return {
        "params": {name: repr(value) for name, value in case.params.items()},
        "launches": bool(entry.launches(case.params)),
        "paths": list(paths(case.params)) if paths else [],
        "shapes": {name: str(list(shape)) for name, shape in shapes(case.params).items()} if shapes else {},
    }


def main() -> None:
    """The script."""
    from validation.operation import load_operation

    name, seed = sys.argv[1:]
    json.dump(describe(load_operation(name), int(seed)), sys.stdout)


if __name__ == "__main__":
    main()
