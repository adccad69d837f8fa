"""Sessions: where the launches of FlyDSL programs go, under which checks, over which memory."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .abi import Dim3, hidden_values
from .errors import AsmError, EmulatorError
from .launch import LaunchResult, execute, parse_cached
from .machine.options import DEFAULT, MachineOptions
from .memory.space import AddressSpace, Allocation
from .program import Kernel

Workgroups = Iterable[Dim3] | Callable[[str, Dim3], Iterable[Dim3] | None] | None
#: A by-value argument word below this is no host pointer.
_LOWEST_POINTER = 1 << 20


@dataclass
class Session:
    """What ``emulate`` yields. ``launches`` grows by one LaunchResult for each launch, in order."""

    arch: str | None = None
    checks: tuple[str, ...] = ()
    space: AddressSpace = field(default_factory=AddressSpace)
    workgroups: Workgroups = None
    declared_clamps: tuple[str, ...] = ()
    options: MachineOptions = DEFAULT
    launches: list[LaunchResult] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def findings(self) -> list[Any]:
        return [f for launch in self.launches for f in launch.findings]

    def chosen(self, kernel: str, grid: Dim3) -> Iterable[Dim3] | None:
        return self.workgroups(kernel, grid) if callable(self.workgroups) else self.workgroups


_DEFAULT = Session()
_stack: list[Session] = []


def current_session() -> Session:
    """The innermost open session of the process, else one without checks, in which a bad access raises."""
    return _stack[-1] if _stack else _DEFAULT


@contextmanager
def emulate(
    arch: str | None = None,
    checks: Sequence[str] = ("memcheck",),
    space: AddressSpace | None = None,
    workgroups: Workgroups = None,
    declared_clamps: Sequence[str] = (),
    **options: Any,
) -> Iterator[Session]:
    """Run the launches of the enclosed code (of every thread) under ``checks`` and collect their results.

    arch: refuse code compiled for another architecture. space: allocations that kernels may touch besides live torch
    tensors whose memory their arguments point into. workgroups: which workgroups run: coordinates, or a function of
    (kernel name, grid); default all. declared_clamps: source places (``file.py:12``, ``file.py``) that rely on the range
    check of a buffer descriptor; elsewhere an access that it clamps is a finding. options: fields of ``MachineOptions``
    (completion, memory, lds_dma, xcds, cus_per_xcd).
    """
    session = Session(
        arch, tuple(checks), space or AddressSpace(), workgroups, tuple(declared_clamps), MachineOptions(**options)
    )
    _stack.append(session)
    try:
        yield session
    finally:
        _stack.remove(session)


def launch_raw(
    asm: str,
    kernel: str,
    grid: Dim3,
    block: Dim3,
    params: Sequence[int],
    dynamic_lds: int = 0,
    stream: int = 0,
    tensors: Sequence[Any] = (),
) -> LaunchResult:
    """A launch as HIP's launch call gives it: ``params[i]`` is the address of the value of the i-th metadata argument.

    tensors: live tensors that the caller knows of; others are found among the process' torch tensors by address.
    """
    session = current_session()
    program = parse_cached(asm)
    target = program.kernel(kernel)
    if session.arch is not None and program.arch != session.arch:
        raise EmulatorError(f"{kernel} is compiled for {program.arch}, this session emulates {session.arch}")
    kernarg = _pack(target, params, grid, block, dynamic_lds)
    with session.lock:
        borrowed = _borrow(session.space, target, kernarg, tensors)
        try:
            result = execute(
                program, target, grid, block, kernarg, dynamic_lds, session.space, session.checks,
                session.chosen(kernel, grid), session.declared_clamps, session.options,
            )  # fmt: skip
        finally:
            for allocation in borrowed:
                session.space.remove(allocation)
        if session is not _DEFAULT:
            session.launches.append(result)
    return result


def _pack(kernel: Kernel, params: Sequence[int], grid: Dim3, block: Dim3, dynamic_lds: int) -> bytes:
    raw = bytearray(kernel.kernarg_bytes)
    hidden = hidden_values(grid, block, dynamic_lds)
    visible = [a for a in kernel.args if not a.kind.startswith("hidden_")]
    if len(params) < len(visible):
        raise AsmError(f"{kernel.name} takes {len(visible)} arguments, the launch passes {len(params)}")
    for arg, address in zip(visible, params, strict=False):
        raw[arg.offset : arg.offset + arg.size] = ctypes.string_at(address, arg.size)
    for arg in kernel.args:
        if arg.kind.startswith("hidden_"):
            raw[arg.offset : arg.offset + arg.size] = hidden[arg.kind].to_bytes(arg.size, "little")
    return bytes(raw)


def _pointers(kernel: Kernel, kernarg: bytes) -> list[tuple[str, int]]:
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


def _borrow(space: AddressSpace, kernel: Kernel, kernarg: bytes, tensors: Sequence[Any]) -> list[Allocation]:
    """Register, for one launch, the storages of live tensors that the arguments point into."""
    added: list[Allocation] = []
    scanned: list[Any] | None = None
    for name, pointer in _pointers(kernel, kernarg):
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
