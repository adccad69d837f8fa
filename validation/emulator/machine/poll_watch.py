"""Tells waves that can only wait from waves that work, in a chunk whose loops have run long.

A wave polls in a turn (up to a taken backward branch) when what its loop's branches depend on is as it was when it took
the same branch before, and it has not left the loop between: while no memory changes it will never leave it, however
much it counts beside that. A loop whose end depends on a counter or on a clock, or which walks through memory, is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..checks.effects import EXEC_KEYS, SCC_KEY, Effect, effect_of
from ..isa import TABLE
from ..program.program import Program
from .transfer import SCALAR_KEYS

if TYPE_CHECKING:
    from .waves import Waves

#: Odd numbers: products with them, summed over 64 bits, tell states apart.
_STEP = 0x9E3779B97F4A7C15
_LANES = (np.arange(1, 65, dtype=np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)) | np.uint64(1)
#: What runs on somewhere else, or keeps state that no counter of changes shows.
_UNKNOWN = frozenset(["jump", "scratch", "trap"])


@dataclass(frozen=True, slots=True)
class Deciders:
    """Registers that the branches of a loop depend on: rows of the vector file, scalar ones; and SCC, or not."""

    vector: tuple[int, ...]
    scalar: tuple[int, ...]
    scc: bool


def deciders(program: Program, first: int, last: int, agpr_base: int) -> Deciders | None:
    """Of the loop of these instructions; None when the text does not tell. Remembered with the program."""
    key = ("deciders", first, last, agpr_base)
    if key not in program.bound:
        program.bound[key] = _find(program, first, last, agpr_base)
    found: Deciders | None = program.bound[key]
    return found


def _find(program: Program, first: int, last: int, agpr_base: int) -> Deciders | None:
    """What is live at the head of the loop, if nothing but its branches were of interest."""
    steps: list[tuple[Effect, bool, tuple[int, ...]]] = []
    for inst in program.instructions[first : last + 1]:
        entry = TABLE.get((program.arch, inst.mnemonic))
        if entry is None or entry.form in _UNKNOWN:
            return None
        effect = effect_of(inst, entry, agpr_base)
        if effect.vague:
            return None
        branch = entry.form == "branch"
        after = [] if entry.form == "end" or inst.mnemonic == "s_branch" else [inst.index + 1]
        if branch:
            after.append(program.labels[inst.operands[-1].name])
        steps.append((effect, branch, tuple(n - first for n in after if first <= n <= last)))
    wanted = _live(steps)
    scalars = sorted(k - SCALAR_KEYS for k in wanted if k >= SCALAR_KEYS and k != SCC_KEY)
    return Deciders(tuple(sorted(k for k in wanted if k < SCALAR_KEYS)), tuple(scalars), SCC_KEY in wanted)


def _live(steps: list[tuple[Effect, bool, tuple[int, ...]]]) -> set[int]:
    """Registers whose values at the first of these steps branches depend on. A step: its effect; is it a branch; the
    steps that may come next. A write to a vector register replaces it only where EXEC stays the same all along."""
    whole_lanes = not any(effect.writes_exec for effect, _, _ in steps)
    live: list[set[int]] = [set() for _ in steps]
    changed = True
    while changed:
        changed = False
        for i in reversed(range(len(steps))):
            effect, branch, following = steps[i]
            out = set().union(*(live[n] for n in following))
            used = branch or not out.isdisjoint(effect.writes)
            if effect.total:
                out.difference_update(k for k in effect.writes if k >= SCALAR_KEYS or whole_lanes)
            if used:
                out.update(effect.reads, EXEC_KEYS)
            if out != live[i]:
                live[i], changed = out, True
    return live[0]


@dataclass(slots=True, eq=False)
class Loop:
    """A backward branch. state [W]: of the deciders when a wave took it last; known [W]: and has not left the loop
    since. revisits [W]: turns of polling without a barrier."""

    first: int
    last: int
    what: Deciders | None
    state: NDArray[np.uint64]
    known: NDArray[np.bool_]
    revisits: NDArray[np.int64]


class PollWatch:
    """Watches one chunk. still [waves]: turns of polling since memory last changed or a wave ended; barriers do not
    count, since a dead loop may hold one. polled: turns in which any wave has, since whoever asks has set it to 0."""

    def __init__(self, w: Waves, program: Program) -> None:
        self.w, self.program = w, program
        self.still = np.zeros(w.count, np.int64)
        self.polled = 0
        self._loops: dict[int, Loop] = {}
        self._effects = w.port.effects

    @property
    def most_revisits(self) -> int:
        """Of the wave that has polled longest without a barrier."""
        return max((int(loop.revisits.max()) for loop in self._loops.values()), default=0)

    def turn(self, pc: int, target: int) -> None:
        """The waves that step are at the backward branch ``pc``, and take it unless they leave the loop."""
        w = self.w
        rows: Any = slice(None) if w.sel is None else w.sel
        self._look_at_memory()
        loop = self._loops.get(pc)
        if loop is None:
            what = deciders(self.program, target, pc, w.agpr_base)
            state, known = np.zeros(w.count, np.uint64), np.zeros(w.count, bool)
            loop = self._loops[pc] = Loop(target, pc, what, state, known, np.zeros(w.count, np.int64))
        for other in self._loops.values():
            if not (other.first <= target and pc <= other.last):
                other.known[rows] = False
        if loop.what is None:
            return
        state = self._state(loop.what)
        polls = loop.known[rows] & (loop.state[rows] == state)
        self.still[rows] += polls
        self.polled += bool(polls.any())
        loop.revisits[rows] = np.where(polls, loop.revisits[rows] + 1, 0)
        loop.state[rows], loop.known[rows] = state, True

    def _state(self, what: Deciders) -> NDArray[np.uint64]:
        """One number for what the deciders hold, of each wave that steps."""
        w = self.w
        total = w.scc_get().astype(np.uint64) if what.scc else np.zeros(w.n, np.uint64)
        factor = 1
        for r in what.scalar:
            factor = factor * _STEP & 0xFFFFFFFFFFFFFFFF
            total += w.sget(r).astype(np.uint64) * np.uint64(factor)
        for r in what.vector:
            factor = factor * _STEP & 0xFFFFFFFFFFFFFFFF
            total += (w.vget(r).astype(np.uint64) * _LANES).sum(axis=1, dtype=np.uint64) * np.uint64(factor)
        return total

    def _look_at_memory(self) -> None:
        if self.w.port.effects != self._effects:
            self._effects = self.w.port.effects
            self.still[:] = 0

    def passed(self, rows: Any) -> None:
        """The waves ``rows`` (an index, None for all) pass a barrier."""
        for loop in self._loops.values():
            loop.revisits[slice(None) if rows is None else rows] = 0

    def progress(self) -> None:
        """Something happened that may free any wave."""
        self.still[:] = 0
