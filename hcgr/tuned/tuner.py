"""Choosing table entries: evaluates candidates, keeps the fastest that is right, writes the table atomically."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hcgr.tuned import table

#: A candidate must beat the heuristic by more than this share of its time; less is noise, or a tie of the model.
MARGIN = 0.01


@dataclass(frozen=True)
class Candidate:
    """A plan, and the entry's fields that describe it.

    Attributes:
        plan: What an evaluator runs or models.
        fields: ``method`` and the tile, as :data:`hcgr.tuned.table.METHOD_COUNTS` lists them.
    """

    plan: Any
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Evaluation:
    """What running or modelling a plan gave.

    Attributes:
        seconds: Time of the call.
        worst: Largest error of any output as a share of its bound, NaN where an output is not finite though
            it should be; ``None`` for a model, which has no outputs.
    """

    seconds: float
    worst: float | None

    @property
    def sound(self) -> bool:
        """Whether the time is usable and the outputs are within their bounds."""
        right = self.worst is None or self.worst <= 1.0
        return right and math.isfinite(self.seconds) and self.seconds > 0


@dataclass(frozen=True)
class Job:
    """One entry to choose.

    Attributes:
        tokens: Its token count.
        shape: The entry's ``hc``, ``hidden``, ``n_pad`` and ``cus``.
        heuristic: The plan that runs without an entry.
        candidates: Plans to try.
    """

    tokens: int
    shape: Mapping[str, int]
    heuristic: Candidate
    candidates: Sequence[Candidate]


class InvalidTokenCountError(RuntimeError):
    """Not even the heuristic's plan is right for a token count, so nothing may be exported."""


Evaluator = Callable[[Any, int, int], Evaluation]


def tune(job: Job, evaluate: Evaluator, *, evidence: str, command: str) -> dict[str, Any]:
    """The entry of one job: the fastest sound candidate, or ``method: heuristic`` where that wins.

    Args:
        evaluate: ``evaluate(plan, tokens, n_pad)``.
        evidence: ``modelled`` or ``measured``.
        command: What was run.

    Raises:
        InvalidTokenCountError: if the heuristic's plan is unsound. A candidate that is unsound is passed over; an
            evaluator that raises stops the job.
        TunedTableError: if the winner is no valid entry.
    """

    def run(candidate: Candidate) -> Evaluation:
        return evaluate(candidate.plan, job.tokens, job.shape["n_pad"])

    reference = run(job.heuristic)
    if not reference.sound:
        raise InvalidTokenCountError(
            f"{job.tokens} tokens: the heuristic's plan {job.heuristic.plan} must give finite outputs within their "
            f"bounds, got {reference}"
        )
    winner, best = job.heuristic, reference.seconds * (1 - MARGIN)
    for candidate in job.candidates:
        result = run(candidate)
        if result.sound and result.seconds < best:
            winner, best = candidate, result.seconds
    entry = {**winner.fields, **job.shape, "evidence": evidence, "command": command}
    kind = "up_gate_mix" if winner.fields["method"] == "tile" else "k1"
    table.check_entry(str(job.tokens), kind, entry)
    return entry


def export(path: Path, arch: str, sections: Mapping[str, Mapping[str, Any]]) -> None:
    """Replace the sections of `arch` in the table at `path`, all or nothing.

    The file is written beside `path` and renamed over it, so a reader sees the old table or the new one.

    Raises:
        TunedTableError: if the result would be no valid table; the file is then as it was.
    """
    data = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    data[arch] = {**data.get(arch, {}), **sections}
    table.parse(data)
    text = json.dumps({name: data[name] for name in sorted(data)}, indent=1) + "\n"
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
