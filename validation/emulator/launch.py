"""Front door: launch a kernel of an assembly text on host memory."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from .abi import Dim3, pack_kernarg
from .dispatch import Launch, LaunchResult
from .executor import Executor
from .machine.engine import BRANCH_LIMIT
from .machine.options import XCDS, MachineOptions
from .memory.space import AddressSpace
from .program import Kernel, Program, parse_program
from .schedule import parse_schedule
from .work import KernelWork

__all__ = ["Launch", "LaunchResult", "dim3", "kernel_work", "launch", "parse_cached"]


@functools.lru_cache(maxsize=64)
def parse_cached(asm: str) -> Program:
    return parse_program(asm)


def launch(
    asm: str | Program,
    kernel: str | None,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Any],
    *,
    dynamic_lds: int = 0,
    space: AddressSpace | None = None,
    checks: Sequence[str] = ("memcheck",),
    workgroups: Iterable[Dim3] | None = None,
    declared_clamps: Collection[str] = (),
    schedule: str = "lockstep",
    branch_limit: int = BRANCH_LIMIT,
    completion: str = "earliest",
    memory: str = "flat",
    lds_dma: str = "in-order",
    xcds: int = XCDS,
    cus_per_xcd: int | None = None,
) -> LaunchResult:
    """Execute one kernel of amdgcn assembly text (FlyDSL ISA, Triton ``asm["amdgcn"]``).

    asm: the text, or a parsed Program. kernel: its name; None when the text holds one.
    grid: workgroups in x, y, z; block: lanes of a workgroup in x, y, z (missing axes are 1).
    args: values of the explicit arguments, in order: tensors (their memory is registered), None (null pointer), int,
        float, NumPy scalars or raw bytes.
    space: allocations that the kernel may touch besides the tensors in ``args``.
    checks: names from ``CHECKS``. Without ``memcheck`` a bad address raises KernelFault, as hardware faults.
    workgroups: which workgroups run (coordinates); default all.
    declared_clamps: source places (``file.py:12``, ``file.py``) that rely on a buffer descriptor's range check;
        elsewhere memcheck reports a clamped lane.
    schedule: which waves run when, see ``schedule.py``: ``lockstep``, ``in-order``, ``reversed``, ``random:SEED``,
        ``systematic[:AT[+BY],...]``. branch_limit: backward branches without a barrier or an end after which it is a
        livelock.
    completion, memory, lds_dma, xcds, cus_per_xcd: which legal behaviour of the hardware, see ``machine/options.py``.

    Returns LaunchResult with the findings. Raises AsmError, UnsupportedError, TypeError (arguments), KernelFault,
    DeadlockError.
    """
    program = parse_cached(asm) if isinstance(asm, str) else asm
    space = space or AddressSpace()
    options = MachineOptions(completion, memory, lds_dma, xcds, cus_per_xcd)
    for i, value in enumerate(args):
        if hasattr(value, "untyped_storage") and space.find(value.data_ptr()) is None and value.numel():
            space.register(value, f"arg{i}")
    target = program.kernel(kernel)
    size, shape = dim3(grid, "grid"), dim3(block, "block")
    kernarg = pack_kernarg(target, args, size, shape, dynamic_lds)
    work = kernel_work(
        target, size, workgroups,
        lambda _: Launch(program, target, size, shape, kernarg, dynamic_lds, space, checks, declared_clamps,
                         options=options, branch_limit=branch_limit),
    )  # fmt: skip
    Executor([work], parse_schedule(schedule)).run()
    assert work.result is not None
    return work.result


def kernel_work(
    kernel: Kernel, grid: Dim3, workgroups: Iterable[Dim3] | None, begin: Callable[[KernelWork], Launch]
) -> KernelWork:
    """The launch of a kernel as a piece of work; ``workgroups`` None means all of the grid, x first."""

    def chosen() -> Iterable[Dim3]:
        if workgroups is not None:
            return workgroups
        return ((x, y, z) for z, y, x in itertools.product(*(range(n) for n in reversed(grid))))

    return KernelWork(kernel.name, begin=begin, chosen=chosen)


def dim3(value: Sequence[int], name: str) -> Dim3:
    """Three positive sizes; missing ones are 1."""
    dims = tuple(int(v) for v in value) + (1,) * (3 - len(value))
    if len(dims) != 3 or any(v < 1 for v in dims):
        raise ValueError(f"{name} must have one to three positive sizes, got {tuple(value)}")
    return dims
