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
    """The README's kill matrix, in Markdown: a row a class, its mutants that each check fired on, on any arch."""
    columns = _columns(results)
    arches = [result["arch"] for result in results]
    lines = _head(["class", "mutants", *(f"killed on {arch}" for arch in arches), *columns])
    for name, known in CLASSES.items():
        mine = {record["name"] for result in results for record in result["mutants"] if record["class"] == name}
        rows = [row for result in results for row in result["classes"] if row["class"] == name]
        killed = [f"{row['killed']} of {row['mutants']}" for row in rows]
        cells = [str(len(mine & _fired(results, check)) or "") for check in columns]
        lines.append(_row([known.title, str(len(mine)), *killed, *cells]))
    totals = [f"{result['counts']['killed']} of {result['gate']['counted']}" for result in results]
    most = len({record["name"] for result in results for record in result["mutants"]})
    return [*lines, _row(["**all**", str(most), *totals, *(str(len(_fired(results, check))) for check in columns)])]


def mutant_table(results: Sequence[JsonDict]) -> list[str]:
    """The kill matrix mutant by mutant, in Markdown: ``X`` a check that it aims at, ``x`` another that fired."""
    columns = _columns(results)
    expected = {record["name"]: record["expected"] for result in results for record in result["mutants"]}
    marks = {
        check: {name: "X" if check in expected[name] else "x" for name in _fired(results, check)} for check in columns
    }
    return [
        *_head(["mutant", *columns]),
        *(_row([name, *(marks[check].get(name, "") for check in columns)]) for name in sorted(expected)),
    ]


def _columns(results: Sequence[JsonDict]) -> list[str]:
    return [row["check"] for row in checks([record for result in results for record in result["mutants"]])]


def _fired(results: Sequence[JsonDict], check: str) -> set[str]:
    return {record["name"] for result in results for record in result["mutants"] if check in record["checks"]}


def _head(cells: Sequence[str]) -> list[str]:
    return [_row(cells), "|" + "---|" * len(cells)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
