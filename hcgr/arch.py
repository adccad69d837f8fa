"""What hcgr knows about gfx942 and gfx950; no other module hard-codes a figure of an architecture.

Sources, named per field below: the AMD CDNA3 and CDNA4 ISA manuals and white papers, LLVM's AMDGPUUsage,
ROCm's "AMD GPU specifications" page and the data sheets of the AMD Instinct parts. A figure without a public
source is ``None``, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

#: Lanes of a wave on every CDNA architecture.
WAVE_LANES = 64

#: How to run on a machine without an AMD GPU; every "cannot run here" error ends with this.
CPU_ONLY_HINT = (
    "on a machine without an AMD GPU, set FLYDSL_COMPILE_BACKEND=emulator and ARCH=FLYDSL_GPU_ARCH=gfx942 "
    "(or gfx950) and pass CPU tensors: the kernels' machine code then runs in the emulator"
)


@dataclass(frozen=True)
class Part:
    """One product of an architecture, for projections.

    Attributes:
        name: Product name.
        cus: Compute units.
        xcds: Accelerator complex dies, each with its own L2; ``None`` where no public source states it.
        hbm_bytes_per_s: Peak HBM bandwidth in bytes per second; ``None`` likewise.
        clock_hz: Peak engine clock in Hz; ``None`` likewise.
        source: Where the figures come from.
    """

    name: str
    cus: int
    xcds: int | None
    hbm_bytes_per_s: float | None
    clock_hz: float | None
    source: str


@dataclass(frozen=True)
class Arch:
    """Limits and rates of one architecture.

    Attributes:
        name: LLVM target name, without feature suffixes.
        wave_lanes: Lanes of a wave.
        lds_bytes: LDS of a compute unit (ROCm "AMD GPU specifications": 64 and 160 KiB).
        vgprs: Vector registers a lane can address, VGPRs and AGPRs together (CDNA3/CDNA4 ISA, "VGPRs").
        vgpr_granule: Allocation granule of those (LLVM AMDGPUUsage, "granulated_workitem_vgpr_count").
        mfma_k: K of the 16x16 bf16 MFMA that the kernels use (ISA, matrix instructions).
        mfma_flops_per_clock_per_cu: Dense bf16 multiply-adds count as two (CDNA3/CDNA4 white papers).
        lds_dma_bytes: Bytes a lane that one global-to-LDS load may move (ISA: 4; CDNA4 adds 12 and 16).
        max_vmcnt: Largest outstanding count ``s_waitcnt vmcnt`` can name (ISA, S_WAITCNT: six bits).
        max_lgkmcnt: The same for ``lgkmcnt`` (four bits).
        l2_bytes_per_xcd: L2 of one XCD.
        xcds: XCDs of the full part.
        packed_bf16_convert: Whether one instruction converts two f32 to bf16 with round to nearest even.
        parts: Products of this architecture, the full part first.
    """

    name: str
    lds_bytes: int
    mfma_k: int
    mfma_flops_per_clock_per_cu: int
    lds_dma_bytes: tuple[int, ...]
    packed_bf16_convert: bool
    parts: tuple[Part, ...]
    wave_lanes: int = WAVE_LANES
    vgprs: int = 512
    vgpr_granule: int = 8
    max_vmcnt: int = 63
    max_lgkmcnt: int = 15
    l2_bytes_per_xcd: int = 4 << 20
    xcds: int = 8

    @property
    def cus(self) -> int:
        """Compute units of the full part: what plans assume when no device can be asked."""
        return self.parts[0].cus

    def peak_bf16_flops(self, part: Part) -> float | None:
        """Dense bf16 MFMA rate of `part` in FLOP/s, or ``None`` without a public clock."""
        if part.clock_hz is None:
            return None
        return part.cus * self.mfma_flops_per_clock_per_cu * part.clock_hz

    def waves_per_simd(self, vgprs: int) -> int:
        """Waves that fit on one SIMD at `vgprs` registers a lane (VGPRs plus AGPRs), at most 8."""
        granules = -(-max(vgprs, 1) // self.vgpr_granule)
        return min(8, self.vgprs // (granules * self.vgpr_granule))


def _sheet(part: str) -> str:
    return f"AMD Instinct {part} data sheet; CU and XCD counts: ROCm 'AMD GPU specifications'"


GFX942 = Arch(
    name="gfx942",
    lds_bytes=64 << 10,
    mfma_k=16,
    mfma_flops_per_clock_per_cu=2048,
    lds_dma_bytes=(4,),
    packed_bf16_convert=False,
    parts=(
        Part("MI300X", 304, 8, 5.3e12, 2.1e9, _sheet("MI300X")),
        Part("MI325X", 304, 8, 6.0e12, 2.1e9, _sheet("MI325X")),
        Part("MI300A", 228, 6, 5.3e12, 2.1e9, _sheet("MI300A")),
        Part("MI308X", 80, None, None, None, "CU count as reported by the device; no public data sheet"),
    ),
)

GFX950 = Arch(
    name="gfx950",
    lds_bytes=160 << 10,
    mfma_k=32,
    mfma_flops_per_clock_per_cu=4096,
    lds_dma_bytes=(4, 12, 16),
    packed_bf16_convert=True,
    parts=(
        Part("MI355X", 256, 8, 8.0e12, 2.4e9, _sheet("MI355X")),
        Part("MI350X", 256, 8, 8.0e12, 2.2e9, _sheet("MI350X")),
    ),
)

ARCHS: dict[str, Arch] = {arch.name: arch for arch in (GFX942, GFX950)}


def get(name: str) -> Arch:
    """The table entry of an LLVM target name; feature suffixes (``gfx942:sramecc+``) are ignored.

    Raises:
        NotImplementedError: for any other architecture.
    """
    arch = ARCHS.get(name.split(":", 1)[0].lower())
    if arch is None:
        raise NotImplementedError(f"arch must be one of {', '.join(ARCHS)}, got {name!r}; {CPU_ONLY_HINT}")
    return arch


def _cuda_arch(device: torch.device) -> str:
    properties = torch.cuda.get_device_properties(device)
    name = getattr(properties, "gcnArchName", None)
    return name if name else str(properties.name)


def configured() -> str:
    """The target that FlyDSL compiles for: ``ARCH``, else ``FLYDSL_GPU_ARCH``, else what FlyDSL detects."""
    from flydsl.compiler.backends import get_backend

    return str(get_backend().target.arch)


#: Who tells the arch of a tensor's device, by device type. "cuda" is also what a ROCm torch calls its
#: devices.
_NAME_OF: dict[str, Callable[[torch.device], str]] = {
    "cuda": _cuda_arch,
    "cpu": lambda _device: configured(),
}


def of_device(device: torch.device) -> Arch:
    """The architecture that code for `device` must be compiled for.

    A CPU device stands for the emulator, whose architecture is FlyDSL's configured target.

    Raises:
        NotImplementedError: if the device is neither a gfx942/gfx950 GPU nor the CPU.
    """
    name_of = _NAME_OF.get(device.type)
    return get(name_of(device) if name_of else device.type)


def cus_of_device(device: torch.device, arch: Arch | None = None) -> int:
    """Compute units to plan for: the device's own, or those of the full part for a CPU device (emulator).

    Args:
        arch: The architecture of `device`, where the caller has already asked for it.
    """
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).multi_processor_count)
    return (of_device(device) if arch is None else arch).cus
