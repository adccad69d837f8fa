"""The port through which every memory instruction of a launch goes: spaces, observers, faults, atomics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..findings import FindingLog
from .access import Access, Space
from .spaces import BankedMemory, GlobalMemory, Words

if TYPE_CHECKING:
    from ..machine.waves import Waves


class Observer(Protocol):
    """A checker or counter that sees each access before it happens."""

    def observe(self, port: MemoryPort, w: Waves, access: Access) -> None: ...


class MemoryPort:
    """Memory as one chunk of waves sees it."""

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
        self.changes = 0

    def read(self, w: Waves, access: Access) -> Words:
        """uint32 [n, 64] for each dword (one, zero-extended, for narrow data); 0 in lanes that do not take part."""
        memory = self.spaces[access.space]
        for observer in self.observers:
            observer.observe(self, w, access)
        offset, mask = memory.resolve(self, w, access)
        words = memory.views.read(offset, access.nbytes)
        if not mask.all():
            words = [np.where(mask, word, np.uint32(0)) for word in words]
        return words

    def write(self, w: Waves, access: Access, words: Words) -> None:
        """Store one uint32 array (broadcastable to [n, 64]) for each dword. The highest lane wins a conflict."""
        memory = self.spaces[access.space]
        for observer in self.observers:
            observer.observe(self, w, access)
        offset, mask = memory.resolve(self, w, access)
        self.changes += 1
        shape = access.address.shape
        full = bool(mask.all())
        flat = offset.reshape(-1) if full else offset[mask]
        values = []
        for word in words:
            word = np.broadcast_to(word, shape)
            values.append(np.ascontiguousarray(word).reshape(-1) if full else word[mask])
        memory.views.write(flat, access.nbytes, values)

    def atomic(
        self, w: Waves, access: Access, fn: Callable[..., Any], dtype: Any, operands: Sequence[NDArray[Any]]
    ) -> NDArray[Any]:
        """Read-modify-write of one element a lane; returns the old values [n, 64].

        ``fn(old, *operands) -> new`` over arrays of ``dtype``. Lanes that hit the same address are applied one after
        the other in (wave, lane) order; others in one vector step.
        """
        memory = self.spaces[access.space]
        for observer in self.observers:
            observer.observe(self, w, access)
        offset, mask = memory.resolve(self, w, access)
        old = np.zeros(offset.shape, dtype)
        if not mask.any():
            return old
        flat = offset[mask]
        values = [np.broadcast_to(x, offset.shape)[mask] for x in operands]
        result = np.zeros(flat.shape, dtype)
        pending = np.arange(len(flat))
        while len(pending):
            _, first = np.unique(flat[pending], return_index=True)
            now = pending[np.sort(first)]
            result[now] = self._exchange(memory, flat[now], access.nbytes, fn, dtype, [v[now] for v in values])
            if len(now) == len(pending):
                break
            rest = np.ones(len(pending), bool)
            rest[first] = False
            pending = pending[rest]
        old[mask] = result
        return old

    def _exchange(
        self, memory: Any, flat: NDArray[np.int64], nbytes: int, fn: Callable[..., Any], dtype: Any, values: list[Any]
    ) -> NDArray[Any]:
        words = memory.views.read(flat, nbytes)
        old = np.ascontiguousarray(np.stack(words, axis=-1)).view(dtype)[..., 0]
        new = np.ascontiguousarray(np.asarray(fn(old, *values)).astype(dtype, copy=False))
        if not np.array_equal(new.view(np.uint8), np.ascontiguousarray(old).view(np.uint8)):
            self.changes += 1
        packed = new.view(np.uint32).reshape(len(flat), nbytes // 4)
        memory.views.write(flat, nbytes, [packed[:, i] for i in range(nbytes // 4)])
        return old

    def fault(self, w: Waves, access: Access, bad: NDArray[np.bool_]) -> None:
        """Record lanes whose access lies outside what they may touch."""
        row, lane = (int(x[0]) for x in np.nonzero(bad))
        address = int(access.address[row, lane])
        what = f"{access.space.value} {access.kind.value} of {access.nbytes} bytes"
        if access.space is not Space.GLOBAL:
            size = self.spaces[access.space].size
            self.log.add("memcheck", f"{what} at byte {address:#x}, outside of the {size} bytes there are", w, access.inst, bad)
            return
        space = self.spaces[Space.GLOBAL].space
        near = space.nearest(address)
        if near is None:
            self.log.add("memcheck", f"{what} at {address:#x}: no memory is registered", w, access.inst, bad)
            return
        if address >= near.end:
            where = f"{address - near.end} bytes past the end of"
        elif address < near.base:
            where = f"{near.base - address} bytes before"
        else:
            where = "running over the end of" if not near.freed else "inside the freed"
        kind = "use after free: " if near.freed else ""
        name = near.name or f"the {near.size}-byte allocation at {near.base:#x}"
        self.log.add(
            "memcheck", f"{kind}{what} {where} {name} ({near.size} bytes)", w, access.inst, bad, near.name or None,
            near.index_of(address),
        )  # fmt: skip
