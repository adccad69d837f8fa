"""racecheck: conflicting accesses of different waves that nothing orders, in LDS and global memory.

Two accesses conflict when they touch a common byte, one of them writes, and they are not both atomics. What orders them
is in ``race_order``; who accessed a word last in ``race_shadow``. A race of two writes of the same value, or a write of
the value that is there already, is a note named ``benign``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..isa import TABLE
from ..memory.access import Access, CacheBits, Kind, Maintenance, Space
from ..memory.views import low_bits
from ..program import Program
from ..program.lexer import parse_waitcnt
from ..program.program import Instruction
from .race_history import REGION_SHIFT, RaceHistory
from .race_order import WaveOrder
from .race_report import Verdicts
from .race_shadow import LdsShadow, Owners, Shadow, Suspects, Touch
from .race_traits import ATOMIC, DATA_ATOMIC, DMA, FLAG, FLAT, GUESS, POLL, RETURNS, WRITE, Traits, traits_of
from .sync_points import acquire_loads, flag_bytes, guess_loads, polls_lds

if TYPE_CHECKING:
    from ..machine.engine import Chunk
    from ..machine.waves import Waves
    from ..memory.hierarchy import MemoryPort

_OFFSET = (1 << REGION_SHIFT) - 1
_LOST = (
    "so many accesses of the same words are ordered by nothing that some could not be kept: races with them go unseen"
)


class ChunkState:
    """racecheck's state of one chunk: wave numbers, order, LDS shadow, and the instruction that executes now."""

    def __init__(self, history: RaceHistory, w: Waves, rank: int, name: str, lds_bytes: int) -> None:
        self.base = history.new_waves(w.count, rank, name, w.ident)
        self.uids = np.arange(self.base, self.base + w.count)
        self.order = WaveOrder(history, w.ident, self.base)
        self.lds = LdsShadow(lds_bytes, self.order.per)
        self.number = w.ident.wave.astype(np.int64)
        self.executing: tuple[int, int] = (-1, -1)
        self.ids = np.zeros(0, np.int64)
        self.rows: Any = np.zeros(0, np.intp)


class RaceCheck:
    """Observer of one launch. history: shared with the other launches of the session. hits: executions of each
    instruction so far, which tells two accesses of one execution from two executions."""

    def __init__(
        self, program: Program, history: RaceHistory, kernel: str, rank: int, before: int, hits: list[int]
    ) -> None:
        self.program, self.history, self.kernel, self.rank, self.hits = program, history, kernel, rank, hits
        self.launch_order = history.register(rank, before)
        self.acquire_loads, self.polls_lds = acquire_loads(program), polls_lds(program)
        self.guess_loads, self.flag_bytes = guess_loads(program), flag_bytes(program)
        self.verdicts = Verdicts(history, self.launch_order)
        self._traits: dict[int, Traits] = {}
        self._waits: dict[int, dict[str, int]] = {}
        self._floor = 0
        self._orders = -1
        self._said_lost = False

    # -- what the chunk does -------------------------------------------------------------------------------------------
    def state(self, w: Waves) -> ChunkState:
        state = w.extra.get("race")
        if state is None:
            lds = len(w.port.spaces[Space.LDS].content)
            state = w.extra["race"] = ChunkState(self.history, w, self.rank, self.kernel, lds)
        return state

    def _rows(self, w: Waves) -> Any:
        return np.arange(w.count) if w.sel is None else w.sel

    def waited(self, w: Waves, inst: Instruction) -> None:
        if inst.index not in self._waits:
            self._waits[inst.index] = parse_waitcnt(inst.wait_text, inst.line_number, inst.text)
        self.state(w).order.waited(self._rows(w), self._waits[inst.index])

    def released(self, chunk: Chunk, rows: Any) -> None:
        self.state(chunk.w).order.barrier(rows)

    def maintain(self, port: MemoryPort, w: Waves, what: Maintenance, cache: CacheBits, inst: Instruction) -> None:
        state, rows = self.state(w), self._rows(w)
        if what is Maintenance.WRITE_BACK:
            ids = self.history.new_ids(state.uids[rows], 0, inst)
            if cache.sc1:
                state.order.write_back(rows, ids)
            else:
                state.order.issued(rows, ids, True, False)
        elif what is Maintenance.INVALIDATE and cache.sc1:
            state.order.invalidate(rows)
        elif what is Maintenance.INVALIDATE_SCALAR:
            state.order.invalidate_scalar(rows)

    def moved(self, w: Waves, inst: Instruction) -> None:
        """A move between lanes: it touches no memory, but lgkmcnt counts it among the LDS operations."""
        state, rows = self.state(w), self._rows(w)
        state.order.issued(rows, self.history.new_ids(state.uids[rows], 0, inst), False, True)

    def last_writer(self, address: int) -> tuple[str, Instruction | None] | None:
        """Who wrote a global word last, and with what."""
        access = self.history.last_writer(address)
        return (self.history.who(access), self.history.instruction(access)) if access else None

    # -- accesses ------------------------------------------------------------------------------------------------------
    def observe(self, port: MemoryPort, w: Waves, access: Access) -> None:
        inst = access.inst
        traits = self._traits.get(inst.index)
        if traits is None:
            entry = TABLE[self.program.arch, inst.mnemonic]
            traits = self._traits[inst.index] = traits_of(
                inst, entry, inst.index in self.acquire_loads, inst.index in self.guess_loads, self.flag_bytes
            )
        state = self.state(w)
        execution = (inst.index, self.hits[inst.index])
        if state.executing != execution:
            self._issue(state, w, traits, inst, execution)
        if access.space is Space.SCRATCH:
            return  # a lane's own, but the counters count it
        for shadow, touch in self._touches(port, w, access, state):
            self._look(port, w, access, state, traits, shadow, touch)

    def _issue(
        self, state: ChunkState, w: Waves, traits: Traits, inst: Instruction, execution: tuple[int, int]
    ) -> None:
        rows = state.rows = self._rows(w)
        state.executing = execution
        state.ids = self.history.new_ids(state.uids[rows], traits.bits, inst)
        state.order.issued(rows, state.ids, traits.vm, traits.lds, bool(traits.bits & DMA), bool(traits.bits & FLAT))

    def _touches(self, port: MemoryPort, w: Waves, access: Access, state: ChunkState) -> list[tuple[Shadow, Touch]]:
        """The shadow of each region that the access reaches, with the lanes that reach it."""
        address, mask = access.address, access.mask
        if access.space is Space.LDS:
            memory = port.spaces[Space.LDS]
            inside = (address.astype(np.int64) >= 0) & (address.astype(np.int64) + access.nbytes <= memory.size)
            where = mask & inside
            place = address + memory.base_of(w)
            return [(state.lds, t) for t in self._touch(place, where, access, state)]
        low, high = int(address.min()), int(address.max()) + access.nbytes
        if low >> REGION_SHIFT == high >> REGION_SHIFT and low > 0:
            shadow = self.history.region(low >> REGION_SHIFT)
            return [(shadow, t) for t in self._touch(address & _OFFSET, mask, access, state)]
        found = []
        space = port.spaces[Space.GLOBAL].space
        for number in np.unique(address[mask] >> REGION_SHIFT):
            if space.nearest(int(number) << REGION_SHIFT) is None:
                continue
            here = mask & (address >> REGION_SHIFT == number)
            shadow = self.history.region(int(number))
            found += [(shadow, t) for t in self._touch(address & _OFFSET, here, access, state)]
        return found

    @staticmethod
    def _touch(place: NDArray[Any], mask: NDArray[np.bool_], access: Access, state: ChunkState) -> list[Touch]:
        rows, lanes = np.nonzero(mask)
        if not len(rows):
            return []
        offset = (
            place[rows, lanes].astype(np.int64)
            if place.shape == mask.shape
            else np.broadcast_to(place, mask.shape)[mask]
        )
        low = low_bits(offset)
        part = None
        if access.nbytes < 4:
            part = (np.uint8((1 << access.nbytes) - 1) << (offset & 3).astype(np.uint8)).astype(np.uint8)
        if low & 3:
            offset, low = offset & ~np.int64(3), low & 12
        ids = state.ids[rows].astype(np.uint32)
        return [Touch(offset, max(1, access.nbytes // 4), ids, state.rows[rows], lanes, part, low)]

    def _launch_floor(self) -> int:
        if self._orders != len(self.history.orders):
            self._orders, self._floor = len(self.history.orders), self.history.floor(self.launch_order)
        return self._floor

    def _look(
        self, port: MemoryPort, w: Waves, access: Access, state: ChunkState, traits: Traits, shadow: Shadow, t: Touch
    ) -> None:
        """Compare with earlier accesses, remember this one, and exchange what atomics publish."""
        local = access.space is Space.LDS
        # a load into LDS is a read of global memory and a write of LDS
        writes = access.kind is not Kind.LOAD
        bits = (traits.bits | WRITE) if writes else traits.bits & ~WRITE
        floor = state.order.lds_floor[t.rows] if local else self._launch_floor()
        several = len(state.rows) > 1
        owners = Owners(self.history.wave, self.history.traits, self.history.group, state.uids, state.number)
        # one that polls a word, or makes a guess at it, meets atomics on purpose
        whole_past = not bits & (ATOMIC | POLL | GUESS)
        suspects: list[tuple[str, Suspects]] = [("write", s) for s in shadow.writes(t, floor, whole_past)]
        if writes:
            suspects += [("read", s) for s in shadow.reads(t, floor)]
            suspects += [("write", s) for s in shadow.write(t, several, floor, owners, bool(bits & ATOMIC))]
        else:
            shadow.read(t, floor, several, owners, bool(bits & POLL))
        for what, found in suspects:
            mine = found.where(self.history.wave[found.earlier] != state.uids[found.rows])
            if len(mine.word):
                self.verdicts.judge(port, w, access, state, bits, what, mine, t)
        if bits & (ATOMIC | POLL | FLAG) and not bits & DATA_ATOMIC:
            self._synchronise(state, access, bits, shadow, t)
        if shadow.lost and not self._said_lost:
            self._said_lost = True
            port.log.add_at("racecheck", _LOST, w, access.inst, int(t.rows[0]), int(t.lanes[0]), note=True)

    # -- atomics -------------------------------------------------------------------------------------------------------
    def _synchronise(self, state: ChunkState, access: Access, bits: int, shadow: Shadow, t: Touch) -> None:
        local, order = access.space is Space.LDS, state.order
        words = (t.offset >> 2)[:, None] + np.arange(t.words)
        if bits & POLL and not bits & WRITE:
            if not shadow.has_heads:
                return
            heads = shadow.heads[words]
            for row in np.unique(t.rows[heads.any(axis=1)]):
                own = t.rows == row
                carried = tuple({int(h) for h in heads[own].reshape(-1)} - {0})
                order.acquires(int(row), int(t.ids[own][0]), local, carried)
            return
        if (
            not bits & WRITE
            or (not bits & ATOMIC and not bits & FLAG)
            or (local and not bits & ATOMIC and not self.polls_lds)
        ):
            return
        # waves of one step take effect in their order
        for row in dict.fromkeys(t.rows.tolist()):
            own = t.rows == row
            mine = np.unique(words[own])
            # what a store of a part of the word leaves of it goes on to carry what the word did
            keeps = bits & ATOMIC or t.part is not None
            carried = tuple({int(h) for h in shadow.heads[mine]} - {0}) if keeps else ()
            access_id = int(t.ids[own][0])
            node = order.release(row, access_id, carried)
            shadow.heads[mine] = node
            if bits & ATOMIC and bits & RETURNS:
                order.acquires(row, access_id, local, carried)
