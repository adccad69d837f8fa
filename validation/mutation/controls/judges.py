"""What the stages must call a failure, whatever else is right."""

from __future__ import annotations

from typing import Any

from validation.cases import comparison, fragment, stage_status
from validation.operation import ContractCall, ContractRow, load_operation
from validation.ops import cost_cases
from validation.report.verdict import decide
from validation.stages.contract import checks_of, image
from validation.stages.correctness import judge

_LAUNCH = {"kernel": "k", "grid": [2, 1, 1], "workgroups_run": 2, "arguments": {"x": "float32[2,8]"}}
_FINDING = {"check": "memcheck", "message": "m", "source_file": None, "source_line": None}


def _evidence(**parts: Any) -> dict[str, Any]:
    check = comparison("x", "bound", True, "", elements=1)
    return {"findings": [], "comparisons": [check], "launches": [_LAUNCH]} | parts


def judge_fails(arch: str) -> list[str]:
    """One clean record passes; each of its faults does not."""
    wrong = []
    if judge(_evidence(), [], True, (), True, {"x": [2, 8]})[0] != "pass":
        wrong.append("a clean case does not pass")
    due = {
        "a finding": (judge(_evidence(findings=[_FINDING]), [], True), "fail"),
        "a failed comparison": (judge(_evidence(comparisons=[comparison("x", "bound", False, "m")]), [], True), "fail"),
        "a damaged guard": (judge(_evidence(), ["x"], True), "fail"),
        "a path not taken": (judge(_evidence(), [], True, ["fused"]), "fail"),
        "another shape": (judge(_evidence(), [], True, shapes={"x": [4, 8]}), "fail"),
        "no receipt of a shape": (judge(_evidence(), [], True, shapes={"y": [4]}), "fail"),
        "a launch that was not expected": (judge(_evidence(), [], False), "fail"),
        "a launch that was not seen": (judge(_evidence(launches=[]), [], True), "error"),
        "half a launch": (judge(_evidence(launches=[_LAUNCH | {"workgroups_run": 1}]), [], True, (), True), "error"),
        "nothing compared": (judge(_evidence(comparisons=[]), [], True), "error"),
        "no element compared": (judge(_evidence(comparisons=[comparison("x", "form", True, "")]), [], True), "error"),
    }
    wrong += [f"{name} is {got[0]}, must be {want}" for name, (got, want) in due.items() if got[0] != want]
    return [*wrong, *_refusals(), *_limits(arch), *_verdicts()]


def _refusals() -> list[str]:
    """A contract row wants its own error, in the words that it names; anything else is no refusal."""
    row = ContractRow("r", "a bad argument", "ValueError", ("residual", "bfloat16"))
    call = ContractCall(lambda: None, ())
    due = {
        "the refusal that is due": (ValueError("residual must be bfloat16"), True),
        "another error": (RuntimeError("residual must be bfloat16"), False),
        "a refusal that leaves out what is accepted": (ValueError("residual is wrong"), False),
        "no refusal": (None, False),
    }
    wrong = []
    for name, (raised, want) in due.items():
        if all(check["passed"] for check in checks_of(row, raised, call, None)) != want:
            wrong.append(f"{name} is {'refused' if want else 'accepted'} by the contract stage")
    return wrong


def _limits(arch: str) -> list[str]:
    """Nothing spills or flushes a cache, and the traffic limits are those of the op's specification."""
    operation = load_operation("hcgr")
    wrong = [
        f"{entry.name}: {name} may be {entry.limits.get(name, 'anything')}, must be 0"
        for entry in operation.entry_points
        for name in ("vgpr_spills", "sgpr_spills", "scratch_bytes", "cache_flushes")
        if entry.limits.get(name) != 0
    ]
    for m, most in ((512, 1.35), (2047, 1.35), (2048, 1.20), (65536, 1.20)):
        given = cost_cases.limit(m)
        if given != most:
            wrong.append(f"traffic of {m} rows may be {given} times compulsory, must be {most}")
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
