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
    again = judge(records, gate["min_kill_rate"], gate["max_wrong_check"], today, document["selection"]["generated"])
    if document["counts"] != summary.count(records) or document["default_run"] != summary.default_run(records):
        broken.append("counts are not what the mutants add up to")
    if document["checks"] != summary.checks(records) or document["classes"] != summary.classes(records):
        broken.append("checks or classes are not what the mutants add up to")
    if (gate["kill_rate"], document["verdict"]["result"]) != (again.kill_rate, again.result):
        broken.append(f"the gate says {document['verdict']['result']}, the mutants give {again.result}")
    if document["sentinel"]["outcome"] != "killed":
        broken.append("the forced failure was not seen")
    return broken


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
