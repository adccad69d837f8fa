"""Runs a chunk of waves: all waves at one program counter step together, one NumPy expression an instruction.

Scheduling inside a chunk: the group with the lowest program counter runs until it reaches another group (and merges),
a divergent branch, a barrier or its end. Loops that only poll memory make no progress; then the group that has waited
longest runs, and a chunk that makes none at all yields, so that kernels which spin on a flag of another workgroup end.
A :class:`Turns` narrows each choice to a part of the waves, and interrupts it between visible operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol

import numpy as np

from ..errors import KernelFault
from ..program.program import INSTRUCTION_BYTES, Instruction, Program
from .bind import Step
from .poll_watch import PollWatch
from .waves import FloatMode, Waves

RUN, AT_BARRIER, DONE = 0, 1, 2
_NEVER = 1 << 60
#: Backward branches without a change of global memory or an end after which a waiting group gets its turn. Barriers do
#: not count as progress: a spin loop may hold one.
FAIRNESS = 64
#: The same for the whole chunk, after which it yields to other chunks.
PATIENCE = 1024
#: Backward branches of a chunk of which the last so many go to the group that has waited longest, even while memory
#: changes: who polls may count in memory, or take back what it has tried.
ROUND, SHARE = 2048, 256
#: Backward branches of a wave without a barrier before it counts as a livelock, whatever it does meanwhile.
BRANCH_LIMIT = 1 << 24
#: Turns of polling of a wave while memory changes and nothing comes of it, as a share of that.
REVISIT_SHARE = 8
#: Turns of polling of every wave while no memory changes and nothing else can run: a few would do, see ``PollWatch``.
POLLS = 256
#: Backward branches of a chunk after which it is watched for polling.
WATCH_AFTER = 1 << 12


class Steps(Protocol):
    """A program's steps in one floating-point mode. ``straight``: what to call for those that are bound and need
    nothing of the engine, else None."""

    straight: Sequence[Callable[[Waves], Any] | None]

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Step: ...


StepsFor = Callable[[FloatMode], Steps]


class Outcome(Enum):
    FINISHED = "finished"
    #: only polling happens
    YIELDED = "yielded"
    #: the budget of turns is used up
    PAUSED = "paused"
    #: a wave has reached ``branch_limit``, or its share for polling
    ENDLESS = "endless"


class Turns(Protocol):
    """Which waves of a chunk may run next; see ``schedule.py``."""

    def pick(self, chunk: Chunk, live: Any) -> Any:
        """bool [waves]: a non-empty part of ``live``, whose lowest program counter runs now."""

    def stop(self, pc: int) -> int:
        """Program counter, above ``pc``, at which the turn ends at the latest."""


class Chunk:
    """Waves of one or more whole workgroups with their program. ``hits[pc]`` counts wave-instructions.

    The observers of the port may have these methods, called when the selected waves (``w.sel``) do it:
    ``waited(w, inst)`` for s_waitcnt, ``ended(w)``, and ``released(chunk, rows)``: the waves ``rows`` (bool [waves],
    or None for all) pass a barrier together, or ended before it; ``chunk.pc`` is where they go on.
    """

    def __init__(
        self, waves: Waves, program: Program, steps_for: StepsFor, entry: int, hits: list[int],
        turns: Turns | None = None, branch_limit: int = BRANCH_LIMIT,
    ) -> None:  # fmt: skip
        self.w, self.program = waves, program
        self.steps_for = steps_for
        self.steps = steps_for(waves.mode)
        self.mode = waves.mode
        self.hits = hits
        self.state = np.full(waves.count, RUN, np.int8)
        self.pc = waves.pc
        self.pc[:] = entry
        #: waves of one key may step together; the MODE register and the schedule set it
        self.key = np.zeros(waves.count, np.int64)
        self.modes: dict[int, FloatMode] = {0: waves.mode}
        self.last_turn = np.zeros(waves.count, np.int64)
        self.turn = 0
        self.idle = 0
        self.seen_changes = -1
        self.groups = int(waves.ident.group.max()) + 1
        self.turns = turns
        self.paused = False
        #: backward branches of each wave since its last barrier, but for those in ``_together``, which all took
        self._branches, self._together = np.zeros(waves.count, np.int64), 0
        #: at least the most of any wave; backward branches of the chunk so far
        self._bound = self.taken = 0
        self.branch_limit = branch_limit
        self.revisit_limit = branch_limit // REVISIT_SHARE
        self.watch: PollWatch | None = None
        self.on_wait, self.on_end, self.on_release = (
            [getattr(o, name) for o in waves.port.observers if hasattr(o, name)]
            for name in ("waited", "ended", "released")
        )

    # -- picking -------------------------------------------------------------------------------------------------------
    def run(self, budget: int | None = None) -> Outcome:
        """Run until every wave has ended, or yield when nothing but polling happens; at most ``budget`` turns."""
        if not self.paused:
            self.idle = 0
            if self.watch is not None:
                self.watch.polled = 0
        self.paused = False
        while True:
            if budget is not None:
                if budget == 0:
                    self.paused = True
                    return Outcome.PAUSED
                budget -= 1
            live = self.state == RUN
            if not live.any():
                if (self.state == DONE).all():
                    return Outcome.FINISHED
                raise KernelFault("waves wait at a barrier that no running wave can reach")
            pc, sel, limit = self._pick(live)
            self.w.select(None if len(sel) == self.w.count else sel)
            self._use_mode(int(self.key[sel[0]]))
            if not self._group(pc, limit):
                if self.w.in_flight is not None:
                    self.w.in_flight.settle()
                return Outcome.ENDLESS if self._over() else Outcome.YIELDED

    def _pick(self, live: Any) -> tuple[int, Any, int]:
        self.turn += 1
        if self.turns is not None:
            live = self.turns.pick(self, live)
        pcs = self.pc[live]
        pc = int(pcs.min())
        if (self.idle > FAIRNESS or self.taken % ROUND >= ROUND - SHARE) and (pcs != pc).any():
            waiting = np.flatnonzero(live)
            pc = int(self.pc[waiting[np.argmin(self.last_turn[waiting])]])
        sel = np.flatnonzero(live & (self.pc == pc))
        key = self.key[sel]
        if (key != key[0]).any():
            sel = sel[key == key[0]]
        self.last_turn[sel] = self.turn
        above = pcs[pcs > pc]
        limit = int(above.min()) if len(above) else _NEVER
        if self.turns is None:
            self.alone = len(sel) == len(pcs)
        else:
            self.alone = False
            limit = min(limit, self.turns.stop(pc))
        return pc, sel, limit

    def _use_mode(self, key: int) -> None:
        mode = self.modes.get(key, self.mode)
        if mode is not self.mode:
            self.mode = self.w.mode = mode
            self.steps = self.steps_for(mode)

    def _progress(self, pc: int, target: int) -> bool:
        """Count one backward branch (or divergent one) from ``pc``; False when the chunk should yield."""
        if self.w.port.changes != self.seen_changes:
            self.seen_changes = self.w.port.changes
            self.idle = 0
        self.idle += 1
        self._bound += 1
        self.taken += 1
        sel = self.w.sel
        if sel is None:
            self._together += 1
        else:
            self._branches[sel] += 1
        if self.watch is not None:
            if target <= pc:
                self.watch.turn(pc, target)
        elif self.taken > WATCH_AFTER:
            self.watch_polls()
        return self._patient(PATIENCE) and not self._over()

    def _patient(self, turns: int) -> bool:
        """Has it polled less than so many turns, or those with changes of memory between?"""
        return self.idle <= turns and (self.watch is None or self.watch.polled <= turns)

    def _over(self) -> bool:
        """Has a wave reached its limit?"""
        if self._bound > self.branch_limit:
            self._bound = self.most_branches()
        revisits = 0 if self.watch is None else self.watch.most_revisits
        return self._bound > self.branch_limit or revisits > self.revisit_limit

    def most_branches(self) -> int:
        """Backward branches since its last barrier, of the wave that took most."""
        return int(self._branches.max()) + self._together

    def _passed(self, rows: Any) -> None:
        """The waves ``rows`` (bool [waves], None for all) pass a barrier."""
        if rows is None:
            self._branches[:] = self._together = self._bound = 0
        else:
            self._branches[rows] = -self._together
        if self.watch is not None:
            self.watch.passed(rows)

    def watch_polls(self) -> None:
        """From now on tell polling from work, and stores of new values from those of old ones."""
        if self.watch is None:
            self.watch = PollWatch(self.w, self.program)
            self.w.port.exact = True

    def only_polls(self) -> bool:
        """Has every running wave polled for long, with no change of memory?"""
        running = self.state == RUN
        return self.watch is not None and bool((self.watch.still[running] >= POLLS).all())

    def grant(self, branches: int) -> None:
        """Raise the limits, for somebody who wants to look at a stuck chunk."""
        self.branch_limit = self.most_branches() + branches
        self.revisit_limit += branches + (0 if self.watch is None else self.watch.most_revisits)

    # -- running a group -----------------------------------------------------------------------------------------------
    def _group(self, pc: int, limit: int) -> bool:
        """Step the selected waves from ``pc``. True: pick again. False: the chunk yields."""
        w, steps, hits, n = self.w, self.steps, self.hits, self.w.n
        straight = steps.straight
        while True:
            while pc < limit and (run := straight[pc]) is not None:
                hits[pc] += n
                run(w)
                pc += 1
            if pc >= limit:
                self._set_pc(pc)
                return True
            step = steps[pc]
            hits[pc] += n
            if not step.control:
                step.run(w)
                pc += 1
                continue
            control = step.control
            if control == "branch":
                taken = step.run(w)
                if taken.all():
                    target = step.target
                elif not taken.any():
                    target = pc + 1
                else:
                    self._set_pc(np.where(taken, step.target, pc + 1))
                    return self._progress(pc, step.target) or self._lenient()
                if target <= pc:
                    going = self._progress(pc, target)
                    if not (going and self.alone):
                        self._set_pc(target)
                        return going or self._lenient()
                pc = target
            elif control == "wait":
                step.run(w)
                for waited in self.on_wait:
                    waited(w, step.inst)
                pc += 1
            elif control in ("yield", "nop"):
                step.run(w)
                pc += 1
            elif control == "barrier":
                step.run(w)
                pc += 1
                if w.sel is None:
                    self._passed(None)
                    for released in self.on_release:
                        self.pc[:] = pc
                        released(self, None)
                    continue
                self._set_pc(pc)
                self._arrive()
                return True
            elif control == "end":
                step.run(w)
                self.idle = 0
                if self.watch is not None:
                    self.watch.progress()
                self._set_pc(pc)
                for ended in self.on_end:
                    ended(w)
                if w.sel is None:
                    self.state[:] = DONE
                else:
                    self.state[w.sel] = DONE
                    self._arrive()
                return True
            elif control == "jump":
                target = self._code_index(step.run(w), step.inst)
                if np.ndim(target) == 0:
                    pc = int(target)
                else:
                    self._set_pc(target)
                    return self._progress(pc, pc + 1) or self._lenient()
            else:
                self._mode_change(step.run(w))
                self._set_pc(pc + 1)
                return True

    def _lenient(self) -> bool:
        """May a chunk whose patience is over go on, because other waves of it wait for their turn?"""
        return not self.alone and self._patient(2 * PATIENCE) and not self._over()

    def _set_pc(self, value: Any) -> None:
        if self.w.sel is None:
            self.pc[:] = value
        else:
            self.pc[self.w.sel] = value

    def _code_index(self, address: Any, inst: Instruction) -> Any:
        base = self.w.extra["code_base"]
        index = (np.asarray(address).astype(np.int64) - base) // INSTRUCTION_BYTES
        if ((index < 0) | (index >= len(self.steps))).any():
            findings = self.w.port.log.all()
            before = f"; found before that: {findings[0].message}" if findings else ""
            message = f"{inst.text} at {inst.place}: jump to an address outside of the program{before}"
            raise KernelFault(message, findings)
        return index.flat[0] if index.size and (index == index.flat[0]).all() else index

    def _mode_change(self, mode: FloatMode | None) -> None:
        if mode is None or mode == self.mode:
            return
        key = next((k for k, m in self.modes.items() if m == mode), len(self.modes))
        self.modes[key] = mode
        if self.w.sel is None:
            self.key[:] = key
        else:
            self.key[self.w.sel] = key

    def _arrive(self) -> None:
        """The selected waves reached a barrier (or ended): release each workgroup whose waves have all arrived.

        A wave that has ended counts as arrived (CDNA3 ISA, S_BARRIER)."""
        w = self.w
        if w.sel is not None:
            running = w.sel[self.state[w.sel] == RUN]
            self.state[running] = AT_BARRIER
        group = w.ident.group
        pending = np.zeros(self.groups, bool)
        pending[group[self.state == RUN]] = True
        freed = (self.state == AT_BARRIER) & ~pending[group]
        if not freed.any():
            return
        self._passed(freed)
        if self.on_release:
            complete = np.zeros(self.groups, bool)
            complete[group[freed]] = True
            for released in self.on_release:
                released(self, complete[group])
        self.state[freed] = RUN
