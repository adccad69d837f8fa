"""One kernel launch being executed: what its chunks of waves share, and how they are made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from . import accepted
from .abi import dispatch_packet, float_mode, initial_registers
from .arguments import PointedTo
from .checks import concurrency_observers, make_observers
from .errors import KernelFault
from .findings import Finding, FindingLog
from .host_tensors import null_arguments
from .limits import WAVE, Dim3
from .machine.bind import Step, bind
from .machine.engine import BRANCH_LIMIT, Chunk, Steps
from .machine.instrument import Instrument, attach, instrument
from .machine.options import DEFAULT, MachineOptions
from .machine.waves import BindContext, FloatMode, Identity, Waves
from .memory.hierarchy import MemoryPort
from .memory.space import AddressSpace, Allocation
from .memory.spaces import BankedMemory, make_global_memory
from .program import Kernel, Program
from .program.reach import registers_of
from .segments import Segments
from .symbols import CodeImage

if TYPE_CHECKING:
    from .checks.race_history import RaceHistory
    from .schedule import Schedule

#: Waves that step together: enough to hide the cost of a step (measured on RMSNorm, GEMM and the op's own kernels: 128
#: take up to a third longer; 512 make no difference on RMSNorm beyond its scatter, and hold twice the registers).
CHUNK_WAVES = 256


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """What happened in one launch.

    workgroups_run, waves_run: how many ran. instructions: wave-instructions. findings: defects, which fail a check.
    notes: no defects, but worth knowing: races of one value (``benign``), waves that ended before a barrier.
    schedule: the name that replays it. switch_points: visible operations at which ``systematic`` could have switched.
    arguments: by name, the memory that each pointer argument led to when it was launched; None for a null pointer.
    """

    kernel: str
    arch: str
    grid: Dim3
    block: Dim3
    workgroups_run: int
    waves_run: int
    instructions: int
    findings: tuple[Finding, ...]
    mnemonics: dict[str, int] = field(repr=False)
    counts: dict[str, Any] = field(default_factory=dict, repr=False)
    notes: tuple[Finding, ...] = ()
    schedule: str = "lockstep"
    switch_points: int = 0
    stream: int = 0
    arguments: Mapping[str, PointedTo | None] = field(default_factory=dict, repr=False)


class Launch:
    """One kernel launch being executed: shared by its chunks.

    history: what racecheck knows of earlier launches; a new one if None. order: rank of the launch in it, and the set
    of those that are ordered before (see ``work.Work``). views: the parts of allocations that it may touch, see
    ``host_tensors.view_bounds``. arguments: see :class:`LaunchResult`.
    """

    def __init__(
        self, program: Program, kernel: Kernel, grid: Dim3, block: Dim3, kernarg: bytes, dynamic_lds: int,
        space: AddressSpace, checks: Sequence[str], declared_clamps: Collection[str] = (), *,
        history: RaceHistory | None = None, order: tuple[int, int] = (0, 0), stream: int = 0,
        branch_limit: int = BRANCH_LIMIT,
        options: MachineOptions = DEFAULT,
        views: Sequence[Allocation] = (),
        arguments: Mapping[str, PointedTo | None] | None = None,
    ) -> None:  # fmt: skip
        self.program, self.kernel, self.grid, self.block, self.space = program, kernel, grid, block, space
        self.checks, self.options = accepted.checks(checks), options
        accepted.together(self.checks, options)
        self.stream, self.branch_limit, self.arguments = stream, branch_limit, dict(arguments or {})
        threads = block[0] * block[1] * block[2]
        self.waves_per_group = -(-threads // WAVE)
        self.tail_lanes = threads % WAVE
        self.lds_bytes = kernel.lds_bytes + dynamic_lds
        self.kernarg = kernarg
        self.log = FindingLog(kernel.name)
        self.image = CodeImage(program, space)
        nulls = null_arguments(kernel, kernarg)
        self.global_memory = make_global_memory(space, options, program, views, nulls)
        self.hits = [0] * len(program.instructions)
        self.observers = make_observers(self.checks, program, declared_clamps)
        self.observers += concurrency_observers(self.checks, program, kernel.name, history, order, self.hits)
        self.segments = Segments(space)
        self.kernarg_address = self.segments.place(kernarg, "kernarg", kernel.kernarg_align)
        packet = dispatch_packet(kernel, grid, block, self.lds_bytes, self.kernarg_address)
        wanted = kernel.descriptor.get("user_sgpr_dispatch_ptr", 0)
        self.packet_address = self.segments.place(packet, "dispatch packet") if wanted else 0
        self.registers = registers_of(kernel)
        self.vgprs, self.agprs = self.registers.vgprs, self.registers.agprs
        self.groups_run = 0

    def close(self) -> None:
        self.global_memory.end()
        self.segments.close()

    @property
    def groups_per_chunk(self) -> int:
        return max(1, CHUNK_WAVES // self.waves_per_group)

    @property
    def chunk_bytes(self) -> int:
        """Memory that the state of one chunk takes."""
        lanes = self.groups_per_chunk * self.waves_per_group * WAVE
        return (self.vgprs + self.agprs) * lanes * 4 + self.lds_bytes * self.groups_per_chunk

    def steps_for(self, mode: FloatMode) -> Steps:
        wrap = instrument(self.options, self.checks, self.program, self.kernel, self.vgprs)
        key = (mode, self.kernel.name, self.image.base, wrap)
        if key not in self.program.bound:
            context = BindContext(
                self.program.arch, mode, self.vgprs, self.program.labels, self.image.symbol_address, self.image.base
            )
            self.program.bound[key] = LazySteps(self.program, self.kernel, context, wrap)
        return self.program.bound[key]

    def chunk(self, groups: Sequence[Dim3], schedule: Schedule | None = None) -> Chunk:
        """The waves of these workgroups, at the kernel's entry."""
        per = self.waves_per_group
        self.groups_run += len(groups)
        where = np.repeat(np.array(groups, np.int64), per, axis=0)
        ident = Identity(
            where,
            where @ np.array([1, self.grid[0], self.grid[0] * self.grid[1]], np.int64),
            np.tile(np.arange(per, dtype=np.int64), len(groups)),
            np.repeat(np.arange(len(groups), dtype=np.int64), per),
        )
        lds = BankedMemory(len(groups), self.lds_bytes, ident.group[:, None])
        count = len(ident.wave)
        scratch_size = self.kernel.scratch_bytes
        lanes = (
            np.arange(count * WAVE, dtype=np.int64).reshape(count, WAVE) if scratch_size else np.zeros((1, 1), np.int64)
        )
        scratch = BankedMemory(count * WAVE if scratch_size else 1, scratch_size, np.broadcast_to(lanes, (count, WAVE)))
        port = MemoryPort(self.global_memory, lds, scratch, self.log, self.observers)
        w = Waves(ident, self.vgprs, self.agprs, float_mode(self.kernel), port)
        w.extra["code_base"] = self.image.base
        initial_registers(w, self.kernel, self.block, self.kernarg, self.kernarg_address, self.packet_address)
        if self.tail_lanes:
            last = ident.wave == per - 1
            w.S[126:128, last] = np.array([[x] for x in _tail(self.tail_lanes)], np.uint32)
            w.sync_exec()
        attach(w, self.options, self.checks, self.program, self.kernel)
        turns = None if schedule is None else schedule.turns(self.program, ident)
        return Chunk(w, self.program, self.steps_for, self.kernel.entry, self.hits, turns, self.branch_limit)

    def result(self, schedule: Schedule) -> LaunchResult:
        """After the last workgroup. Raises KernelFault for a bad address that no check collects."""
        found = self.log.all()
        faults = [f for f in found if f.check == "memcheck"]
        if faults and "memcheck" not in self.checks:
            raise KernelFault(f"{self.kernel.name}: memory fault: {faults[0]}", found)
        mnemonics: dict[str, int] = {}
        for inst, hit in zip(self.program.instructions, self.hits, strict=True):
            if hit:
                mnemonics[inst.mnemonic] = mnemonics.get(inst.mnemonic, 0) + hit
        counts = {k: v for o in self.observers for k, v in getattr(o, "counts", dict)().items()}
        return LaunchResult(
            self.kernel.name, self.program.arch, self.grid, self.block, self.groups_run,
            self.groups_run * self.waves_per_group, sum(self.hits), found, mnemonics, counts, self.log.notes(),
            str(schedule), schedule.points, self.stream, self.arguments,
        )  # fmt: skip


def _tail(lanes: int) -> tuple[int, int]:
    bits = (1 << lanes) - 1
    return bits & 0xFFFFFFFF, bits >> 32


class LazySteps(Sequence[Step]):
    """Steps of one kernel, bound at first execution: code that never runs may hold what the tables do not know."""

    def __init__(self, program: Program, kernel: Kernel, context: BindContext, wrap: Instrument | None = None) -> None:
        self.program, self.kernel, self.context, self.wrap = program, kernel, context, wrap
        self.registers = registers_of(kernel)
        self.others = {k.entry: k.name for k in program.kernels.values() if k.entry != kernel.entry}
        self.steps: list[Step | None] = [None] * len(program.instructions)
        #: see ``machine.engine.Steps``; one more for running off the end
        self.straight: list[Callable[[Waves], Any] | None] = [None] * (len(program.instructions) + 1)

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index: Any) -> Any:
        if index >= len(self.steps) or index in self.others:
            raise KernelFault(self._ran_on(index))
        step = self.steps[index]
        if step is None:
            inst = self.program.instructions[index]
            self.registers.check(inst, self.kernel.name)
            step = bind(inst, self.context)
            step = self.steps[index] = step if self.wrap is None else self.wrap(step, self.context)
            if step.control in ("", "nop", "yield"):
                self.straight[index] = step.run
        return step

    def _ran_on(self, index: int) -> str:
        where = f"into kernel {self.others[index]!r}" if index in self.others else "past the end of the text"
        message = f"{self.kernel.name}: a wave runs on {where}: an s_endpgm is missing"
        if not index:
            return message
        last = self.program.instructions[index - 1]
        return f"{message} after {last.text!r} (asm line {last.line_number}, {last.place})"
