"""Which torch tensors the arguments of a launch point into: HIP's launch call passes bare addresses."""

from __future__ import annotations

import gc
import re
import weakref
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .memory.space import AddressSpace, Allocation, elements_spanned
from .program import Kernel

#: A by-value argument word below this is no host pointer.
_LOWEST_POINTER = 1 << 20
#: A line of the kernel's memory map of a process.
_RANGE = re.compile("^([0-9a-f]+)-([0-9a-f]+)", re.MULTILINE)


def pointers(kernel: Kernel, kernarg: bytes) -> list[tuple[str, int]]:
    """(argument name, value) of every kernarg word that may be a pointer."""
    found = []
    for i, arg in enumerate(kernel.args):
        if arg.kind.startswith("hidden_"):
            continue
        for offset in range(arg.offset, arg.offset + arg.size - 7, 8):
            value = int.from_bytes(kernarg[offset : offset + 8], "little")
            if _LOWEST_POINTER <= value < 1 << 47:
                found.append((arg.name or f"argument {i}", value))
    return found


def borrow(space: AddressSpace, kernel: Kernel, kernarg: bytes, tensors: Sequence[Any]) -> list[Allocation]:
    """Register the storages of live tensors that the arguments point into, unless that has been done."""
    added: list[Allocation] = []
    scanned: list[Any] | None = None
    for name, pointer in pointers(kernel, kernarg):
        known = space.find(pointer)
        if known is not None:
            known.name = known.name or name
            continue
        if space.released(pointer):
            continue
        owner = _owner(pointer, [*tensors, *_remembered.tensors()])
        if owner is None and _mapped(pointer):
            scanned = _live_tensors() if scanned is None else scanned
            owner = _owner(pointer, scanned)
            if owner is not None:
                _remembered.add(owner)
        if owner is not None:
            made = space.register(owner, name)
            _remembered.lent(made)
            added.append(made)
        else:
            dead = _remembered.dead(pointer)
            if dead is not None:
                space.bury(dead)
    return added


def null_arguments(kernel: Kernel, kernarg: bytes) -> tuple[str, ...]:
    """Names of the pointer arguments that are null."""
    return tuple(
        arg.name or f"argument {i}"
        for i, arg in enumerate(kernel.args)
        if arg.kind == "global_buffer" and not any(kernarg[arg.offset : arg.offset + arg.size])
    )


def view_bounds(space: AddressSpace, kernel: Kernel, kernarg: bytes, extents: Sequence[Allocation]) -> list[Allocation]:
    """What a launch may touch of the allocations that its tensor arguments (``extents``) are only a part of.

    An allocation is left out, and so accessible as a whole, when some argument points into it that is none of those
    tensors (a bare address says nothing of its extent), or when they cover all of it.
    """
    words: dict[int, list[tuple[str, int]]] = {}
    for name, pointer in pointers(kernel, kernarg):
        holder = space.find(pointer)
        if holder is not None:
            words.setdefault(holder.base, []).append((name, pointer))
    bounds: list[Allocation] = []
    for base, found in words.items():
        holder = space.find(base)
        assert holder is not None
        parts = [replace(part) for part in extents if holder.base <= part.base < holder.end]
        given = Counter(part.base for part in parts)
        if any(count > given[pointer] for pointer, count in Counter(p for _, p in found).items()):
            continue
        names = {pointer: name for name, pointer in found}
        parts = [part for part in parts if part.base in names]
        if _covered(parts) < holder.size:
            for part in parts:
                part.name = names[part.base] if not holder.name or part.base != holder.base else holder.name
            bounds += parts
    return bounds


def extents_of(tensors: Sequence[Any]) -> list[Allocation]:
    """The bytes from the first to the last element of each tensor that has any; the tensors are not held."""
    return [_extent(tensor) for tensor in tensors if tensor.numel()]


def _extent(tensor: Any) -> Allocation:
    shape, strides, itemsize = tuple(tensor.shape), tuple(tensor.stride()), int(tensor.element_size())
    return Allocation(int(tensor.data_ptr()), elements_spanned(shape, strides) * itemsize, "", shape, strides, itemsize)


def _covered(parts: Sequence[Allocation]) -> int:
    """Bytes that lie in any of ``parts``."""
    total, reached = 0, 0
    for part in sorted(parts, key=lambda p: p.base):
        total += max(0, part.end - max(part.base, reached))
        reached = max(reached, part.end)
    return total


def _owner(pointer: int, tensors: Sequence[Any]) -> Any:
    """The tensor whose storage holds ``pointer``; one that starts there is preferred."""
    best = None
    for tensor in tensors:
        try:
            storage = tensor.untyped_storage()
            base = storage.data_ptr()
        except (RuntimeError, NotImplementedError):  # meta and fake tensors have no memory
            continue
        if base <= pointer < base + storage.nbytes():
            if tensor.data_ptr() == pointer:
                return tensor
            best = best if best is not None else tensor
    return best


def _mapped(address: int) -> bool:
    """Is there memory of this process? A large number, say a stride, is no address, and the memory map tells so a
    hundred times faster than a walk over all tensors. True where the system shows no map."""
    try:
        with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
            ranges = _RANGE.findall(file.read())
    except OSError:
        return True
    return any(int(low, 16) <= address < int(high, 16) for low, high in ranges)


def _live_tensors() -> list[Any]:
    import torch

    return [o for o in gc.get_objects() if issubclass(type(o), torch.Tensor) and o.device.type == "cpu"]


class _Remembered:
    """Weak references to tensors found before: walking every object of the process takes a quarter of a second.

    And which memory was theirs, to say whose a stale address was.
    """

    MOST = 1024

    def __init__(self) -> None:
        self.known: list[weakref.ref[Any]] = []
        self.ranges: dict[int, Allocation] = {}

    def tensors(self) -> list[Any]:
        alive = [(r, t) for r in self.known if (t := r()) is not None]
        self.known = [r for r, _ in alive]
        return [t for _, t in alive]

    def add(self, tensor: Any) -> None:
        self.known.append(weakref.ref(tensor))

    def lent(self, made: Allocation) -> None:
        """Note what a launch has borrowed; the owner is not held."""
        self.ranges.pop(made.base, None)
        while len(self.ranges) >= self.MOST:
            del self.ranges[next(iter(self.ranges))]
        self.ranges[made.base] = replace(made, owner=None, shadow=None, freed=True)

    def dead(self, pointer: int) -> Allocation | None:
        """The memory, no longer any tensor's, that ``pointer`` led to in an earlier launch; the latest if several."""
        return next((a for a in reversed(self.ranges.values()) if a.base <= pointer < a.end), None)


_remembered = _Remembered()
