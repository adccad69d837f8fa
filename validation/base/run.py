"""Runs the head's cases on the base's code, and gathers what a report keeps of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from validation.base import case, compare, pins
from validation.base.policy import BLIND, Finding, collect, compared, notes
from validation.base.revision import SHORT, Base, tree_digest
from validation.base.shortcut import Shortcut, by_id, is_broken_variant
from validation.base.sources import Code, laid_out, search_path
from validation.base.worktree import checked_out
from validation.cases import Outcome, Task
from validation.operation import JsonDict, Operation
from validation.stages import stage

_BROKEN_VARIANT = "a broken variant judges the validator, and is made of the head's sources"


class PolicyError(LookupError):
    """A finding was accepted that there is not; the message names those that there are."""


@dataclass(frozen=True)
class Prepared:
    """A base that is checked out: what a run needs, and what is known before anything runs."""

    base: Base
    code: Code
    policy: tuple[Finding, ...]
    digest: str
    notes: tuple[str, ...]
    accepted: frozenset[str] = frozenset()

    def worker_environment(self) -> dict[str, str]:
        """What a worker needs beside its own variables to import the base's code."""
        return {"PYTHONPATH": search_path(self.code.folder)}


@contextmanager
def prepared(
    base: Base, operation: Operation, operation_name: str, seed: int, accepted: Sequence[str] = ()
) -> Iterator[Prepared]:
    """The base in a worktree of its own, for as long as the block lasts.

    Raises:
        PolicyError: ``accepted`` names no finding.
        BaseError, GitError: the base cannot be had.
    """
    with checked_out(base) as folder:
        tree = folder / "tree"
        code = laid_out(base, tree, folder / "code", operation, operation_name)
        trees = compared(tree, base.repository, operation, operation_name, seed)
        findings = tuple(collect(trees))
        names = {finding.name for finding in findings}
        unknown = [name for name in accepted if name not in names]
        if unknown:
            known = ", ".join(sorted(names)) or "none"
            raise PolicyError(f"--accept-policy {unknown[0]!r}: there is no such finding (there are: {known})")
        yield Prepared(
            base=base,
            code=code,
            policy=findings,
            digest=tree_digest(base.repository),
            notes=(*pins.notes(tree, base.repository), *_judge_notes(code), *notes(trees), BLIND),
            accepted=frozenset(accepted),
        )


def _judge_notes(code: Code) -> list[str]:
    if not code.judges:
        return []
    return [f"the head's {', '.join(code.judges)} stood in for the base's: they describe and judge the operation"]


class _Pool(Protocol):
    def run(self, tasks: Sequence[Task], modules: Mapping[str, str]) -> Iterator[tuple[Task, Outcome]]: ...


@dataclass(frozen=True)
class Seams:
    """What the runner lends: the pool of a stage, how to record an outcome, and whom to tell."""

    pool: Callable[[str], _Pool]
    record: Callable[[Task, Outcome], JsonDict]
    started: Callable[[str, int], None]
    done: Callable[[JsonDict], None]


def on_base(
    ready: Prepared, operation: Operation, tasks: Mapping[str, Sequence[Task]], heads: Sequence[JsonDict], seams: Seams
) -> list[JsonDict]:
    """The base's record of every case in ``heads``, in their order.

    tasks: by stage, those behind ``heads``. Compile cases go first: they tell which others are the same code.
    """
    head_of = by_id(heads)
    ran: dict[str, JsonDict] = {}
    spared: dict[str, tuple[str, str]] = {}
    shortcut: Shortcut | None = None
    for name in compare.STAGES:
        due = [task for task in tasks.get(name, ()) if task.id in head_of]
        if name != "compile" and shortcut is None:
            compiled = {each: record for each, record in ran.items() if record["stage"] == "compile"}
            own = {each: record for each, record in head_of.items() if record["stage"] == "compile"}
            shortcut = Shortcut(ready.code, operation, own, compiled)
        for task in due:
            found = _spare(ready, task, head_of[task.id], shortcut)
            if found:
                spared[task.id] = found
        due = [task for task in due if task.id not in spared]
        if due:
            ran |= _run(ready, name, due, seams)
    missing = (compare.NOT_RUN, "the head's run has no such task")
    return [
        compare.record(ran[head["id"]], compare.RUN)
        if head["id"] in ran
        else compare.record(head, *spared.get(head["id"], missing))
        for head in heads
    ]


def _spare(ready: Prepared, task: Task, head: Mapping[str, Any], shortcut: Shortcut | None) -> tuple[str, str] | None:
    """How and why ``task`` is not run on the base; ``None``: it is."""
    if ready.code.missing:
        return compare.NOT_RUN, f"the base has no package {', '.join(ready.code.missing)}"
    if is_broken_variant(task):
        return compare.NOT_RUN, _BROKEN_VARIANT
    if head["status"] == "skip":
        return compare.NOT_RUN, f"skip on the head: {head['reason']}"
    if head["status"] == "pass" and shortcut is not None:
        evidence = shortcut.evidence(task)
        return (compare.SAME_CODE, evidence) if evidence else None
    return None


def _run(ready: Prepared, name: str, due: Sequence[Task], seams: Seams) -> dict[str, JsonDict]:
    seams.started(f"{stage(name).TITLE} on the base {ready.base.commit[:SHORT]}", len(due))
    wrapped = [case.wrapped(task, ready.code.folder, ready.code.packages) for task in due]
    found = {}
    for task, outcome in seams.pool(name).run(wrapped, dict.fromkeys(compare.STAGES, case.MODULE)):
        record = seams.record(task, outcome)
        found[task.id] = case.without(record, f"{ready.code.folder}/")
        replay = f"{record['replay']} --base {ready.base.revision}"
        seams.done(found[task.id] | {"id": f"{task.id} (on the base)", "replay": replay})
    return found


def part(ready: Prepared, cases: Sequence[JsonDict], times: JsonDict) -> JsonDict:
    """The report's ``base``, without what :func:`validation.base.compare.derive` adds. times: its ``perf``."""
    return {
        "revision": ready.base.revision,
        "commit": ready.base.commit,
        "head_tree": ready.digest,
        "notes": list(ready.notes),
        "cases": list(cases),
        "policy": [finding.as_json(finding.name in ready.accepted) for finding in ready.policy],
        "perf": times,
    }
