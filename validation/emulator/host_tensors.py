"""Which torch tensors the arguments of a launch point into: HIP's launch call passes bare addresses."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Any

from .memory.space import AddressSpace, Allocation
from .program import Kernel

#: A by-value argument word below this is no host pointer.
_LOWEST_POINTER = 1 << 20


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
        owner = _owner(pointer, [*tensors, *_remembered.tensors()])
        if owner is None:
            scanned = _live_tensors() if scanned is None else scanned
            owner = _owner(pointer, scanned)
            if owner is not None:
                _remembered.add(owner)
        if owner is not None:
            added.append(space.register(owner, name))
    return added


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


def _live_tensors() -> list[Any]:
    import torch

    return [o for o in gc.get_objects() if issubclass(type(o), torch.Tensor) and o.device.type == "cpu"]


class _Remembered:
    """Weak references to tensors found before: walking every object of the process takes a quarter of a second."""

    def __init__(self) -> None:
        self.known: list[weakref.ref[Any]] = []

    def tensors(self) -> list[Any]:
        alive = [(r, t) for r in self.known if (t := r()) is not None]
        self.known = [r for r, _ in alive]
        return [t for _, t in alive]

    def add(self, tensor: Any) -> None:
        self.known.append(weakref.ref(tensor))


_remembered = _Remembered()
