"""Figures of a run: the kill matrix (mutant by check), and the table of classes."""

from __future__ import annotations

from collections.abc import Sequence

from validation.mutation.manifest import CLASSES
from validation.mutation.outcome import OUTCOMES
from validation.operation import JsonDict


def count(records: Sequence[JsonDict]) -> dict[str, int]:
    """How many mutants have each outcome."""
    return {name: sum(record["outcome"] == name for record in records) for name in OUTCOMES}


def default_run(records: Sequence[JsonDict]) -> dict[str, int]:
    """Kills by whether a default run of ``hcgr-validate`` sees them too (:mod:`.coverage`)."""
    seen = [record["in_default_run"] for record in records if record["outcome"] == "killed"]
    return {"seen": seen.count(True), "beyond": seen.count(False), "controls": seen.count(None)}


def checks(records: Sequence[JsonDict]) -> list[JsonDict]:
    """What each check earned: mutants it fired on, and those that it alone killed."""
    names = sorted({check for record in records for check in record["checks"]})
    rows = []
    for name in names:
        fired = [record for record in records if name in record["checks"]]
        rows.append({"check": name, "kills": len(fired), "alone": sum(r["checks"] == [name] for r in fired)})
    return sorted(rows, key=lambda row: (-int(row["kills"]), row["check"]))


def classes(records: Sequence[JsonDict]) -> list[JsonDict]:
    """Mutants and outcomes of each class, the classes that have none included."""
    names = [*CLASSES, *sorted({record["class"] for record in records} - set(CLASSES))]
    rows = []
    for name in names:
        mine = [record for record in records if record["class"] == name]
        known = CLASSES.get(name)
        if not mine and known is None:
            continue
        rows.append(
            {
                "class": name,
                "title": known.title if known else name,
                "least": known.least if known else 0,
                "mutants": len(mine),
                "killed": sum(record["outcome"] == "killed" for record in mine),
                "equivalent": sum(record["outcome"] == "equivalent" for record in mine),
                "checks": [row["check"] for row in checks(mine)],
            }
        )
    return rows


def matrix_lines(records: Sequence[JsonDict]) -> list[str]:
    """The kill matrix as text: a line a mutant, a column a check, ``X`` its own check, ``x`` another that fired."""
    columns = [row["check"] for row in checks(records)]
    width = max((len(record["name"]) for record in records), default=6)
    lines = [f"{'mutant':<{width}}  " + "  ".join(columns)]
    for record in records:
        cells = []
        for name in columns:
            mark = "" if name not in record["checks"] else "X" if name in record["expected"] else "x"
            cells.append(f"{mark:^{len(name)}}")
        lines.append(f"{record['name']:<{width}}  " + "  ".join(cells).rstrip())
    rows = {row["check"]: row for row in checks(records)}
    for title, key in (("kills", "kills"), ("kills alone", "alone")):
        cells = [f"{rows[name][key]:^{len(name)}}" for name in columns]
        lines.append(f"{title:<{width}}  " + "  ".join(cells))
    return [line.rstrip() for line in lines]


def class_table(results: Sequence[JsonDict]) -> list[str]:
    """The README's table of classes, in Markdown: a row a class, a column an arch."""
    arches = [result["arch"] for result in results]
    lines = [
        f"| class | mutants | killed on {' | killed on '.join(arches)} | by |",
        f"|---|---|{'---|' * len(arches)}---|",
    ]
    rows = {name: [row for r in results for row in r["classes"] if row["class"] == name] for name in CLASSES}
    for name, found in rows.items():
        most = max((row["mutants"] for row in found), default=0)
        killed = [f"{row['killed']} of {row['mutants']}" for row in found]
        by = list(dict.fromkeys(check for row in found for check in row["checks"]))
        lines.append(f"| {CLASSES[name].title} | {most} | {' | '.join(killed)} | {', '.join(by[:4])} |")
    totals = [f"{result['counts']['killed']} of {result['gate']['counted']}" for result in results]
    most = max(len(result["mutants"]) for result in results)
    return [*lines, f"| **all** | {most} | {' | '.join(totals)} | |"]
