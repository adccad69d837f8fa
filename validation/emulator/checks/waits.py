"""waits: registers and LDS bytes that an operation in flight will still write, touched before a wait has retired it.

An operation writes the lanes that were active when it was issued, whatever EXEC is when it returns: other lanes of the
register are not in flight (CDNA3 ISA: the request carries EXEC). ``v_readlane``, ``v_readfirstlane`` and
``v_writelane`` touch one lane; what else reads or writes lanes outside of EXEC counts as touching all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..machine.transfer import SCALAR_KEYS, Request
from ..machine.waves import LANES
from ..memory.access import Access, Kind, Space
from ..program.operands import Operand
from ..program.program import Instruction, Program
from .effects import M0_KEYS, effect_of, key_name, operand_keys
from .sync_points import polls_lds

if TYPE_CHECKING:
    from ..machine.bind import Step
    from ..machine.in_flight import InFlight, Pending, Traits
    from ..machine.waves import BindContext, Waves


_FIRST = "first"


@dataclass(frozen=True, slots=True, eq=False)
class Touch:
    """Registers that an instruction reads, and all that it touches, as keys. by_lane: of vector registers it touches
    the lanes in EXEC only. lane: or only the one that this operand names, or (``_FIRST``) the lowest in EXEC."""

    inst: Instruction
    read: frozenset[int]
    keys: frozenset[int]
    agpr_base: int
    by_lane: bool
    traits: Traits | None = None
    lane: Operand | str = ""

    @classmethod
    def of(cls, step: Step, ctx: BindContext, traits: Traits | None) -> Touch:
        effect = effect_of(step.inst, step.entry, ctx.agpr_base)
        reads, writes = effect.reads, effect.writes
        if effect.vague:  # of registers that are found at run time, those that the text names
            target, source = (operand_keys(o, ctx.agpr_base) for o in step.inst.operands)
            reads, writes = (*source, *M0_KEYS), target
        by_lane = not (effect.everywhere or effect.all_lanes)
        lane: Operand | str = ""
        if step.entry.form in ("readlane", "writelane"):
            lane = _FIRST if step.entry.options.get("first") else step.inst.operands[2]
        return cls(step.inst, frozenset(reads), frozenset((*reads, *writes)), ctx.agpr_base, by_lane, traits, lane)


class WaitCheck:
    """The checker of one chunk.

    LDS is followed by dword: ``seq``: number of the last load into LDS that writes it (0: none); ``wave``: the wave
    that issued it; ``landed``: barriers which that wave had passed when it retired the load, -1 while in flight.
    Where waves also wait for each other's values in LDS, barriers are not all that orders them: then racecheck judges
    what has landed.
    """

    def __init__(self, w: Waves, program: Program) -> None:
        self.w, self.program = w, program
        self._only_barriers = not polls_lds(program)
        self._shadow: dict[str, NDArray[Any]] | None = None
        self._loads: dict[int, Instruction] = {}

    # -- registers -----------------------------------------------------------------------------------------------------
    def touched(self, board: InFlight, touch: Touch) -> None:
        """The waves that step execute an instruction that touches registers of operations in flight."""
        here = board.selected()
        for key in sorted(touch.keys & board.busy.keys()):
            for pending in board.busy[key]:
                late = pending.is_waiting() & here
                if late.any() and not _follows(touch, key, pending.traits):
                    lanes = self._shared_lanes(pending, late, touch, key)
                    late = late & lanes.any(axis=1)
                    if not late.any():
                        continue
                    verb = "read" if key in touch.read else "overwritten"
                    what = f"{key_name(key, touch.agpr_base)} is {verb} while {self._in_flight(board, pending, late)}"
                    wave = int(np.flatnonzero(late)[0])
                    lane = int(lanes[wave].argmax())
                    self.w.port.log.add_at("waits", what, self.w, touch.inst, wave, lane, int(late.sum()))
                    return

    def _shared_lanes(self, pending: Pending, late: NDArray[np.bool_], touch: Touch, key: int) -> NDArray[np.bool_]:
        """Lanes [W, 64] that the operation will write and the instruction touches, in the waves ``late``."""
        lanes = np.zeros((self.w.count, LANES), bool)
        which = np.flatnonzero(late)
        if key >= SCALAR_KEYS:
            lanes[which] = True
            return lanes
        lanes[which] = True if pending.lanes is None else pending.lanes[pending.slot[which]]
        if touch.lane:
            only = np.zeros_like(lanes)
            only[which, self._one_lane(touch.lane, which)] = True
            return lanes & only
        return lanes & self.w.exec_mask if touch.by_lane else lanes

    def _one_lane(self, lane: Operand | str, which: NDArray[np.intp]) -> NDArray[np.int64]:
        """The lane that the operand names in these waves, modulo 64; ``_FIRST``: the lowest in EXEC, else lane 0."""
        if isinstance(lane, str):
            return self.w.exec_mask[which].argmax(axis=1)
        if lane.kind == "int":
            return np.full(len(which), int(lane.value) % LANES)
        return self.w.S[lane.index][which].astype(np.int64) % LANES

    def _in_flight(self, board: InFlight, pending: Pending, late: NDArray[np.bool_]) -> str:
        """The operation, the wait that was too loose, the wait that is missing."""
        wave, traits = int(np.flatnonzero(late)[0]), pending.traits
        who = f"`{traits.inst.text}` ({_place(traits.inst)}) is in flight: "
        if board.last_wait[wave] < 0 or board.last_wait_seq[wave] < pending.seq:
            why = "no s_waitcnt since it was issued"
        else:
            last = self.program.instructions[int(board.last_wait[wave])]
            why = f"`{last.text}` ({_place(last)}) is too loose"
        needed = []
        for counter in traits.counters:
            if pending.waiting[counter][wave]:
                younger = int(board.issued[counter][wave] - pending.order[wave]) if traits.ordered else 0
                needed.append(f"{counter}({younger})")
        return f"{who}{why}, it takes {' '.join(needed)}"

    # -- LDS -----------------------------------------------------------------------------------------------------------
    def looks_at(self, traits: Traits) -> bool:
        """Must :meth:`issued` see this operation's addresses?"""
        if traits.into_lds:
            return True
        return self._shadow is not None and "lgkmcnt" in traits.counters

    def issued(self, board: InFlight, traits: Traits, request: Request) -> None:
        """An operation that may touch LDS bytes which a load into LDS writes."""
        if self._shadow is None or traits.into_lds:
            return
        for piece in request.pieces:
            if piece.access.space is Space.LDS:
                self._look(board, traits.inst, piece.access)

    def _look(self, board: InFlight, inst: Instruction, access: Access) -> None:
        shadow = self._shadow
        assert shadow is not None
        index, inside = self._dwords(access, self.w.sel)
        seq = np.where(inside, shadow["seq"][index], 0)
        if not seq.any():
            return
        waves = np.arange(self.w.count) if self.w.sel is None else self.w.sel
        wave, landed = shadow["wave"][index], shadow["landed"][index]
        flying = (seq != 0) & (landed < 0)
        foreign = (seq != 0) & (landed >= 0) & (wave != waves[:, None, None]) & self._only_barriers
        fresh = foreign & (board.epoch[waves][:, None, None] <= landed)
        for bad in (flying, fresh):
            if bad.any():
                row, lane, _ = (int(x[0]) for x in np.nonzero(bad))
                verb = "read" if access.kind is Kind.LOAD else "written"
                what = self._why(board, int(seq[bad][0]), int(waves[row]), int(wave[bad][0]), bad is flying)
                message = f"LDS byte {int(access.address[row, lane]):#x} is {verb} while {what}"
                count = int(bad.any(axis=(1, 2)).sum())
                self.w.port.log.add_at("waits", message, self.w, inst, int(waves[row]), lane, count)

    def _why(self, board: InFlight, seq: int, reader: int, writer: int, flying: bool) -> str:
        """What is wrong with touching bytes that load number ``seq`` into LDS, of wave ``writer``, writes."""
        pending = next((p for p in board.queues["vmcnt"] if p.seq == seq), None)
        if flying and reader == writer and pending is not None:
            return self._in_flight(board, pending, np.arange(self.w.count) == reader)
        load = self._loads[seq]
        state = "is in flight" if flying else "has landed without a barrier since its wait"
        whose = "" if reader == writer else f" of wave {int(self.w.ident.wave[writer])}"
        return f"`{load.text}`{whose} ({_place(load)}) {state}"

    def _dwords(self, access: Access, sel: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Numbers of the dwords of each lane [n, 64, d], and which are to be looked at."""
        memory = self.w.port.spaces[Space.LDS]
        base = memory.bank_base if sel is None else memory.bank_base[sel]
        steps = np.arange(max(1, -(-access.nbytes // 4)))
        address = access.address.astype(np.int64)
        inside = access.mask & (address >= 0) & (address + access.nbytes <= memory.size)
        index = ((np.where(inside, address, 0) + base) >> 2)[..., None] + steps
        return np.minimum(index, len(memory.content) // 4 - 1), np.broadcast_to(inside[..., None], index.shape)

    def departed(self, board: InFlight, pending: Pending) -> None:
        """A load into LDS was issued."""
        size = len(self.w.port.spaces[Space.LDS].content) // 4
        if self._shadow is None:
            self._shadow = {name: np.zeros(size, np.int64) for name in ("seq", "wave", "landed")}
        assert pending.request is not None
        access = pending.request.pieces[-1].access
        index, inside = self._dwords(access, pending.waves)
        self._loads[pending.seq] = pending.traits.inst
        self._shadow["seq"][index[inside]] = pending.seq
        self._shadow["landed"][index[inside]] = -1
        self._shadow["wave"][index[inside]] = np.broadcast_to(pending.waves[:, None, None], index.shape)[inside]

    def landed(self, board: InFlight, pending: Pending, waves: NDArray[np.bool_]) -> None:
        """A load into LDS has retired in ``waves`` [W]."""
        assert self._shadow is not None
        assert pending.request is not None
        which = np.flatnonzero(waves)
        index, inside = self._dwords(pending.request.pieces[-1].access.rows(pending.slot[which]), which)
        flat = index[inside]
        epoch = np.broadcast_to(board.epoch[which][:, None, None], index.shape)[inside]
        own = self._shadow["seq"][flat] == pending.seq
        self._shadow["landed"][flat[own]] = epoch[own]


def _follows(touch: Touch, key: int, older: Traits) -> bool:
    """May the instruction write that register while the older operation is in flight? Yes, if it retires after it."""
    new = touch.traits
    if new is None or key in touch.read or not (new.ordered and older.ordered):
        return False
    return new.counters == older.counters


def _place(inst: Instruction) -> str:
    return inst.place if inst.source is None else f"{inst.place}, asm line {inst.line_number}"
