"""What a comparison with a base may say in a report, and how it is shown in lines."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from validation.base import compare, perf
from validation.base.revision import SHORT
from validation.base.shortcut import EVIDENCE, EVIDENCE_WITHOUT_KERNELS

_SHOWN = 6


def base_problems(report: Mapping[str, Any]) -> Iterator[str]:
    """Every way in which the comparison contradicts the head's cases, or itself."""
    base = report.get("base")
    if base is None:
        return
    heads = compare.compared_cases(report["stages"])
    if [each["id"] for each in base["cases"]] != [each["id"] for each in heads]:
        yield "the base's cases are not those of the head, each once and in their order"
        return
    derived = compare.derive(report["stages"], base["cases"])
    for name, value in derived.items():
        if base[name] != value:
            yield f"base: {name} is not what the cases of both add up to"
    if sum(base["counts"].values()) != len(heads):
        yield f"base: counts add up to {sum(base['counts'].values())}, there are {len(heads)} cases"
    names = [finding["name"] for finding in base["policy"]]
    if len(set(names)) != len(names):
        yield "base: a policy finding appears more than once"
    green = {each["id"]: "" for each, head in zip(base["cases"], heads, strict=True) if _green(each, head)}
    yield from perf.problems(base["perf"], report["evidence"]["level"], green)
    compiled = derived["kernels"]["identical"]
    for each, head in zip(base["cases"], heads, strict=True):
        yield from (f"base: case {each['id']}: {what}" for what in _case(each, head, compiled))


def _green(base: Mapping[str, Any], head: Mapping[str, Any]) -> bool:
    return bool(base["how"] == compare.RUN and base["status"] == head["status"] == "pass")


def _case(base: Mapping[str, Any], head: Mapping[str, Any], compiled: int) -> Iterator[str]:
    ran = base["how"] == compare.RUN
    if ran != (base["status"] is not None):
        yield f"{base['how']}, and its status is {base['status']}"
    if base["status"] != "pass" and not base["reason"]:
        yield f"{base['status'] or base['how']} without a reason"
    if not ran and (base["outputs"] or base["code"] or base["figures"]):
        yield f"{base['how']}, and yet it computed something"
    if base["how"] == compare.SAME_CODE:
        if head["status"] != "pass":
            yield f"spared as the same code, though it is {head['status']} on the head"
        if base["reason"] not in (EVIDENCE, EVIDENCE_WITHOUT_KERNELS):
            yield f"spared as the same code on no evidence: {base['reason']}"
        if base["reason"] == EVIDENCE and not compiled:
            yield "spared for the same machine code, and no kernel was compiled on both"


def base_lines(report: Mapping[str, Any]) -> list[str]:
    """The comparison in words; none for a report without one."""
    base = report.get("base")
    return [] if base is None else list(_lines(base, report))


def title(base: Mapping[str, Any]) -> str:
    """The base, as people name it."""
    commit = base["commit"][:SHORT]
    return commit if base["commit"].startswith(base["revision"]) else f"{base['revision']} ({commit})"


def counted(base: Mapping[str, Any]) -> str:
    """How many cases there are of each kind of change."""
    return ", ".join(f"{count} {name}" for name, count in base["counts"].items() if count) or "no case compared"


def _lines(base: Mapping[str, Any], report: Mapping[str, Any]) -> Iterator[str]:
    yield f"base {title(base)}: {counted(base)}"
    reasons = {case["id"]: case["reason"] for stage in report["stages"] for case in stage["cases"]}
    own = {case["id"]: case["reason"] for case in base["cases"]}
    for kind, ids in base["red"].items():
        said = own if kind == compare.NEWLY_GREEN else reasons
        where = "on the base: " if kind == compare.NEWLY_GREEN else ""
        yield from _some([f"{kind}: {each}: {where}{said[each]}" for each in ids], kind)
    yield from _some(
        [f"not comparable: {g['cases']}, first {g['first']}: {g['reason']}" for g in base["not_comparable"]],
        "not comparable",
    )
    yield kernel_line(base)
    yield output_line(base)
    yield from _some([ratio_line(row) for row in base["ratios"] if row["base"] != row["head"]], "ratio")
    yield from _some([policy_line(finding) for finding in base["policy"]], "policy")
    yield from perf.lines(base["perf"])
    yield from (f"note: {note}" for note in base["notes"])


def _some(lines: Sequence[str], kind: str) -> Iterator[str]:
    yield from lines[:_SHOWN]
    if len(lines) > _SHOWN:
        yield f"{kind}: {len(lines) - _SHOWN} more, listed in the report"


def kernel_line(base: Mapping[str, Any]) -> str:
    """Machine code in one line."""
    kernels = base["kernels"]
    if not any(kernels.values()):
        return "machine code: not compared: no kernel was compiled on both"
    differ = kernels["different"]
    more = f"; first {differ[0]}" if differ else ""
    alone = [f"{len(kernels[key])} only in the {key[5:]}" for key in ("only_head", "only_base") if kernels[key]]
    plural = "" if kernels["identical"] == 1 else "s"
    parts = [f"{kernels['identical']} kernel{plural} identical", f"{len(differ)} differ{more}", *alone]
    return f"machine code: {', '.join(parts)}"


def output_line(base: Mapping[str, Any]) -> str:
    """Outputs of cases that ran on both, in one line."""
    outputs = base["outputs"]
    if not any(outputs.values()):
        return "outputs: not compared: no case of the grid ran on both"
    differ = outputs["different"]
    more = f"; first {differ[0]}" if differ else ""
    unknown = f", {outputs['unknown']} not hashed" if outputs["unknown"] else ""
    return f"outputs of cases run on both: {outputs['identical']} bit-identical, {len(differ)} differ{more}{unknown}"


def ratio_line(row: Mapping[str, Any]) -> str:
    """One ratio, head over base."""
    ratio = "" if row["ratio"] is None else f" ({row['ratio']:.4f} x)"
    return f"ratio: {row['what']}: {row['figure']} {row['base']} -> {row['head']}{ratio}"


def policy_line(finding: Mapping[str, Any]) -> str:
    """One policy finding, with the name that accepts it."""
    place = f" at {finding['file']}:{finding['line']}" if finding["line"] else ""
    values = f": {finding['base'] or 'none'} -> {finding['head'] or 'none'}"
    how = "accepted" if finding["accepted"] else f"accept with --accept-policy {shlex.quote(finding['name'])}"
    return f"policy: {finding['what']}: {finding['name']}{place}{values} ({how})"
