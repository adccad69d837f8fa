"""Who did the work of a run: what a report may say of its executor, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from validation import cases


def executor_problems(report: Mapping[str, Any]) -> Iterator[str]:
    """Every way in which the executor of a report contradicts the report, or itself."""
    record = report["workers"].get("executor")
    if record is None:
        return
    ran = cases.count(case for stage in report["stages"] for case in stage["cases"])["total"]
    yield from contradictions(record, ran)


def contradictions(record: Mapping[str, Any], ran: int) -> Iterator[str]:
    """Every way in which an executor's record contradicts itself, or that ``ran`` tasks were run."""
    workers, again = record["workers"], record.get("again_alone", 0)
    if record["name"] == "local":
        if workers or record["lost"] or record["refused"] or record["machines"] != 1 or record["scheduler"] or again:
            yield "executor: local is this machine alone, and has no other workers"
        return
    took_part = {worker["machine"] for worker in workers if worker["cases"]}
    if record["machines"] != len(took_part):
        yield f"executor: {record['machines']} machines took part, its workers are of {len(took_part)}"
    lost = sum(worker["lost"] for worker in workers)
    if record["lost"] != lost:
        yield f"executor: {record['lost']} workers were lost, {lost} are listed as that"
    answered = sum(worker["cases"] for worker in workers)
    if answered > ran:
        yield f"executor: its workers ended {answered} cases, the run has {ran}"


def executor_lines(record: Mapping[str, Any] | None) -> list[str]:
    """Who took part, in words; none for a run on this machine alone."""
    return [] if record is None or record["name"] == "local" else list(_lines(record))


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    workers, machines = sum(worker["cases"] > 0 for worker in record["workers"]), record["machines"]
    by = f"{workers} Dask worker{'' if workers == 1 else 's'} on {machines} machine{'' if machines == 1 else 's'}"
    lost = f", {record['lost']} lost on the way" if record["lost"] else ""
    yield f"run by {by}{lost} ({record['scheduler']}, distributed {record['version']})"
    if again := record.get("again_alone", 0):
        yield f"  {again} case{'' if again == 1 else 's'} ran again, alone: a worker was lost while it ran several"
    yield from (f"  refused {entry['name']}: {entry['reason']}" for entry in record["refused"])
