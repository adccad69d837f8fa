"""Happens-before among the waves of a chunk, and across chunks through atomics (vector clocks, made only on demand).

What orders two accesses (AMDGPUUsage, "Memory Model GFX942", threadgroup split mode off; CDNA3 ISA, "Data dependency
resolution"):

* LDS, one workgroup: the earlier one was waited for (lgkmcnt; vmcnt for loads into LDS) before an s_barrier.
* Global memory, one workgroup: an s_barrier. The waves share the L1 and their vector memory operations go through it in
  order, so no wait is needed (that is why LLVM's workgroup release has lgkmcnt only). *Inferred* from that.
* Global memory, other workgroups: the earlier one was waited for with vmcnt, by its own wave, before the wave (or after
  a barrier another wave of the workgroup) did an atomic, or a store with scope bits, whose value the later wave has
  read and waited for. A barrier alone is not enough for what another wave of the workgroup has stored, though LLVM's
  barriers have no vmcnt: that wave sees the store, but cannot release it at a wider scope without more (llvm-project
  PR 160501 has just that failure on GFX10). A waited buffer_wbl2 sc1 is more: it goes through the L1 behind the stores
  that were issued before the barrier, so that it releases them for their waves (PR 161638: where there is a write-back
  instruction, a release can cover other waves' stores; *inferred* for this one. It does not wait for their loads). A
  write must also have been available: written with sc1, by an atomic, or before a waited buffer_wbl2 sc1. And a plain
  load of it must come after a buffer_inv sc1, of its own wave or, with a barrier between, of its workgroup (one CU, one
  L1).

Waiting for N of vmcnt retires all but the N youngest; of lgkmcnt the same for LDS operations, and scalar loads at 0.
FLAT counts in both and keeps no order in either (CDNA3 ISA, "S_WAITCNT"; ``machine/in_flight.py``): what it did to
global memory is complete at vmcnt(0), to LDS at lgkmcnt(0), its value at both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..machine.waves import Identity
from .race_history import RaceHistory
from .race_nodes import Covers, Node, Reach
from .race_traits import FLAT

Array = NDArray[np.int64]
#: Operations that a counter can hold, as ring sizes.
VM_RING, LDS_RING = 64, 16


@dataclass(slots=True)
class Acquiring:
    """A read of a word that carries ``nodes``, until its wave has waited for the value. invalidated: a buffer_inv sc1
    came between, after the read was performed."""

    through_lds: bool
    access: int
    nodes: tuple[int, ...]
    invalidated: bool = False


class WaveOrder:
    """Counters, barriers and knowledge of the waves of one chunk. Arrays are [W]; ids are access ids."""

    def __init__(self, history: RaceHistory, ident: Identity, base: int) -> None:
        self.history, self.ident, self.base = history, ident, base
        count = self.count = len(ident.wave)
        self.per = int(ident.wave.max()) + 1
        self.last = np.zeros(count, np.int64)
        self.vm, self.vm_ring = np.zeros(count, np.int64), np.zeros((count, VM_RING), np.int64)
        self.lds, self.lds_ring = np.zeros(count, np.int64), np.zeros((count, LDS_RING), np.int64)
        self.done_vm, self.done_lds = np.zeros(count, np.int64), np.zeros(count, np.int64)
        #: what had been issued at the last vmcnt(0), lgkmcnt(0)
        self.drained_vm, self.drained_lgkm = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.last_lds, self.last_dma, self.last_flat = (np.zeros(count, np.int64) for _ in range(3))
        self.written_back = np.zeros(count, np.int64)
        self.write_back_covers: dict[int, Covers] = {}
        self.covers = Covers(*(np.zeros(count, np.int64) for _ in range(6)))
        #: what each wave has written back of its own; by row, what it has since the barrier for its workgroup
        self.available = np.zeros(count, np.int64)
        self.flushed: dict[int, Covers] = {}
        #: LDS accesses with ids up to this are ordered before the workgroup's next ones
        self.lds_floor = np.zeros(count, np.int64)
        #: what each wave has read; what of it plain loads see, and what the scalar cache has been emptied for
        self.know, self.know_loads, self.know_scalar = (np.zeros(count, np.int64) for _ in range(3))
        self.acquiring: dict[int, list[Acquiring]] = {}

    # -- issue and waits -----------------------------------------------------------------------------------------------
    def issued(self, rows: Any, ids: Array, vm: bool, lds: bool, dma: bool = False, flat: bool = False) -> None:
        """Waves ``rows`` issue an operation that these counters retire in order; scalar loads and FLAT in neither."""
        self.last[rows] = ids
        if vm:
            self.vm[rows] += 1
            self.vm_ring[rows, (self.vm[rows] - 1) % VM_RING] = ids
        if lds:
            self.lds[rows] += 1
            self.lds_ring[rows, (self.lds[rows] - 1) % LDS_RING] = ids
            self.last_lds[rows] = ids
        if dma:
            self.last_dma[rows] = ids
        if flat:
            self.last_flat[rows] = ids

    def waited(self, rows: Any, counters: dict[str, int]) -> None:
        if (left := counters.get("vmcnt")) is not None:
            self._retire(rows, left, self.vm, self.vm_ring, self.done_vm, VM_RING)
            if left == 0:
                self.drained_vm[rows] = self.last[rows]
            if self.write_back_covers:
                self._write_back_done(rows)
        if (left := counters.get("lgkmcnt")) is not None:
            self._retire(rows, left, self.lds, self.lds_ring, self.done_lds, LDS_RING)
            if left == 0:
                self.drained_lgkm[rows] = self.last[rows]
        if self.acquiring:
            self._acquire(rows)

    @staticmethod
    def _retire(rows: Any, left: int, count: Array, ring: Array, done: Array, size: int) -> None:
        n = count[rows]
        at = n - left
        ids = np.where(at > 0, ring[rows, (at - 1) % size], 0) if left < size else np.zeros_like(n)
        done[rows] = np.maximum(done[rows], ids)

    def write_back(self, rows: Any, ids: Array) -> None:
        """buffer_wbl2 sc1: what the wave has stored, and what barriers have ordered before, once it is waited for."""
        self.issued(rows, ids, True, False)
        self.written_back[rows] = ids
        for row in rows:
            self.write_back_covers[int(row)] = self.covers

    def _write_back_done(self, rows: Any) -> None:
        for row in rows:
            covers = self.write_back_covers.get(int(row))
            if covers is None or self.done_vm[row] < self.written_back[row]:
                continue
            del self.write_back_covers[int(row)]
            self.available[row] = self.written_back[row]
            self.flushed[int(row)] = covers

    def invalidate(self, rows: Any) -> None:
        """buffer_inv sc1: plain loads see what the wave knows by now, and what a FLAT load has read that vmcnt(0) has
        retired: where it reached global memory it was performed, though lgkmcnt may hold its value back."""
        self.know_loads[rows] = self.know[rows]
        for row in rows if self.acquiring else ():
            for read in self.acquiring.get(int(row), ()):
                flat = self.history.traits[read.access] & FLAT
                read.invalidated |= bool(flat and read.access <= self.drained_vm[row])

    def invalidate_scalar(self, rows: Any) -> None:
        """s_dcache_inv: scalar loads miss, and see what the L2 has been invalidated for."""
        self.know_scalar[rows] = self.know[rows]

    def group_of(self, row: int) -> slice:
        """Rows of the wave's workgroup."""
        first = row // self.per * self.per
        return slice(first, first + self.per)

    # -- barriers ------------------------------------------------------------------------------------------------------
    def barrier(self, rows: Any) -> None:
        """The waves ``rows`` (bool [W] or None for all), whole workgroups, have arrived."""
        mask = np.ones(self.count, bool) if rows is None else rows
        old = self.covers
        self.covers = Covers(
            np.where(mask, self.last, old.issued), np.where(mask, self.done_vm, old.done),
            np.where(mask, self.done_lds, old.lds), np.where(mask, self._all_available(mask), old.available),
            np.where(mask, self.drained_vm, old.drained_vm), np.where(mask, self.drained_lgkm, old.drained_lgkm),
        )  # fmt: skip
        now = self.history.next_id - 1
        floor = np.where(self.last_lds > self.done_lds, self.done_lds, now)
        floor = np.where(self.last_dma > self.done_vm, np.minimum(floor, self.done_vm), floor)
        floor = np.where(self.last_flat > self.drained_lgkm, np.minimum(floor, self.drained_lgkm), floor)
        by_group = np.repeat(floor.reshape(-1, self.per).min(axis=1), self.per)
        self.lds_floor = np.where(mask, by_group, self.lds_floor)
        if self.know.any():
            for first in range(0, self.count, self.per):
                group = slice(first, first + self.per)
                if mask[first] and self.know[group].any():
                    for known in (self.know, self.know_loads, self.know_scalar):
                        known[group] = self.join(known[group])

    def _all_available(self, mask: Any) -> Array:
        """Of each wave [W], what it or another one has written back, now that a barrier makes that known to all."""
        available = np.maximum(self.covers.available, self.available)
        for row in [r for r in self.flushed if mask[r]]:
            group, covers = self.group_of(row), self.flushed.pop(row)
            available[group] = np.maximum(available[group], covers.issued[group])
        return available

    # -- atomics -------------------------------------------------------------------------------------------------------
    def join(self, nodes: Iterable[Any]) -> int:
        """A node that knows what these know; 0 knows nothing."""
        parents = tuple(sorted({int(n) for n in nodes} - {0}))
        if len(parents) < 2:
            return parents[0] if parents else 0
        return self._add(Node(parents))

    def _add(self, node: Node) -> int:
        self.history.nodes.append(node)
        return len(self.history.nodes) - 1

    def release(self, row: int, access: int, parents: Iterable[int]) -> int:
        """The wave publishes what it has completed: the new node."""
        known = tuple(sorted({*parents, int(self.know[row])} - {0}))
        own = Reach(
            int(self.last[row]), int(self.done_vm[row]), int(self.done_lds[row]), int(self.available[row]),
            int(self.drained_vm[row]), int(self.drained_lgkm[row]),
        )  # fmt: skip
        node = self._add(Node(known, self.base, row, own, self.covers, self.flushed.get(row), self.group_of(row)))
        self.history.node_of[access] = node
        wave = self.base + row
        self.history.released[int(self.history.group[wave])].setdefault(wave, []).append(node)
        return node

    def acquires(self, row: int, access: int, through_lds: bool, nodes: tuple[int, ...]) -> None:
        """The wave has read a word that carries these nodes; it knows them once it has waited for the value."""
        if nodes:
            self.acquiring.setdefault(row, []).append(Acquiring(through_lds, access, nodes))

    def _acquire(self, rows: Any) -> None:
        for row in rows if len(rows) < len(self.acquiring) else list(self.acquiring):
            pending = self.acquiring.get(int(row))
            if not pending:
                continue
            keep = []
            for read in pending:
                if read.access > self._returned(read.access, read.through_lds, row):
                    keep.append(read)
                    continue
                self.know[row] = self.join([self.know[row], *read.nodes])
                if read.invalidated:
                    self.know_loads[row] = self.join([self.know_loads[row], *read.nodes])
            if keep:
                self.acquiring[int(row)] = keep
            else:
                del self.acquiring[int(row)]

    def _returned(self, access: int, through_lds: bool, row: Any) -> int:
        """The youngest operation of the kind of ``access`` whose value the wave has waited for."""
        if self.history.traits[access] & FLAT:
            return min(int(self.drained_vm[row]), int(self.drained_lgkm[row]))
        return int((self.done_lds if through_lds else self.done_vm)[row])
