"""Sessions: where the launches of FlyDSL programs go, under which checks, over which memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from . import accepted
from .abi import pack_kernarg, pack_raw
from .arguments import PointedTo, pointed_to
from .checks.race_history import RaceHistory
from .dispatch import Launch, LaunchResult
from .errors import EmulatorError, LaunchError
from .findings import Finding
from .host_tensors import borrow, extents_of, view_bounds
from .launch import kernel_work, parse_cached
from .limits import Dim3, check_launch, check_workgroups, dim3, whole
from .machine.engine import BRANCH_LIMIT
from .machine.options import DEFAULT, MachineOptions
from .memory.space import AddressSpace, Allocation
from .program import Kernel, Program
from .schedule import parse_schedule
from .work import HostWork, KernelWork, Work
from .work_queue import Graph, WorkQueue

Workgroups = Iterable[Dim3] | Callable[[str, Dim3], Iterable[Dim3] | None] | None


@dataclass
class Session:
    """What ``emulate`` yields. ``launches`` grows by one LaunchResult for each launch, in the order of the calls.

    host_races: findings of racecheck about fills and copies of streams. queue: what the streams hold.
    """

    arch: str | None = None
    checks: tuple[str, ...] = ()
    space: AddressSpace = field(default_factory=AddressSpace)
    workgroups: Workgroups = None
    declared_clamps: tuple[str, ...] = ()
    concurrent: bool = False
    schedule: str = "lockstep"
    options: MachineOptions = DEFAULT
    branch_limit: int = BRANCH_LIMIT
    bound_views: bool = True
    launches: list[LaunchResult] = field(default_factory=list)
    host_races: list[Finding] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def __post_init__(self) -> None:
        self.queue = WorkQueue(self.concurrent, self.schedule)
        self.history = RaceHistory() if "racecheck" in self.checks else None
        self.thread = threading.get_ident()
        self._queued: list[KernelWork] = []
        self._borrowed: list[Allocation] = []

    @property
    def findings(self) -> list[Finding]:
        return [f for launch in self.launches for f in launch.findings] + self.host_races

    @property
    def notes(self) -> list[Finding]:
        """What is no defect: see :attr:`LaunchResult.notes`."""
        return [f for launch in self.launches for f in launch.notes]

    def chosen(self, kernel: str, grid: Dim3) -> Iterable[Dim3] | None:
        return self.workgroups(kernel, grid) if callable(self.workgroups) else self.workgroups

    def synchronize(self, stream: int | None = None) -> None:
        """Run everything that is queued and collect the results. Raises what the kernels raise.

        stream: the host waits for this one only, so nothing orders its further work after that of other streams.
        """
        with self.lock:
            try:
                self.queue.drain()
                self.queue.settle(stream)
            finally:
                self._collect()

    def wait_for(self, work: Work) -> None:
        """The host waits for this piece of work: run what is queued, if it has not run. Raises what the kernels raise.

        Nothing else is ordered by that, as with a stream.
        """
        with self.lock:
            try:
                if not work.done:
                    self.queue.drain()
                self.queue.settle_work(work)
            finally:
                self._collect()

    def _collect(self) -> None:
        """Results of what has run, in the order of the calls; then memory that was borrowed for it goes back."""
        for work in self._queued:
            work.keep = ()  # a stream remembers its last work: that must not keep tensors from being freed
            if work.result is not None and self is not _DEFAULT:
                self.launches.append(work.result)
        self._queued = []
        for allocation in self._borrowed:
            self.space.remove(allocation)
        self._borrowed = []

    def mark(self, stream: int, after: Work | None = None) -> Work:
        """A point in a stream's work, for events; it waits for ``after``."""
        with self.lock:
            return self.queue.add(lambda: HostWork("event"), stream, () if after is None else (after,))

    def replay(self, graph: Graph, stream: int) -> None:
        """Put a captured graph on a stream."""
        with self.lock:
            try:
                self.queue.replay(graph, stream)
            finally:
                if not self.queue.pending:
                    self._collect()

    # -- launching -----------------------------------------------------------------------------------------------------
    def launch(
        self, asm: str, kernel: str | None, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], *,
        dynamic_lds: int = 0, stream: Any = None,
    ) -> LaunchResult | None:  # fmt: skip
        """Launch a kernel of an assembly text on a stream (an object with ``cuda_stream``, a handle, or None).

        Arguments as in :func:`validation.emulator.launch`. Returns None for a launch that is queued or captured.
        """
        accepted.assembly(asm, kernel, parsed=False)
        args, handle = accepted.arguments(args), accepted.stream_handle(stream)
        program = self.admit(parse_cached(asm))
        target = program.kernel(kernel)
        size, shape, lds = dim3(grid, "grid"), dim3(block, "block"), whole(dynamic_lds, "dynamic_lds")
        kernarg = pack_kernarg(target, args, size, shape, lds)
        tensors = [a for a in args if hasattr(a, "untyped_storage")]
        return self.submit(program, target, size, shape, kernarg, lds, handle, tensors)

    def admit(self, program: Program) -> Program:
        """``program``, which must be compiled for the session's architecture if it has one."""
        if self.arch is not None and program.arch != self.arch:
            names = ", ".join(sorted(program.kernels))
            raise LaunchError(f"{names} is compiled for {program.arch}, this session emulates {self.arch}")
        return program

    def submit(
        self, program: Program, kernel: Kernel, grid: Dim3, block: Dim3, kernarg: bytes, dynamic_lds: int, stream: int,
        tensors: Sequence[Any],
    ) -> LaunchResult | None:  # fmt: skip
        """Put a launch on a stream. Returns its result unless it is queued or captured.

        Raises LaunchError, before anything is queued, for what hardware refuses.
        """
        check_launch(program, kernel, grid, block, dynamic_lds)
        chosen = self.chosen(kernel.name, grid)
        groups = None if chosen is None else check_workgroups(chosen, grid)
        # memory of the session's space outlives its tensors, as a device's does: those are not held
        owners = [t for t in tensors if t.numel() and self.space.find(t.data_ptr()) is None]
        extents = extents_of(tensors) if self.bound_views else []
        made: list[KernelWork] = []
        seen: dict[str, PointedTo | None] = {}

        def make() -> KernelWork:
            # what a graph replays needs its memory registered again, and alive
            borrowed = borrow(self.space, kernel, kernarg, owners)
            owners.extend(a.owner for a in borrowed)
            self._borrowed += borrowed
            work = kernel_work(kernel, grid, groups, begin)
            work.keep = owners
            made.append(work)
            self._queued.append(work)
            return work

        def begin(work: KernelWork) -> Launch:
            views = view_bounds(self.space, kernel, kernarg, extents)
            return Launch(
                program, kernel, grid, block, kernarg, dynamic_lds, self.space, self.checks, self.declared_clamps,
                history=self.history, order=(work.rank, work.before), stream=work.stream, options=self.options,
                branch_limit=self.branch_limit, views=views, arguments=seen,
            )  # fmt: skip

        with self.lock:
            captured = borrow(self.space, kernel, kernarg, owners)
            owners.extend(a.owner for a in captured)
            self._borrowed += captured
            seen |= pointed_to(self.space, kernel, kernarg, tensors)
            try:
                self.queue.add(make, stream)
            finally:
                if not self.queue.pending:
                    self._collect()
        return made[0].result if made else None


_DEFAULT = Session()
_stack: list[Session] = []
_entering = threading.Lock()


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
    schedule: str = "lockstep",
    concurrent: bool = False,
    branch_limit: int = BRANCH_LIMIT,
    bound_views: bool = True,
    **options: Any,
) -> Iterator[Session]:
    """Run the launches of the enclosed code (of every thread) under ``checks`` and collect their results.

    arch: refuse code compiled for another architecture. space: allocations that kernels may touch besides live torch
    tensors whose memory their arguments point into. workgroups: which workgroups run: coordinates, or a function of
    (kernel name, grid); default all. declared_clamps: source places (``file.py:12``, ``file.py``) that rely on the
    range check of a buffer descriptor; elsewhere an access that it clamps is a finding. schedule: which waves run when,
    see ``schedule.py``. concurrent: launches are queued; at ``synchronize()`` and at the end of the block they run,
    those of different streams interleaved as the schedule says. Their outputs are there only then.
    bound_views: see :func:`validation.emulator.launch`.
    options: fields of ``MachineOptions`` (completion, memory, lds_dma, xcds, cus_per_xcd).
    Raises TypeError and ValueError for arguments that are none of these.

    Blocks nest in one thread; a second thread that opens one meanwhile gets an EmulatorError.

    Use after free: a tensor passed as a bare address is looked for among the live tensors of the process at each
    launch. When it has died, the access is a finding, which names the tensor if an earlier launch has seen it. Not seen
    is memory that torch has handed to a tensor that lives now (it is that tensor's, then), and a tensor that dies after
    its launch was queued or captured, which is kept until that has run; ``CachingAllocator`` makes such reuse visible.
    """
    accepted.common(
        space=space, workgroups=workgroups, schedule=schedule, branch_limit=branch_limit, bound_views=bound_views,
        by_function=True,
    )  # fmt: skip
    parse_schedule(schedule)
    session = Session(
        None if arch is None else accepted.one_of("arch", arch, accepted.ARCHS),
        accepted.checks(checks),
        AddressSpace() if space is None else space,
        workgroups if workgroups is None or callable(workgroups) else list(workgroups),
        accepted.clamps(declared_clamps),
        accepted.flag("concurrent", concurrent),
        schedule,
        accepted.machine_options(options),
        branch_limit,
        bound_views,
    )
    accepted.together(session.checks, session.options)
    with _entering:
        if _stack and _stack[-1].thread != session.thread:
            raise EmulatorError(
                "another thread has an open emulate() block, which takes the launches of every thread; leave it first, "
                "open one block around both threads, or use processes"
            )
        _stack.append(session)
    try:
        yield session
        session.synchronize()
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
) -> LaunchResult | None:
    """A launch as HIP's launch call gives it: ``params[i]`` is the address of the value of the i-th metadata argument.

    tensors: live tensors that the caller knows of; others are found among the process' torch tensors by address.
    Returns None for a launch that is queued (concurrent session) or captured.
    """
    session = current_session()
    program = session.admit(parse_cached(asm))
    target = program.kernel(kernel)
    size, shape, lds = dim3(grid, "grid"), dim3(block, "block"), whole(dynamic_lds, "dynamic_lds")
    kernarg = pack_raw(target, params, size, shape, lds)
    return session.submit(program, target, size, shape, kernarg, lds, stream, tensors)
