"""The FlyDSL compile backend: FlyDSL's ROCm pipeline up to ISA text, and a launcher that calls this package.

It differs from the ROCm backend in five places: the last pass writes assembly instead of a linked code
object (no ld.lld); the launcher's host symbols are defined in its own module (no HIP runtime); source
lines are on by default, so that a finding can name one; the cache key is its own; and what needs a real
device (external LLVM, AOT export, in-kernel tracing, linked device libraries) is refused by name.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from flydsl.compiler.backends.base import AOTRuntimeConfig, GPUTarget
from flydsl.compiler.backends.rocm import RocmBackend
from flydsl.runtime.device import get_rocm_arch
from flydsl.runtime.device_runtime import register_compile_runtime_mapping

from . import argument_names, device_library, flydsl_hooks, shims, source_lines

NAME = "emulator"
"""Backend name: the entry point's, and the value of FLYDSL_COMPILE_BACKEND."""

ARCHS = ("gfx942", "gfx950")
DEBUG_INFO = "FLYDSL_DEBUG_ENABLE_DEBUG_INFO"
DISPATCHED = ("flydsl.extension.coop.warp", "flydsl.extension.random")
"""FlyDSL libraries that choose device code by backend name; an unknown name gets portable code."""

# The launcher's runtime kind stays "rocm", so that code which asks for the target sees what hardware has.
register_compile_runtime_mapping(NAME, "rocm")


class UnsupportedCompilationError(ValueError):
    """The program asks FlyDSL for something that the emulator backend cannot compile."""


class EmulatorBackend(RocmBackend):
    """FlyDSL backend that compiles kernels to ISA text for the emulator. Targets: gfx942 and gfx950."""

    def __init__(self, target: GPUTarget) -> None:
        if target.arch not in ARCHS:
            raise UnsupportedCompilationError(
                f"the emulator runs {' and '.join(ARCHS)}, not {target.arch}; set ARCH and FLYDSL_GPU_ARCH to one"
            )
        if get_rocm_arch() != target.arch:
            raise UnsupportedCompilationError(
                f"FlyDSL compiles for {target.arch} (ARCH) while its helpers generate code for {get_rocm_arch()} "
                "(FLYDSL_GPU_ARCH); set both to the same architecture"
            )
        super().__init__(target)
        os.environ.setdefault(DEBUG_INFO, "1")
        for name in DISPATCHED:
            targets = importlib.import_module(name)._dispatch.targets
            targets.setdefault(NAME, targets["rocm"])
        flydsl_hooks.install()

    # -- compilation -------------------------------------------------------------------------------

    def pipeline_fragments(self, *, compile_hints: dict[str, Any]) -> list[str]:
        *passes, last = super().pipeline_fragments(compile_hints=compile_hints)
        if not last.startswith("gpu-module-to-binary"):
            raise RuntimeError(f"FlyDSL's pipeline ends with {last!r}, not with gpu-module-to-binary")
        return [*passes, "gpu-module-to-binary{format=isa}"]

    def lower_compile_hints(self, module: Any, *, compile_hints: dict[str, Any]) -> None:
        """Apply the hints, note the kernels' argument names and define the launcher's host symbols."""
        super().lower_compile_hints(module, compile_hints=compile_hints)
        from flydsl._mlir import ir

        for operation in module.body.operations:
            if operation.operation.name == "gpu.module" and "offloadingHandler" in operation.attributes:
                raise UnsupportedCompilationError("linked device libraries and module initializers cannot be emulated")
        argument_names.annotate(module)
        source_lines.keep_call_sites(module)
        device_library.replace(module)
        with module.context, ir.Location.unknown():
            definitions = ir.Module.parse(shims.module_text(_only_launches(module)))
            for operation in definitions.body.operations:
                module.body.append(operation.operation.clone())

    def jit_runtime_lib_basenames(self) -> list[str]:
        """No library: the host symbols are in the launcher's module."""
        return []

    # -- cache identity ----------------------------------------------------------------------------

    def hash(self) -> str:
        """Cache identity: target, this plugin's code, pipeline, and whether the ISA carries source lines."""
        debug_info = os.environ.get(DEBUG_INFO, "")
        return f"{NAME}:{self.target}:{_plugin_digest()}:debug-info={debug_info}"

    # -- refused -----------------------------------------------------------------------------------

    def external_binary_pipeline_fragments(self, *, compile_hints: dict[str, Any]) -> tuple[list[str], str]:
        raise UnsupportedCompilationError("the emulator compiles with FlyDSL's own LLVM; unset FLYDSL_COMPILE_LLVM_DIR")

    @classmethod
    def aot_runtime_config(cls) -> AOTRuntimeConfig:
        raise NotImplementedError("AOT export needs a linked code object; compile with FLYDSL_COMPILE_BACKEND=rocm")

    @classmethod
    def ktrace_backend(cls) -> Any:
        raise NotImplementedError("in-kernel tracing writes to device buffers; unset FLYDSL_KTRACE_ENABLE")


def _only_launches(module: Any) -> bool:
    """Whether the launcher's host code does nothing on the GPU but launch kernels on a stream it was given."""
    from flydsl._mlir import ir

    others: list[str] = []

    def visit(operation: Any) -> Any:
        if operation.name == "gpu.module":
            return ir.WalkResult.SKIP
        plain = operation.name == "gpu.launch_func" and (
            len(operation.opview.asyncDependencies) == 1 and operation.opview.clusterSizeX is None
        )
        if operation.name.startswith("gpu.") and not plain:
            others.append(operation.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return not others


@lru_cache(maxsize=1)
def _plugin_digest() -> str:
    """Digest of this package's sources: another version may generate other launchers."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
