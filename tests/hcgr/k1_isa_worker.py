"""Compiles K1 kernels to assembly text with no GPU; run as a script: ``python k1_isa_worker.py ARCH``.

Reads a JSON list of ``[kernel module, plan class, fields]`` from standard input and writes, one entry a plan,
the kernel's metadata fields and its instructions as text, labels included.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

from tests.hcgr.isa_worker import register_isa_backend

_METADATA = re.compile(r"^\s+\.(\w+):\s+(\S+)$", re.MULTILINE)
_LINE = re.compile(r"^(?:\s+([a-z][a-z0-9_]+\b[^;/\n]*)|(\.LBB\w+):)", re.MULTILINE)


def compile_plan(arch: str, kernel: str, name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Metadata and instructions of one build."""
    import torch
    from flydsl.compiler.jit_function import _extract_isa_text

    from hcgr import dispatch
    from hcgr.plan import k1, k1_resident

    plan = getattr(k1_resident if kernel == "k1_resident" else k1, name)(**fields)
    handle: Any = dispatch.get_handle(f"hcgr.kernels.{kernel}", plan, arch, torch.device("cpu"))
    text = _extract_isa_text(handle._keepalive.ir)
    code, _, metadata = text.partition(".amdgpu_metadata")
    lines = [(match[1] or match[2] + ":").strip() for match in _LINE.finditer(code)]
    return {"metadata": dict(_METADATA.findall(metadata)), "instructions": lines}


def main() -> None:
    arch = sys.argv[1]
    os.environ.update(ARCH=arch, FLYDSL_GPU_ARCH=arch, FLYDSL_COMPILE_BACKEND="isa", FLYDSL_RUNTIME_ENABLE_CACHE="0")
    register_isa_backend()
    json.dump([compile_plan(arch, *request) for request in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
