"""Addresses of allocations on the device, which tell what shares a cache line whatever the host's addresses are.

A device's allocator begins every allocation on a line of its own (hipMalloc and PyTorch's allocator align to 256 and
512 bytes), the host's may put two into one line, or one across lines differently in each run.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

#: Every allocation has blocks of this size for itself. It begins at the first, but for the low bits that its host
#: address has: what is naturally aligned for the one is so for the other.
ALIGNMENT = 256
_LOW_BITS = 15
_FIRST = 1 << 20


class DeviceMap:
    """Host addresses -> device addresses and back. A host range that is allocated again keeps its place, where it
    starts and fits as before: what a cache still holds of it stays the same bytes."""

    def __init__(self) -> None:
        self._next = _FIRST
        self._devices: list[int] = []
        self._hosts: list[int] = []
        #: host address -> device address and bytes reserved there
        self._known: dict[int, tuple[int, int]] = {}
        self._arrays = np.zeros((2, 0), np.int64)

    def place(self, base: int, size: int) -> int:
        """Device address of an allocation at host address ``base``."""
        device, reserved = self._known.get(base, (0, 0))
        if size <= reserved:
            return device
        low = base & _LOW_BITS
        device, reserved = self._next + low, -(-(size + low) // ALIGNMENT) * ALIGNMENT - low
        self._next = device + reserved
        self._known[base] = device, reserved
        # whoever looks meanwhile goes by the devices
        self._hosts.append(base)
        self._devices.append(device)
        return device

    def host(self, device: int) -> int:
        """Host address of a device address in an allocation, or in the first line of one."""
        at = bisect_right(self._devices, device | (ALIGNMENT - 1)) - 1
        return device - self._devices[at] + self._hosts[at]

    def hosts(self, devices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Host addresses of many."""
        count = len(self._devices)
        if self._arrays.shape[1] < count:
            self._arrays = np.array([self._devices[:count], self._hosts[:count]], np.int64)
        known, hosts = self._arrays
        at = np.searchsorted(known, devices | (ALIGNMENT - 1), side="right") - 1
        found: NDArray[np.int64] = devices - known[at] + hosts[at]
        return found
