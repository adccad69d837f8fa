"""Front door: launch a kernel of an assembly text on host memory."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from . import accepted
from .abi import pack_kernarg
from .arguments import pointed_to
from .dispatch import Launch, LaunchResult
from .executor import Executor
from .host_tensors import extents_of, view_bounds
from .limits import Dim3, check_launch, check_workgroups, dim3, whole
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
    bound_views: bool = True,
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
    schedule: which waves run when, see ``schedule.py``: ``lockstep``, ``in-order``, ``reversed``,
        ``alternating``, ``random:SEED``, ``systematic[:AT[+BY],...]``, ``held[:AT[+BY],...]``.
    branch_limit: backward branches of a wave without a barrier after which it is a livelock; an eighth of it where the
        wave reads only what it has read before, a 1024th (but at least 2048) where all waves do, no memory changes and
        nothing else can run.
    completion, memory, lds_dma, xcds, cus_per_xcd: which legal behaviour of the hardware, see ``machine/options.py``.
    bound_views: a tensor argument that is a view of a larger storage may be touched from its first to its last element,
        and outside of that only where another argument lies; False allows its whole storage.

    Returns LaunchResult with the findings. Raises, before anything runs, TypeError and ValueError (arguments that are
    none) and LaunchError (what hardware refuses); AsmError, UnsupportedError, KernelFault, DeadlockError.
    """
    accepted.assembly(asm, kernel, parsed=True)
    args, checks, declared_clamps = accepted.arguments(args), accepted.checks(checks), accepted.clamps(declared_clamps)
    accepted.common(
        space=space, workgroups=workgroups, schedule=schedule, branch_limit=branch_limit, bound_views=bound_views,
        by_function=False,
    )  # fmt: skip
    order = parse_schedule(schedule)
    program = parse_cached(asm) if isinstance(asm, str) else asm
    space = AddressSpace() if space is None else space
    options = MachineOptions(completion, memory, lds_dma, xcds, cus_per_xcd)
    accepted.together(checks, options)
    target = program.kernel(kernel)
    size, shape, lds = dim3(grid, "grid"), dim3(block, "block"), whole(dynamic_lds, "dynamic_lds")
    check_launch(program, target, size, shape, lds)
    kernarg = pack_kernarg(target, args, size, shape, lds)
    chosen = None if workgroups is None else check_workgroups(workgroups, size)
    tensors = [value for value in args if hasattr(value, "untyped_storage")]
    for i, value in enumerate(args):
        if hasattr(value, "untyped_storage") and value.numel() and not space.knows(value.data_ptr()):
            space.register(value, f"arg{i}")
    views = view_bounds(space, target, kernarg, extents_of(tensors)) if bound_views else []
    seen = pointed_to(space, target, kernarg, tensors)
    work = kernel_work(
        target, size, chosen,
        lambda _: Launch(program, target, size, shape, kernarg, lds, space, checks, declared_clamps,
                         options=options, branch_limit=branch_limit, views=views, arguments=seen),
    )  # fmt: skip
    Executor([work], order).run()
    assert work.result is not None
    return work.result


def kernel_work(
    kernel: Kernel, grid: Dim3, workgroups: Iterable[Dim3] | None, begin: Callable[[KernelWork], Launch]
) -> KernelWork:
    """The launch of a kernel as a piece of work; ``workgroups`` (checked ones) None means all of the grid, x first."""

    def chosen() -> Iterable[Dim3]:
        if workgroups is not None:
            return workgroups
        return ((x, y, z) for z, y, x in itertools.product(*(range(n) for n in reversed(grid))))

    return KernelWork(kernel.name, begin=begin, chosen=chosen)
