"""The verdict of a report, as a pure function of its stages: the builder and the checker both call it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from validation import devices
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


def decide(stages: Sequence[Mapping[str, Any]], required: str | None, partial: Sequence[str]) -> JsonDict:
    """PASS, FAIL or INCONCLUSIVE, with its evidence, its reasons and its exit code.

    ``required`` is the evidence that the caller insists on; ``partial`` says what the caller left out by choice,
    which narrows the scope of a verdict but does not prevent it.
    """
    level = evidence_level(stages)
    failed = [f"{stage['name']}: {stage['reason']}" for stage in stages if stage["status"] == "fail"]
    open_points = [f"{stage['name']}: {stage['reason']}" for stage in stages if stage["status"] == "error"]
    open_points += [
        f"{stage['name']}: not executed: {stage['reason']}"
        for stage in stages
        if stage["status"] == "skip" and stage["settles"] and not stage["deselected"] and not _elsewhere(stage)
    ]
    if not devices.meets(level, "emulated"):
        open_points.append(f"no kernel was executed: {level} evidence settles nothing")
    if required is not None and not devices.meets(level, required):
        open_points.append(f"{required} evidence is required, the run gave {level}")
    result = "FAIL" if failed else "INCONCLUSIVE" if open_points else "PASS"
    scope = "partial" if partial else "full"
    text = f"{result} ({level})" if scope == "full" else f"{result} ({level}, partial)"
    return {
        "result": result,
        "evidence": level,
        "scope": scope,
        "text": text,
        "left_out": list(partial),
        "reasons": failed + open_points,
        "exit_code": EXIT_CODES[result],
    }
