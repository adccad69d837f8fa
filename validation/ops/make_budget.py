"""Writes the committed budget table from what the kernels cost now: ``python -m validation.ops.make_budget``.

Every row must meet the cost stage's limits on what the table holds; otherwise nothing is written and the exit code
is 1. Spills and LDS are not in the table: the cost stage fails on them whatever it says, here they are printed. So is
every row that costs more than before, for a reviewer to see what a change gives up.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from schemas import load_schema
from validation import devices
from validation.cases import COMMAND
from validation.cli import default_jobs
from validation.devices.pool import Pool
from validation.operation import JsonDict, load_operation
from validation.ops.cost import FIGURES, figures
from validation.stages import STAGES, Request, cost

TARGET = Path(__file__).with_name("budget.json")
DEVICE = "validation.devices.emulator"
#: Checks of the cost stage that are about something else than the table's own figures.
ELSEWHERE = ("budget", "registers", "lds")


def measured(arch: str, jobs: int) -> list[tuple[JsonDict, list[JsonDict]]]:
    """The cost record of each case of an arch, with its checks.

    Raises:
        RuntimeError: if a case could not be measured.
    """
    request = Request(load_operation("hcgr"), "hcgr", arch, seed=0)
    tasks = cost.plan(request)
    found = {}
    with Pool(jobs, arch, DEVICE, devices.device(DEVICE).worker_environment(arch)) as pool:
        for task, outcome in pool.run(tasks, STAGES):
            value = outcome.value
            if value is None or value.get("cost") is None:
                raise RuntimeError(f"{task.id}: {outcome.error or value}")
            found[task.id] = (value["cost"], value["comparisons"])
            print(f"{arch} {task.id}: {value['cost']['ratio']:.4f} x compulsory, {value['cost']['path']}", flush=True)
    return [found[task.id] for task in tasks]


def budget_row(row: JsonDict) -> JsonDict:
    """The budget row of a cost record."""
    return {
        "arch": row["arch"],
        "case": row["case"],
        "path": row["path"],
        **figures(row),
        "ratio": round(row["ratio"], 4),
    }


def changes(old: JsonDict, rows: list[JsonDict]) -> list[str]:
    """What the new rows allow beyond the old table."""
    before = {(row["arch"], row["case"]): row for row in old.get("rows", [])}
    lines = []
    for row in rows:
        known = before.get((row["arch"], row["case"]))
        for name in FIGURES:
            if known is not None and name in known and row[name] > known[name]:
                lines.append(f"{row['arch']} {row['case']}: {name} grows from {known[name]} to {row[name]}")
    return lines


def write(path: Path, table: JsonDict) -> None:
    """Check the table and put it in place of ``path``, whole or not at all."""
    import jsonschema

    jsonschema.validate(table, load_schema("budget"))
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(table, stream, indent=1)
        stream.write("\n")
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)


def main(argv: list[str] | None = None) -> int:
    """Entry point of the command."""
    parser = argparse.ArgumentParser(prog="python -m validation.ops.make_budget", description=__doc__)
    parser.add_argument("--jobs", type=int, default=default_jobs(), help="worker processes")
    parser.add_argument("--output", type=Path, default=TARGET, help="default: %(default)s")
    options: Any = parser.parse_args(argv)
    rows: list[JsonDict] = []
    broken: list[str] = []
    for arch in devices.ARCHES:
        for row, checks in measured(arch, options.jobs):
            rows.append(budget_row(row))
            failed = [check for check in checks if not check["passed"]]
            said = {check["output"]: f"{arch} {row['case']}: {check['output']}: {check['message']}" for check in failed}
            broken += [line for output, line in said.items() if output not in ELSEWHERE]
            for output in set(said) & set(ELSEWHERE) - {"budget"}:
                print(f"the cost stage will fail: {said[output]}", file=sys.stderr)
    if broken:
        print(f"not written, limits of {COMMAND}'s cost stage are broken:", *broken, sep="\n  ", file=sys.stderr)
        return 1
    old = json.loads(options.output.read_text()) if options.output.exists() else {}
    for line in changes(old, rows):
        print(line)
    command = "python -m validation.ops.make_budget"
    write(options.output, {"schema": "hcgr-budget/1", "command": command, "rows": rows})
    print(f"{options.output}: {len(rows)} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
