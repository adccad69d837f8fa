"""From a plan and tensors to a launch, through cached FlyDSL handles.

A handle is compiled once per (kernel, plan, architecture, backend, device) with null addresses, so that
compiling never launches. The device is part of the key because a HIP module is loaded into one device. The
first call for a key compiles, and on a GPU loads the module: warm up before capturing a graph.

Device tensors need FlyDSL's ROCm backend. CPU tensors run only with ``FLYDSL_COMPILE_BACKEND=emulator``,
where the same handle executes the kernel's machine code in the emulator.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from hcgr import arch as arch_table

Handle: TypeAlias = Callable[..., Any]

BACKEND_VARIABLE = "FLYDSL_COMPILE_BACKEND"
#: The FlyDSL backend that runs tensors of a device type.
_BACKEND_FOR = {"cuda": "rocm", "cpu": "emulator"}


class Address(int):
    """A device address that knows what it belongs to, so that whatever runs the launch can name it.

    Attributes:
        tensor: The tensor whose first element is at this address.
        name: The argument it was passed for.
    """

    tensor: torch.Tensor
    name: str

    @classmethod
    def of(cls, name: str, tensor: torch.Tensor) -> Address:
        """The address of `tensor`, passed for argument `name`."""
        address = cls(tensor.data_ptr())
        address.tensor, address.name = tensor, name
        return address


@dataclass(frozen=True)
class Launch:
    """What an observer of :func:`observe` sees, just before the launch.

    Attributes:
        kernel: Module of the kernel, as ``hcgr.kernels.combine``.
        plan: Static parameters.
        arch: LLVM target name.
        tensors: Tensor arguments by name, in the order of the launcher's addresses.
        scalars: Scalar arguments in the launcher's order.
        stream: The stream launched on, or ``None`` for the default stream of a CPU device.
    """

    kernel: str
    plan: Hashable
    arch: str
    tensors: Mapping[str, torch.Tensor]
    scalars: tuple[int | float, ...]
    stream: Any


_handles: dict[Hashable, Handle] = {}
_handles_lock = threading.Lock()
_observers: tuple[Callable[[Launch], None], ...] = ()
_observers_lock = threading.Lock()
_cpu_stream: ContextVar[Any] = ContextVar("hcgr_cpu_stream", default=None)


@contextlib.contextmanager
def observe(callback: Callable[[Launch], None]) -> Iterator[None]:
    """Call `callback` with every launch of this process inside the block, before it is issued."""
    global _observers
    with _observers_lock:
        _observers = (*_observers, callback)
    try:
        yield
    finally:
        with _observers_lock:
            remaining = list(_observers)
            remaining.remove(callback)
            _observers = tuple(remaining)


@contextlib.contextmanager
def on_stream(stream: Any) -> Iterator[None]:
    """Make `stream` current for its device, so that outputs are allocated and kernels launched on it.

    For the CPU (emulator) a stream is any object with ``device`` and an integer ``cuda_stream``. ``None``
    keeps the current stream. Of streams, ``torch.compile`` can trace torch's own: with one of the CPU's, enter this
    around the compiled call instead of passing it on.
    """
    if stream is None:
        yield
    elif stream.device.type == "cuda":
        with torch.cuda.stream(stream):
            yield
    else:
        token = _cpu_stream.set(stream)
        try:
            yield
        finally:
            _cpu_stream.reset(token)


def current_stream(device: torch.device) -> Any:
    """The stream that a launch on `device` would use."""
    return torch.cuda.current_stream(device) if device.type == "cuda" else _cpu_stream.get()


def _backend_name() -> str:
    return (os.environ.get(BACKEND_VARIABLE) or "rocm").lower()


def require_runnable(device: torch.device) -> str:
    """The backend that runs kernels on `device`.

    Raises:
        NotImplementedError: if the configured backend cannot, saying what to set.
    """
    needed, given = _BACKEND_FOR.get(device.type), _backend_name()
    if needed == given:
        return given
    if needed == "rocm":
        way = f"set {BACKEND_VARIABLE}=rocm, or pass CPU tensors to run in the emulator"
    else:
        way = arch_table.CPU_ONLY_HINT
    raise NotImplementedError(f"tensors on {device} cannot run with {BACKEND_VARIABLE}={given}; {way}")


def _compile(kernel: str, plan: Hashable, arch: str) -> Handle:
    """Compile one kernel of :mod:`hcgr.kernels` for FlyDSL's configured target, without launching it."""
    configured = arch_table.configured()
    if configured.split(":", 1)[0] != arch:
        raise RuntimeError(
            f"FlyDSL compiles for {configured!r} but the tensors are on a {arch} device; "
            f"unset ARCH and FLYDSL_GPU_ARCH or set both to {arch}"
        )
    import flydsl.compiler as flyc

    launcher, placeholders = importlib.import_module(kernel).build(plan)
    handle = flyc.compile(launcher, *placeholders)
    if handle is None:
        raise RuntimeError("COMPILE_ONLY is set, so FlyDSL returns nothing to launch; unset COMPILE_ONLY")
    return handle


def get_handle(kernel: str, plan: Hashable, arch: str, device: torch.device, backend: str | None = None) -> Handle:
    """The compiled handle of `kernel` for `plan`; compiles on first use, once, whatever the threads.

    `backend` is that of :func:`require_runnable`, where the caller has already asked for it.
    """
    key = (kernel, plan, arch, backend or _backend_name(), device)
    handle = _handles.get(key)
    if handle is None:
        with _handles_lock:
            handle = _handles.get(key)
            if handle is None:
                handle = _handles[key] = _compile(kernel, plan, arch)
    return handle


def launch(
    kernel: str,
    plan: Hashable,
    tensors: Mapping[str, torch.Tensor],
    scalars: Sequence[int | float],
    arch: str | None = None,
) -> None:
    """Launch `kernel` on the current stream of the tensors' device.

    The contract must have accepted the call: nothing is checked here but that the device can run kernels.

    Args:
        tensors: Tensor arguments in the launcher's order; all on one device.
        scalars: The launcher's scalars, which follow the addresses.
        arch: LLVM target of the device, where the caller has already asked for it.

    Raises:
        NotImplementedError: if nothing can run kernels on that device here.
        RuntimeError: if FlyDSL is configured for another architecture than the device's.
    """
    device = next(iter(tensors.values())).device
    backend = require_runnable(device)
    arch = arch_table.of_device(device).name if arch is None else arch
    handle = get_handle(kernel, plan, arch, device, backend)
    stream = current_stream(device)
    observers = _observers
    if observers:
        record = Launch(kernel, plan, arch, tensors, tuple(scalars), stream)
        for observer in observers:
            observer(record)
    guard = torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()
    with guard:
        handle(*(Address.of(name, tensor) for name, tensor in tensors.items()), *scalars, stream)
