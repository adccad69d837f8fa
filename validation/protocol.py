"""Protocol scenarios of an operation: what several launches, streams and threads must get right together.

A scenario runs under a set of :class:`Setting`: a schedule, a memory model and a completion policy. It has *teeth*:
deliberately broken variants of the code under test, each of which names the check that must catch it. Nothing here
imports torch or code under test; a scenario is named by reference and runs in a worker (:class:`Trial`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from validation.mutation.edit import Edit
from validation.operation import Bench, JsonDict

#: What can catch a broken variant: a comparison with the oracle, a promise of the host code, or a checker.
CHECKS = ("value", "contract", "memcheck", "initcheck", "waits", "racecheck", "synccheck", "deadlock")
#: Checkers by completion policy. racecheck looks at operations as they are issued.
CHECKERS = {
    "earliest": ("memcheck", "initcheck", "racecheck", "synccheck"),
    "latest": ("memcheck", "initcheck", "waits"),
}
_SEPARATOR = "/"


@dataclass(frozen=True)
class Setting:
    """One legal behaviour of the device; the names are those of the emulator."""

    schedule: str
    memory: str = "weak"
    completion: str = "earliest"

    def __str__(self) -> str:
        return _SEPARATOR.join((self.schedule, self.memory, self.completion))

    @classmethod
    def parse(cls, text: str) -> Setting:
        """The setting that :meth:`__str__` wrote; ``LookupError`` says what one looks like."""
        parts = text.split(_SEPARATOR)
        if len(parts) != 3 or parts[1] not in ("flat", "weak") or parts[2] not in CHECKERS or not parts[0]:
            raise LookupError(
                f"setting {text!r} must look like random:7/weak/latest: a schedule, flat or weak memory, "
                "earliest or latest completion"
            )
        return cls(*parts)

    @property
    def checkers(self) -> tuple[str, ...]:
        """The emulator's checkers that go with it."""
        return CHECKERS[self.completion]

    def seed(self) -> int | None:
        """The seed of a random schedule."""
        kind, _, detail = self.schedule.partition(":")
        return int(detail) if kind == "random" else None


@dataclass(frozen=True)
class AsmEdit:
    """Take one instruction out of a kernel's assembly: the only ``drop`` between the last ``after`` before the first
    ``before``, and that. ``kernel`` is a part of the kernel's name; other kernels stay as they are.
    """

    kernel: str
    drop: str
    after: str
    before: str

    def applied_to(self, text: str, kernel: str) -> str:
        """``text`` without that instruction; ``ValueError`` unless there is exactly one."""
        lines = text.splitlines(keepends=True)
        bare = [line.split(";")[0].split("//")[0].strip() for line in lines]
        last = next((i for i, line in enumerate(bare) if line.startswith(self.before)), None)
        first = None if last is None else _last(bare[:last], self.after)
        found = [] if first is None else [i for i in range(first, last or 0) if bare[i] == self.drop]
        if len(found) != 1:
            raise ValueError(
                f"{kernel}: {self.drop!r} occurs {len(found)} times between {self.after} and {self.before}, "
                "must occur once: the kernel has changed"
            )
        return "".join(lines[: found[0]] + lines[found[0] + 1 :])


def _last(lines: Sequence[str], prefix: str) -> int | None:
    return next((i for i in reversed(range(len(lines))) if lines[i].startswith(prefix)), None)


@dataclass(frozen=True)
class Tooth:
    """A broken variant. ``broken`` says what is wrong with it, ``check`` which of :data:`CHECKS` must catch it.

    ``edits`` change sources, ``reload`` names modules that must be imported anew against them; ``asm`` changes
    machine code. ``kernel`` tells that machine code must come out different: a variant whose code is the original's
    proves nothing. ``caches`` refers to dictionaries that must be empty meanwhile, as those of compiled kernels.
    ``first`` are settings to try before those of the scenario, which then usually need not run.
    """

    name: str
    broken: str
    check: str
    edits: tuple[Edit, ...] = ()
    reload: tuple[str, ...] = ()
    asm: tuple[AsmEdit, ...] = ()
    kernel: bool = False
    caches: tuple[str, ...] = ()
    first: tuple[Setting, ...] = ()

    def __post_init__(self) -> None:
        if self.check not in CHECKS:
            raise ValueError(f"check is {self.check!r}, must be one of: {', '.join(CHECKS)}")
        if not self.edits and not self.asm:
            raise ValueError(f"tooth {self.name} changes nothing")

    def changes(self) -> list[str]:
        """What is changed, in words: files, or kernels."""
        return [edit.file for edit in self.edits] + [f"assembly of {edit.kernel}" for edit in self.asm]


@dataclass(frozen=True)
class Scenario:
    """``run`` refers to a function of a :class:`Trial`; ``settings`` gives those of a level, from a seed."""

    name: str
    proves: str
    run: str
    settings: Callable[[str, int], Sequence[Setting]]
    teeth: tuple[Tooth, ...] = ()
    timeout_s: float = 600.0

    def tooth(self, name: str) -> Tooth:
        """The tooth called ``name``; ``LookupError`` names those that exist."""
        for tooth in self.teeth:
            if tooth.name == name:
                return tooth
        known = ", ".join(tooth.name for tooth in self.teeth) or "none"
        raise LookupError(f"scenario {self.name} has no tooth {name!r} (it has: {known})")


class TrialSession(Protocol):
    """What a session of a trial yields: the emulator's own, for streams, replays and synchronisation."""

    def synchronize(self) -> None:
        """Run everything that is queued."""


@dataclass
class Trial:
    """One run of a scenario under one setting, in a worker: opens sessions and collects what they show.

    ``checks`` are :func:`validation.cases.comparison` records. A scenario of one launch may give ``switch_points``,
    from which the systematic search goes on.
    """

    bench: Bench
    setting: Setting
    checks: list[JsonDict] = field(default_factory=list)
    launches: list[JsonDict] = field(default_factory=list)
    findings: list[JsonDict] = field(default_factory=list)

    def session(self, **options: Any) -> AbstractContextManager[Any]:
        """A session under the setting; ``options`` are further ones of ``validation.emulator.emulate``."""
        return _Collecting(self, options)


class _Collecting(AbstractContextManager[Any]):
    """A bench's session, whose receipts and findings go to the trial, also when it ends by an exception."""

    def __init__(self, trial: Trial, options: JsonDict) -> None:
        s = trial.setting
        self.trial = trial
        bench: Any = trial.bench
        self.manager = bench.session(
            checks=s.checkers, schedule=s.schedule, memory=s.memory, completion=s.completion, **options
        )

    def __enter__(self) -> Any:
        self.session = self.manager.__enter__()
        return self.session.emulated

    def __exit__(self, *exception: Any) -> bool | None:
        try:
            return bool(self.manager.__exit__(*exception))
        finally:
            self.trial.launches += self.session.launches
            self.trial.findings += self.session.findings


def standard_settings(level: str, seed: int) -> list[Setting]:
    """In order, reversed, alternating, random; both completions, over weak memory. ``full``: more, and flat memory."""
    return _settings(level, seed, Setting("alternating"))


def _settings(level: str, seed: int, fifth: Setting) -> list[Setting]:
    settings = [
        Setting("in-order"),
        Setting("reversed", completion="latest"),
        Setting(f"random:{seed}"),
        Setting(f"random:{seed + 1}", completion="latest"),
        fifth,
        Setting(f"random:{seed + 3}", completion="latest"),
    ]
    if level == "full":
        settings += [Setting("reversed"), Setting("in-order", completion="latest"), Setting("lockstep", "flat")]
        settings += [Setting("alternating", completion="latest"), Setting(f"random:{seed + 2}")]
        settings += [Setting(f"random:{seed + i}", completion=c) for i in range(4, 12) for c in CHECKERS]
    return settings


def stress_settings(level: str, seed: int) -> list[Setting]:
    """More of them, for one small launch: it is preempted once at chosen operations, and once at its first waits.
    There is no other that it could alternate with."""
    full = level == "full"
    settings = _settings(level, seed, Setting(f"random:{seed + 2}"))
    settings += [Setting("lockstep"), Setting("reversed"), Setting("in-order", completion="latest")]
    settings += [Setting(f"held:{at}", completion="latest") for at in range(1, 25 if full else 7)]
    settings += [Setting(f"systematic:{at}", completion="latest") for at in range(1, 400, 4 if full else 67)]
    return list(dict.fromkeys(settings))


def all_teeth(scenarios: Sequence[Scenario]) -> Iterator[tuple[Scenario, Tooth]]:
    """Every tooth with its scenario."""
    for scenario in scenarios:
        for tooth in scenario.teeth:
            yield scenario, tooth
