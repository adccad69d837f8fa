from __future__ import annotations
import os
from flydsl.compiler.backends.rocm import RocmBackend
from flydsl.runtime import device_runtime
from . import shims
device_runtime.register_compile_runtime_mapping("emulator", "rocm")

class EmulatorBackend(RocmBackend):
    def __init__(self, target):
        super().__init__(target)
        os.environ.setdefault("FLYDSL_DEBUG_ENABLE_DEBUG_INFO", "1")
        from flydsl.extension import random
        from flydsl.extension.coop import warp
        for m in (warp, random):
            m._dispatch.targets.setdefault("emulator", m._dispatch.targets["rocm"])
    def hash(self):
        return f"emu:{self.target}"
    def pipeline_fragments(self, *, compile_hints):
        return [*super().pipeline_fragments(compile_hints=compile_hints)[:-1], "gpu-module-to-binary{format=isa}"]
    def jit_runtime_lib_basenames(self):
        return []
    def toolkit_fingerprint(self):
        return "emu"
    def lower_compile_hints(self, module, *, compile_hints):
        super().lower_compile_hints(module, compile_hints=compile_hints)
        from flydsl._mlir import ir
        with module.context:
            src = ir.Module.parse(shims.module_text())
            for op in list(src.body.operations):
                module.body.append(op.operation.clone())
