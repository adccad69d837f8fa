"""The port through which every memory instruction of a launch goes: spaces, observers, faults, atomics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ..findings import FindingLog
from ..program.program import Instruction
from .access import Access, CacheBits, Maintenance, Space
from .atomics import AtomicOp, apply_in_order
from .faults import describe_fault, describe_misalignment
from .grids import Grid
from .spaces import BankedMemory, GlobalMemory, Memory
from .views import Words, low_bits, natural_width, place, place_of

if TYPE_CHECKING:
    from ..machine.waves import Waves


class Observer(Protocol):
    """A checker or counter that sees each access before it happens."""

    def observe(self, port: MemoryPort, w: Waves, access: Access) -> None: ...


class MemoryPort:
    """Memory as one chunk of waves sees it. ``changes`` counts stores to, and changes by atomics of, global memory:
    what other workgroups can see, and so what tells a loop that works from one that polls. ``effects`` counts the same
    for global memory and LDS. ``exact``: stores of what is there already do not count."""

    def __init__(
        self,
        global_memory: GlobalMemory,
        lds: BankedMemory,
        scratch: BankedMemory,
        log: FindingLog,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.spaces: dict[Space, Any] = {Space.GLOBAL: global_memory, Space.LDS: lds, Space.SCRATCH: scratch}
        self.log = log
        self.observers = tuple(observers)
        self.changes = self.effects = 0
        self.exact = False

    def read(self, w: Waves, access: Access, into: Words | None = None) -> Words:
        """uint32 [n, 64] for each dword (one, zero-extended, for narrow data).

        0 in lanes that a descriptor or a fault takes out; unspecified in lanes outside of EXEC if that is the mask.
        into: rows of the register file that the words may be put in at once; they have been when nothing is returned.
        """
        memory = self.spaces[access.space]
        for observer in self.observers:
            observer.observe(self, w, access)
        if access.place is not None:
            return cast(Words, memory.views.gather(access.place))
        if access.grid is not None and (grid := self._within(memory, w, access, access.grid)) is not None:
            return self._read_grid(memory, access, grid, into)
        offset, mask, everywhere = memory.resolve(self, w, access)
        low = self._alignment(w, access, offset, mask)
        if access.lasting and everywhere and memory.caches is None and not self._bad(access, low):
            access.place = place(offset, access.nbytes, low)
        if memory.caches is not None:
            return cast(Words, memory.caches.read(memory, w, access, offset + memory.base, mask))
        words: Words = memory.views.read(offset, access.nbytes, low)
        if not everywhere and mask is not w.em:
            words = [np.where(mask, word, np.uint32(0)) for word in words]
        return words

    def write(self, w: Waves, access: Access, words: Words) -> None:
        """Store one uint32 array (broadcastable to [n, 64]) for each dword. The highest lane wins a conflict."""
        memory = self.spaces[access.space]
        access.data = words
        for observer in self.observers:
            observer.observe(self, w, access)
        if access.place is not None and not self.exact:
            memory.views.scatter(access.place, words)
            self._changed(access.space)
            return
        if access.grid is not None and access.everywhere and not self.exact:
            grid = self._within(memory, w, access, access.grid)
            if grid is not None:
                self._write_grid(memory, access, grid, words)
                self._changed(access.space)
                return
        offset, mask, everywhere = memory.resolve(self, w, access)
        if not self.exact or self._alters(w, access, offset, mask):
            self._changed(access.space)
        low = self._alignment(w, access, offset, mask)
        if access.lasting and everywhere and memory.caches is None and not self._bad(access, low):
            access.place = place(offset, access.nbytes, low)
        shape = access.mask.shape
        whole = [word if word.shape == shape else np.broadcast_to(word, shape) for word in words]
        if memory.caches is not None:
            memory.caches.write(memory, w, access, offset + memory.base, mask, [word[mask] for word in whole])
        elif everywhere:
            memory.views.write(offset, access.nbytes, whole, low)
        else:
            memory.views.write(offset[mask], access.nbytes, [word[mask] for word in whole], low)

    def atomic(
        self, w: Waves, access: Access, op: AtomicOp, operands: Sequence[NDArray[Any]], want_old: bool = True
    ) -> NDArray[Any]:
        """Read-modify-write of one element a lane, in (wave, lane) order; returns the old values [n, 64].

        ``operands``: arrays of ``op.dtype``, broadcastable to [n, 64]. Lanes that do not take part get 0, and so do all
        where the old value is not wanted.
        """
        memory = self.spaces[access.space]
        for observer in self.observers:
            observer.observe(self, w, access)
        offset, mask, _ = memory.resolve(self, w, access)
        low = self._alignment(w, access, offset, mask)
        result = np.zeros(offset.shape, op.dtype)
        if not mask.any():
            return result
        if memory.caches is not None:
            memory.caches.before_atomic(memory, w, access, offset + memory.base, mask)
        flat = offset[mask]
        values = [np.broadcast_to(x, offset.shape)[mask] for x in operands]
        words = memory.views.read(flat, access.nbytes, low)
        before = np.ascontiguousarray(np.stack(words, axis=-1)).view(op.dtype)[:, 0]
        old, lanes, after = apply_in_order(op, flat, before, values, want_old)
        # compared as integers: a NaN must not look like a change, nor -0 like +0
        bits = np.dtype(f"u{access.nbytes}")
        if not np.array_equal(after.view(bits), before[lanes].view(bits)):
            self._changed(access.space)
        packed = np.ascontiguousarray(after).view(np.uint32).reshape(len(lanes), access.nbytes // 4)
        memory.views.write(flat[lanes], access.nbytes, list(packed.T), low)
        if memory.caches is not None:
            memory.caches.after_atomic(memory, w, access, offset + memory.base, mask)
        if old is not None:
            result[mask] = old
        return result

    def maintain(self, w: Waves, what: Maintenance, cache: CacheBits, inst: Instruction) -> None:
        """A cache write-back or invalidation of the selected waves; flat memory has no caches. Observers see it."""
        for observer in self.observers:
            hook = getattr(observer, "maintain", None)
            if hook is not None:
                hook(self, w, what, cache, inst)
        memory = self.spaces[Space.GLOBAL]
        if memory.caches is not None:
            memory.caches.maintain(memory, w, what, cache)

    def moved(self, w: Waves, inst: Instruction) -> None:
        """The selected waves pass values between their lanes through the LDS hardware, without any memory."""
        for observer in self.observers:
            hook = getattr(observer, "moved", None)
            if hook is not None:
                hook(w, inst)

    @staticmethod
    def _within(memory: Memory, w: Waves, access: Access, grid: Grid) -> Grid | None:
        """Places, in the memory's views, of an access with which nothing is wrong; None where there is more to do."""
        if access.within is not None:
            return access.within
        wanted = access.alignment or natural_width(access.nbytes) if access.strict else 1
        if memory.caches is not None or grid.bits & (max(wanted, min(access.nbytes, 4)) - 1):
            return None
        found: Grid | None = memory.within(w, access, grid)
        if access.lasting:
            access.within = found
        return found

    @staticmethod
    def _read_grid(memory: Memory, access: Access, grid: Grid, into: Words | None) -> Words:
        form, nbytes = grid.form, access.nbytes
        if form is None or not form.regular(nbytes):
            at = place_of(grid, nbytes)
            if access.lasting:
                access.place = at
            return cast(Words, memory.views.gather(at))
        shape = access.mask.shape
        rows = [np.empty(shape, np.uint32) for _ in range(max(1, nbytes // 4))] if into is None else into
        memory.views.read_strided(grid.base, form, nbytes, rows)
        return rows if into is None else []

    @staticmethod
    def _write_grid(memory: Memory, access: Access, grid: Grid, words: Words) -> None:
        form, nbytes = grid.form, access.nbytes
        if form is not None and form.regular(nbytes) and form.apart(nbytes):
            memory.views.write_strided(grid.base, form, nbytes, words)
            return
        at = place_of(grid, nbytes)
        if access.lasting:
            access.place = at
        memory.views.scatter(at, words)

    def _changed(self, space: Space) -> None:
        self.changes += space is Space.GLOBAL
        self.effects += space is not Space.SCRATCH

    def _alters(self, w: Waves, access: Access, offset: NDArray[np.int64], mask: NDArray[np.bool_]) -> bool:
        """Does a store bring other values than its waves would find there?"""
        memory = self.spaces[access.space]
        rows, lanes = np.nonzero(mask)
        used = np.uint32(0xFFFFFFFF >> max(0, 32 - 8 * access.nbytes))
        words = [np.broadcast_to(word, mask.shape)[rows, lanes] for word in access.data]
        place = np.broadcast_to(offset, mask.shape)[rows, lanes]
        if memory.caches is None:
            held = memory.views.read(place, access.nbytes, low_bits(place))
            return any(((h ^ word) & used).any() for h, word in zip(held, words, strict=True))
        address = place + memory.base
        groups = (w.ident.linear if w.sel is None else w.ident.linear[w.sel])[rows]
        for group in np.unique(groups):
            here = groups == group
            held = memory.caches.seen_by(memory, int(group), address[here], access.nbytes)
            if any(((h ^ word[here]) & used).any() for h, word in zip(held, words, strict=True)):
                return True
        return False

    def _alignment(self, w: Waves, access: Access, offset: NDArray[np.int64], mask: NDArray[np.bool_]) -> int:
        """Address bits below the access size; a finding where the instruction wants them to be 0."""
        if access.nbytes == 1:
            return 0
        low = low_bits(offset)
        if self._bad(access, low):
            natural = access.alignment or natural_width(access.nbytes)
            bad = ((offset & (natural - 1)) != 0) & mask
            if bad.any():
                describe_misalignment(self, w, access, bad, natural)
        return low

    @staticmethod
    def _bad(access: Access, low: int) -> bool:
        """Do these low address bits break the alignment that the instruction wants?"""
        return access.strict and low & ((access.alignment or natural_width(access.nbytes)) - 1) != 0

    def fault(self, w: Waves, access: Access, bad: NDArray[np.bool_]) -> None:
        """Record lanes whose access lies outside what they may touch."""
        describe_fault(self, w, access, bad)
