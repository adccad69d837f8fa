"""A HIP library that answers from the emulator. Device memory is memory of this process; a code object is its text."""

# ruff: noqa: N802 - the methods have the names of HIP's functions

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from validation.calibrate.hip_module import run_on
from validation.calibrate.snippet import KERNEL, Region, Words

LAUNCH_FAILED = 719


class FakeHip:
    """Functions as HIP names them; 0 is success. ``faults``: pairs of a part of a kernel's text and what goes wrong."""

    def __init__(self, faults: Sequence[tuple[str, str]] = ()) -> None:
        self.buffers: dict[int, Any] = {}
        self.registered: dict[int, int] = {}
        self.loaded: dict[int, str] = {}
        self._faults = faults

    def _fault(self, text: str) -> str:
        return next((what for part, what in self._faults if part in text), "")

    def hipModuleLoadData(self, module: Any, code: Any) -> int:
        module._obj.value = 1
        self.loaded[1] = code.value.decode()
        return 0

    def hipModuleUnload(self, module: Any) -> int:
        del self.loaded[module.value]
        return 0

    def hipModuleGetFunction(self, function: Any, module: Any, name: bytes) -> int:
        assert name.decode() == KERNEL
        function._obj.value = module.value
        return 0

    def hipMalloc(self, pointer: Any, size: Any) -> int:
        buffer = np.zeros(size.value, np.uint8)
        pointer._obj.value = buffer.ctypes.data
        self.buffers[buffer.ctypes.data] = buffer
        return 0

    def hipFree(self, pointer: Any) -> int:
        del self.buffers[pointer.value]
        return 0

    def hipMemcpy(self, target: Any, source: Any, size: Any, direction: int) -> int:
        ctypes.memmove(target, source, size.value)
        return 0

    def hipHostRegister(self, host: Any, size: Any, flags: int) -> int:
        assert flags == 0xA
        self.registered[host.value] = size.value
        return 0

    def hipHostUnregister(self, host: Any) -> int:
        del self.registered[host.value]
        return 0

    def hipHostGetDevicePointer(self, device: Any, host: Any, flags: int) -> int:
        away = "elsewhere" in {self._fault(text) for text in self.loaded.values()}
        device._obj.value = host.value + 4096 * away
        return 0

    def hipModuleLaunchKernel(self, function: Any, *given: Any) -> int:
        from validation.emulator import launch
        from validation.emulator.memory.space import AddressSpace, Allocation

        *shape, lds, stream, arguments, extra = given
        assert (shape, lds, stream, extra) == ([1, 1, 1, 64, 1, 1], 0, None, None)
        text = self.loaded[function.value]
        fault = self._fault(text)
        if fault == "crash":
            os.abort()
        if fault == "hang":
            time.sleep(1000)
        if fault == "refuse":
            return LAUNCH_FAILED
        space = AddressSpace()
        for address, buffer in self.buffers.items():
            space.add(Allocation(address, buffer.nbytes, "device"))
        for address, size in self.registered.items():
            space.add(Allocation(address, size, "host"))
        state, stored = (ctypes.cast(at, ctypes.POINTER(ctypes.c_void_p)).contents.value for at in arguments)
        launch(text, KERNEL, (1,), (64,), [state, stored], space=space, checks=())
        if fault == "flip":
            self.buffers[stored].view(np.uint32)[64 * (2 + 1) + 5] ^= 1  # v1 of lane 5
        if fault == "memory":
            ctypes.memset(next(iter(self.registered)) + 255, 0xEE, 1)
        return 0

    def hipDeviceSynchronize(self) -> int:
        return 0


class FakeRunner:
    """The stand-in for a GPU."""

    name = "stand-in; text"

    def __init__(self, faults: Sequence[tuple[str, str]] = ()) -> None:
        self.hip = FakeHip(faults)

    def run(self, text: str, arch: str, image: Words, regions: Sequence[Region]) -> Words:
        result = run_on(self.hip, lambda source, target: source.encode(), text, arch, image, regions)
        assert [self.hip.buffers, self.hip.registered, self.hip.loaded] == [{}, {}, {}]  # all was given back
        return result
