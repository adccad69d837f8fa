"""What the correctness stage must call a failure, whatever else is right."""

from __future__ import annotations

from typing import Any

from validation.cases import comparison, fragment, stage_status
from validation.report.verdict import decide
from validation.stages.contract import image
from validation.stages.correctness import judge

_LAUNCH = {"kernel": "k", "workgroups_run": 1}
_FINDING = {"check": "memcheck", "message": "m", "source_file": None, "source_line": None}


def _evidence(**parts: Any) -> dict[str, Any]:
    good = {"findings": [], "comparisons": [comparison("x", "bound", True, "")], "launches": [_LAUNCH]}
    return good | parts


def judge_fails(arch: str) -> list[str]:
    """One clean record passes; each of its faults does not."""
    wrong = []
    if judge(_evidence(), [], True)[0] != "pass":
        wrong.append("a clean case does not pass")
    due = {
        "a finding": (judge(_evidence(findings=[_FINDING]), [], True), "fail"),
        "a failed comparison": (judge(_evidence(comparisons=[comparison("x", "bound", False, "m")]), [], True), "fail"),
        "a damaged guard": (judge(_evidence(), ["x"], True), "fail"),
        "a path not taken": (judge(_evidence(), [], True, ["fused"]), "fail"),
        "a launch that was not expected": (judge(_evidence(), [], False), "fail"),
        "a launch that was not seen": (judge(_evidence(launches=[]), [], True), "error"),
        "nothing compared": (judge(_evidence(comparisons=[]), [], True), "error"),
    }
    wrong += [f"{name} is {got[0]}, must be {want}" for name, (got, want) in due.items() if got[0] != want]
    wrong += _verdicts()
    return wrong


def _verdicts() -> list[str]:
    wrong = []
    counts = {"pass": 3, "fail": 1, "skip": 0, "error": 0, "total": 4}
    if stage_status(counts)[0] != "fail":
        wrong.append("a stage with a failed case does not fail")
    if stage_status(counts | {"fail": 0, "error": 1})[0] != "error":
        wrong.append("a stage with an error passes")
    if stage_status(dict.fromkeys(counts, 0))[0] != "skip":
        wrong.append("a stage without a case is not skipped")
    if fragment("fail", "x")["status"] != "fail":
        wrong.append("a failure is not kept")
    stage = {"name": "s", "settles": True, "evidence": "emulated", "counts": counts, "deselected": False, "reason": "r"}
    for status, want in (("fail", "FAIL"), ("error", "INCONCLUSIVE"), ("pass", "PASS")):
        verdict = decide([stage | {"status": status}], None, [])["result"]
        if verdict != want:
            wrong.append(f"a run whose only stage is {status} is {verdict}, must be {want}")
    only_compiled = stage | {"status": "pass", "evidence": "compile-only"}
    if decide([only_compiled], None, [])["result"] != "INCONCLUSIVE":
        wrong.append("compiling alone settles something")
    import torch

    row = torch.zeros(2, 8)[:, :4]
    before = image(row)
    row.as_strided((12,), (1,))[5] = 1.0
    if image(row) == before:
        wrong.append("a byte changed between the rows of a view goes unseen")
    return wrong
