"""One kernel text on a GPU through ``libamdhip64``, which a stand-in can replace: see :class:`Runner`.

Flags and functions: ``hip_runtime_api.h`` of ROCm. Nobody has yet run this module on silicon.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import numpy as np

from validation.calibrate.assemble import Assemble, assembler
from validation.calibrate.snippet import KERNEL, LANES, NotComparableError, Region, Words

LIBRARIES = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6")
MAPPED, COARSE_GRAINED = 0x2, 0x8
TO_DEVICE, TO_HOST = 1, 2


class GpuError(RuntimeError):
    """HIP has refused a call; the message names the call and HIP's reason."""


class Runner(Protocol):
    """What calibration needs of a device. ``name`` says with what it works."""

    name: str

    def run(self, text: str, arch: str, image: Words, regions: Sequence[Region]) -> Words:
        """Run the kernel :data:`~validation.calibrate.snippet.KERNEL` of ``text`` as one wave, and return the state.

        image: uint32 [rows, 64]. regions: memory of this process that the kernel may change, where it lies.

        Raises:
            NotComparableError: the device cannot see one of the regions at its address.
            GpuError, AssemblerError: it was not run, or not to its end.
        """


class HipRunner:
    """A :class:`Runner` on the first GPU that this process sees."""

    def __init__(self) -> None:
        label, self._assemble = assembler()
        self._hip = _library()
        self.name = f"libamdhip64; {label}"

    def run(self, text: str, arch: str, image: Words, regions: Sequence[Region]) -> Words:
        """See :class:`Runner`."""
        return run_on(self._hip, self._assemble, text, arch, image, regions)


def run_on(hip: Any, assemble: Assemble, text: str, arch: str, image: Words, regions: Sequence[Region]) -> Words:
    """:meth:`Runner.run` through the HIP library ``hip``."""
    code = assemble(text, arch)
    result = np.zeros_like(image)
    with ExitStack() as stack:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        _call(hip, "hipModuleLoadData", ctypes.byref(module), ctypes.c_char_p(code))
        stack.callback(_call, hip, "hipModuleUnload", module)
        _call(hip, "hipModuleGetFunction", ctypes.byref(function), module, KERNEL.encode())
        state, stored = (stack.enter_context(_buffer(hip, image.nbytes)) for _ in range(2))
        size = ctypes.c_size_t(image.nbytes)
        for target, source in ((state, image), (stored, result)):
            _call(hip, "hipMemcpy", target, _pointer(source), size, TO_DEVICE)
        for region in regions:
            stack.enter_context(_seen(hip, region))
        arguments = (ctypes.c_void_p * 2)(*(ctypes.cast(ctypes.byref(a), ctypes.c_void_p) for a in (state, stored)))
        _call(hip, "hipModuleLaunchKernel", function, 1, 1, 1, LANES, 1, 1, 0, None, arguments, None)
        _call(hip, "hipDeviceSynchronize")
        _call(hip, "hipMemcpy", _pointer(result), stored, size, TO_HOST)
    return result


def _library() -> Any:
    tried = []
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            tried.append(str(error))
    raise GpuError(f"libamdhip64 cannot be loaded: {'; '.join(tried)}")


def _call(hip: Any, name: str, *arguments: Any) -> None:
    status = getattr(hip, name)(*arguments)
    if status:
        raise GpuError(f"{name} failed with HIP error {status}")


def _pointer(words: Words) -> ctypes.c_void_p:
    return ctypes.c_void_p(words.ctypes.data)


@contextmanager
def _buffer(hip: Any, size: int) -> Iterator[ctypes.c_void_p]:
    pointer = ctypes.c_void_p()
    _call(hip, "hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(size))
    try:
        yield pointer
    finally:
        _call(hip, "hipFree", pointer)


@contextmanager
def _seen(hip: Any, region: Region) -> Iterator[None]:
    """The device sees the pages of a region, coarse-grained as its own memory is, at the addresses that they have."""
    first = region.address // mmap.PAGESIZE * mmap.PAGESIZE
    size = -(-(region.address + len(region.before) - first) // mmap.PAGESIZE) * mmap.PAGESIZE
    host, device = ctypes.c_void_p(first), ctypes.c_void_p()
    _call(hip, "hipHostRegister", host, ctypes.c_size_t(size), MAPPED | COARSE_GRAINED)
    try:
        _call(hip, "hipHostGetDevicePointer", ctypes.byref(device), host, 0)
        if device.value != first:
            raise NotComparableError("the GPU sees memory of the host at another address")
        yield
    finally:
        _call(hip, "hipHostUnregister", host)
