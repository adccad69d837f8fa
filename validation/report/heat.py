"""Heat maps of error ÷ bound over the grid: for each entry point and output, shapes down and row counts across."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from validation.operation import JsonDict

#: Steps of the colour scale; step :data:`STEPS` is the edge of the bound.
STEPS = 10
_LAYER = re.compile(r"^layer \d+ ")


@dataclass
class Cell:
    """Everything that was compared at one place of the map. ``failed`` names a case that did not pass there."""

    ratio: float = 0.0
    cases: int = 0
    failed: str = ""

    @property
    def text(self) -> str:
        """Two digits, cut and not rounded, so that nothing within its bound reads 1; one digit beyond the bound."""
        if not self.ratio <= 1.0:
            return (
                f"{self.ratio:.1f}×"
                if self.ratio < 1000
                else f"{self.ratio:.0e}×".replace("e+0", "e").replace("e+", "e")
            )
        hundredths = int(self.ratio * 100)
        return "0" if self.ratio == 0 else "1" if self.ratio == 1 else f".{hundredths:02d}" if hundredths else "<.01"

    @property
    def style(self) -> str:
        """CSS class: ``h0`` to ``h10`` within the bound, ``bad`` beyond it or where a case failed."""
        return "bad" if self.failed or not self.ratio <= 1.0 else f"h{int(self.ratio * STEPS)}"

    @property
    def hint(self) -> str:
        """The exact figure and how many cases it is over."""
        return f"{self.ratio:.6g} of the bound, {self.cases} case{'' if self.cases == 1 else 's'}"


@dataclass
class HeatMap:
    """One output of one entry point. ``rows`` holds a label and a cell (or ``None``) for each of ``columns``."""

    entry: str
    output: str
    axes: str
    columns: list[str]
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)
    row_labels: list[str] = field(default_factory=list)

    @property
    def rows(self) -> list[tuple[str, list[Cell | None]]]:
        """Cells in order."""
        return [(row, [self.cells.get((row, column)) for column in self.columns]) for row in self.row_labels]

    @property
    def worst(self) -> Cell:
        """The cell closest to its bound, or farthest beyond."""
        return max(self.cells.values(), key=lambda cell: (bool(cell.failed), not cell.ratio <= 1.0, cell.ratio))

    @property
    def anchor(self) -> str:
        """Identifier of the map in the page."""
        return "heat-" + re.sub(r"\W+", "-", f"{self.entry} {self.output}")

    @property
    def bad(self) -> bool:
        """Whether anything in it failed."""
        return any(cell.style == "bad" for cell in self.cells.values())


def heat_maps(report: Mapping[str, Any]) -> list[HeatMap]:
    """A map for each entry point and output that was compared within a bound, in the order of the cases.

    An output that had to be right to the bit everywhere, and was, has no map. Layers of one output share a map.
    """
    stage = next((stage for stage in report["stages"] if stage["name"] == "correctness"), None)
    cases = [case for case in stage["cases"] if case["facts"].get("axes")] if stage else []
    maps: dict[tuple[str, str], HeatMap] = {}
    for case in cases:
        entry = case["id"].split(".")[1]
        across, down = _axes(case)
        labels = case["facts"]["axes"]
        place = (" · ".join(labels[axis] for axis in down), labels[across])
        for output, ratio, passed in _figures(case):
            found = maps.setdefault((entry, output), HeatMap(entry, output, f"{' × '.join(down)} by {across}", []))
            cell = found.cells.setdefault(place, Cell())
            cell.ratio, cell.cases = _worse(cell.ratio, ratio), cell.cases + 1
            cell.failed = cell.failed or ("" if passed else case["id"])
    numbers = _numbers(cases)
    for (entry, _), heat in maps.items():
        heat.columns = sorted(
            {column for _, column in heat.cells}, key=lambda label: (_key(numbers.get((entry, label)), label), label)
        )
        heat.row_labels = sorted({row for row, _ in heat.cells}, key=lambda label: (_natural(label), label))
    return [heat for heat in maps.values() if heat.bad or heat.worst.ratio]


def _axes(case: Mapping[str, Any]) -> tuple[str, Sequence[str]]:
    """Axis across (``m``, or the first) and axes down (``shape``, or the two that follow the first)."""
    names = list(case["facts"]["axes"])
    across = "m" if "m" in names else names[0]
    rest = [name for name in names if name != across]
    return across, ["shape"] if "shape" in rest else rest[:2] or [across]


def _figures(case: Mapping[str, Any]) -> Iterator[tuple[str, float, bool]]:
    for check in case["comparisons"]:
        if check["max_ratio"] is not None:
            output = _LAYER.sub("", check["output"])
            name = output if check["tier"] in ("bound", "exact") else f"{output}, {check['tier']}"
            yield name, float(check["max_ratio"]), check["passed"]


def _worse(a: float, b: float) -> float:
    return b if not b <= a else a


def _numbers(cases: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """The number behind each label of the axis across, where it is one."""
    found: dict[tuple[str, str], float] = {}
    for case in cases:
        across, _ = _axes(case)
        value = case["params"].get(across)
        if isinstance(value, (int, float)):
            place = case["id"].split(".")[1], case["facts"]["axes"][across]
            found[place] = max(value, found.get(place, value))  # a label may stand for more rows in a narrower shape
    return found


def _key(number: float | None, label: str) -> tuple[Any, ...]:
    return (0, number, "") if number is not None else (1, 0, label)


def _natural(label: str) -> list[Any]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", label) if part]


def summary(maps: Sequence[HeatMap]) -> list[JsonDict]:
    """The maps by entry point, in order.

    ``outputs`` has the map of each output of any entry point, or ``None``; ``open`` is the output whose map tells most.
    """
    names = dict.fromkeys(heat.entry for heat in maps)
    outputs = list(dict.fromkeys(heat.output for heat in maps))
    groups = []
    for name in names:
        own = {heat.output: heat for heat in maps if heat.entry == name}
        tells_most = max(own.values(), key=lambda heat: len({cell.text for cell in heat.cells.values()}))
        groups.append(
            {
                "entry": name,
                "maps": list(own.values()),
                "outputs": [(output, own.get(output)) for output in outputs],
                "open": tells_most.output,
            }
        )
    return groups
