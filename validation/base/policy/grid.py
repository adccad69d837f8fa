"""The grid, the contract and what else an operation asks for: what the change removed or narrowed.

Both revisions describe themselves (:mod:`.describe`): the head here, the base in a process of its own, on its own
``validation``. Names are compared, never counts, and a rule by the pairs of values that it lets meet.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from validation.base.policy import describe
from validation.base.policy.finding import Finding, Trees
from validation.base.revision import package_folder
from validation.devices.surroundings import ALLOWED_ENVIRONMENT, FIXED_ENVIRONMENT
from validation.operation import JsonDict, registered_operations

KIND = "grid"
TIMEOUT_S = 300.0


def find(trees: Trees) -> Iterator[Finding]:
    """Everything that the base's description asks for and the head's does not."""
    reference = registered_operations().get(trees.operation_name, trees.operation_name)
    before = described(trees, reference)
    if isinstance(before, str):
        what = "the base's operation cannot be read, so nothing is known of what the change removed"
        yield Finding(KIND, "", f"{trees.operation.name}.unknown", what, before, "")
        return
    after = json.loads(json.dumps(describe.describe(trees.operation, trees.seed)))
    for name, old in before["entries"].items():
        new = after["entries"].get(name)
        if new is None:
            yield Finding(KIND, "", name, "entry point removed", name, "")
            continue
        for view in _VIEWS:
            yield from view(name, old, new)
    yield from _cost(before, after)
    yield from _protocol(before, after)


def described(trees: Trees, reference: str) -> JsonDict | str:
    """The base's description; in words, why there is none."""
    head = trees.head.root.resolve()
    modules = [reference.partition(":")[0], *trees.operation.packages, "validation"]
    places = [package_folder(module.partition(".")[0]).parent for module in modules]
    roots = [trees.base.root / place.relative_to(head) for place in places if place.is_relative_to(head)]
    environment = {name: os.environ[name] for name in ALLOWED_ENVIRONMENT if name in os.environ} | FIXED_ENVIRONMENT
    path = [*map(str, dict.fromkeys(roots)), *(os.path.abspath(entry or ".") for entry in sys.path)]
    with tempfile.TemporaryDirectory(prefix="hcgr-describe-") as home:
        environment |= {"PYTHONPATH": os.pathsep.join(path), "HOME": home, "TMPDIR": home}
        try:
            done = subprocess.run(
                [sys.executable, "-P", str(Path(describe.__file__).resolve()), reference, str(trees.seed)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                cwd=home,
                env=environment,
                timeout=TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return f"it took longer than {TIMEOUT_S:.0f} s"
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        return lines[-1].replace(f"{trees.base.root}{os.sep}", "")
    found: JsonDict = json.loads(done.stdout)
    return found


def _axes(entry: str, old: JsonDict, new: JsonDict) -> Iterator[Finding]:
    for axis, had in old["axes"].items():
        has = new["axes"].get(axis)
        if has is None:
            yield Finding(KIND, "", f"{entry}.{axis}", "axis removed", ", ".join(had["values"]), "")
            continue
        for label, value in had["values"].items():
            where = f"{entry}.{axis}.{label}"
            if label not in has["values"]:
                yield Finding(KIND, "", where, "value removed", value or label, "")
            elif value is not None and has["values"][label] != value:
                yield Finding(KIND, "", where, "value changed", value, has["values"][label] or "computed")
        yield from _between(f"{entry}.{axis}.between", had["between"], has["between"])


def _between(where: str, old: list[int] | None, new: list[int] | None) -> Iterator[Finding]:
    """What searches may draw from: fewer numbers than before."""
    if old is None:
        return
    lost = not new or not set(range(old[0], old[1] + 1, old[2])) <= set(range(new[0], new[1] + 1, new[2]))
    if lost:
        shown = [f"{low} to {high} in steps of {step}" for low, high, step in (each for each in (old, new) if each)]
        yield Finding(KIND, "", where, "range narrowed", shown[0], shown[1] if len(shown) > 1 else "")


def _pairs(entry: str, old: JsonDict, new: JsonDict) -> Iterator[Finding]:
    """Pairs that a cover no longer holds though it still has both values: a rule was added or widened."""
    have = {f"{axis}={label}" for axis, values in new["axes"].items() for label in values["values"]}
    lost = [pair for pair in old["pairs"] if set(pair.split()) <= have and pair not in set(new["pairs"])]
    by_axes: dict[str, list[str]] = {}
    for pair in lost:
        by_axes.setdefault("-".join(part.partition("=")[0] for part in pair.split()), []).append(pair)
    for axes, pairs in by_axes.items():
        more = f" and {len(pairs) - 3} more" if len(pairs) > 3 else ""
        yield Finding(KIND, "", f"{entry}.pairs.{axes}", "values may no longer meet", ", ".join(pairs[:3]) + more, "")
    if new["uncovered"] > old["uncovered"]:
        uncovered = (str(old["uncovered"]), str(new["uncovered"]))
        yield Finding(KIND, "", f"{entry}.cover", "the cover leaves more pairs out", *uncovered)


def _cases(entry: str, old: JsonDict, new: JsonDict) -> Iterator[Finding]:
    """Anchors that went, and what cases of one name no longer mean or demand. Other cases may come and go."""
    for anchor in old["anchors"]:
        wanted = {label.partition("=")[2] for label in anchor.split()}
        if anchor not in new["anchors"] and not any(wanted <= set(case.split(".")) for case in new["cases"]):
            yield Finding(KIND, "", f"{entry}.anchor.{anchor.replace(' ', ',')}", "anchor removed", anchor, "")
    same_space = old["axes"] == new["axes"] and old["pairs"] == new["pairs"] and old["anchors"] == new["anchors"]
    gone = [name for name in old["cases"] if name not in new["cases"]]
    if same_space and gone:
        yield Finding(KIND, "", f"{entry}.cases", "cases removed", f"{len(gone)}, first {gone[0]}", "")
    moved: set[str] = set()
    for name, had in old["cases"].items():
        has = new["cases"].get(name, had)
        labels = dict(zip(old["axes"], name.split("."), strict=False))
        for axis, value in had["params"].items():
            where = f"{entry}.{axis}.{labels.get(axis, '')}"
            computed = old["axes"].get(axis, {"values": {}})["values"].get(labels.get(axis)) is None
            if computed and has["params"].get(axis) != value and where not in moved:
                moved.add(where)
                yield Finding(KIND, "", where, f"value changed in {name}", value, has["params"].get(axis, ""))
        lost = [path for path in had["paths"] if path not in has["paths"]]
        if lost and f"paths {lost}" not in moved:
            moved.add(f"paths {lost}")
            yield Finding(KIND, "", f"{entry}.paths.{'+'.join(lost)}", f"not demanded of {name}", ", ".join(lost), "")
        for argument, shape in had["shapes"].items():
            now = has["shapes"].get(argument, "")
            if now != shape and f"shape {argument}" not in moved:
                moved.add(f"shape {argument}")
                yield Finding(KIND, "", f"{entry}.shapes.{argument}", f"shape not demanded of {name}", shape, now)
        if had["launches"] and not has["launches"] and "launches" not in moved:
            moved.add("launches")
            yield Finding(KIND, "", f"{entry}.launches", f"no launch demanded of {name}", "launches", "")


def _contract(entry: str, old: JsonDict, new: JsonDict) -> Iterator[Finding]:
    for row, had in old["contract"].items():
        has, where = new["contract"].get(row), f"{entry}.{row}"
        if has is None:
            yield Finding("contract", "", where, "row removed", had["error"] or "accepted", "")
            continue
        if has["error"] != had["error"]:
            what = "another error is expected"
            yield Finding("contract", "", f"{where}.error", what, had["error"] or "none", has["error"] or "none")
        lost = [word for word in had["mentions"] if word not in has["mentions"]]
        if lost:
            yield Finding("contract", "", f"{where}.mentions", "the message need not say", ", ".join(lost), "")


def _limits(entry: str, old: JsonDict, new: JsonDict) -> Iterator[Finding]:
    for name, limit in old["limits"].items():
        now = new["limits"].get(name)
        if now is None or now > limit:
            what = "limit removed" if now is None else "limit raised"
            yield Finding("limit", "", f"{entry}.{name}", what, str(limit), "" if now is None else str(now))


def _control(entry: str, old: JsonDict, new: JsonDict) -> Iterator[Finding]:
    for name, value in old["invalid"].items():
        now = new["invalid"].get(name)
        if now != value:
            what = "the value that must be refused " + ("went" if now is None else "changed")
            yield Finding(KIND, "", f"{entry}.invalid.{name}", what, value, now or "")


_VIEWS: tuple[Callable[[str, Any, Any], Iterator[Finding]], ...] = (
    _axes,
    _pairs,
    _cases,
    _contract,
    _limits,
    _control,
)


def _cost(before: JsonDict, after: JsonDict) -> Iterator[Finding]:
    for arch, names in before["cost"].items():
        for name in names:
            if name not in after["cost"].get(arch, ()):
                yield Finding("cost", "", f"{arch}.{name}", "cost case removed", name, "")


def _protocol(before: JsonDict, after: JsonDict) -> Iterator[Finding]:
    for name, had in before["protocol"].items():
        has = after["protocol"].get(name)
        if has is None:
            yield Finding("protocol", "", name, "scenario removed", name, "")
            continue
        for what, noun in (("teeth", "broken variant removed"), ("settings", "setting no longer run")):
            for each in had[what]:
                if each not in has[what]:
                    yield Finding("protocol", "", f"{name}.{each}", noun, each, "")
