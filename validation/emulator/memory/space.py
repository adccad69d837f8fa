"""Allocations that a kernel may touch, at their real host addresses; sparse tensors cost only touched pages."""

from __future__ import annotations

import bisect
import mmap
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .device_map import DeviceMap

if TYPE_CHECKING:
    import torch

    from .weak import Caches

_MAP_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
#: Unregistered bytes on both sides of what ``empty`` hands out: an overrun must not reach a neighbour.
GUARD_BYTES = 1 << 16
ALIGNMENT = 256


@dataclass(slots=True)
class Allocation:
    """``[base, base + size)`` in bytes. ``shape``/``strides`` (elements) and ``itemsize`` describe the tensor, if any.

    ``shadow``: uint8 [size], nonzero where a byte was written; None when all counts as initialised. ``freed``: an
    access is a use after free. ``writable``: False for what kernels may only read. ``device``: its address on the
    device, which the space gives. ``dtype``: the tensor's, as ``bfloat16``; empty where no tensor is known.
    """

    base: int
    size: int
    name: str
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    itemsize: int = 1
    data_offset: int = 0
    shadow: NDArray[np.uint8] | None = None
    freed: bool = False
    writable: bool = True
    device: int = 0
    owner: Any = field(default=None, repr=False)
    dtype: str = ""

    @property
    def end(self) -> int:
        return self.base + self.size

    def index_of(self, address: int) -> tuple[int, ...] | None:
        """Tensor index that ``address`` belongs to, also just outside; None when there is no shape to tell by."""
        if not self.shape:
            return None
        offset = (address - self.base - self.data_offset) // self.itemsize
        index = []
        for stride in self.strides:
            if stride <= 0:
                index.append(0)
                continue
            index.append(offset // stride)
            offset -= index[-1] * stride
        return tuple(index)


def elements_spanned(shape: Iterable[int], strides: Iterable[int]) -> int:
    """Elements from the first to the last of a tensor that has any."""
    return 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))


def dtype_name(tensor: torch.Tensor) -> str:
    """``bfloat16`` of ``torch.bfloat16``."""
    return str(tensor.dtype).rpartition(".")[2]


def sparse_bytes(size: int) -> NDArray[np.uint8]:
    """``size`` zero bytes of which only touched pages take memory."""
    length = max(mmap.PAGESIZE, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
    area = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
    return np.frombuffer(area, np.uint8, count=size)


class AddressSpace:
    """The set of allocations of a launch or a session. Thread-safe for registering; launches only read."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._starts: list[int] = []
        self._allocations: list[Allocation] = []
        self._freed: list[Allocation] = []
        self.version = 0
        self._devices: dict[tuple[int, int], Caches] = {}
        self.device_map = DeviceMap()

    def device(self, xcds: int, cus: int) -> Caches:
        """The caches of a device of this shape, which all launches over this space share."""
        from .weak import Caches

        with self._lock:
            return self._devices.setdefault((xcds, cus), Caches(xcds, cus))

    # -- making and registering ------------------------------------------------------------------------------------
    def empty(
        self, shape: tuple[int, ...] | list[int], dtype: torch.dtype, name: str = "", initialised: bool = False
    ) -> torch.Tensor:
        """A contiguous zero-filled CPU tensor in a mapping of its own, guarded on both sides and committed lazily.

        A tensor of many GiB costs nothing until touched. ``initialised=False`` makes initcheck treat its bytes as
        never written (use ``mark_written`` after filling it from the host).
        """
        import torch

        count = int(np.prod(shape, dtype=np.int64)) if len(shape) else 1
        size = count * dtype.itemsize
        area = sparse_bytes(size + 2 * GUARD_BYTES + ALIGNMENT)
        start = GUARD_BYTES + (-(area.ctypes.data + GUARD_BYTES)) % ALIGNMENT
        raw = torch.from_numpy(area)[start : start + size]
        tensor = raw.view(dtype).reshape(tuple(shape)) if size else torch.empty(tuple(shape), dtype=dtype)
        if size:
            self._register(tensor, name, tensor.data_ptr(), size, initialised)
        return tensor

    def register(self, tensor: torch.Tensor, name: str = "", initialised: bool = True) -> Allocation:
        """Make the whole storage of ``tensor`` accessible; findings then name it and the index in ``tensor``.

        A tensor inside memory that is registered already (a view, say) only renames it: bounds stay as they are.
        """
        known = self.find(tensor.data_ptr()) if tensor.numel() else None
        if known is not None:
            known.name = name or known.name
            known.shape, known.strides = tuple(tensor.shape), tuple(tensor.stride())
            known.itemsize, known.data_offset = tensor.element_size(), tensor.data_ptr() - known.base
            known.dtype = dtype_name(tensor)
            return known
        storage = tensor.untyped_storage()
        base, size = storage.data_ptr(), storage.nbytes()
        return self._register(tensor, name, base, size, initialised)

    def _register(self, tensor: torch.Tensor, name: str, base: int, size: int, initialised: bool) -> Allocation:
        allocation = Allocation(
            base, size, name, tuple(tensor.shape), tuple(tensor.stride()), tensor.element_size(),
            tensor.data_ptr() - base, None if initialised else sparse_bytes(size), owner=tensor,
            dtype=dtype_name(tensor),
        )  # fmt: skip
        return self.add(allocation)

    def add(self, allocation: Allocation) -> Allocation:
        """Insert, replacing whatever overlapped it (memory that the host reused)."""
        if allocation.size <= 0:
            return allocation
        with self._lock:
            self._drop(allocation.base, allocation.end)
            allocation.device = self.device_map.place(allocation.base, allocation.size)
            if self._freed:
                self._freed = [a for a in self._freed if a.end <= allocation.base or a.base >= allocation.end]
            position = bisect.bisect_left(self._starts, allocation.base)
            self._starts.insert(position, allocation.base)
            self._allocations.insert(position, allocation)
            self.version += 1
        return allocation

    def remove(self, allocation: Allocation) -> None:
        """Take out exactly this allocation (memory of the emulator's own)."""
        with self._lock:
            for i, known in enumerate(self._allocations):
                if known is allocation:
                    del self._starts[i], self._allocations[i]
                    self.version += 1
                    return

    def release(self, tensor: torch.Tensor) -> None:
        """Forget the allocation that holds ``tensor``: a later access is a use after free."""
        with self._lock:
            allocation = self.find(tensor.data_ptr())
            if allocation is None:
                raise KeyError(f"no allocation at {tensor.data_ptr():#x}")
            self._drop(allocation.base, allocation.end)
            allocation.freed = True
            self._freed.append(allocation)
            self.version += 1

    def bury(self, allocation: Allocation) -> None:
        """Remember memory that was freed outside of this space, so that a later access is named a use after free."""
        with self._lock:
            if not any(a.base < allocation.end and allocation.base < a.end for a in self._allocations + self._freed):
                self._freed.append(allocation)

    def _drop(self, base: int, end: int) -> None:
        keep = [i for i, a in enumerate(self._allocations) if a.end <= base or a.base >= end]
        if len(keep) != len(self._allocations):
            self._starts = [self._starts[i] for i in keep]
            self._allocations = [self._allocations[i] for i in keep]

    # -- looking up --------------------------------------------------------------------------------------------------
    def find(self, address: int) -> Allocation | None:
        """The live allocation that holds ``address``."""
        i = bisect.bisect_right(self._starts, address) - 1
        if i >= 0 and address < self._allocations[i].end:
            return self._allocations[i]
        return None

    def released(self, address: int) -> bool:
        """Was ``address`` in memory that :meth:`release` gave up, and that is still kept from other use?"""
        return any(a.owner is not None and a.base <= address < a.end for a in self._freed)

    def knows(self, address: int) -> bool:
        """Is ``address`` in an allocation, or in a released one?"""
        return self.find(address) is not None or self.released(address)

    def nearest(self, address: int) -> Allocation | None:
        """For messages: the allocation (freed ones too) whose edge is closest to ``address``."""
        candidates = self._allocations + self._freed
        return min(candidates, key=lambda a: max(a.base - address, address - a.end, 0), default=None)

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        return tuple(self._allocations)

    def mark_written(self, tensor: torch.Tensor) -> None:
        """The host has filled ``tensor`` (its dense span): initcheck counts it as written."""
        allocation = self.find(tensor.data_ptr())
        if allocation is not None and allocation.shadow is not None:
            low = tensor.data_ptr() - allocation.base
            span = elements_spanned(tensor.shape, tensor.stride())
            allocation.shadow[low : low + span * tensor.element_size()] = 1
