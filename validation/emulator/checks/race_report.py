"""Are two conflicting accesses ordered? And the finding, or the note, when they are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..memory.access import Access, Kind, Space
from .race_history import Order, RaceHistory
from .race_nodes import Reach, knows, reach
from .race_order import WaveOrder
from .race_shadow import Suspects, Touch
from .race_traits import ATOMIC, DATA_ATOMIC, DMA, FLAG, FLAT, GUESS, POLL, RELAXED, SCALAR, THROUGH, WRITE

if TYPE_CHECKING:
    from ..machine.waves import Waves
    from ..memory.hierarchy import MemoryPort
    from .racecheck import ChunkState

UNORDERED = "nothing orders them"
BARRIER = "no barrier orders them"
LDS_WAIT = "a barrier lies between, but the earlier one was not waited for"
SCALAR_WAIT = "no barrier orders them, or the store was not waited for with vmcnt before it"
VM_WAIT = "a release lies between, but the earlier one was not waited for with vmcnt"
NOT_WRITTEN_BACK = "it was neither written through (sc1) nor written back (buffer_wbl2 sc1) before the release"
NOT_INVALIDATED = "no buffer_inv sc1 follows the acquire, and the load has no sc1"
NARROW_SCOPE = "both are meant as atomic, but between workgroups each of them needs sc1"
SCALAR_CACHE = (
    "the scalar cache is not coherent with stores of the same launch, unless buffer_inv sc1 and s_dcache_inv follow "
    "the acquire"
)
#: More bits than the number of a wave in its chunk takes; access ids have 32.
_ROW_BITS = 31


class Verdicts:
    """Judges pairs of accesses for one launch."""

    def __init__(self, history: RaceHistory, launch: Order) -> None:
        self.history, self.launch = history, launch

    def judge(
        self, port: MemoryPort, w: Waves, access: Access, state: ChunkState, bits: int, what: str, s: Suspects, t: Touch
    ) -> None:
        """``s``: pairs of different waves; ``what``: was the earlier one a read or a write?"""
        traits = self.history.traits[s.earlier]
        same, row = self._same_group(state, s)
        keep = ~self._harmless(traits, bits, what, same, state.order.know[s.rows] == 0)
        keep &= ~self._same_group_ordered(state, access, bits, traits, s, same, row)
        if keep.any():
            self._exactly(port, w, access, state, bits, what, s.where(keep), t)

    @staticmethod
    def _harmless(traits: NDArray[np.uint16], bits: int, what: str, same: Any, ignorant: Any) -> Any:
        """Pairs that are no data race by what they are: atomics, and flags that one side polls. They meet in the same
        workgroup (``same``), or where both go past the caches. ``ignorant``: the later wave knows of no release."""
        meet = same | ((traits & THROUGH != 0) if bits & THROUGH else False)
        polled = (traits & FLAG != 0) if bits & POLL else np.zeros(len(traits), bool)
        if bits & ATOMIC:
            # a relaxed load keeps its traits in the shadow, also as the reader; of floats it may have wanted the sum
            read = traits & (POLL | GUESS | (0 if bits & DATA_ATOMIC else RELAXED)) != 0
            return meet & ((traits & ATOMIC != 0) | (read if what == "read" else polled))
        if not bits & WRITE and bits & (POLL | RELAXED | GUESS):
            # who wants the value that other workgroups' atomics have added up, not to decide by it, may want all of it
            summed = (same | ignorant) & (traits & DATA_ATOMIC == 0) if not bits & (POLL | GUESS) else True
            return meet & (((traits & ATOMIC != 0) & summed) | polled)
        if bits & WRITE and bits & FLAG:
            return meet & (traits & POLL != 0)
        return np.zeros(len(traits), bool)

    def _same_group(self, state: ChunkState, s: Suspects) -> tuple[Any, Any]:
        """Which earlier waves belong to the same workgroup, and their rows (0 elsewhere)."""
        row = self.history.wave[s.earlier].astype(np.int64) - state.base
        inside = (row >= 0) & (row < state.order.count)
        row = np.where(inside, row, 0)
        return inside & (row // state.order.per == s.rows // state.order.per), row

    @staticmethod
    def _same_group_ordered(
        state: ChunkState, access: Access, bits: int, traits: Any, s: Suspects, same: Any, row: Any
    ) -> Any:
        covers = state.order.covers
        if access.space is Space.LDS:
            limit = np.where(traits & DMA != 0, covers.done[row], covers.lds[row])
            limit = np.where(traits & FLAT != 0, covers.drained_lgkm[row], limit)
        elif bits & SCALAR:
            # another way to memory than that of the vector memory operations, which keep their order among themselves
            limit = np.where(traits & SCALAR != 0, covers.drained_lgkm[row], covers.done[row])
            limit = np.where(traits & FLAT != 0, covers.drained_vm[row], limit)
        else:
            limit = np.where(traits & SCALAR != 0, covers.drained_lgkm[row], covers.issued[row])
        return same & (s.earlier <= limit)

    def _exactly(
        self, port: MemoryPort, w: Waves, access: Access, state: ChunkState, bits: int, what: str, s: Suspects, t: Touch
    ) -> None:
        pairs, inverse = np.unique((s.earlier.astype(np.int64) << _ROW_BITS) | s.rows, return_inverse=True)
        for i, pair in enumerate(pairs.tolist()):
            earlier, row = pair >> _ROW_BITS, pair & ((1 << _ROW_BITS) - 1)
            reason = self._reason(state, access, bits, what, earlier, row)
            if reason is not None:
                self._report(port, w, access, bits, what, earlier, reason, s.where(inverse == i), t)

    def _reason(self, state: ChunkState, access: Access, bits: int, what: str, earlier: int, row: int) -> str | None:
        """Why the two are not ordered; None if they are."""
        history, order = self.history, state.order
        wave = int(history.wave[earlier])
        owner = history.owner(wave)
        if owner.rank != self.launch.rank and self.launch.before >> owner.rank & 1:
            return None
        traits = int(history.traits[earlier])
        group = order.group_of(row)
        same = group.start <= wave - state.base < group.stop
        known = reach(history, int(order.know[row]), wave)
        if access.space is Space.LDS:
            waited = known.drained_lgkm if traits & FLAT else known.done if traits & DMA else known.lds
            if earlier <= waited or self._was_read(order, traits, earlier, row):
                return None
            return LDS_WAIT if same and earlier <= order.covers.issued[wave - state.base] else BARRIER
        if same:
            if bits & SCALAR:
                at_barrier = order.covers.drained_vm if traits & FLAT else order.covers.done
                waited = max(_complete(known, traits, "read"), int(at_barrier[wave - state.base]))
                return None if earlier <= waited else SCALAR_WAIT
            return None if earlier <= known.issued else BARRIER
        if self._was_read(order, traits, earlier, row):
            return None
        if _meant_atomic(traits, bits) and not traits & bits & THROUGH:
            return NARROW_SCOPE
        if _any_sum_will_do(traits, bits) and not _complete(known, traits, what) < earlier <= known.issued:
            return None
        if earlier > _complete(known, traits, what):
            return VM_WAIT if earlier <= known.issued else UNORDERED
        if what == "read":
            return None
        if not traits & THROUGH and earlier > known.available:
            return NOT_WRITTEN_BACK
        if bits & WRITE or bits & THROUGH:
            return None
        loads = reach(history, int(order.know_loads[row]), wave)
        if bits & SCALAR:
            emptied = reach(history, int(order.know_scalar[row]), wave)
            seen = min(_complete(loads, traits, what), _complete(emptied, traits, what))
            return None if earlier <= seen else SCALAR_CACHE
        return None if earlier <= _complete(loads, traits, what) else NOT_INVALIDATED

    def _was_read(self, order: WaveOrder, traits: int, earlier: int, row: int) -> bool:
        """Did the wave, or one that it knows of, read the value that this atomic or flag store left?"""
        return bool(traits & (ATOMIC | FLAG)) and knows(self.history, int(order.know[row]), earlier)

    # -- findings ------------------------------------------------------------------------------------------------------
    def _report(
        self,
        port: MemoryPort,
        w: Waves,
        access: Access,
        bits: int,
        what: str,
        earlier: int,
        reason: str,
        s: Suspects,
        t: Touch,
    ) -> None:
        inst = self.history.instruction(earlier)
        where = f" at {inst.text} ({inst.place})" if inst is not None else ""
        kind = {Kind.LOAD: "read", Kind.STORE: "write", Kind.ATOMIC: "atomic"}[access.kind]
        message = f"{access.space.value} {kind} races with the {what} by {self.history.who(earlier)}{where}: {reason}"
        name, index = self._element(port, w, access, s)
        together = earlier >= int(t.ids.min())
        benign = access.kind is Kind.STORE and self._same_value(
            port, w, access, s, together, self.history.workgroup(earlier)
        )
        port.log.add_at(
            "benign" if benign else "racecheck", message, w, access.inst, int(s.rows[0]), int(s.lanes[0]), len(s.word),
            name, index, note=benign,
        )  # fmt: skip

    @staticmethod
    def _element(port: MemoryPort, w: Waves, access: Access, s: Suspects) -> tuple[str | None, Any]:
        if access.space is not Space.GLOBAL:
            return None, None
        address = int(np.broadcast_to(access.address, access.mask.shape)[_step_row(w, int(s.rows[0])), s.lanes[0]])
        holder = port.spaces[Space.GLOBAL].space.find(address)
        return (None, None) if holder is None else (holder.name or None, holder.index_of(address))

    @staticmethod
    def _same_value(
        port: MemoryPort, w: Waves, access: Access, s: Suspects, together: bool, workgroup: int | None
    ) -> bool:
        """Do all lanes of the pair write what memory holds, as the earlier ``workgroup`` sees it, or (``together``)
        what the other lanes that write there in the same instruction write? Lanes that overlap only partly count as
        different."""
        assert access.data is not None
        offset, _, _ = port.spaces[access.space].resolve(port, w, access)
        shape = access.mask.shape
        rows = np.array([_step_row(w, int(r)) for r in s.rows])
        mask = np.uint32((1 << (8 * access.nbytes)) - 1) if access.nbytes < 4 else np.uint32(0xFFFFFFFF)
        words = [np.broadcast_to(word, shape) & mask for word in access.data]
        if not together:
            memory = port.spaces[access.space]
            place = offset[rows, s.lanes]
            if workgroup is None or memory.caches is None:
                held = memory.views.read(place, access.nbytes)
            else:
                held = memory.caches.seen_by(memory, workgroup, place + memory.base, access.nbytes)
            return all((h == word[rows, s.lanes]).all() for h, word in zip(held, words, strict=True))
        for place in np.unique(offset[rows, s.lanes]):
            here = (offset < place + access.nbytes) & (offset + access.nbytes > place) & access.mask
            if (offset[here] != place).any() or any((word[here] != word[here][0]).any() for word in words):
                return False
        return True


def _complete(known: Reach, traits: int, what: str) -> int:
    """The youngest access to global memory with these traits that was waited for, or (a write) written back."""
    waited = known.drained_vm if traits & FLAT else known.done
    return max(waited, known.available) if what == "write" else waited


def _any_sum_will_do(traits: int, bits: int) -> bool:
    """Is a relaxed load of what an atomic on integers counts no race? What a release promises must be there, though."""
    counts = traits & ATOMIC and not traits & DATA_ATOMIC
    return bool(counts and bits & RELAXED and not bits & WRITE and traits & bits & THROUGH)


def _meant_atomic(traits: int, bits: int) -> bool:
    """Is one of the two accesses an atomic or a flag store, and the other an atomic or a polling load?"""
    published, polling = ATOMIC | FLAG, ATOMIC | POLL
    return bool((traits & published and bits & polling) or (bits & published and traits & polling))


def _step_row(w: Waves, row: int) -> int:
    """Position of a wave of the chunk among those that step now."""
    return row if w.sel is None else int(np.searchsorted(w.sel, row))
