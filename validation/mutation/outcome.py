"""From what became of a mutant's trials to its outcome. Pure functions, so that the rules can be read and tested."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from validation.mutation.manifest import Mutant
from validation.mutation.trials import Trial
from validation.operation import JsonDict

COMMAND = "hcgr-mutate"

#: Only ``killed`` counts as one. ``same-isa``: its kernels compile to the original's machine code in every trial.
OUTCOMES = ("killed", "survived", "timeout", "crashed", "invalid", "equivalent", "same-isa")

#: What the clean run knows of a trial: digests of the machine code that it launched.
Clean = Mapping[tuple[Any, ...], tuple[str, ...]]


def replay(mutant: Mutant, arch: str, options: Sequence[str] = ()) -> str:
    """The command that runs this mutant alone, with the options that it takes to find it."""
    return shlex.join([COMMAND, "--arch", arch, *options, "--mutant", mutant.name])


def classify(mutant: Mutant, answer: JsonDict, clean: Clean, today: date) -> JsonDict:
    """Outcome of a mutant whose child answered ``answer`` (see :func:`validation.mutation.forked.execute`).

    Returns:
        ``outcome``, ``reason``, the ``checks`` that fired, and the ``trial`` and ``case`` that saw it.
    """
    records = answer["trials"]
    failed = next((record for record in records if record["status"] == "fail"), None)
    fired = list(dict.fromkeys(check for r in records if r["status"] == "fail" for check in r["checks"]))
    result: JsonDict = {"checks": [], "trial": None, "case": None}
    if _same_code(mutant, records, clean):
        return result | _survivor(mutant, "same-isa", "its kernels are the original's machine code", today)
    if failed is not None:
        return result | {
            "outcome": "killed",
            "reason": failed["reason"],
            "checks": fired,
            "trial": failed["trial"],
            "case": failed["case"],
        }
    if answer["ended"] != "done":
        return result | {"outcome": answer["ended"], "reason": answer["reason"]}
    odd = next((record for record in records if record["status"] != "pass"), None)
    if odd is not None:
        what = "invalid" if odd["invalid"] else "crashed"
        return result | {"outcome": what, "reason": f"{odd['trial']}: {odd['reason']}"}
    if len(records) != len(mutant.trials):
        return result | {"outcome": "crashed", "reason": f"{len(records)} of {len(mutant.trials)} trials were run"}
    return result | _survivor(mutant, "survived", "every trial passes", today)


def _survivor(mutant: Mutant, outcome: str, reason: str, today: date) -> JsonDict:
    claim = mutant.equivalent
    if claim is not None and today <= claim.expires:
        return {"outcome": "equivalent", "reason": f"reviewed until {claim.expires}: {claim.reason}"}
    return {"outcome": outcome, "reason": reason}


def _same_code(mutant: Mutant, records: list[JsonDict], clean: Clean) -> bool:
    """Whether a kernel mutant launched kernels, and exactly the original's, in every trial that launches any."""
    if mutant.kind != "kernel" or not records:
        return False
    by_name = {trial.name: trial for trial in mutant.trials}
    pairs = [(tuple(record["code"]), clean.get(by_name[record["trial"]].settings, ())) for record in records]
    launching = [(got, original) for got, original in pairs if original]
    return bool(launching) and all(got == original for got, original in launching)


def record_of(mutant: Mutant, arch: str, answer: JsonDict, clean: Clean, today: date) -> JsonDict:
    """The report's record of a mutant."""
    result = classify(mutant, answer, clean, today)
    right = None
    if result["outcome"] == "killed" and mutant.checks:
        right = bool(set(mutant.checks) & set(result["checks"]))
    return {
        "name": mutant.name,
        "class": mutant.defect_class,
        "title": mutant.title,
        "kind": mutant.kind,
        "paths": list(mutant.paths),
        "reports": list(mutant.reports),
        "rarity": mutant.rarity,
        "expected": list(mutant.checks),
        "right_check": right,
        "expires": mutant.equivalent.expires.isoformat() if mutant.equivalent else None,
        "digest": mutant.digest,
        **result,
        "trials": [{key: r[key] for key in ("trial", "case", "status", "checks", "seconds")} for r in answer["trials"]],
        "cpu_s": answer["cpu_s"],
        "replay": replay(mutant, arch),
    }


def invalid_answer(reason: str) -> JsonDict:
    """The answer for a mutant that never reached a child."""
    return {"trials": [], "ended": "invalid", "reason": reason, "cpu_s": 0.0, "peak_mib": 0}


def crashed_answer(reason: str) -> JsonDict:
    """The answer for a mutant whose worker died with it."""
    return {"trials": [], "ended": "crashed", "reason": reason, "cpu_s": 0.0, "peak_mib": 0}


def clean_trials(records: list[JsonDict], trials: Mapping[str, Trial]) -> dict[tuple[Any, ...], tuple[str, ...]]:
    """Settings of each trial to the machine code of its clean run."""
    return {trials[record["trial"]].settings: tuple(record["code"]) for record in records}
