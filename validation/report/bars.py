"""Horizontal bars as inline SVG that stretches to its container; the numbers stand beside it, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

_HEIGHT = 7
_GAP = 2


@dataclass(frozen=True)
class Bar:
    """One bar: a length in the chart's unit, and the CSS class that colours it."""

    value: float
    style: str


def bars(items: Sequence[Bar], scale: float, marks: Sequence[Bar] = (), label: str = "") -> Markup:
    """``items`` below each other, 100 units wide for ``scale``; ``marks`` are lines over all of them."""
    height = len(items) * (_HEIGHT + _GAP) + _GAP

    def at(value: float) -> str:
        return f"{min(100.0, 100.0 * value / scale):.2f}"

    shapes = [
        Markup('<rect class="{}" x="0" y="{}" width="{}" height="{}"/>').format(
            bar.style, _GAP + i * (_HEIGHT + _GAP), at(bar.value), _HEIGHT
        )
        for i, bar in enumerate(items)
    ]
    shapes += [
        Markup('<rect class="{}" x="{}" y="0" width="0.6" height="{}"/>').format(mark.style, at(mark.value), height)
        for mark in marks
    ]
    return Markup(
        '<svg viewBox="0 0 100 {}" preserveAspectRatio="none" role="img" aria-label="{}" style="height:{}px">{}</svg>'
    ).format(height, label, 2 * height, Markup("").join(shapes))


def traffic(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Bytes moved ÷ compulsory of each cost record, beside the five-stage path, the limit and the budget."""
    scale = max((max(row["ratio"], row["five_stage"]["ratio"], row["limit"] or 0) for row in rows), default=1.0)
    return [
        {
            "row": row,
            "over": row["limit"] is not None and row["ratio"] > row["limit"],
            "budget": _budget(row),
            "chart": bars(
                [Bar(row["ratio"], "ours"), Bar(row["five_stage"]["ratio"], "five")],
                scale,
                [Bar(1.0, "one"), *([Bar(row["limit"], "limit")] if row["limit"] is not None else [])],
                f"{row['ratio']:.3f} times the compulsory traffic, five-stage {row['five_stage']['ratio']:.3f}",
            ),
        }
        for row in rows
    ]


def _budget(row: Mapping[str, Any]) -> str:
    budget = row["budget"]
    if budget is None:
        return "no budget"
    off = [
        f"{name} {given - budget[key]:+d}"
        for name, key, given in (
            ("bytes", "bytes_moved", row["bytes_moved"]),
            ("MFMA", "mfma", row["mfma"]),
            ("launches", "launches", len(row["kernels"])),
        )
        if given != budget[key]
    ]
    return f"off budget: {', '.join(off)}" if off else "on budget"


def times(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Projected against published microseconds of each record that has published ones, each on a scale of its own."""
    found = []
    for row in rows:
        if row["published_us"] is None:
            continue
        figures = [
            ("two-stage, projected here", row["projection"]["total_us"], "ours"),
            ("two-stage, published", row["published_us"]["two_stage"], "published"),
            ("five-stage, projected here", row["five_stage"]["projection"]["total_us"], "five"),
            ("five-stage, published", row["published_us"]["five_stage"], "published"),
        ]
        scale = max(value for _, value, _ in figures)
        lines = [
            {"name": name, "value": value, "chart": bars([Bar(value, style)], scale, label=f"{name}: {value:.1f} us")}
            for name, value, style in figures
        ]
        found.append({"row": row, "lines": lines})
    return found
