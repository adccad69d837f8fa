"""Compiles K2 and skinny K1 builds to assembly with no GPU; a process of its own: ``kernel_isa_worker.py ARCH``.

Reads a JSON list of ``[kernel, fields of its plan]`` from standard input, `kernel` being a key of
:data:`KERNELS`, and writes a JSON list, one entry a build: the kernel's metadata fields, its instructions as
text, and the LLVM IR that they were made from.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.hcgr.isa_worker import register_isa_backend

KERNELS = {
    "k2": ("hcgr.kernels.k2_up_gate_mix", "hcgr.plan.k2", "K2Plan"),
    "skinny": ("hcgr.kernels.k1_skinny", "hcgr.plan.skinny", "SkinnyPlan"),
}
_METADATA = re.compile(r"^\s+\.(\w+):\s+(\S+)$", re.MULTILINE)
_INSTRUCTION = re.compile(r"^\s+([a-z][a-z0-9_]+\b[^;/\n]*)", re.MULTILINE)


def compile_plan(arch: str, kernel: str, fields: dict[str, Any], dumps: Path) -> dict[str, Any]:
    """Metadata, instructions and LLVM IR of one build."""
    import torch
    from flydsl.compiler.jit_function import _extract_isa_text

    from hcgr import dispatch

    module, plan_module, plan_class = KERNELS[kernel]
    plan = getattr(importlib.import_module(plan_module), plan_class)(**fields)
    with contextlib.redirect_stdout(io.StringIO()):
        handle: Any = dispatch.get_handle(module, plan, arch, torch.device("cpu"))
    text = _extract_isa_text(handle._keepalive.ir)
    code, _, metadata = text.partition(".amdgpu_metadata")
    found = dict(_METADATA.findall(metadata))
    (llvm_ir,) = (dumps / found["name"]).glob("*_llvm_ir.ll")
    return {
        "metadata": found,
        "instructions": [line.strip() for line in _INSTRUCTION.findall(code)],
        "llvm_ir": llvm_ir.read_text(),
    }


def main() -> None:
    arch = sys.argv[1]
    os.environ.update(ARCH=arch, FLYDSL_GPU_ARCH=arch, FLYDSL_COMPILE_BACKEND="isa", FLYDSL_RUNTIME_ENABLE_CACHE="0")
    with tempfile.TemporaryDirectory() as directory:
        os.environ.update(FLYDSL_DUMP_IR="1", FLYDSL_DUMP_DIR=directory)
        register_isa_backend()
        # FlyDSL chooses its wave reductions by the backend's name.
        from flydsl.extension.coop import warp

        warp._dispatch.targets.setdefault("isa", warp._dispatch.targets["rocm"])
        builds = [compile_plan(arch, kernel, fields, Path(directory)) for kernel, fields in json.load(sys.stdin)]
    json.dump(builds, sys.stdout)


if __name__ == "__main__":
    main()
