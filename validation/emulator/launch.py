"""Front door: launch a kernel of an assembly text on host memory."""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .abi import WAVE, Dim3, dispatch_packet, float_mode, initial_registers, pack_kernarg
from .checks import CHECKS, make_observers
from .errors import DeadlockError, KernelFault
from .findings import Finding, FindingLog
from .machine.bind import Step, bind
from .machine.engine import Chunk, Outcome
from .machine.in_flight import attach, instrument
from .machine.options import DEFAULT, XCDS, MachineOptions
from .machine.waves import BindContext, FloatMode, Identity, Waves
from .memory.hierarchy import MemoryPort
from .memory.space import AddressSpace, Allocation
from .memory.spaces import BankedMemory, GlobalMemory
from .program import Kernel, Program, parse_program
from .symbols import CodeImage

#: Waves that step together: enough to hide the cost of a step; float64 temporaries of 64 KiB stay in the L2 cache and
#: below malloc's mmap threshold (measured: 256 waves are up to twice as slow a wave).
CHUNK_WAVES = 128
#: Resident chunks are bounded by their register memory.
RESIDENT_BYTES = 2 << 30
#: Rounds over all resident chunks without any change of state before a deadlock is declared.
STALL_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """What happened in one launch. ``hits``: (mnemonic, wave-instructions). ``workgroups_run``: how many ran."""

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
    declared_clamps: source places (``file.py:12``, ``file.py``) that rely on a buffer descriptor's range check; elsewhere
        memcheck reports a clamped lane.
    completion, memory, lds_dma, xcds, cus_per_xcd: which legal behaviour of the hardware (``machine/options.py``).

    Returns LaunchResult with the findings. Raises AsmError, UnsupportedError, TypeError (arguments), KernelFault,
    DeadlockError.
    """
    program = parse_cached(asm) if isinstance(asm, str) else asm
    space = space or AddressSpace()
    for i, value in enumerate(args):
        if hasattr(value, "untyped_storage") and space.find(value.data_ptr()) is None and value.numel():
            space.register(value, f"arg{i}")
    target = program.kernel(kernel)
    size, shape = _dim3(grid, "grid"), _dim3(block, "block")
    kernarg = pack_kernarg(target, args, size, shape, dynamic_lds)
    return execute(
        program, target, size, shape, kernarg, dynamic_lds, space, checks, workgroups, declared_clamps,
        MachineOptions(completion, memory, lds_dma, xcds, cus_per_xcd),
    )  # fmt: skip


def _dim3(value: Sequence[int], name: str) -> Dim3:
    dims = tuple(int(v) for v in value) + (1,) * (3 - len(value))
    if len(dims) != 3 or any(v < 1 for v in dims):
        raise ValueError(f"{name} must have one to three positive sizes, got {tuple(value)}")
    return dims


class Launch:
    """One kernel launch being executed: shared by its chunks."""

    def __init__(
        self, program: Program, kernel: Kernel, grid: Dim3, block: Dim3, kernarg: bytes, dynamic_lds: int,
        space: AddressSpace, checks: Sequence[str], declared_clamps: Collection[str] = (),
        options: MachineOptions = DEFAULT,
    ) -> None:  # fmt: skip
        unknown = sorted(set(checks) - set(CHECKS))
        if unknown:
            raise ValueError(f"unknown check {', '.join(unknown)}; there are {', '.join(sorted(CHECKS))}")
        self.program, self.kernel, self.grid, self.block, self.space = program, kernel, grid, block, space
        self.checks, self.options = tuple(checks), options
        threads = block[0] * block[1] * block[2]
        self.waves_per_group = -(-threads // WAVE)
        self.tail_lanes = threads % WAVE
        self.lds_bytes = kernel.lds_bytes + dynamic_lds
        self.kernarg = kernarg
        self.log = FindingLog(kernel.name)
        self.image = CodeImage(program, space)
        self.global_memory = GlobalMemory(space)
        self.observers = make_observers(self.checks, program.arch, declared_clamps)
        self.hits = [0] * len(program.instructions)
        packet = dispatch_packet(kernel, grid, block, self.lds_bytes, 0)
        self._hidden = np.frombuffer(bytearray(kernarg + bytes(-len(kernarg) % 16) + packet), np.uint8)
        base = self._hidden.ctypes.data
        self._hidden_allocation = Allocation(base, len(self._hidden), "kernarg", owner=self._hidden)
        space.add(self._hidden_allocation)
        self.kernarg_address = base
        self.packet_address = base + len(self._hidden) - len(packet)
        self.vgprs, self.agprs = register_counts(kernel)

    def close(self) -> None:
        self.space.remove(self._hidden_allocation)

    def steps_for(self, mode: FloatMode) -> Sequence[Step]:
        wrap = instrument(self.options, self.checks)
        key = (mode, self.vgprs, self.image.base, wrap)
        if key not in self.program.bound:
            context = BindContext(
                self.program.arch, mode, self.vgprs, self.program.labels, self.image.symbol_address, self.image.base
            )
            self.program.bound[key] = LazySteps(self.program, context, wrap)
        return self.program.bound[key]

    def chunk(self, groups: Sequence[Dim3]) -> Chunk:
        per = self.waves_per_group
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
        lanes = np.arange(count * WAVE, dtype=np.int64).reshape(count, WAVE) if scratch_size else np.zeros((1, 1), np.int64)
        scratch = BankedMemory(count * WAVE if scratch_size else 1, scratch_size, np.broadcast_to(lanes, (count, WAVE)))
        port = MemoryPort(self.global_memory, lds, scratch, self.log, self.observers)
        w = Waves(ident, self.vgprs, self.agprs, float_mode(self.kernel), port)
        w.extra["code_base"] = self.image.base
        initial_registers(w, self.kernel, self.block, self.kernarg, self.kernarg_address, self.packet_address)
        if self.tail_lanes:
            last = ident.wave == per - 1
            w.S[126:128, last] = np.array([[x] for x in _tail(self.tail_lanes)], np.uint32)
            w.sync_exec()
        attach(w, self.options, self.checks, self.program)
        return Chunk(w, self.steps_for, self.kernel.entry, self.hits)


def _tail(lanes: int) -> tuple[int, int]:
    bits = (1 << lanes) - 1
    return bits & 0xFFFFFFFF, bits >> 32


class LazySteps(Sequence[Step]):
    """Steps bound at first execution: code that never runs may hold what the tables do not know."""

    def __init__(self, program: Program, context: BindContext, wrap: Callable[[Step, BindContext], Step] | None) -> None:
        self.program, self.context, self.wrap = program, context, wrap
        self.steps: list[Step | None] = [None] * len(program.instructions)

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index: Any) -> Any:
        step = self.steps[index]
        if step is None:
            step = bind(self.program.instructions[index], self.context)
            step = self.steps[index] = step if self.wrap is None else self.wrap(step, self.context)
        return step


def register_counts(kernel: Kernel) -> tuple[int, int]:
    """VGPRs and AGPRs to keep. ``accum_offset`` is where AGPRs start in the unified file."""
    total = int(kernel.descriptor.get("next_free_vgpr", kernel.metadata.get(".vgpr_count", 256)))
    agprs = int(kernel.metadata.get(".agpr_count", 0))
    offset = int(kernel.descriptor.get("accum_offset", 0))
    vgprs = min(total, offset) if agprs and offset else total
    return max(vgprs, 1), max(agprs, total - vgprs if agprs else 0)


def execute(
    program: Program, kernel: Kernel, grid: Dim3, block: Dim3, kernarg: bytes, dynamic_lds: int, space: AddressSpace,
    checks: Sequence[str], workgroups: Iterable[Dim3] | None, declared_clamps: Collection[str] = (),
    options: MachineOptions = DEFAULT,
) -> LaunchResult:  # fmt: skip
    """Run a launch whose kernarg segment is packed already."""
    run = Launch(program, kernel, grid, block, kernarg, dynamic_lds, space, checks, declared_clamps, options)
    everything = ((x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0]))
    chosen = iter(everything if workgroups is None else workgroups)
    try:
        with np.errstate(all="ignore"):
            groups = _schedule(run, chosen)
    finally:
        run.close()
    found = run.log.all()
    faults = [f for f in found if f.check == "memcheck"]
    if faults and "memcheck" not in run.checks:
        raise KernelFault(f"{kernel.name}: memory fault: {faults[0]}", found)
    mnemonics: dict[str, int] = {}
    for inst, hit in zip(program.instructions, run.hits, strict=True):
        if hit:
            mnemonics[inst.mnemonic] = mnemonics.get(inst.mnemonic, 0) + hit
    counts = {k: v for o in run.observers for k, v in getattr(o, "counts", dict)().items()}
    return LaunchResult(
        kernel.name, program.arch, grid, block, groups, groups * run.waves_per_group, sum(run.hits), found, mnemonics, counts
    )


def _schedule(run: Launch, chosen: Iterable[Dim3]) -> int:
    """Admit chunks as long as resident ones only poll; round robin. Returns the number of workgroups run."""
    per_chunk = max(1, CHUNK_WAVES // run.waves_per_group)
    state_bytes = (run.vgprs + run.agprs) * per_chunk * run.waves_per_group * WAVE * 4 + run.lds_bytes * per_chunk
    most = max(2, RESIDENT_BYTES // max(1, state_bytes))
    source = iter(chosen)
    resident: deque[Chunk] = deque()
    total = stalled = 0
    last_changes = -1
    while True:
        if not resident or (stalled >= len(resident) and len(resident) < most):
            groups = list(itertools.islice(source, per_chunk))
            if groups:
                total += len(groups)
                resident.append(run.chunk(groups))
                resident.rotate(1)
                stalled = 0
            elif not resident:
                return total
        chunk = resident[0]
        if chunk.run() is Outcome.FINISHED:
            resident.popleft()
            stalled = 0
            continue
        resident.rotate(-1)
        changes = sum(c.w.port.changes for c in resident)
        stalled = stalled + 1 if changes == last_changes else 1
        last_changes = changes
        if stalled > STALL_ROUNDS * len(resident) and all(_repeats(c) for c in resident):
            raise DeadlockError(_who_waits(run, resident))


def _repeats(chunk: Chunk) -> bool:
    """Has the chunk come back to the very state in which it last yielded?"""
    import zlib

    digest = zlib.crc32(chunk.w.S.tobytes(), zlib.crc32(chunk.w.V.tobytes()))
    same = chunk.w.extra.get("digest") == digest
    chunk.w.extra["digest"] = digest
    return same


def _who_waits(run: Launch, resident: Iterable[Chunk]) -> str:
    lines = []
    for chunk in resident:
        for wave in np.flatnonzero(chunk.state != 2)[:4]:
            inst = run.program.instructions[int(chunk.pc[wave])]
            group = tuple(int(x) for x in chunk.w.ident.workgroup[wave])
            verb = "waits at a barrier before" if chunk.state[wave] == 1 else "polls at"
            lines.append(f"workgroup {group} wave {int(chunk.w.ident.wave[wave])} {verb} {inst.text} ({inst.place})")
    return f"{run.kernel.name}: deadlock: no wave can make progress\n  " + "\n  ".join(lines[:16])


