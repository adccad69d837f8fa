"""Compiles kernels of :mod:`hcgr` to assembly text with no GPU; run as a script in a process of its own.

Usage: ``python isa_worker.py ARCH``. Reads a JSON list of ``[hc, hs, rows]`` from standard input and
writes a JSON list, one entry a plan: the kernel's metadata fields and its instructions as text.

The last pass of FlyDSL's pipeline is replaced through its public backend interface, and the kernel goes
through ``hcgr.dispatch`` itself, so what is read here is what a launch would run.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

_METADATA = re.compile(r"^\s+\.(\w+):\s+(\S+)$", re.MULTILINE)
_INSTRUCTION = re.compile(r"^\s+([a-z][a-z0-9_]+\b[^;/\n]*)", re.MULTILINE)


def register_isa_backend() -> None:
    """Register a FlyDSL backend "isa" whose code object is assembly text."""
    from flydsl.compiler.backends import register_backend
    from flydsl.compiler.backends.rocm import RocmBackend
    from flydsl.runtime.device_runtime import register_compile_runtime_mapping

    class IsaBackend(RocmBackend):
        """The ROCm backend up to its last pass."""

        def hash(self) -> str:
            return f"isa:{self.target}"

        def pipeline_fragments(self, *, compile_hints: dict[str, Any]) -> list[str]:
            fragments = super().pipeline_fragments(compile_hints=compile_hints)
            return [*fragments[:-1], "gpu-module-to-binary{format=isa}"]

    register_backend("isa", IsaBackend)
    register_compile_runtime_mapping("isa", "rocm")


def compile_plan(arch: str, hc: int, hs: int, rows: int) -> dict[str, Any]:
    """Metadata and instructions of one COMBINE build."""
    import torch
    from flydsl.compiler.jit_function import _extract_isa_text

    from hcgr import dispatch
    from hcgr.plan import CombinePlan

    cpu = torch.device("cpu")
    key: Any = ("hcgr.kernels.combine", CombinePlan(hc, hs, rows), arch, cpu)
    handle: Any = dispatch.get_handle(*key)
    assert id(dispatch.get_handle(*key)) == id(handle)
    text = _extract_isa_text(handle._keepalive.ir)
    code, _, metadata = text.partition(".amdgpu_metadata")
    lines = [line.strip() for line in _INSTRUCTION.findall(code)]
    return {"metadata": dict(_METADATA.findall(metadata)), "instructions": lines}


def main() -> None:
    arch = sys.argv[1]
    os.environ.update(ARCH=arch, FLYDSL_GPU_ARCH=arch, FLYDSL_COMPILE_BACKEND="isa", FLYDSL_RUNTIME_ENABLE_CACHE="0")
    register_isa_backend()
    json.dump([compile_plan(arch, *plan) for plan in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
