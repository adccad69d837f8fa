"""Bodies of the plugin tests, run in a fresh process: ``python -m tests.plugin.child NAME``.

FlyDSL reads its environment once a process, so every combination of environment needs its own. Each
function returns what the test asserts on; it is printed as JSON on the last line.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import math
import os
import re
import sys
import threading
from pathlib import Path
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch

from validation.emulator import emulate, parse_program
from validation.emulator.flydsl_plugin import KernelLaunch, launches_to, live_arguments, live_tensors

from . import kernels

NULL = fx.Stream(None)


class Recorder:
    """Launcher that keeps every launch, and raises where told to."""

    def __init__(self, fail_at: int | None = None, kinds: tuple[Any, ...] = ()) -> None:
        self.launches: list[KernelLaunch] = []
        self.kinds = kinds
        self.values: list[list[Any]] = []
        self.tensors: list[list[int]] = []
        self.fail_at = fail_at

    def __call__(self, launch: KernelLaunch) -> None:
        self.tensors.append([t.data_ptr() for t in live_tensors()])
        self.launches.append(launch)
        # The values live on the launcher's stack: they can be read now and not later.
        kinds = self.kinds or (ctypes.c_byte,) * len(launch.params)
        self.values.append([kind.from_address(at).value for kind, at in zip(kinds, launch.params, strict=True)])
        if self.fail_at == len(self.launches) - 1:
            raise KeyError(f"launch {self.fail_at}")


def record() -> dict[str, Any]:
    """One bare call and one call of a handle: everything that reaches the launcher."""
    source, target = torch.zeros(300), torch.zeros(300)
    address = flyc.from_c_void_p(fx.Float32, target.data_ptr())
    recorder = Recorder(kinds=(ctypes.c_uint64, ctypes.c_int32, ctypes.c_uint64, ctypes.c_int32, ctypes.c_float))
    with launches_to(recorder):
        kernels.scale(source, address, 300, 2.5, 77)
        handle = flyc.compile(kernels.scale, source, kernels.pointer(), 1, 1.0, NULL)
        compiled = len(recorder.launches)
        handle(source, target.data_ptr(), 200, 0.5, None)
    shown = []
    for launch, tensors, values in zip(recorder.launches, recorder.tensors, recorder.values, strict=True):
        shown.append(
            {
                "kernel": launch.kernel,
                "grid": launch.grid,
                "block": launch.block,
                "dynamic_lds": launch.dynamic_lds,
                "stream": launch.stream,
                "source": values[0] == source.data_ptr(),
                "target": values[2] == target.data_ptr(),
                "scalars": [values[1], values[3], values[4]],
                "tensors": tensors == [source.data_ptr()],
            }
        )
    asm = recorder.launches[0].asm
    return {
        "launches": shown,
        "launched_by_compile": compiled - 1,
        "names": re.findall(r"^ {8}\.name: +(\w+)$", asm, re.MULTILINE),
        "lines": sorted({int(n) for n in re.findall(r"^\t\.loc\t\d+ (\d+)", asm, re.MULTILINE)}),
        "file": re.findall(r'^\t\.file\t\d+ .*"([^"]+)"$', asm, re.MULTILINE),
        "guard_line": kernels.line_of("# guard of scale"),
        "store_line": kernels.line_of("source[i] * factor"),
        "outside": len(live_arguments()),
    }


def failures() -> dict[str, Any]:
    """Exceptions of launches, by both kinds of call, and what happens afterwards."""
    data = torch.zeros(64)
    outcome: dict[str, Any] = {}

    def attempt(name: str, fail_at: int | None, program: Any, *args: Any) -> None:
        recorder = Recorder(fail_at)
        with launches_to(recorder):
            try:
                program(*args)
                outcome[name] = ["returned", len(recorder.launches)]
            except KeyError as error:
                outcome[name] = [str(error), len(recorder.launches)]

    address = flyc.from_c_void_p(fx.Float32, data.data_ptr())
    handle = flyc.compile(kernels.bump_twice, kernels.pointer(), NULL)
    attempt("call first", 0, kernels.bump_twice, address)
    attempt("call second", 1, kernels.bump_twice, address)
    attempt("call clean", None, kernels.bump_twice, address)
    attempt("handle first", 0, handle, data.data_ptr(), None)
    attempt("handle second", 1, handle, data.data_ptr(), None)
    attempt("handle clean", None, handle, data.data_ptr(), None)
    return outcome


def threads() -> dict[str, Any]:
    """Two threads launch at once; each must see its own failures and its own arguments only."""
    handle = flyc.compile(kernels.bump_twice, kernels.pointer(), NULL)
    together = threading.Barrier(2, timeout=60)
    seen: dict[int, list[str]] = {0: [], 1: []}
    wrong: list[Any] = []

    def launcher(launch: KernelLaunch) -> None:
        together.wait()
        if live_arguments()[0] != launch.arguments[0]:
            wrong.append((live_arguments(), launch.arguments))
        raise ValueError(f"thread {launch.arguments[0]}")

    def work(number: int) -> None:
        for _ in range(20):
            try:
                handle(number, None)
            except ValueError as error:
                seen[number].append(str(error))

    with launches_to(launcher):
        workers = [threading.Thread(target=work, args=(number,)) for number in seen]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    return {"seen": [sorted(set(v)) for v in seen.values()], "counts": [len(v) for v in seen.values()], "wrong": wrong}


def broken(name: str) -> dict[str, Any]:
    """Compile a kernel that LLVM cannot."""
    try:
        flyc.compile(getattr(kernels, name), kernels.pointer(align=16), NULL)
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)}
    return {"error": None, "message": ""}


def overrun() -> dict[str, Any]:
    """A kernel of 64 lanes on 60 elements, in the emulator: inside of a session, and outside of one."""
    handle = flyc.compile(kernels.bump_twice, kernels.pointer(), NULL)
    data = torch.arange(60.0)
    with emulate() as session:
        handle(data.data_ptr(), None)
    finding = session.findings[0]
    try:
        handle(data.data_ptr(), None)
        raised = "nothing"
    except Exception as error:
        raised = type(error).__name__
    return {
        "launches": len(session.launches),
        "data": data.tolist(),
        "check": finding.check,
        "argument": finding.argument,
        "index": finding.index,
        "lane": finding.lane,
        "source": [Path(finding.source_file or "").name, finding.source_line],
        "line": kernels.line_of("fx.generic_load(data + i) + 1"),
        "raised": raised,
    }


def retargeted() -> dict[str, Any]:
    """One launcher, while the environment names one architecture after the other."""
    before, ran, results = os.environ["ARCH"], [], []
    source, target = torch.arange(300.0), torch.zeros(300)
    for arch in ("gfx942", "gfx950", "gfx942"):
        os.environ["ARCH"] = os.environ["FLYDSL_GPU_ARCH"] = arch
        with emulate(arch=arch) as session:
            kernels.scale(source, flyc.from_c_void_p(fx.Float32, target.zero_().data_ptr()), 300, 2.5)
        ran += [launch.arch for launch in session.launches]
        results.append(torch.equal(target, source * 2.5))
    os.environ["ARCH"] = os.environ["FLYDSL_GPU_ARCH"] = before
    return {"ran": ran, "results": results}


def call_sites() -> dict[str, Any]:
    """Source places of the loads and stores of a kernel with branches and helpers, by source line."""
    recorder = Recorder()
    data = torch.zeros(128)
    with launches_to(recorder):
        flyc.compile(kernels.nested, kernels.pointer(), 1, NULL)(data.data_ptr(), 128, None)
    program = parse_program(recorder.launches[0].asm)
    memory = [inst for inst in program.instructions if inst.mnemonic.startswith(("global_load", "global_store"))]
    labels = ("# call of the shared helper", "# call of the inner function", "# direct")
    return {
        "lines": [inst.source[1] for inst in memory if inst.source],
        "expected": [kernels.line_of(label) for label in labels],
        "helpers": sorted(Path(inst.via).name.split(":")[0] for inst in memory if inst.via),
    }


SETTINGS = {
    "arch": {"ARCH": "gfx1100"},
    "disagreement": {"ARCH": "gfx950"},
    "external LLVM": {"FLYDSL_COMPILE_LLVM_DIR": "/nowhere"},
    "tracing": {"FLYDSL_KTRACE_ENABLE": "1"},
}


def refusals() -> dict[str, str]:
    """What compiling says under each unsupported setting; the process itself targets gfx942."""
    said = {}
    for name, setting in SETTINGS.items():
        os.environ.update(setting)
        try:
            flyc.compile(kernels.wave_sum, kernels.pointer(), NULL)
            said[name] = ""
        except Exception as error:
            said[name] = f"{type(error).__name__}: {error}"
        for variable in setting:
            del os.environ[variable]
        os.environ["ARCH"] = "gfx942"
    return said


def everything() -> dict[str, Any]:
    """All bodies that need no environment of their own, in one process."""
    bodies = (record, failures, threads, dispatch, overrun, call_sites, retargeted, library_functions)
    answers: dict[str, Any] = {f.__name__: f() for f in bodies}
    for name in ("too_much_lds", "no_lowering", "needs_rocm"):
        answers[name] = broken(name)
    if os.environ["ARCH"] == "gfx950":
        answers["aborts_on_gfx942"] = broken("aborts_on_gfx942")
    return answers


def library_functions() -> dict[str, Any]:
    """Argument and results of functions that FlyDSL takes from ROCm's device library."""
    x = torch.tensor(
        [0.0, 0.3, 0.5, 1.0, 1.5, 2.0, 7.75, 2.0**-140, 126.3, 1000.0, math.inf, -0.0, -0.3, -1.5, -150.25]
    )
    x = x.repeat(5)[:64].contiguous()
    y = torch.full((7, 64), -7.0)
    kernels.library_functions(x, y)
    return {"x": x[:15].tolist(), "y": y[:, :15].tolist()}


def dispatch() -> dict[str, Any]:
    """ISA of a warp reduction."""
    recorder = Recorder()
    data = torch.zeros(64)
    with launches_to(recorder):
        flyc.compile(kernels.wave_sum, kernels.pointer(), NULL)(data.data_ptr(), None)
    return {"dpp": "_dpp" in recorder.launches[0].asm, "bpermute": "ds_bpermute" in recorder.launches[0].asm}


def cached() -> dict[str, Any]:
    """Launch once; report whether anything was lowered, and the ISA's line numbers."""
    from flydsl.compiler import jit_function

    lowered = []
    original = jit_function.MlirCompiler.compile

    def counting(*args: Any, **kwargs: Any) -> Any:
        lowered.append(kwargs.get("func_name"))
        return original(*args, **kwargs)

    jit_function.MlirCompiler.compile = counting
    moving = importlib.import_module("moving")  # written by the test

    recorder = Recorder()
    data = torch.zeros(64)
    with launches_to(recorder):
        moving.program(flyc.from_c_void_p(fx.Float32, data.data_ptr()))
    asm = recorder.launches[0].asm
    lines = sorted({int(n) for n in re.findall(r"^\t\.loc\t\d+ (\d+)", asm, re.MULTILINE)})
    return {"lowered": len(lowered), "lines": lines, "kernel": recorder.launches[0].kernel}


def main() -> None:
    name, *args = sys.argv[1:]
    print(json.dumps(globals()[name](*args)))


if __name__ == "__main__":
    main()
