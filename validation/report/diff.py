"""What changed between two reports, and whether the second is worse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from validation import devices
from validation.report.builder import worst_ratio

_RED = ("fail", "error")
#: Best first.
_RESULTS = ("PASS", "INCONCLUSIVE", "FAIL")
#: Figures of a cost record in which more is worse. All are counted, so that any growth is real.
_COUNTED = ("bytes_moved", "mfma", "vgprs", "lds_bytes", "spills", "scratch_bytes")


#: Changes of one kind that are printed, those for the worse first.
_SHOWN = 25


class DiffError(ValueError):
    """Two reports that say nothing about each other; the message says why."""


@dataclass(frozen=True)
class Change:
    """One difference. ``kind`` groups changes; ``worse`` marks those that make the second report the worse one."""

    kind: str
    text: str
    worse: bool = False


def compare(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Change]:
    """Every difference that matters, from report ``a`` to report ``b``, in the order of :data:`_VIEWS`.

    Worse are: a worse verdict, weaker evidence, a case newly red, a case that was executed and no longer is, a count
    that grew in a cost record. An error that grew within its bound is listed, and is not worse.
    """
    for what in ("operation", "arch"):
        left, right = (report[what]["name"] if what == "operation" else report[what] for report in (a, b))
        if left != right:
            raise DiffError(f"reports on {what} {left} and on {right} cannot be compared")
    return [change for view in _VIEWS for change in view(a, b)]


def is_worse(changes: list[Change]) -> bool:
    """Whether any of ``changes`` is for the worse."""
    return any(change.worse for change in changes)


def lines(a: Mapping[str, Any], b: Mapping[str, Any], changes: list[Change]) -> list[str]:
    """The comparison in words: a line for each report, the changes by kind, and the conclusion."""
    head = [f"{name}: {_identity(report)}" for name, report in (("A", a), ("B", b))]
    body = []
    for kind in dict.fromkeys(change.kind for change in changes):
        own = sorted((change for change in changes if change.kind == kind), key=lambda change: not change.worse)
        body += [f"{'worse' if change.worse else 'notes'}  {kind}: {change.text}" for change in own[:_SHOWN]]
        if len(own) > _SHOWN:
            body.append(f"       {kind}: {len(own) - _SHOWN} more")
    worse = sum(change.worse for change in changes)
    end = f"B is worse: {worse} of {len(changes)} changes" if worse else f"B is not worse ({len(changes)} changes)"
    return [*head, *body, end]


def _identity(report: Mapping[str, Any]) -> str:
    source = report["source"]
    commit = f"commit {source['commit'][:12]}" if source["commit"] else "no commit"
    return f"{report['verdict']['text']}, {commit}{' with changes' if source['dirty'] else ''}, {report['started']}"


def _cases(report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {case["id"]: case for stage in report["stages"] for case in stage["cases"]}


def _verdict(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Change]:
    old, new = a["verdict"], b["verdict"]
    if old["text"] != new["text"]:
        worse = _RESULTS.index(new["result"]) > _RESULTS.index(old["result"])
        yield Change("verdict", f"{old['text']} -> {new['text']}", worse)


def _evidence(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Change]:
    before = {stage["name"]: stage["evidence"] for stage in a["stages"]}
    for stage in b["stages"]:
        old, new = before.get(stage["name"], "none"), stage["evidence"]
        if old != new:
            yield Change("evidence", f"{stage['name']}: {old} -> {new}", devices.rank(new) < devices.rank(old))
    for key in ("checks", "schedules", "memory"):
        old, new = a["evidence"]["covers"][key], b["evidence"]["covers"][key]
        if old != new:
            yield Change("evidence", f"{key}: {old} -> {new}", key == "checks" and not set(old) <= set(new))


def _colours(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Change]:
    before, after = _cases(a), _cases(b)
    for name, case in after.items():
        new = case["status"]
        old = before[name]["status"] if name in before else None
        if new in _RED and old not in _RED:
            yield Change("newly red", f"{name}: {old or 'absent'} -> {new}: {case['reason']}", True)
        elif new == "pass" and old in _RED:
            yield Change("newly green", f"{name}: {old} -> {new}")
        elif old in ("pass", "fail") and new == "skip":
            yield Change("no longer run", f"{name}: {old} -> {new}: {case['reason']}", True)


def _presence(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Change]:
    before, after = _cases(a), _cases(b)
    for name, case in before.items():
        if name not in after:
            yield Change("removed", f"{name} ({case['status']})", case["status"] in ("pass", "fail"))
    for name, case in after.items():
        if name not in before and case["status"] not in _RED:
            yield Change("added", f"{name} ({case['status']})")


def _ratios(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Change]:
    """The worst ratio of each case that has another one now, largest first."""
    before, found = _cases(a), []
    for name, case in _cases(b).items():
        old, new = worst_ratio([before[name]] if name in before else []), worst_ratio([case])
        if old and new and old["max_ratio"] != new["max_ratio"]:
            found.append(
                (float(new["max_ratio"]), f"{name}: {_figure(old['max_ratio'])} -> {_figure(new['max_ratio'])}")
            )
    yield from (Change("error/bound", text) for _, text in sorted(found, reverse=True))


def _figure(ratio: Any) -> str:
    return ratio if isinstance(ratio, str) else f"{ratio:.6g}"


def _costs(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Change]:
    before = _cases(a)
    for name, case in _cases(b).items():
        old, new = before[name]["cost"] if name in before else None, case["cost"]
        if old is None or new is None:
            continue
        if old["path"] != new["path"]:
            yield Change("cost", f"{name}: path {old['path']} -> {new['path']}")
        for figure in _COUNTED:
            if old[figure] != new[figure]:
                share = f" ({new[figure] / old[figure]:.4f} x)" if old[figure] else ""
                # registers and LDS have their own limits; they may be spent to move less
                worse = new[figure] > old[figure] and figure not in ("vgprs", "lds_bytes")
                yield Change("cost", f"{name}: {figure} {old[figure]} -> {new[figure]}{share}", worse)


_VIEWS: tuple[Callable[[Mapping[str, Any], Mapping[str, Any]], Iterator[Change]], ...] = (
    _verdict,
    _evidence,
    _colours,
    _presence,
    _costs,
    _ratios,
)
