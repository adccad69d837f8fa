"""What a comparison says, derived from the head's cases and the base's records of them. Pure: no run, no files.

The builder of a report and its checker both call :func:`derive`, so that no count in a report is taken on trust.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from validation.operation import JsonDict

#: Stages whose cases run, or build, the code under test.
STAGES = ("compile", "correctness", "contract", "cost", "protocol")

RUN, SAME_CODE, NOT_RUN = "run", "same code", "not run"

#: What can be said of a case, the worst for the change first.
NEWLY_RED, RED_ON_BOTH, NEWLY_GREEN = "newly red", "red on both", "newly green"
GREEN_ON_BOTH, NOT_COMPARABLE = "green on both", "not comparable"
CHANGES = (NEWLY_RED, RED_ON_BOTH, NEWLY_GREEN, GREEN_ON_BOTH, SAME_CODE, NOT_COMPARABLE)

#: By status on the base and on the head. An error says nothing about the code, and so excuses nothing.
_CHANGES = {
    ("pass", "pass"): GREEN_ON_BOTH,
    ("fail", "pass"): NEWLY_GREEN,
    ("fail", "fail"): RED_ON_BOTH,
    ("pass", "fail"): NEWLY_RED,
    ("pass", "error"): NEWLY_RED,
}

#: Figures of a case that are counted, and of which less is better.
FIGURES = ("lines", "bytes", "mfma", "instructions")


def record(case: Mapping[str, Any], how: str, reason: str = "") -> JsonDict:
    """What a report keeps of a case on the base: its status if it ran there, what it computed and what it cost."""
    ran = how == RUN
    return {
        "id": case["id"],
        "how": how,
        "status": case["status"] if ran else None,
        "reason": case["reason"] if ran else reason,
        "outputs": dict(case["facts"].get("outputs", {})) if ran else {},
        "code": dict(case["facts"].get("code", {})) if ran else {},
        "figures": figures(case) if ran else {},
    }


def figures(case: Mapping[str, Any]) -> dict[str, int]:
    """What one case counted: lines and bytes moved and matrix instructions of a cost case, else instructions run."""
    cost = case["cost"]
    if cost is not None:
        lines = sum(each["read"] + each["written"] for each in cost["lines"].values())
        return {"lines": lines, "bytes": cost["bytes_moved"], "mfma": cost["mfma"]}
    counted = [launch["instructions"] for launch in case["launches"]]
    if case["stage"] != "correctness" or not counted or None in counted:
        return {}
    return {"instructions": sum(counted)}


def change(base: Mapping[str, Any], head: Mapping[str, Any]) -> str:
    """One of :data:`CHANGES`, for a case."""
    if base["how"] == SAME_CODE:
        return SAME_CODE
    return _CHANGES.get((base["status"], head["status"]), NOT_COMPARABLE)


def why_not(base: Mapping[str, Any], head: Mapping[str, Any]) -> str:
    """The reason why a case is :data:`NOT_COMPARABLE`."""
    if base["how"] == NOT_RUN:
        return str(base["reason"])
    if base["status"] in ("error", "skip"):
        return f"{base['status']} on the base: {base['reason']}"
    return f"{head['status']} on the head: {head['reason']}"


def compared_cases(stages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The head's cases that a comparison speaks of, in the report's order."""
    return [case for stage in stages if stage["name"] in STAGES for case in stage["cases"]]


def derive(stages: Sequence[Mapping[str, Any]], base_cases: Sequence[Mapping[str, Any]]) -> JsonDict:
    """Everything that follows from the cases of both: counts and names by change, kernels, outputs, ratios.

    ``not_comparable`` groups by reason: how many cases, and the first.
    """
    by_id = {each["id"]: each for each in base_cases}
    pairs = [(by_id[head["id"]], head) for head in compared_cases(stages) if head["id"] in by_id]
    named: dict[str, list[str]] = {name: [] for name in CHANGES}
    reasons: dict[str, list[str]] = {}
    for base, head in pairs:
        what = change(base, head)
        named[what].append(head["id"])
        if what == NOT_COMPARABLE:
            reasons.setdefault(why_not(base, head), []).append(head["id"])
    return {
        "counts": {name: len(ids) for name, ids in named.items()},
        "red": {name: named[name] for name in (NEWLY_RED, RED_ON_BOTH, NEWLY_GREEN)},
        "not_comparable": [{"reason": why, "cases": len(ids), "first": ids[0]} for why, ids in reasons.items()],
        "kernels": _kernels(pairs),
        "outputs": _outputs(pairs),
        "ratios": list(_ratios(pairs)),
    }


_Pairs = Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]


def _kernels(pairs: _Pairs) -> JsonDict:
    """Kernels by variant: machine code that is the same, that differs, that only one of both has."""
    found: dict[str, list[str]] = {"identical": [], "different": [], "only_head": [], "only_base": []}
    for base, head in pairs:
        if head["stage"] != "compile" or base["status"] != "pass" or head["status"] != "pass":
            continue
        old, new = base["code"], head["facts"].get("code", {})
        for kernel in sorted(old.keys() | new.keys()):
            name = f"{head['id'].removeprefix('compile.')}: {kernel}"
            kind = "only_head" if kernel not in old else "only_base" if kernel not in new else "different"
            found["identical" if old.get(kernel) == new.get(kernel) else kind].append(name)
    return {"identical": len(found.pop("identical")), **found}


def _outputs(pairs: _Pairs) -> JsonDict:
    """Cases run on both whose outputs are the same bits, differ, or were not hashed."""
    found: dict[str, list[str]] = {"identical": [], "different": [], "unknown": []}
    for base, head in pairs:
        executed = base["status"] in ("pass", "fail") and head["status"] in ("pass", "fail")
        if head["stage"] == "correctness" and executed:
            old, new = base["outputs"], head["facts"].get("outputs", {})
            known = bool(old) and bool(new)
            found["unknown" if not known else "identical" if old == new else "different"].append(head["id"])
    return {"identical": len(found["identical"]), "different": found["different"], "unknown": len(found["unknown"])}


def _ratios(pairs: _Pairs) -> Iterator[JsonDict]:
    """Head over base: each figure of each cost case, and instructions run in all other cases, by path."""
    totals: dict[str, Counter[str]] = {}
    for base, head in pairs:
        old, new = base["figures"], figures(head)
        if "instructions" in old and "instructions" in new:
            where = "+".join(head["facts"].get("paths", ())) or "no path named"
            totals.setdefault(where, Counter()).update(cases=1, base=old["instructions"], head=new["instructions"])
        for name in ("lines", "bytes", "mfma"):
            if name in old and name in new:
                yield _ratio(head["id"], name, old[name], new[name])
    for where, total in totals.items():
        plural = "" if total["cases"] == 1 else "s"
        yield _ratio(f"{where} ({total['cases']} case{plural})", "instructions", total["base"], total["head"])


def _ratio(what: str, figure: str, base: int, head: int) -> JsonDict:
    return {"what": what, "figure": figure, "base": base, "head": head, "ratio": head / base if base else None}


def excused(stage: Mapping[str, Any], comparison: Mapping[str, Any] | None) -> bool:
    """Whether every failing case of ``stage`` fails on the base too."""
    if comparison is None:
        return False
    failing = {case["id"] for case in stage["cases"] if case["status"] == "fail"}
    return bool(failing) and failing <= set(comparison["red"][RED_ON_BOTH])
