"""Runs a program under many schedules and compares what it computes, bit for bit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import accepted
from .errors import EmulatorError
from .findings import Finding
from .schedule import parse_schedule

#: Schedules that find most at little cost.
DEFAULT_SCHEDULES = ("lockstep", "in-order", "reversed", "alternating", "random:0..7")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run. outputs: bytes by name; error: what it raised, as text."""

    schedule: str
    outputs: dict[str, bytes] = field(repr=False)
    findings: tuple[Finding, ...]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Exploration:
    """All runs, the first of which is what the others are compared with.

    failures: (schedule, what is wrong). Any of these schedules, given as ``schedule=``, replays its failure.
    """

    outcomes: tuple[Outcome, ...]
    failures: tuple[tuple[str, str], ...]

    @property
    def passed(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        names = f"{len(self.outcomes)} schedules"
        if self.passed:
            return f"{names}: same outputs, no findings"
        shown = "\n".join(f'  schedule="{name}": {what}' for name, what in self.failures[:16])
        return f"{names}, {len(self.failures)} fail:\n{shown}"


def explore(
    run: Callable[[str], tuple[dict[str, Any], Sequence[Finding]] | Any],
    schedules: Sequence[str] = DEFAULT_SCHEDULES,
    preemptions: int = 2,
    limit: int = 200,
) -> Exploration:
    """Run ``run(schedule)`` for each schedule; each run must start from fresh memory.

    run: gives its outputs (tensors or arrays by name) and its findings, and is called with a schedule's name to pass to
    ``launch`` or ``emulate``. To make use of ``systematic``, it must return a third value: the number of switch points
    (``LaunchResult.switch_points``).
    schedules: names; ``random:0..7`` stands for eight seeds, and a bare ``systematic`` for the systematic search: no
    preemption, then each single one, then pairs up to ``preemptions``, evenly thinned out to ``limit`` runs.
    """
    outcomes: list[Outcome] = []
    failures: list[tuple[str, str]] = []
    for name in accepted.texts("schedules", schedules, '("lockstep", "random:0..7")'):
        for one in _expand(name):
            points = _run(run, one, outcomes, failures)
            if one == "systematic":
                for further in systematic_schedules(points, preemptions, limit - 1):
                    _run(run, further, outcomes, failures)
    return Exploration(tuple(outcomes), tuple(failures))


def _expand(name: str) -> Iterator[str]:
    kind, _, seeds = name.partition(":")
    if kind == "random" and ".." in seeds:
        first, _, last = seeds.partition("..")
        yield from (f"random:{seed}" for seed in range(int(first), int(last) + 1))
        return
    parse_schedule(name)
    yield name


def systematic_schedules(points: int, preemptions: int, limit: int) -> list[str]:
    """Names of the systematic search over this many switch points, fewest preemptions first."""
    names: list[str] = []
    for count in range(1, preemptions + 1):
        room = limit - len(names)
        if room <= 0:
            break
        total = 1
        for i in range(count):
            total = total * (points - i) // (i + 1)
        step = max(1, -(-total // room))
        chosen = itertools.islice(itertools.combinations(range(1, points + 1), count), 0, None, step)
        names += ["systematic:" + ",".join(map(str, at)) for at in chosen]
    return names


def _run(run: Callable[[str], Any], schedule: str, outcomes: list[Outcome], failures: list[tuple[str, str]]) -> int:
    """One run, appended to ``outcomes``; returns its switch points."""
    try:
        values = run(schedule)
    except EmulatorError as error:
        outcomes.append(Outcome(schedule, {}, (), f"{type(error).__name__}: {error}"))
        failures.append((schedule, f"{type(error).__name__}: {error}"))
        return 0
    outputs, findings, *rest = values
    raw = {name: _bytes(value) for name, value in outputs.items()}
    outcome = Outcome(schedule, raw, tuple(findings))
    reference = next((o for o in outcomes if o.error is None), outcome)
    failures += [(schedule, str(finding)) for finding in findings]
    for name, content in raw.items():
        if content != reference.outputs.get(name):
            failures.append((schedule, f"{name} differs from the run under {reference.schedule}"))
    outcomes.append(outcome)
    return int(rest[0]) if rest else 0


def _bytes(value: Any) -> bytes:
    if hasattr(value, "untyped_storage"):
        import torch

        return bytes(value.detach().contiguous().view(torch.uint8).numpy().tobytes())
    return bytes(value.tobytes())
