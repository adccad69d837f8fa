"""Take up results of ``hcgr-mutate``: one case a mutant, failed for a survivor.

Running the mutants takes minutes, so it is a command of its own; this stage checks that a result is of these very
sources and shows it. Without a result it is not run, and says so.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from validation.cases import Task, fragment
from validation.operation import JsonDict
from validation.stages import Request, find_planned

NAME = "mutants"
TITLE = "Mutants"
NEEDS = "emulated"
LEVEL = "emulated"
SETTLES = False
#: Why there is no case.
EMPTY = "no result of hcgr-mutate for this arch was given (--mutants RESULT)"

#: Outcomes that need no kill.
_REVIEWED = ("equivalent",)


def plan(request: Request) -> list[Task]:
    """One task for each mutant of the results that are on this arch; the sources must be those of the result."""
    tasks = []
    for path in request.mutants:
        result = _load(path)
        if result["arch"] != request.arch:
            continue
        options = ("--mutants", path)
        tasks.append(_gate(result, options))
        for record in result["mutants"]:
            kept = ("name", "outcome", "reason", "checks", "expected", "case", "paths", "rarity", "reports", "replay")
            payload = {key: record[key] for key in kept} | {"sources": result["source"]["digest"]}
            case_id = f"{NAME}.{record['name'].replace('/', '.')}"
            kind = {"class": record["class"]}
            tasks.append(Task(case_id, NAME, payload, (record["title"],), kind, options=options))
    return tasks


def _gate(result: JsonDict, options: tuple[str, ...]) -> Task:
    """One more task, for what no mutant shows by itself: kills by wrong checks, refuted and expired equivalences."""
    gate, chosen = result["gate"], result["selection"]
    partial = bool(chosen["mutants"] or chosen["classes"] or chosen["sample"] is not None or chosen["generated"])
    payload = {
        "gate": {key: gate[key] for key in ("min_kill_rate", "kill_rate", "counted", "reasons", "warnings")},
        "partial": partial,
        "outcome": result["verdict"]["result"],
        "sources": result["source"]["digest"],
    }
    why = f"the verdict of hcgr-mutate on {'a part' if partial else 'the whole'} of the corpus"
    return Task(f"{NAME}.gate", NAME, payload, (why,), {"class": "gate"}, options=options)


def find(request: Request, case_id: str) -> Task:
    """The task of that name; ``LookupError`` where no result holds it."""
    if not request.mutants:
        raise LookupError(f"no case {case_id!r}: {EMPTY}")
    return find_planned(plan(request), case_id)


@cache
def _load(path: str) -> JsonDict:
    """A result of ``hcgr-mutate``; ``LookupError`` says why it cannot be believed."""
    from datetime import date

    from validation.mutation.result import problems

    try:
        document: JsonDict = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LookupError(f"--mutants {path}: {error}") from error
    broken = problems(document, date.today())
    if broken:
        raise LookupError(f"--mutants {path}: {broken[0]}")
    return document


@cache
def _sources() -> str:
    from validation.mutation.edit import ROOT
    from validation.mutation.state import sources_digest

    return sources_digest(ROOT)


def execute(payload: JsonDict, context: Any) -> JsonDict:
    """Judge one mutant by its outcome."""
    facts = {key: value for key, value in payload.items() if key != "sources"}
    if payload["sources"] != _sources():
        return fragment("error", "the result is of other sources than these; run hcgr-mutate again", facts=facts)
    if "gate" in payload:
        reasons = "; ".join(payload["gate"]["reasons"])
        return fragment("pass", facts=facts) if payload["outcome"] == "PASS" else fragment("fail", reasons, facts=facts)
    if payload["outcome"] == "killed":
        return fragment("pass", facts=facts)
    reason = f"{payload['outcome']}: {payload['reason']}"
    if payload["outcome"] in _REVIEWED:
        return fragment("skip", reason, facts=facts)
    return fragment("fail", f"{reason}; replay: {payload['replay']}", facts=facts)
