"""The host symbols that FlyDSL's compiled launchers call, as one table.

A FlyDSL launcher is host code that the MLIR execution engine compiles. On hardware its ``mgpu*``
symbols come from ``libfly_jit_runtime``, which needs the HIP runtime. Here each symbol is defined
inside the launcher's own module (`shims`) and forwards to a Python callback (`runtime`); this table is
the only place that knows the signatures.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

POINTER = "ptr"
"""Any host pointer or opaque handle."""

CTYPES: dict[str, type] = {
    POINTER: ctypes.c_void_p,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
}
MLIR_TYPES: dict[str, str] = {POINTER: "!llvm.ptr", "i16": "i16", "i32": "i32", "i64": "i64"}


@dataclass(frozen=True)
class HostSymbol:
    """One C function of the launcher's ABI: name, result type (None: void) and argument types.

    `at_exit`: FlyDSL may call it while the interpreter shuts down, when Python can no longer be reached
    and there is nothing left to do.
    """

    name: str
    result: str | None
    args: tuple[str, ...]
    at_exit: bool = False


def _symbol(name: str, result: str | None, *args: str, at_exit: bool = False) -> HostSymbol:
    return HostSymbol(name, result, args, at_exit)


LAUNCH_ONLY = frozenset({"mgpuModuleLoadJIT", "mgpuModuleUnload", "mgpuModuleGetFunction", "mgpuLaunchKernel"})
"""All that a launcher calls which does nothing but launch kernels on a stream that it was given."""

_GRID_AND_BLOCK = ("i64",) * 6

SYMBOLS: tuple[HostSymbol, ...] = (
    _symbol("mgpuModuleLoadJIT", POINTER, POINTER, "i32"),
    _symbol("mgpuModuleLoad", POINTER, POINTER, "i64"),
    _symbol("mgpuModuleUnload", None, POINTER, at_exit=True),
    _symbol("mgpuModuleGetFunction", POINTER, POINTER, POINTER),
    _symbol("mgpuLaunchKernel", None, POINTER, *_GRID_AND_BLOCK, "i32", POINTER, POINTER, POINTER, "i64"),
    _symbol("mgpuStreamCreate", POINTER),
    _symbol("mgpuStreamDestroy", None, POINTER),
    _symbol("mgpuStreamSynchronize", None, POINTER),
    _symbol("mgpuStreamWaitEvent", None, POINTER, POINTER),
    _symbol("mgpuEventCreate", POINTER),
    _symbol("mgpuEventDestroy", None, POINTER),
    _symbol("mgpuEventRecord", None, POINTER, POINTER),
    _symbol("mgpuEventSynchronize", None, POINTER),
    _symbol("mgpuSetDefaultDevice", None, "i32"),
    # Refused by the runtime with their name; defined so that the launcher links and the refusal is heard.
    _symbol("mgpuLaunchClusterKernel", None, POINTER, *(("i64",) * 9), "i32", POINTER, POINTER, POINTER, "i64"),
    _symbol("mgpuMemAlloc", POINTER, "i64", POINTER, "i32"),
    _symbol("mgpuMemFree", None, POINTER, POINTER),
    _symbol("mgpuMemcpy", None, POINTER, POINTER, "i64", POINTER),
    _symbol("mgpuMemset16", None, POINTER, "i16", "i64", POINTER),
    _symbol("mgpuMemset32", None, POINTER, "i32", "i64", POINTER),
)
