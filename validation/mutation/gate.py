"""Whether the outcomes of a run are good enough, and why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

from validation.operation import JsonDict

#: Share of the hand-written mutants that must be killed, unless the caller says otherwise.
MIN_KILL_RATE = 1.0
#: Mutants that may be killed by another check than their own, unless the caller says otherwise.
MAX_WRONG_CHECK = 3


@dataclass(frozen=True)
class Verdict:
    """``result`` PASS or FAIL; ``kill_rate`` of those that count, ``None`` if none does."""

    result: str
    kill_rate: float | None
    counted: int
    reasons: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def counts(record: JsonDict, generated: bool) -> bool:
    """Whether a mutant is in the denominator. A reviewed equivalent is not.

    Nor is a generated one that cannot be built or compiles to the original's code: its operator does not know FlyDSL.
    A hand-written one of that kind is a mistake in the corpus.
    """
    left_out = ("equivalent", "invalid", "same-isa") if generated else ("equivalent",)
    return record["outcome"] not in left_out


def judge(
    records: Sequence[JsonDict], min_kill_rate: float, max_wrong_check: int, today: date, generated: bool = False
) -> Verdict:
    """Judge the records of a run."""
    counted = [record for record in records if counts(record, generated)]
    killed = [record for record in counted if record["outcome"] == "killed"]
    rate = len(killed) / len(counted) if counted else None
    reasons: list[str] = []
    if rate is None:
        reasons.append(f"none of {len(records)} mutants counts: nothing was measured")
    elif rate < min_kill_rate:
        names = [f"{record['name']} ({record['outcome']})" for record in counted if record["outcome"] != "killed"]
        reasons.append(
            f"{len(killed)} of {len(counted)} killed, {rate:.1%} is below {min_kill_rate:.1%}: {', '.join(names)}"
        )
    for record in records:
        if record["expires"] is None:
            continue
        if record["outcome"] == "killed":
            reasons.append(f"{record['name']} is called equivalent, but killed by {', '.join(record['checks'])}")
        elif date.fromisoformat(record["expires"]) < today:
            reasons.append(f"{record['name']}: its equivalence was reviewed until {record['expires']}; review it again")
    warnings = [
        f"{record['name']} was killed by {', '.join(record['checks'])}, not by {', '.join(record['expected'])}"
        for record in records
        if record["right_check"] is False
    ]
    if len(warnings) > max_wrong_check:
        reasons.append(f"{len(warnings)} mutants were killed by another check than their own, {max_wrong_check} may be")
    return Verdict("FAIL" if reasons else "PASS", rate, len(counted), reasons, warnings)
