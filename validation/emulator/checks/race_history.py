"""What racecheck remembers across the chunks and launches of a session: access ids, their owners, shadows, order."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..findings import Finding
from .host_spans import Footprint
from .race_shadow import Shadow

if TYPE_CHECKING:
    from ..machine.waves import Identity
    from ..program.program import Instruction

#: Global memory is shadowed in regions of this size; untouched parts of a region cost nothing.
REGION_SHIFT = 26
#: With more ids than this, the history starts afresh at the next launch that everything is ordered before: races of
#: later, unordered launches with what it forgets stay unseen then.
MANY_IDS = 1 << 25


@dataclass(frozen=True, slots=True)
class Owner:
    """A block of wave numbers: the waves of a chunk, or one host operation."""

    first: int
    rank: int
    name: str
    ident: Identity | None


@dataclass(slots=True)
class Order:
    """Place of a launch or host operation among the others: see :class:`~validation.emulator.work.Work`."""

    rank: int
    before: int
    first_id: int


class RaceHistory:
    """Every memory operation of every wave gets an id, ascending in time. ``wave[id]`` is the unique number of its
    wave, ``traits[id]`` what kind of access it was (bits of ``race_traits``)."""

    def __init__(self) -> None:
        self._clear()
        self.orders: dict[int, Order] = {}

    def _clear(self) -> None:
        self.next_id = 1
        self.wave = np.zeros(1 << 12, np.int32)
        self.traits = np.zeros(1 << 12, np.uint16)
        self._step_ids: list[int] = []
        self._steps: list[Instruction | None] = []
        self._owner_firsts: list[int] = []
        self._owners: list[Owner] = []
        self.next_wave = 1
        #: unique number of the workgroup, or host operation, of each wave
        self.group = np.zeros(1 << 10, np.int32)
        self._next_group = 1
        self.regions: dict[int, Shadow] = {}
        #: release and join nodes, see ``race_nodes``
        self.nodes: list[Any] = [None]
        #: access id of an atomic or flag store -> its node
        self.node_of: dict[int, int] = {}
        #: number of a workgroup -> wave (unique number) -> its release nodes, ascending
        self.released: defaultdict[int, dict[int, list[int]]] = defaultdict(dict)
        #: see ``race_nodes``
        self.ancestries: dict[int, Any] = {}

    # -- order of launches ---------------------------------------------------------------------------------------------
    def register(self, rank: int, before: int) -> Order:
        """A launch or host operation begins."""
        if self.next_id > MANY_IDS and all(before >> o.rank & 1 for o in self.orders.values()):
            self.orders.clear()
            self._clear()
        order = self.orders[rank] = Order(rank, before, self.next_id)
        return order

    def floor(self, order: Order) -> int:
        """Accesses with ids up to this one are ordered before all of the launch."""
        others = [o.first_id for o in self.orders.values() if o is not order and not order.before >> o.rank & 1]
        return min([order.first_id, *others]) - 1

    # -- ids -----------------------------------------------------------------------------------------------------------
    def new_waves(self, count: int, rank: int, name: str, ident: Identity | None) -> int:
        """Unique numbers for ``count`` waves; the first of them."""
        first = self.next_wave
        self.next_wave += count
        if self.next_wave > len(self.group):
            self.group = np.concatenate([self.group, np.zeros(max(self.next_wave, len(self.group)), np.int32)])
        groups = np.zeros(count, np.int32) if ident is None else ident.group
        self.group[first : self.next_wave] = self._next_group + groups
        self._next_group += int(groups.max()) + 1
        self._owner_firsts.append(first)
        self._owners.append(Owner(first, rank, name, ident))
        return first

    def new_ids(self, waves: Any, traits: int, inst: Instruction | None) -> NDArray[np.int64]:
        """One id for each of ``waves`` (unique numbers)."""
        count = len(waves)
        first, last = self.next_id, self.next_id + count
        if last > len(self.wave):
            self.wave = np.concatenate([self.wave, np.zeros(max(last, len(self.wave)), np.int32)])
            self.traits = np.concatenate([self.traits, np.zeros(len(self.wave) - len(self.traits), np.uint16)])
        self.wave[first:last] = waves
        self.traits[first:last] = traits
        self._step_ids.append(first)
        self._steps.append(inst)
        self.next_id = last
        if last > 0xFFFFFFFF:
            raise OverflowError("racecheck has seen 2**32 memory operations in one session; split it")
        return np.arange(first, last)

    def owner(self, wave: int) -> Owner:
        return self._owners[bisect_right(self._owner_firsts, wave) - 1]

    def instruction(self, access: int) -> Instruction | None:
        return self._steps[bisect_right(self._step_ids, access) - 1]

    def who(self, access: int) -> str:
        """For messages: the wave or host operation of an access."""
        wave = int(self.wave[access])
        owner = self.owner(wave)
        if owner.ident is None:
            return owner.name
        row = wave - owner.first
        group = tuple(int(x) for x in owner.ident.workgroup[row])
        return f"wave {int(owner.ident.wave[row])} of workgroup {group} of {owner.name}"

    def workgroup(self, access: int) -> int | None:
        """Number in the grid of the workgroup of an access; None for a host operation."""
        wave = int(self.wave[access])
        owner = self.owner(wave)
        return None if owner.ident is None else int(owner.ident.linear[wave - owner.first])

    # -- shadows -------------------------------------------------------------------------------------------------------
    def region(self, number: int) -> Shadow:
        shadow = self.regions.get(number)
        if shadow is None:
            shadow = self.regions[number] = Shadow(1 << REGION_SHIFT)
        return shadow

    def last_writer(self, address: int) -> int:
        """Access id, 0 if nothing in the history wrote the word."""
        shadow = self.regions.get(address >> REGION_SHIFT)
        return 0 if shadow is None else int(shadow.writer.words[(address & ((1 << REGION_SHIFT) - 1)) >> 2])

    # -- the host ------------------------------------------------------------------------------------------------------
    def host_access(self, rank: int, before: int, name: str, touched: Sequence[Footprint]) -> list[Finding]:
        """A fill or copy on a stream, and the bytes that it reads and writes. Returns races with other work."""
        order = self.register(rank, before)
        floor = self.floor(order)
        wave = self.new_waves(1, rank, name, None)
        (access,) = self.new_ids([wave], 0, None)
        found: dict[tuple[str, int], Finding] = {}
        for footprint in touched:
            for number, words, part in footprint.words(REGION_SHIFT):
                for earlier in self.region(number).fill(words, part, int(access), footprint.write):
                    other = self.owner(int(self.wave[earlier]))
                    if earlier > floor and other.rank != rank and not before >> other.rank & 1:
                        self._report(found, name, int(earlier), footprint.write)
        return list(found.values())

    def _report(self, found: dict[tuple[str, int], Finding], name: str, earlier: int, write: bool) -> None:
        inst = self.instruction(earlier)
        where = f" at {inst.text} ({inst.place})" if inst is not None else ""
        text = f"{'write' if write else 'read'} by {name} is not ordered with the access of {self.who(earlier)}{where}"
        key = (name, -1 if inst is None else inst.index)
        source = inst.source if inst is not None and inst.source else (None, None)
        if key not in found:
            found[key] = Finding(
                "racecheck", text, name, (0, 0, 0), 0, 0, "" if inst is None else inst.text,
                0 if inst is None else inst.line_number, source[0], source[1],
            )  # fmt: skip
