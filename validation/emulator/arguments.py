"""What the pointer arguments of a launch lead to: the tensor there, or the bytes where only an allocation is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .memory.space import AddressSpace, Allocation, dtype_name, elements_spanned
from .program import Kernel

_POINTER_BYTES = 8


@dataclass(frozen=True, slots=True)
class PointedTo:
    """Memory that a pointer argument led to when it was launched.

    size: bytes from its first element to its last (of the allocation, where no tensor is known); 0 if no memory is
    known there. shape and strides (in elements) and dtype: the tensor's; shape is None where only bytes are known.
    offset: bytes from the first element (or byte) to the pointer.

    As text: ``bfloat16[5,520]``, ``bfloat16[5,520] strides [528,1]``, ``bfloat16[5,520] at byte 1056``, ``4096 bytes``.
    """

    size: int
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] = ()
    dtype: str = ""
    offset: int = 0

    @classmethod
    def of(cls, tensor: Any, offset: int = 0) -> PointedTo:
        """The tensor that lies there; anything with shape, stride() and dtype."""
        shape, strides = tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))
        size = elements_spanned(shape, strides) * int(tensor.element_size())
        return cls(size, shape, strides, dtype_name(tensor), offset)

    @classmethod
    def inside(cls, holder: Allocation, pointer: int) -> PointedTo:
        """What is known of an allocation: its tensor, unless the pointer lies before that."""
        offset = pointer - holder.base
        if holder.dtype and offset >= holder.data_offset:
            size = elements_spanned(holder.shape, holder.strides) * holder.itemsize
            offset -= holder.data_offset
            return cls(size, holder.shape, holder.strides, holder.dtype, offset)
        return cls(holder.size, offset=offset)

    @property
    def contiguous(self) -> bool:
        """Whether rows follow each other without gaps."""
        due = 1
        for size, stride in zip(reversed(self.shape or ()), reversed(self.strides), strict=True):
            if size != 1 and stride != due:
                return False
            due *= size
        return True

    def __str__(self) -> str:
        place = f" at byte {self.offset}" if self.offset else ""
        if self.shape is None:
            return (f"{self.size} bytes" if self.size else "no known memory") + place
        gaps = "" if self.contiguous else f" strides {_listed(self.strides)}"
        return f"{self.dtype}{_listed(self.shape)}{gaps}{place}"


def _listed(numbers: Sequence[int]) -> str:
    return f"[{','.join(map(str, numbers))}]"


def pointed_to(
    space: AddressSpace, kernel: Kernel, kernarg: bytes, tensors: Sequence[Any]
) -> dict[str, PointedTo | None]:
    """By argument name, what each pointer of a launch leads to; None for a null pointer.

    A pointer to the first element of one of ``tensors`` (those that the launcher was called with, in order) leads to
    that one, any other to what ``space`` holds there. Of an argument passed by value the words that are no address of
    either are left out.
    """
    given: dict[int, list[Any]] = {}
    for tensor in tensors:
        if tensor.numel():
            given.setdefault(int(tensor.data_ptr()), []).append(tensor)
    found: dict[str, PointedTo | None] = {}
    for name, value, declared in _words(kernel, kernarg):
        holder = space.find(value)
        if value in given:
            # several that start at one address are taken in turn, the last for all that follow
            here = given[value]
            found[name] = PointedTo.of(here.pop(0) if len(here) > 1 else here[0])
        elif holder is not None:
            found[name] = PointedTo.inside(holder, value)
        elif declared:
            found[name] = PointedTo(0) if value else None
    return found


def _words(kernel: Kernel, kernarg: bytes) -> Iterator[tuple[str, int, bool]]:
    """Name and value of each 8-byte word of the visible arguments, and whether metadata calls it a pointer."""
    for i, arg in enumerate(kernel.args):
        if arg.kind.startswith("hidden_"):
            continue
        label = arg.name or f"argument {i}"
        for offset in range(0, arg.size - _POINTER_BYTES + 1, _POINTER_BYTES):
            at = arg.offset + offset
            value = int.from_bytes(kernarg[at : at + _POINTER_BYTES], "little")
            yield (f"{label}+{offset}" if offset else label), value, arg.kind == "global_buffer"
