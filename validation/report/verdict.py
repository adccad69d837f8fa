"""The verdict of a report, as a pure function of its stages: the builder and the checker both call it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from validation import devices
from validation.base import compare
from validation.operation import JsonDict

EXIT_CODES = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3}
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def evidence_level(stages: Sequence[Mapping[str, Any]]) -> str:
    """The evidence that a verdict over ``stages`` rests on.

    The weakest level among the stages that settle something and executed; without such a stage, the strongest
    level that any other executed stage gave.
    """
    executed = [stage for stage in stages if stage["counts"]["pass"] + stage["counts"]["fail"]]
    settling = [stage["evidence"] for stage in executed if stage["settles"]]
    if settling:
        return devices.weakest(settling)
    return max((stage["evidence"] for stage in executed), key=devices.rank, default="none")


def _elsewhere(stage: Mapping[str, Any]) -> bool:
    """Whether all cases of a stage fall into other shards."""
    return bool(stage["planned"]) and not stage["counts"]["total"]


def _policy(base: Mapping[str, Any] | None) -> list[str]:
    """What the change did to the judge, as far as nobody has accepted it."""
    return [
        f"policy: {finding['what']}: {finding['name']}: {finding['base'] or 'none'} -> {finding['head'] or 'none'}"
        for finding in (base["policy"] if base else ())
        if not finding["accepted"]
    ]


def decide(
    stages: Sequence[Mapping[str, Any]],
    required: str | None,
    partial: Sequence[str],
    base: Mapping[str, Any] | None = None,
) -> JsonDict:
    """PASS, FAIL or INCONCLUSIVE, with its evidence, its reasons and its exit code.

    ``required`` is the evidence that the caller insists on; ``partial`` says what the caller left out by choice,
    which narrows the scope of a verdict but does not prevent it. With a ``base``, a stage does not fail by cases that
    fail there too, and a policy finding that nobody accepted prevents PASS.
    """
    level = evidence_level(stages)
    red = [stage for stage in stages if stage["status"] == "fail"]
    failed = [f"{stage['name']}: {stage['reason']}" for stage in red if not compare.excused(stage, base)]
    uncharged = [
        f"{stage['name']}: {stage['reason']}, each of them on the base too: not charged to the change"
        for stage in red
        if compare.excused(stage, base)
    ]
    open_points = [f"{stage['name']}: {stage['reason']}" for stage in stages if stage["status"] == "error"]
    open_points += [
        f"{stage['name']}: {stage['counts']['error']} cases could not be carried out"
        for stage in red
        if compare.excused(stage, base) and stage["counts"]["error"]
    ]
    open_points += [
        f"{stage['name']}: not executed: {stage['reason']}"
        for stage in stages
        if stage["status"] == "skip" and stage["settles"] and not stage["deselected"] and not _elsewhere(stage)
    ]
    if not devices.meets(level, "emulated"):
        open_points.append(f"no kernel was executed: {level} evidence settles nothing")
    if required is not None and not devices.meets(level, required):
        open_points.append(f"{required} evidence is required, the run gave {level}")
    open_points += _policy(base)
    result = "FAIL" if failed else "INCONCLUSIVE" if open_points else "PASS"
    scope = "partial" if partial else "full"
    on_both = len(base["red"][compare.RED_ON_BOTH]) if base else 0
    words = [level, *(["partial"] if partial else []), *([f"{on_both} red on the base too"] if on_both else [])]
    text = f"{result} ({', '.join(words)})"
    return {
        "result": result,
        "evidence": level,
        "scope": scope,
        "text": text,
        "left_out": list(partial),
        "reasons": failed + open_points + uncharged,
        "exit_code": EXIT_CODES[result],
    }
