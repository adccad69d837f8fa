"""What waves knew when they released, and what follows from it for whoever has read what they published."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .race_history import RaceHistory

Array = NDArray[np.int64]
#: Start nodes whose ancestors are kept.
MANY_STARTS = 256


class Reach(NamedTuple):
    """How far a wave's accesses are known, as access ids: issued (good within its workgroup), waited for (vector
    memory, LDS), available to the agent; and complete whatever their order, by vmcnt(0) and by lgkmcnt(0)."""

    issued: int = 0
    done: int = 0
    lds: int = 0
    available: int = 0
    drained_vm: int = 0
    drained_lgkm: int = 0

    def join(self, other: Reach) -> Reach:
        return Reach(*(max(a, b) for a, b in zip(self, other, strict=True)))


NOTHING = Reach()


@dataclass(frozen=True, slots=True)
class Covers:
    """Per wave [W]: ids that the last barrier of its workgroup ordered. Never changed once made."""

    issued: Array
    done: Array
    lds: Array
    available: Array
    drained_vm: Array
    drained_lgkm: Array


@dataclass(slots=True)
class Node:
    """What a wave knew when it released (or a join of such, with ``covers`` None). parents: earlier nodes. flushed:
    what the wave has written back for its workgroup since the barrier."""

    parents: tuple[int, ...]
    base: int = 0
    row: int = 0
    own: Reach = NOTHING
    covers: Covers | None = None
    flushed: Covers | None = None
    same_group: slice = field(default_factory=lambda: slice(0, 0))

    def direct(self, wave: int) -> Reach:
        """What it says by itself of a wave (unique number)."""
        row = wave - self.base
        if self.covers is None or not self.same_group.start <= row < self.same_group.stop:
            return NOTHING
        c, available = self.covers, int(self.covers.available[row])
        if self.flushed is not None:
            available = max(available, int(self.flushed.issued[row]))
        reach = Reach(
            int(c.issued[row]), int(c.done[row]), int(c.lds[row]), available,
            int(c.drained_vm[row]), int(c.drained_lgkm[row]),
        )  # fmt: skip
        return reach.join(self.own) if row == self.row else reach


@dataclass(slots=True)
class Ancestry:
    """A node and its ancestors, as far down as anybody has asked: a node is younger than its parents, so that few are
    walked where few are younger than the one that is asked for."""

    bound: int
    below: set[int]
    seen: set[int] = field(default_factory=set)

    def includes(self, nodes: list[Node], wanted: int) -> bool:
        if wanted < self.bound:
            stack = [n for n in self.below if n >= wanted]
            self.below.difference_update(stack)
            self.bound = wanted
            while stack:
                node = stack.pop()
                if node in self.seen:
                    continue
                self.seen.add(node)
                for parent in nodes[node].parents:
                    if parent < wanted:
                        self.below.add(parent)
                    elif parent not in self.seen:
                        stack.append(parent)
        return wanted in self.seen


def _ancestry(history: RaceHistory, start: int) -> Ancestry:
    known: Ancestry | None = history.ancestries.get(start)
    if known is None:
        if len(history.ancestries) >= MANY_STARTS:
            history.ancestries.clear()
        known = history.ancestries[start] = Ancestry(start + 1, {start})
    return known


def reach(history: RaceHistory, start: int, wave: int) -> Reach:
    """What a node and its ancestors say of a wave (unique number)."""
    total = NOTHING
    if start == 0:
        return total
    ancestry, nodes = _ancestry(history, start), history.nodes
    for released in history.released.get(int(history.group[wave]), {}).values():
        # what a wave knew later is more than what it knew before
        older = released[bisect_right(released, start) - 1 :: -1] if released[0] <= start else ()
        newest = next((n for n in older if ancestry.includes(nodes, n)), 0)
        if newest:
            total = total.join(nodes[newest].direct(wave))
    return total


def knows(history: RaceHistory, start: int, access: int) -> bool:
    """Has the value that this atomic or flag store left been read, directly or through others?"""
    wanted = history.node_of.get(access)
    return wanted is not None and 0 < wanted <= start and _ancestry(history, start).includes(history.nodes, wanted)
