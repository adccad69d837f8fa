"""The GPUs that AMD's compute driver lists, and whether one of them is idle. Reads ``/sys`` only; imports no torch.

Sources: Linux kernel, ``drivers/gpu/drm/amd/amdkfd/kfd_topology.c`` and ``kfd_process.c`` (files below
``/sys/class/kfd/kfd``), and the kernel's amdgpu documentation (``gpu_busy_percent``).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

#: One reading of zero may fall between two kernels: all of these must be zero.
SAMPLES = 5
SAMPLE_GAP_S = 0.1


@dataclass(frozen=True)
class System:
    """Where the kernel's files are; tests put a tree of their own here. ``gap_s``: seconds between two samples."""

    sys: Path = Path("/sys")
    proc: Path = Path("/proc")
    dev: Path = Path("/dev")
    gap_s: float = SAMPLE_GAP_S

    @property
    def kfd(self) -> Path:
        """The compute driver's device node."""
        return self.dev / "kfd"

    @property
    def nodes(self) -> Path:
        """Folder of the topology's nodes: CPUs and GPUs."""
        return self.sys / "class/kfd/kfd/topology/nodes"

    @property
    def users(self) -> Path:
        """Folder with one entry a process that has the driver open."""
        return self.sys / "class/kfd/kfd/proc"

    def pci(self, address: str) -> Path:
        """Folder of the PCI function at ``address`` (``0000:c1:00.0``)."""
        return self.sys / "bus/pci/devices" / address


@dataclass(frozen=True)
class Gpu:
    """A GPU node. ``index`` counts the GPUs in the driver's order; ``unique_id`` is 0 where the board has none."""

    index: int
    arch: str
    gpu_id: int
    pci: str
    unique_id: int

    @property
    def key(self) -> str:
        """Its name among all GPUs and partitions of the machine, also between processes."""
        return f"{self.pci}-{self.gpu_id}"

    @property
    def selector(self) -> str:
        """How ``ROCR_VISIBLE_DEVICES`` is told of it: by UUID, else by index."""
        return f"GPU-{self.unique_id:016x}" if self.unique_id else str(self.index)

    def __str__(self) -> str:
        return f"GPU {self.index} ({self.arch}, PCI {self.pci})"


class TopologyError(OSError):
    """The driver's files are missing or do not say what they should; the message names them."""


def arch_name(version: int) -> str:
    """``gfx942`` for 90402: two decimal digits each of minor version and stepping, written in hexadecimal."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _properties(folder: Path) -> dict[str, int]:
    lines = (line.split() for line in (folder / "properties").read_text().splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) == 2}


def gpus(system: System) -> list[Gpu]:
    """Every GPU of the machine in the driver's order.

    Raises :class:`TopologyError` when the topology cannot be read, or a node in it does not say what it is.
    """
    found: list[Gpu] = []
    try:
        for folder in sorted(system.nodes.iterdir(), key=lambda path: int(path.name)):
            identity = int((folder / "gpu_id").read_text())
            if identity == 0:  # a CPU
                continue
            said = _properties(folder)
            location = said["location_id"]
            pci = f"{said.get('domain', 0):04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 31:02x}.{location & 7}"
            arch = arch_name(said["gfx_target_version"])
            found.append(Gpu(len(found), arch, identity, pci, said.get("unique_id", 0)))
    except (OSError, ValueError, KeyError) as error:
        raise TopologyError(f"the GPU topology at {system.nodes} cannot be read: {error}") from error
    shared = {gpu.unique_id for gpu in found if sum(other.unique_id == gpu.unique_id for other in found) > 1}
    return [replace(gpu, unique_id=0) if gpu.unique_id in shared else gpu for gpu in found]


def visible(every: Sequence[Gpu], environment: Mapping[str, str]) -> list[Gpu]:
    """Those of ``every`` that the user lets programs see: ``ROCR_VISIBLE_DEVICES``, then ``HIP_VISIBLE_DEVICES``.

    Raises :class:`TopologyError` for an entry that names none of them: whatever was meant, it is not to be guessed.
    """
    left = list(every)
    for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        if name in environment:
            left = [_chosen(left, entry.strip(), name) for entry in environment[name].split(",") if entry.strip()]
    return left


def _chosen(left: Sequence[Gpu], entry: str, name: str) -> Gpu:
    if entry.isdecimal() and int(entry) < len(left):
        return left[int(entry)]
    for gpu in left:
        if gpu.unique_id and entry.lower() == gpu.selector.lower():
            return gpu
    known = ", ".join(f"{place} or {gpu.selector}" for place, gpu in enumerate(left)) or "no GPU is left to name"
    raise TopologyError(f"{name} names {entry!r}, which is no GPU here ({known})")


def not_idle(gpu: Gpu, system: System) -> str | None:
    """Why ``gpu`` does not count as idle; ``None`` when it does. What cannot be told is not idle."""
    return _queues(gpu, system) or _busy(gpu, system)


def _busy(gpu: Gpu, system: System) -> str | None:
    path = system.pci(gpu.pci) / "gpu_busy_percent"
    for sample in range(SAMPLES):
        if sample:
            time.sleep(system.gap_s)
        try:
            percent = int(path.read_text())
        except (OSError, ValueError) as error:
            return f"its activity is unknown: {path}: {error}"
        if percent:
            return f"it is {percent}% busy"
    return None


def _queues(gpu: Gpu, system: System) -> str | None:
    """A process with a queue on the GPU uses it, also while it waits."""
    try:
        for process in sorted(system.users.iterdir()):
            for queue in sorted((process / "queues").iterdir()) if (process / "queues").exists() else ():
                if _number(queue / "gpuid") == gpu.gpu_id:
                    return f"process {process.name} has a queue on it"
    except (OSError, ValueError) as error:
        return f"its activity is unknown: {error}"
    return None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except FileNotFoundError:
        return None  # the queue, or its process, has ended since the folder was listed
