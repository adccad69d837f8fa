"""The records of a report: one for each case, one for each stage; and the identity and replay of a case."""

from __future__ import annotations

import hashlib
import math
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from validation.operation import JsonDict

#: ``pass``: executed, and every check held. ``fail``: the code under test is at fault. ``skip``: not executed, for
#: the reason given. ``error``: we (or the compiler) broke down; nothing is known about the code under test.
STATUSES = ("pass", "fail", "skip", "error")

COMMAND = "hcgr-validate"


@dataclass(frozen=True)
class Task:
    """One unit of work for a worker: ``payload`` is what its stage's ``execute`` is given.

    Tasks of one ``group`` go to one worker as long as that leaves none idle: it has their kernels already.
    ``options``: what the command line must hold for this task to exist, beside what :func:`replay_command` gives it.
    """

    id: str
    stage: str
    payload: JsonDict
    why: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    timeout_s: float = 120.0
    group: str = ""
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What became of a task. ``value`` is the stage's fragment; ``error`` the reason there is none."""

    value: JsonDict | None
    error: str = ""
    detail: str = ""
    duration_s: float = 0.0


def case_seed(run_seed: int, case_id: str) -> int:
    """The seed of one case: a function of the run's seed and the case's name alone, so replay is exact."""
    digest = hashlib.sha256(f"{run_seed}/{case_id}".encode()).digest()
    return int.from_bytes(digest[:6], "little")


def replay_command(
    operation: str, arch: str, case_id: str, seed: int, level: str = "default", options: Iterable[str] = ()
) -> str:
    """The command that runs this case alone; ``options``: its task's."""
    words = [COMMAND, "--arch", arch, "--case", case_id, "--seed", str(seed), *options]
    if level != "default":
        words += ["--level", level]
    if operation != "hcgr":
        words[1:1] = ["--op", operation]
    return shlex.join(words)


def comparison(output: str, tier: str, passed: bool, message: str, **figures: Any) -> JsonDict:
    """One check against the oracle (or of the shape, or of what was written).

    ``figures`` may hold ``elements``, ``max_abs_error``, ``max_ratio`` (worst error ÷ bound), ``ratio_p50``,
    ``ratio_p99``, ``mean_signed_error`` and ``worst_index``.
    """
    known = ("elements", "max_abs_error", "max_ratio", "ratio_p50", "ratio_p99", "mean_signed_error", "worst_index")
    unknown = set(figures) - set(known)
    if unknown:
        raise TypeError(f"unknown figures: {', '.join(sorted(unknown))} (known: {', '.join(known)})")
    record: JsonDict = {"output": output, "tier": tier, "passed": bool(passed), "message": message}
    return record | {name: figures.get(name) for name in known}


def fragment(status: str, reason: str = "", **parts: Any) -> JsonDict:
    """What a stage's ``execute`` returns: a status, a reason, and any of the lists of a case record."""
    if status not in STATUSES:
        raise ValueError(f"status is {status!r}, must be one of: {', '.join(STATUSES)}")
    if status != "pass" and not reason:
        raise ValueError(f"a {status} needs a reason")
    return {"status": status, "reason": reason} | parts


def case_record(task: Task, outcome: Outcome, replay: str) -> JsonDict:
    """The report's record of a task that was executed, or tried."""
    value = outcome.value or fragment("error", outcome.error)
    record: JsonDict = {
        "id": task.id,
        "stage": task.stage,
        "status": value["status"],
        "reason": value["reason"],
        "why": list(task.why),
        "params": dict(task.params),
        "seed": task.seed,
        "duration_s": round(outcome.duration_s, 4),
        "replay": replay,
        "detail": value.get("detail") or outcome.detail,
        "comparisons": value.get("comparisons", []),
        "launches": value.get("launches", []),
        "findings": value.get("findings", []),
        "resources": value.get("resources", []),
        "facts": value.get("facts", {}),
        "cost": value.get("cost"),
        "protocol": value.get("protocol"),
    }
    return sanitise(record)


def count(records: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many records have each status, and how many there are."""
    counts = dict.fromkeys(STATUSES, 0)
    for record in records:
        counts[record["status"]] += 1
    return counts | {"total": sum(counts.values())}


def stage_status(counts: Mapping[str, int], reason: str = "") -> tuple[str, str]:
    """Status and reason of a stage, from its cases alone. A stage that executed nothing is never a pass."""
    if counts["fail"]:
        return "fail", f"{counts['fail']} of {counts['total']} cases failed"
    if counts["error"]:
        return "error", f"{counts['error']} of {counts['total']} cases could not be carried out"
    if counts["pass"]:
        return "pass", ""
    return "skip", reason or "nothing was executed"


def cut(text: str, most: int) -> str:
    """``text`` in at most so many characters; dots stand for the rest of a longer one."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def sanitise(value: Any) -> Any:
    """What JSON in UTF-8 can hold: NaN and infinity become ``nan``, ``inf`` and ``-inf``, lone surrogates ``?``."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {str(key): sanitise(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [sanitise(item) for item in value]
    return value
