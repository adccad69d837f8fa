"""A real GPU, through torch. Nobody has yet run this module on silicon.

The process that starts a run claims a GPU: of exactly the arch, behind the kernel's own driver, locked for this run
alone and idle. One that is not is passed over for the next, and the reasons of all stay in the report. Workers are
handed the claimed one. Launches are observed through torch's profiler, so a receipt lists what the driver was given;
their arguments where FlyDSL hands them to its launcher (:mod:`validation.devices.hip_arguments`).
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from validation.devices import Claim, receipt, simulators
from validation.devices.gpu_lock import GpuLock, LockedError
from validation.devices.hip_arguments import Memory, Seen, by_correlation, watched
from validation.devices.kfd import Gpu, System, TopologyError, gpus, not_idle, visible
from validation.operation import Workgroups

LEVEL = "runtime"

#: What a clean run on this device covered; see the report.
COVERS = {"checks": ["guard bytes"], "schedules": "as the hardware chose", "memory": "hardware"}

#: Bytes kept on each side of a tensor, filled with a pattern and compared after each case.
GUARD_BYTES = 4096
GUARD_PATTERN = 0xA5
#: Larger than the caches of the parts, so that the control is bound by memory as the op is.
CONTROL_BYTES = 1 << 30

#: Where the kernel's files are.
SYSTEM = System()
#: In a worker's environment: the key of the GPU that the run has claimed.
HANDED = "HCGR_CLAIMED_GPU"

#: What this process has claimed, by arch: it keeps the lock until it ends.
_HELD: dict[str, tuple[Gpu, GpuLock]] = {}


def claim(arch: str) -> Claim:
    """An idle GPU of exactly ``arch``, now locked for this process; or the reasons why there is none."""
    handed = os.environ.get(HANDED)
    if handed:
        wrong = _not_seen_by_torch(arch)
        return Claim("hip", LEVEL, wrong is None, wrong or f"GPU {handed}, which the run has claimed")
    if arch in _HELD:
        gpu, _ = _HELD[arch]
        return Claim("hip", LEVEL, True, f"{gpu}, idle when this run locked it")
    missing = _no_driver()
    if missing:
        return Claim("hip", LEVEL, False, missing)
    simulator = simulators.named(SYSTEM, os.environ)
    if simulator:
        return _emulated(simulator)
    try:
        every = gpus(SYSTEM)
        candidates = visible(every, os.environ)
    except TopologyError as error:
        return Claim("hip", LEVEL, False, str(error))
    wanted = [gpu for gpu in candidates if gpu.arch == arch]
    if not wanted:
        found = ", ".join(gpu.arch for gpu in candidates) or "none"
        return Claim("hip", LEVEL, False, f"no GPU of arch {arch} (found: {found})")
    return _first_free(arch, wanted)


def _no_driver() -> str | None:
    nodes = SYSTEM.kfd, SYSTEM.dev / "dxg"
    if nodes[0].exists():
        return None
    if nodes[1].exists():
        return f"{nodes[1]} (WSL) does not tell what a GPU is doing, and unknown activity is not idle"
    return f"no AMD GPU driver: none of {nodes[0]}, {nodes[1]} exists"


def _first_free(arch: str, wanted: Sequence[Gpu]) -> Claim:
    """Lock the first of ``wanted`` that is hardware, unlocked and idle."""
    passed_over = []
    for gpu in wanted:
        pretended = simulators.not_driven(gpu, SYSTEM)
        if pretended:
            return _emulated(f"{gpu}: {pretended}")
        try:
            lock = GpuLock(gpu.key)
        except LockedError as error:
            passed_over.append(f"{gpu}: {error}")
            continue
        reason = not_idle(gpu, SYSTEM)
        if reason is None:
            return _keep(arch, gpu, lock, passed_over)
        lock.release()
        passed_over.append(f"{gpu}: {reason}")
    return Claim("hip", LEVEL, False, f"no GPU of arch {arch} is free: {'; '.join(passed_over)}")


def _keep(arch: str, gpu: Gpu, lock: GpuLock, passed_over: Sequence[str]) -> Claim:
    """Keep the lock if torch can use the GPU."""
    unseen = _not_seen_by_torch(arch)
    pretended = None if unseen else simulators.hip_without_driver(SYSTEM)
    if unseen or pretended:
        lock.release()
        return _emulated(pretended) if pretended else Claim("hip", LEVEL, False, str(unseen))
    _HELD[arch] = gpu, lock
    others = f" (passed over: {'; '.join(passed_over)})" if passed_over else ""
    return Claim("hip", LEVEL, True, f"{gpu}, idle and now locked{others}")


def _emulated(why: str) -> Claim:
    """Not a GPU: it is called what it is, and left alone, for this project's own emulator checks more."""
    return Claim("hip", "emulated", False, f"what looks like a GPU is not known to be one: {why}")


def _not_seen_by_torch(arch: str) -> str | None:
    """Why torch cannot run code of ``arch`` here; ``None`` if it can."""
    try:
        import torch
    except ImportError as error:
        return f"torch cannot be imported: {error}"
    if torch.version.hip is None:
        return f"torch {torch.__version__} is built without HIP; install the ROCm build"
    if not torch.cuda.is_available():
        return "torch sees no GPU"
    names = [_arch_of(torch.cuda.get_device_properties(index)) for index in range(torch.cuda.device_count())]
    return None if arch in names else f"torch sees no GPU of arch {arch} (found: {', '.join(names) or 'none'})"


def _arch_of(properties: Any) -> str:
    return str(getattr(properties, "gcnArchName", "")).partition(":")[0] or str(properties.name)


def release(arch: str) -> None:
    """Give the claimed GPU of ``arch`` back; nothing happens if there is none."""
    if arch in _HELD:
        _HELD.pop(arch)[1].release()


def worker_environment(arch: str) -> dict[str, str]:
    """FlyDSL's own backend compiles for ``arch``; of the machine's GPUs a worker sees the claimed one alone."""
    environment = {"ARCH": arch, "FLYDSL_GPU_ARCH": arch}
    if arch in _HELD:
        gpu, _ = _HELD[arch]
        environment |= {HANDED: gpu.key, "ROCR_VISIBLE_DEVICES": gpu.selector, "HIP_VISIBLE_DEVICES": "0"}
    return environment


class Session:
    """Launches seen by the profiler. There are no findings: hardware does not look."""

    def __init__(self) -> None:
        self.launches: list[dict[str, Any]] = []
        self.findings: list[dict[str, Any]] = []


class HipBench:
    """Device memory with guard bytes, and sessions under torch's profiler."""

    level = LEVEL
    sparse = False
    whole = False

    def __init__(self, arch: str) -> None:
        import torch

        unseen = _not_seen_by_torch(arch)
        if unseen:
            raise RuntimeError(unseen)
        self.arch = arch
        self.device = torch.device("cuda", 0)  # the only one that a worker sees
        self._guards: list[tuple[str, Any, int]] = []
        self._memory = Memory()

    def empty(self, shape: Sequence[int], dtype: Any, name: str) -> Any:
        """A contiguous tensor between two guard regions of :data:`GUARD_BYTES`."""
        import torch

        size = math.prod(shape) * dtype.itemsize
        raw = torch.full((2 * GUARD_BYTES + size,), GUARD_PATTERN, dtype=torch.uint8, device=self.device)
        self._guards.append((name, raw, size))
        tensor = raw[GUARD_BYTES : GUARD_BYTES + size].view(dtype).reshape(tuple(shape))
        self._memory.add(name, tensor)
        return tensor

    def guard_damage(self) -> list[str]:
        """Names of tensors with a changed guard byte."""
        damaged = []
        for name, raw, size in self._guards:
            edges = (raw[:GUARD_BYTES], raw[GUARD_BYTES + size :])
            if any(bool((edge != GUARD_PATTERN).any()) for edge in edges):
                damaged.append(name)
        return damaged

    def blame(self, error: BaseException) -> None:
        """A GPU's exceptions say nothing precise enough to accuse the kernel."""
        return None

    def named(self, tensor: Any, name: str) -> None:
        """Receipts call the memory of ``tensor`` by ``name``."""
        self._memory.add(name, tensor)

    def filled(self, tensor: Any) -> None:
        """Nobody tracks initialisation on hardware."""

    @contextlib.contextmanager
    def session(self, workgroups: Workgroups = None) -> Iterator[Session]:
        """Profile the launches of the block; a GPU cannot run chosen workgroups only."""
        import torch
        from torch.profiler import ProfilerActivity, profile

        if workgroups is not None:
            raise RuntimeError("a GPU runs every workgroup; this case asks for chosen ones")
        session = Session()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler, self._watched() as calls:
            yield session
            torch.cuda.synchronize(self.device)
        with tempfile.NamedTemporaryFile(suffix=".json") as trace:
            profiler.export_chrome_trace(trace.name)
            with open(trace.name) as stream:
                session.launches += kernel_receipts(json.load(stream), self.arch, calls)

    def _watched(self) -> contextlib.AbstractContextManager[list[Seen]]:
        """Note what FlyDSL's launchers are handed; every launch passes there, by a bare call or a compiled handle."""
        from torch.profiler import record_function

        if importlib.util.find_spec("flydsl") is None:
            return contextlib.nullcontext([])
        from flydsl.compiler.jit_executor import CallState

        return watched(self._memory, CallState, "__call__", record_function)

    def control(self) -> Callable[[], Any]:
        """A call that no code under test reaches: torch copies :data:`CONTROL_BYTES` within the device's memory."""
        import torch

        source, target = (torch.zeros(CONTROL_BYTES, dtype=torch.uint8, device=self.device) for _ in range(2))
        return lambda: target.copy_(source)

    def seconds(self, call: Callable[[], Any]) -> float:
        """Seconds between two events around ``call`` on the current stream, after a call that does not count."""
        import torch

        call()
        torch.cuda.synchronize(self.device)
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        call()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / 1e3  # given in milliseconds

    def close(self) -> None:
        """Forget the tensors of the case."""
        self._guards.clear()
        self._memory.known.clear()


def kernel_receipts(trace: Mapping[str, Any], arch: str, calls: Sequence[Seen] = ()) -> list[dict[str, Any]]:
    """Receipts of the kernels in a profiler trace; copies and fills are not kernels of the operation.

    calls: what each call of a launcher was handed, as :func:`validation.devices.hip_arguments.watched` numbers them.
    """
    receipts, asked = [], by_correlation(trace, calls)
    for event in trace.get("traceEvents", ()):
        if event.get("cat") != "kernel":
            continue
        arguments = event.get("args", {})
        grid = [int(n) for n in arguments["grid"]]
        block, handed = [int(n) for n in arguments["block"]], asked.get(arguments.get("correlation"))
        receipts.append(receipt(event["name"], arch, grid, block, math.prod(grid), None, handed))
    return receipts


def open_runner(arch: str) -> Any:
    """What calibration runs single instructions with (:class:`validation.calibrate.hip_module.Runner`)."""
    from validation.calibrate.hip_module import HipRunner

    return HipRunner()


def open_bench(arch: str) -> HipBench:
    """A bench on the GPU that :func:`claim` found."""
    return HipBench(arch)
