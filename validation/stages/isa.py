"""Resources of a compiled kernel, read from the metadata of its assembly text.

The text ends in a YAML document between ``.amdgpu_metadata`` and ``.end_amdgpu_metadata`` (LLVM AMDGPUUsage, "Code
Object V5 Metadata"). Mnemonics are counted from the code itself.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

import yaml

#: The safe loader, in C where PyYAML has it: ten times as fast.
_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_METADATA = re.compile(r"^\s*\.amdgpu_metadata\s*$(.*?)^\s*\.end_amdgpu_metadata\s*$", re.DOTALL | re.MULTILINE)

#: The arch of a target ID such as ``amdgcn-amd-amdhsa-unknown-gfx942:sramecc+:xnack-``.
_TARGET = re.compile(r"\bgfx[0-9a-f]+\b")

#: Instructions that write back or invalidate a whole cache (AMDGPUUsage, memory model of gfx942).
_CACHE_FLUSHES = frozenset({"buffer_wbl2", "buffer_inv", "buffer_wbinvl1", "buffer_wbinvl1_vol"})

_FIELDS = {
    "vgprs": ".vgpr_count",
    "agprs": ".agpr_count",
    "sgprs": ".sgpr_count",
    "vgpr_spills": ".vgpr_spill_count",
    "sgpr_spills": ".sgpr_spill_count",
    "lds_bytes": ".group_segment_fixed_size",
    "scratch_bytes": ".private_segment_fixed_size",
    "kernarg_bytes": ".kernarg_segment_size",
    "max_lanes": ".max_flat_workgroup_size",
    "wave_lanes": ".wavefront_size",
}


class MetadataError(ValueError):
    """The text holds no readable kernel metadata."""


@dataclass(frozen=True)
class Resources:
    """What one kernel takes. ``vgprs`` counts AGPRs too, as the metadata does on gfx90a and later.

    ``cache_flushes`` counts the instructions that write back or invalidate a whole cache.
    """

    kernel: str
    target: str
    vgprs: int
    agprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    lds_bytes: int
    scratch_bytes: int
    kernarg_bytes: int
    max_lanes: int
    wave_lanes: int
    instructions: int
    cache_flushes: int = 0

    def as_json(self) -> dict[str, Any]:
        """The form the report holds; flushes are a limit, whose breach is the case's reason, and no figure."""
        return {name: value for name, value in asdict(self).items() if name != "cache_flushes"}


def kernel_resources(asm: str) -> list[Resources]:
    """Resources of every kernel in ``asm``; ``MetadataError`` when the text does not say."""
    found = _METADATA.search(asm)
    if not found:
        raise MetadataError("the assembly text has no .amdgpu_metadata section")
    metadata = yaml.load(found.group(1), Loader=_LOADER)
    kernels = metadata.get("amdhsa.kernels") or []
    if not kernels:
        raise MetadataError("the metadata lists no kernel")
    target = _TARGET.search(str(metadata.get("amdhsa.target", "")))
    if not target:
        raise MetadataError(f"the metadata names no gfx target: amdhsa.target is {metadata.get('amdhsa.target')!r}")
    return [_resources(kernel, target.group(), asm) for kernel in kernels]


def _resources(kernel: dict[str, Any], target: str, asm: str) -> Resources:
    name = str(kernel[".name"])
    missing = [key for key in _FIELDS.values() if key not in kernel and key != ".agpr_count"]
    if missing:
        raise MetadataError(f"the metadata of kernel {name!r} lacks {', '.join(missing)}")
    values = {field: int(kernel.get(key, 0)) for field, key in _FIELDS.items()}
    code = mnemonics(asm, name)
    flushes = sum(mnemonic in _CACHE_FLUSHES for mnemonic in code)
    return Resources(kernel=name, target=target, instructions=len(code), cache_flushes=flushes, **values)


def count_instructions(asm: str, kernel: str) -> int:
    """Instructions in the body of ``kernel``."""
    return len(mnemonics(asm, kernel))


def mnemonics(asm: str, kernel: str) -> list[str]:
    """Mnemonics of the body of ``kernel``, in order: from its label to ``.Lfunc_end`` or the next section."""
    body = re.search(rf"^{re.escape(kernel)}:(.*?)(?:^\.Lfunc_end\d+:|^\s*\.section)", asm, re.DOTALL | re.MULTILINE)
    if not body:
        raise MetadataError(f"the assembly text has no code for kernel {kernel!r}")
    lines = (line.partition(";")[0].strip() for line in body.group(1).splitlines())
    return [line.split()[0] for line in lines if line and not line.startswith(".") and not line.endswith(":")]
