"""Schedules: which waves run when. Every one is fair, and the same for the same name.

================  ======================================================================================================
``lockstep``      all waves of a chunk at one program counter step together (the default, and the fastest)
``in-order``      a part of the waves runs until it blocks, then the next, in the order of dispatch
``reversed``      the same, last workgroup and last wave first
``alternating``   as ``in-order`` within a chunk; all launches that may run are started at once, and after each visible
                  operation the next chunk has its turn: the first parts of two launches go side by side
``random:SEED``   random parts of waves run random numbers of visible operations; workgroups in random order
``systematic``    as ``in-order``, with preemptions: ``systematic:5`` switches to the next part at the fifth visible
                  operation, ``systematic:5+2,9`` to the one after the next at the fifth, and again at the ninth
``held``          the same at waits behind writes only: ``held:3`` puts the third one off
================  ======================================================================================================

A part that was preempted goes on when no other one can, so that what it has not finished stays so for long.

A visible operation is an instruction that reaches memory or a barrier, or a wait behind a write, which under latest
completion makes the write seen: between two of them, switching changes nothing.
Parts hold several waves where a chunk has many, because a step costs the same for one wave as for a hundred.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .isa import TABLE
from .machine.engine import FAIRNESS, ROUND, Chunk
from .machine.waves import Identity
from .program import Program

#: Parts of a chunk under ``in-order``, ``reversed`` and ``systematic``.
MOST_PARTS = 8
#: Forms of instructions that other waves can notice.
_VISIBLE = frozenset(
    ["smem", "global", "flat", "mubuf", "cache", "ds", "ds_two", "ds_lane", "ds_count", "ds_transpose", "barrier"]
)
_WAIT = "s_waitcnt"
#: What tells an instruction that others see once it is waited for.
_WRITES = ("store", "atomic", "_lds", " lds")
_NEVER = 1 << 60


def visible_points(program: Program, waits: bool = False) -> list[int]:
    """Indices of the visible operations of a text, ascending; with ``waits`` only of the waits among them."""
    known = program.bound.get("visible")
    if known is None:
        known, written = [], False
        for inst in program.instructions:
            entry = TABLE.get((program.arch, inst.mnemonic))
            if entry is not None and entry.form in _VISIBLE:
                known.append(inst.index)
                written = any(word in inst.text for word in _WRITES)
            elif inst.mnemonic == _WAIT and written:
                known.append(inst.index)
                written = False
        program.bound["visible"] = known
    return [i for i in known if program.instructions[i].mnemonic == _WAIT] if waits else list(known)


def parts_in_order(ident: Identity, most: int = MOST_PARTS, backwards: bool = False) -> NDArray[np.int64]:
    """Part of each wave [waves]: waves of one workgroup in different parts as far as possible, then workgroups.

    backwards: the last wave of a workgroup comes first.
    """
    per, groups = int(ident.wave.max()) + 1, int(ident.group.max()) + 1
    wave_parts = min(per, most)
    group_parts = min(groups, max(1, most // wave_parts))
    part = ident.wave * wave_parts // per
    if backwards:
        part = wave_parts - 1 - part
    return (ident.group * group_parts // groups) * wave_parts + part


class Schedule:
    """``lockstep``, and the base of the others. One instance is good for one execution."""

    name = "lockstep"

    def __init__(self) -> None:
        #: visible operations at which a preemption was possible (``systematic`` only)
        self.points = 0

    def __str__(self) -> str:
        return self.name

    def groups(self, chosen: Iterable[Any]) -> Iterable[Any]:
        """Workgroups in the order in which they are dispatched."""
        return chosen

    def turns(self, program: Program, ident: Identity) -> PartTurns | None:
        """What picks the waves of a new chunk."""
        return None

    def next_work(self, ready: int) -> int:
        """Which of ``ready`` pieces of work starts next, in the order in which the host asked for them."""
        return 0

    def next_chunk(self, resident: int) -> int:
        """Which of the resident chunks runs next; the first has waited longest."""
        return 0

    def budget(self) -> int | None:
        """Turns of a chunk before another one may run; None: until it yields."""
        return None

    def admits(self) -> bool:
        """Should a further chunk or piece of work start, if there is one, although something can run?"""
        return False


class InOrder(Schedule):
    name = "in-order"

    def turns(self, program: Program, ident: Identity) -> PartTurns | None:
        return PartTurns(program, parts_in_order(ident))


class Reversed(Schedule):
    name = "reversed"

    def groups(self, chosen: Iterable[Any]) -> Iterable[Any]:
        return list(chosen)[::-1]

    def turns(self, program: Program, ident: Identity) -> PartTurns | None:
        # the workgroups of a chunk are reversed already
        return PartTurns(program, parts_in_order(ident, backwards=True))

    def next_work(self, ready: int) -> int:
        return ready - 1


class Alternating(InOrder):
    """Two launches that share a counter take tickets in turn, whatever a seed would draw."""

    name = "alternating"

    def turns(self, program: Program, ident: Identity) -> PartTurns | None:
        return SteppedTurns(program, parts_in_order(ident))

    def budget(self) -> int | None:
        return 1

    def admits(self) -> bool:
        return True


class Random(Schedule):
    """Everything that has a choice is drawn from one generator."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.name = f"random:{seed}"

    def groups(self, chosen: Iterable[Any]) -> Iterable[Any]:
        shuffled = list(chosen)
        self.random.shuffle(shuffled)
        return shuffled

    def turns(self, program: Program, ident: Identity) -> PartTurns | None:
        return RandomTurns(program, len(ident.wave), self.random)

    def next_work(self, ready: int) -> int:
        return self.random.randrange(ready)

    def next_chunk(self, resident: int) -> int:
        return self.random.randrange(resident)

    def budget(self) -> int | None:
        return self.random.choice((1, 2, 4, 8, 16, 32))

    def admits(self) -> bool:
        return self.random.random() < 0.4


class Systematic(InOrder):
    """``preemptions``: (visible operation, how many parts further on) in ascending order."""

    def __init__(self, preemptions: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self.preemptions = dict(preemptions)
        written = ",".join(str(at) if by == 1 else f"{at}+{by}" for at, by in sorted(self.preemptions.items()))
        self.name = f"systematic:{written}" if written else "systematic"

    def turns(self, program: Program, ident: Identity) -> PartTurns | None:
        return SystematicTurns(program, parts_in_order(ident), self)


class Held(Systematic):
    """Preempts at waits only."""

    def __init__(self, preemptions: Sequence[tuple[int, int]]) -> None:
        super().__init__(preemptions)
        self.name = self.name.replace("systematic", "held")

    def turns(self, program: Program, ident: Identity) -> PartTurns | None:
        return SystematicTurns(program, parts_in_order(ident), self, waits=True)


class PartTurns:
    """The current part keeps its turn until it has nothing to run or only polls; then the first part in order. One that
    has looped for long passes it on as well: it may poll and change memory, too."""

    def __init__(self, program: Program, parts: NDArray[np.int64]) -> None:
        self.visible = visible_points(program)
        self.parts = parts
        self.current = 0
        self.since = 0
        #: backward branches of the chunk when the turn began
        self.begun = 0

    def stop(self, pc: int) -> int:
        return _NEVER

    def pick(self, chunk: Chunk, live: Any) -> Any:
        self.since = min(self.since, chunk.idle)
        mine = live & (self.parts == self.current)
        if self._is_over(chunk):
            self.current, self.since = self._longest_waiting(chunk, live), chunk.idle
        elif not mine.any():
            # not a fresh start: the waves of one workgroup may poll in turn, from barrier to barrier
            self.current = self.first(live)
        else:
            return mine
        self.begun = chunk.taken
        return live & (self.parts == self.current)

    def _is_over(self, chunk: Chunk) -> bool:
        """Has the current part polled, or looped, for as long as it may at a time?"""
        return chunk.idle - self.since > FAIRNESS or chunk.taken - self.begun > ROUND

    def first(self, live: Any) -> int:
        """The part that comes next when the current one cannot go on."""
        return int(self.parts[live].min())

    def _longest_waiting(self, chunk: Chunk, live: Any) -> int:
        waiting = np.flatnonzero(live)
        other = waiting[self.parts[waiting] != self.current]
        if not len(other):
            return self.current
        return int(self.parts[other[np.argmin(chunk.last_turn[other])]])


class SteppedTurns(PartTurns):
    """As :class:`PartTurns`, but a turn ends at each visible operation."""

    def stop(self, pc: int) -> int:
        at = bisect_right(self.visible, pc)
        return self.visible[at] if at < len(self.visible) else _NEVER


class RandomTurns(SteppedTurns):
    """A random part runs a random number of visible operations; now and then the waves are dealt to parts anew."""

    #: Visible operations of a turn: mostly few, at times until it blocks.
    LENGTHS = (1, 1, 2, 3, 5, 8, 16, _NEVER)
    PARTS = (2, 3, 4, 6, 8)

    def __init__(self, program: Program, waves: int, rng: random.Random) -> None:
        self.random, self.waves = rng, waves
        super().__init__(program, self._deal())
        self.left = 0

    def _deal(self) -> NDArray[np.int64]:
        count = min(self.random.choice(self.PARTS), self.waves)
        parts = [i % count for i in range(self.waves)]
        self.random.shuffle(parts)
        return np.array(parts, np.int64)

    def pick(self, chunk: Chunk, live: Any) -> Any:
        self.since = min(self.since, chunk.idle)
        mine = live & (self.parts == self.current)
        self.left -= 1
        if self.left < 0 or not mine.any() or self._is_over(chunk):
            if self.random.random() < 0.03:
                self.parts = self._deal()
            runnable = np.unique(self.parts[live])
            self.current = int(runnable[self.random.randrange(len(runnable))])
            self.left, self.since, self.begun = self.random.choice(self.LENGTHS), chunk.idle, chunk.taken
            mine = live & (self.parts == self.current)
        return mine


class SystematicTurns(SteppedTurns):
    """In order, and at the chosen visible operations on to another part; who is preempted comes last from then on."""

    def __init__(self, program: Program, parts: NDArray[np.int64], schedule: Systematic, waits: bool = False) -> None:
        super().__init__(program, parts)
        self.visible = visible_points(program, waits)
        self.schedule = schedule
        self.preempted: dict[int, int] = {}

    def first(self, live: Any) -> int:
        return min((int(part) for part in np.unique(self.parts[live])), key=lambda p: (self.preempted.get(p, 0), p))

    def pick(self, chunk: Chunk, live: Any) -> Any:
        mine = super().pick(chunk, live)
        at = int(chunk.pc[mine].min())
        i = bisect_right(self.visible, at) - 1
        if i < 0 or self.visible[i] != at:
            return mine
        runnable = np.unique(self.parts[live])
        if len(runnable) < 2:
            return mine
        self.schedule.points += 1
        by = self.schedule.preemptions.get(self.schedule.points)
        if by is None:
            return mine
        self.preempted[self.current] = self.schedule.points
        position = int(np.searchsorted(runnable, self.current))
        self.current, self.since = int(runnable[(position + by) % len(runnable)]), chunk.idle
        self.begun = chunk.taken
        return live & (self.parts == self.current)


#: Schedules without parameters.
_PLAIN = {each.name: each for each in (Schedule, InOrder, Reversed, Alternating)}


def parse_schedule(text: str) -> Schedule:
    """A fresh schedule from its name. Raises ValueError that says what there is."""
    kind, _, detail = text.partition(":")
    try:
        if kind in _PLAIN and not detail:
            return _PLAIN[kind]()
        if kind == "random":
            return Random(int(detail or 0))
        if kind in ("systematic", "held"):
            steps = [part.partition("+") for part in detail.split(",") if part]
            return (Held if kind == "held" else Systematic)([(int(at), int(by or 1)) for at, _, by in steps])
    except ValueError:
        pass
    raise ValueError(
        f"unknown schedule {text!r}; there are lockstep, in-order, reversed, alternating, random:SEED, "
        "systematic[:AT[+BY],...], held[:AT[+BY],...]"
    )
