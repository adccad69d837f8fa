"""The JSON result of a run: derived, checked against its schema and against itself, written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema

from schemas import load_schema
from validation.mutation import summary
from validation.mutation.engine import Result
from validation.mutation.gate import judge
from validation.operation import JsonDict
from validation.report.verdict import EXIT_CODES

SCHEMA = "hcgr-mutation/1"


class InvalidResultError(ValueError):
    """A result that contradicts its schema or itself."""


def build(
    header: Mapping[str, Any],
    result: Result,
    min_kill_rate: float,
    max_wrong_check: int,
    today: date,
) -> JsonDict:
    """The whole document. ``header``: arch, command, times, jobs, environment, source, selection."""
    generated = bool(header["selection"]["generated"])
    verdict = judge(result.mutants, min_kill_rate, max_wrong_check, today, generated)
    gate = asdict(verdict)
    outcome = gate.pop("result")
    children = [*result.mutants, result.sentinel]
    cpu = sum(record["cpu_s"] for record in children) + sum(record["seconds"] for record in result.clean)
    clean = [{key: record[key] for key in ("trial", "case", "status", "seconds")} for record in result.clean]
    return {
        "schema": SCHEMA,
        **header,
        "cpu_s": round(cpu, 2),
        "resumed": result.resumed,
        "clean": clean,
        "sentinel": result.sentinel,
        "mutants": result.mutants,
        "counts": summary.count(result.mutants),
        "default_run": summary.default_run(result.mutants),
        "checks": summary.checks(result.mutants),
        "classes": summary.classes(result.mutants),
        "gate": {"min_kill_rate": min_kill_rate, "max_wrong_check": max_wrong_check, **gate},
        "verdict": {"result": outcome, "exit_code": EXIT_CODES[outcome]},
    }


def problems(document: Mapping[str, Any], today: date) -> list[str]:
    """Every way in which a result breaks its schema or, if it does not, contradicts itself."""
    validator = jsonschema.Draft202012Validator(load_schema("mutation"))
    broken = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]
    if broken:
        return broken
    records, gate = document["mutants"], document["gate"]
    broken += [f"{record['name']}: {what}" for record in records for what in _contradictions(record)]
    again = judge(records, gate["min_kill_rate"], gate["max_wrong_check"], today, document["selection"]["generated"])
    if document["counts"] != summary.count(records) or document["default_run"] != summary.default_run(records):
        broken.append("counts are not what the mutants add up to")
    if document["checks"] != summary.checks(records) or document["classes"] != summary.classes(records):
        broken.append("checks or classes are not what the mutants add up to")
    said = document["verdict"]
    if (gate["kill_rate"], said["result"], said["exit_code"]) != (
        again.kill_rate,
        again.result,
        EXIT_CODES[again.result],
    ):
        broken.append(f"the gate says {said['result']} ({said['exit_code']}), the mutants give {again.result}")
    elif (gate["counted"], gate["reasons"], gate["warnings"]) != (again.counted, again.reasons, again.warnings):
        broken.append("the gate's reasons or warnings are not those that the mutants give")
    if document["sentinel"]["outcome"] != "killed":
        broken.append("the forced failure was not seen")
    return broken


def _contradictions(record: Mapping[str, Any]) -> list[str]:
    """What a record says of a mutant that cannot be so: a kill without a check, or one that its trials do not show."""
    killed = record["outcome"] == "killed"
    fired = {check for trial in record["trials"] if trial["status"] == "fail" for check in trial["checks"]}
    right = bool(set(record["expected"]) & set(record["checks"])) if killed and record["expected"] else None
    wrong = []
    if killed != bool(record["checks"]):
        wrong.append(f"{record['outcome']}, with checks {record['checks']}")
    if not set(record["checks"]) <= fired:
        wrong.append(f"checks {record['checks']}, its trials show {sorted(fired)}")
    if record["right_check"] != right:
        wrong.append(f"right_check is {record['right_check']}, must be {right}")
    return wrong


def write(path: Path, document: Mapping[str, Any], today: date) -> None:
    """Check ``document`` and put it at ``path``; on any failure ``path`` stays as it was.

    Raises:
        InvalidResultError: if it does not hold together.
    """
    found = problems(document, today)
    if found:
        raise InvalidResultError(f"invalid result: {found[0]}")
    target = path.resolve()
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(document, stream, indent=1, ensure_ascii=False, allow_nan=False)
            stream.write("\n")
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
