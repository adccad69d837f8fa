"""Memory operations between issue and retirement: counters, order of retirement, latest legal completion.

Rules (CDNA3 ISA, "S_WAITCNT" and "Data dependency resolution"; LLVM SIInsertWaitcnts; AMDGPUUsage, "Memory Model
GFX942"):

* vmcnt counts MUBUF, GLOBAL, SCRATCH and FLAT operations, loads into LDS and ``buffer_wbl2``. They retire in issue
  order, loads, stores and atomics mixed. ``buffer_inv`` is not counted (as SIInsertWaitcnts has it).
* lgkmcnt counts LDS operations (in order), FLAT, and SMEM and clock reads (1, or 2 for more than a dword), which
  retire in any order: only lgkmcnt(0) retires those.
* FLAT counts in both and may retire early in either: its result is there after vmcnt(0) and lgkmcnt(0).
* Stores read their data when they are issued (expcnt is for exports and GDS since GFX7).
* A full counter (63, 15) stalls the issue until there is room.

*Inferred*: with ``latest`` a load samples memory and writes its registers when a wait, a full counter or the wave's
end retires it; stores, LDS operations and atomics take effect then. Operations of one queue of one wave keep their
order, with two exceptions. A vector-memory atomic that returns a value is how waves publish: it takes effect when
issued, before older operations of its wave on other addresses, and only its result is late. Loads sample before
stores to other addresses that retire at the same moment. What is outstanding in a chunk that merely polls takes
effect when the chunk yields: late is not never.

The waves of a workgroup share an L1, which takes their vector memory operations in the order of issue. So one wave sees
what another of its workgroup has stored before a barrier, though nobody has waited for it with vmcnt (AMDGPUUsage: the
release of workgroup scope has no vmcnt; llvm-project PR 147257: the architecture guarantees that order), while other
workgroups do not: an operation takes effect only after older ones of its workgroup on the same bytes.
``buffer_wbl2`` of agent scope goes the same way, and takes effect after all older stores of its workgroup (see
``checks/race_order``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..memory.access import Kind, Space
from ..memory.views import Words
from ..program.program import Instruction
from .transfer import MemoryOperation, Request
from .waves import Waves

VM, LGKM = "vmcnt", "lgkmcnt"
#: What each counter can hold.
CAPACITY = {VM: 63, LGKM: 15}
_FAR = np.int64(1 << 62)


@dataclass(frozen=True, slots=True, eq=False)
class Traits:
    """How one instruction's operation is counted. ``ordered``: it retires in issue order within its counter.
    ``flushes``: it writes back what the workgroup has stored."""

    operation: MemoryOperation
    inst: Instruction
    counters: tuple[str, ...]
    ordered: bool
    units: int
    into_lds: bool
    flushes: bool = False


@dataclass(slots=True, eq=False)
class Pending:
    """An issued operation, until it has retired in each of its waves.

    waves: rows of the chunk that issued it, k of them; slot [W]: their position in the arrays of ``request``, ``em``
    and ``words``. lanes: the lanes that it writes [k, 64], None for all. order [W]: number of the operation among the
    ordered ones of its counter. waiting[counter] [W]: not yet retired there. undone [W]: no effect yet. span: see
    :func:`_span`, for the k waves.
    """

    traits: Traits
    seq: int
    waves: NDArray[np.intp]
    slot: NDArray[np.intp]
    order: NDArray[np.int64]
    waiting: dict[str, NDArray[np.bool_]]
    undone: NDArray[np.bool_]
    em: NDArray[np.bool_]
    request: Request | None = None
    words: Words | None = None
    lanes: NDArray[np.bool_] | None = None
    span: tuple[Space, Any, Any] | None = None

    def is_waiting(self) -> NDArray[np.bool_]:
        first, *rest = self.waiting.values()
        for other in rest:
            first = first | other
        return first


class InFlight:
    """The operations in flight of one chunk (``Waves.in_flight``).

    latest: completion policy. check: the ``waits`` checker, or None. ``busy``: register key -> operations that will
    write it.
    """

    def __init__(self, w: Waves, latest: bool, check: Any = None) -> None:
        self.w, self.latest, self.check = w, latest, check
        self.queues: dict[str, list[Pending]] = {VM: [], LGKM: []}
        self.issued = {c: np.zeros(w.count, np.int64) for c in CAPACITY}
        self.outstanding = {c: np.zeros(w.count, np.int64) for c in CAPACITY}
        self.busy: dict[int, list[Pending]] = {}
        self.seq = 0
        #: last s_waitcnt of each wave (instruction index) and how many operations had been issued then
        self.last_wait = np.full(w.count, -1, np.int64)
        self.last_wait_seq = np.zeros(w.count, np.int64)
        #: barriers that each wave has passed
        self.epoch = np.zeros(w.count, np.int64)
        self._everyone = np.ones(w.count, bool)
        self._groups = int(w.ident.group.max()) + 1
        self._alone = not w.ident.wave.any()

    def selected(self) -> NDArray[np.bool_]:
        """bool [W]: the waves that step now."""
        if self.w.sel is None:
            return self._everyone
        mask = np.zeros(self.w.count, bool)
        mask[self.w.sel] = True
        return mask

    # -- what the program does -----------------------------------------------------------------------------------------
    def issue(self, traits: Traits) -> None:
        w, operation = self.w, traits.operation
        for counter in traits.counters:
            room = CAPACITY[counter] - traits.units
            if (self.outstanding[counter] > room).any():
                self.retire(counter, room, self.selected() & (self.outstanding[counter] > room))
        request = None
        if self.check is not None and self.check.looks_at(traits):
            request = operation.issue(w)
            self.check.issued(self, traits, request)
        if not (self.latest and traits.counters):
            if request is None:
                operation(w)
            else:
                words = operation.effect(w, request)
                if operation.put is not None:
                    operation.put(w, words)
            if traits.counters:
                self._append(traits, request if traits.into_lds else None, False)
            return
        request = (operation.issue(w) if request is None else request).detached(w.n)
        pending = self._append(traits, request, True)
        if (
            operation.kind is Kind.ATOMIC
            and operation.put is not None
            and pending.span
            and pending.span[0] is Space.GLOBAL
        ):
            self._overtake(pending)

    def _append(self, traits: Traits, request: Request | None, late: bool) -> Pending:
        w = self.w
        here = self.selected()
        waves = np.arange(w.count) if w.sel is None else w.sel
        slot = np.full(w.count, -1, np.intp)
        slot[waves] = np.arange(len(waves))
        self.seq += 1
        order = np.zeros(w.count, np.int64)
        for counter in traits.counters:
            self.outstanding[counter] += here * traits.units
            if traits.ordered:
                self.issued[counter] += here
                order = self.issued[counter].copy()
        waiting = {counter: here.copy() for counter in traits.counters}
        em = w.em.copy() if request is not None or not w.full else w.em
        pending = Pending(traits, self.seq, waves, slot, order, waiting, here & late, em, request)
        pending.lanes = None if w.full else em
        if late and request is not None:
            pending.span = _span(request)
        for counter in traits.counters:
            self.queues[counter].append(pending)
        for key in traits.operation.results:
            self.busy.setdefault(key, []).append(pending)
        if self.check is not None and traits.into_lds:
            self.check.departed(self, pending)
        return pending

    def wait(self, inst: Instruction, counters: dict[str, int]) -> None:
        """``s_waitcnt`` of the waves that step."""
        here = self.selected()
        self.last_wait[here] = inst.index
        self.last_wait_seq[here] = self.seq
        for counter in (LGKM, VM):
            if counter in counters:
                self.retire(counter, counters[counter], here)

    def barrier(self) -> None:
        """The waves that step reach a barrier, which drains nothing."""
        self.epoch += self.selected()

    def end(self) -> None:
        """The waves that step end: whatever they left outstanding completes."""
        here = self.selected()
        for counter in (LGKM, VM):
            self.retire(counter, 0, here)

    # -- retirement ----------------------------------------------------------------------------------------------------
    def retire(self, counter: str, left: int, here: NDArray[np.bool_]) -> None:
        """Retire in the waves ``here`` [W] what must have retired when the counter is at most ``left``."""
        queue = self.queues[counter]
        if not queue:
            return
        limit = self.issued[counter] - left
        batch: list[tuple[Pending, NDArray[np.bool_]]] = []
        for pending in queue:
            if left and not pending.traits.ordered:
                continue
            due = pending.waiting[counter] & here
            if pending.traits.ordered:
                due &= pending.order <= limit
            if due.any():
                batch.append((pending, due))
        if self.latest and len(batch) > 1:
            self._sample_early(batch)
        finished = False
        for pending, due in batch:
            self._retire(pending, counter, due)
            finished = finished or not pending.waiting[counter].any()
        if finished:
            self.queues[counter] = [p for p in queue if p.waiting[counter].any()]

    def _sample_early(self, batch: list[tuple[Pending, NDArray[np.bool_]]]) -> None:
        """Loads go before stores that retire at the same moment, except before their own wave's to the same bytes: what
        other waves store without a wait must not become visible because the emulator steps waves together."""
        stores: list[tuple[Pending, NDArray[np.bool_]]] = []
        for pending, due in batch:
            if pending.traits.operation.kind is not Kind.LOAD or pending.traits.into_lds:
                stores.append((pending, due & pending.undone))
            elif stores and pending.span is not None and not any(_overlap(pending, p, due & d) for p, d in stores):
                self._perform(pending, due, None)

    def _retire(self, pending: Pending, counter: str, due: NDArray[np.bool_]) -> None:
        traits = pending.traits
        pending.waiting[counter] &= ~due
        self.outstanding[counter] -= due * traits.units
        complete = due
        for other in traits.counters:
            complete = complete & ~pending.waiting[other]
        if self.latest:
            if len(traits.counters) > 1:
                self._perform_older(pending, due)
            self._perform(pending, due, complete)
        if self.check is not None and traits.into_lds:
            self.check.landed(self, pending, complete)
        if not pending.is_waiting().any():
            for key in traits.operation.results:
                self.busy[key].remove(pending)
                if not self.busy[key]:
                    del self.busy[key]

    def _perform_older(self, pending: Pending, where: NDArray[np.bool_], least: int = 0) -> None:
        """Let older operations of these waves take effect first, from number ``least`` on: effects keep their order."""
        older = {p.seq: p for c in pending.traits.counters for p in self.queues[c] if least <= p.seq < pending.seq}
        for seq in sorted(older):
            self._perform(older[seq], where & older[seq].undone, None)

    def _perform(self, pending: Pending, due: NDArray[np.bool_], complete: NDArray[np.bool_] | None) -> None:
        """Take effect in the waves ``due``, write the results of the waves ``complete``."""
        operation = pending.traits.operation
        now = due & pending.undone
        if now.any():
            assert pending.request is not None
            if not self._alone and VM in pending.traits.counters:
                self._older_of_workgroup(pending, now)
            pending.undone &= ~now
            waves, rows, em = self._rows(pending, now)
            request = pending.request if rows is None else pending.request.rows(rows)
            words = self._as(waves, em, operation.effect, request)
            if operation.put is None:
                return
            if complete is not None and pending.words is None and np.array_equal(now, complete):
                self._as(waves, em, operation.put, words)
                return
            if pending.words is None:
                pending.words = [np.zeros((len(pending.waves), word.shape[1]), word.dtype) for word in words]
            for kept, word in zip(pending.words, words, strict=True):
                kept[slice(None) if rows is None else rows] = word
        if complete is not None and operation.put is not None and pending.words is not None and complete.any():
            waves, rows, em = self._rows(pending, complete)
            self._as(waves, em, operation.put, [x if rows is None else x[rows] for x in pending.words])

    @staticmethod
    def _rows(pending: Pending, where: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp] | None, Any]:
        """Waves, their positions in the operation's arrays (None for all of them), their exec mask at issue."""
        waves = np.flatnonzero(where)
        if len(waves) == len(pending.waves):
            return waves, None, pending.em
        rows = pending.slot[waves]
        return waves, rows, pending.em[rows]

    def _as(self, waves: NDArray[np.intp], em: NDArray[np.bool_], fn: Callable[..., Any], argument: Any) -> Any:
        """Call with these waves selected and this exec mask."""
        w = self.w
        saved = w.sel, w.n, w.em, w.full
        w.sel = None if len(waves) == w.count else waves
        w.n, w.em, w.full, w._em_bits_of = len(waves), em, bool(em.all()), None
        try:
            return fn(w, argument)
        finally:
            w.sel, w.n, w.em, w.full = saved
            w._em_bits_of = None

    def _overtake(self, atomic: Pending) -> None:
        """Perform a returning atomic now; older operations of its wave on the same bytes go first."""
        here, last = self.selected(), 0
        for older in self.queues[VM]:
            if older is not atomic and _overlap(atomic, older, older.undone & here):
                last = older.seq
        for older in [p for p in self.queues[VM] if p.seq <= last]:
            self._perform(older, here & older.undone, None)
        self._perform(atomic, here, None)

    def _older_of_workgroup(self, pending: Pending, waves: NDArray[np.bool_]) -> None:
        """Let older operations on the same bytes, of any wave of these waves' workgroups, take effect first; before a
        write-back all that is no load."""
        if pending.traits.flushes:
            members = np.zeros(self._groups, bool)
            members[self.w.ident.group[waves]] = True
            for older in [p for p in self.queues[VM] if p.seq < pending.seq]:
                if older.traits.operation.kind is not Kind.LOAD:
                    self._perform(older, older.undone & members[self.w.ident.group], None)
            return
        reads = pending.traits.operation.kind is Kind.LOAD
        mine: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
        for older in [p for p in self.queues[VM] if p.seq < pending.seq]:
            if (reads and older.traits.operation.kind is Kind.LOAD) or not older.undone.any():
                continue
            if mine is None:
                mine = self._reach(pending, waves)
            low, high = self._reach(older, older.undone)
            meet = (mine[0] <= high) & (low <= mine[1])
            if meet.any():
                self._perform(older, older.undone & meet[self.w.ident.group], None)

    def _reach(self, pending: Pending, waves: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Lowest and highest global byte that the operation touches in each workgroup [groups]."""
        which = np.flatnonzero(waves)
        low, high = np.full(self._groups, _FAR), np.full(self._groups, -1, np.int64)
        group, request = self.w.ident.group[which], pending.request
        if request is None or not any(p.access.space is Space.GLOBAL for p in request.pieces):
            return low, high
        if pending.span is None:
            low[group], high[group] = 0, _FAR
            return low, high
        rows = pending.slot[which]
        np.minimum.at(low, group, pending.span[1][rows])
        np.maximum.at(high, group, pending.span[2][rows])
        return low, high

    def settle(self) -> None:
        """Everything issued takes effect; results still wait to be retired."""
        everything = {p.seq: p for queue in self.queues.values() for p in queue}
        for seq in sorted(everything):
            self._perform(everything[seq], everything[seq].undone, None)


def _span(request: Request) -> tuple[Space, Any, Any] | None:
    """The space, and lowest and highest byte of each wave; None for no space or several."""
    spaces = {p.access.space for p in request.pieces}
    if len(spaces) != 1:
        return None
    where = [(p.access.address.astype(np.int64), p.access.mask, p.access.nbytes) for p in request.pieces]
    lows = [np.where(mask, address, _FAR).min(axis=1) for address, mask, _ in where]
    highs = [np.where(mask, address + nbytes - 1, -1).max(axis=1) for address, mask, nbytes in where]
    return spaces.pop(), np.minimum.reduce(lows), np.maximum.reduce(highs)


def _overlap(a: Pending, b: Pending, waves: NDArray[np.bool_]) -> bool:
    """May the two touch the same bytes in any of these waves? Ranges are compared; without one, they may."""
    both = np.flatnonzero(waves)
    if not len(both) or not a.request or not b.request or not (a.request.pieces and b.request.pieces):
        return False
    if a.span is None or b.span is None:
        return True
    (first, low, high), (second, start, end) = a.span, b.span
    mine, theirs = a.slot[both], b.slot[both]
    return first is second and bool(((start[theirs] <= high[mine]) & (low[mine] <= end[theirs])).any())
