"""Emulator speed: ``python -m tests.flydsl_programs.bench [--quick]``.

Two whole kernels, compiled for gfx942 and run to completion: a bf16 GEMM 512x384x10240 and a bf16 RMSNorm 8192x10240.
Prints wave-instructions a second, unchecked and under memcheck + initcheck, their ratio, and the time from a cold
process to its first result (FlyDSL's own import and compilation apart). Times are process CPU time, best of the
interleaved runs; nothing is judged.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(ARCH="gfx942", FLYDSL_GPU_ARCH="gfx942", FLYDSL_COMPILE_BACKEND="emulator")

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch

from validation.emulator import AddressSpace, emulate
from validation.emulator.flydsl_plugin import runtime

from . import gemm_tiled, rms_norm

MODES: dict[str, tuple[str, ...]] = {"unchecked": (), "memcheck+initcheck": ("memcheck", "initcheck")}
COLD = """
import time
start = time.perf_counter()
import sys, torch
from pathlib import Path
loaded = time.perf_counter()
from validation.emulator import launch
x = torch.randn(4, 10240).bfloat16(); w = torch.ones(10240).bfloat16(); y = torch.zeros_like(x)
launch(Path(sys.argv[1]).read_text(), None, (4,), (256,), [x, w, y, 1e-6])
print(time.perf_counter() - loaded, loaded - start)
"""


def gemm(space: AddressSpace, quick: bool) -> Callable[[], None]:
    m, n, k = 512, 384, 1024 if quick else 10240
    generator = torch.Generator().manual_seed(1)
    a, b, c = (space.empty(shape, torch.bfloat16, name, initialised=True)
               for shape, name in (((m, k), "a"), ((n, k), "b"), ((m, n), "c")))  # fmt: skip
    a.copy_(torch.randn(m, k, generator=generator))
    b.copy_(torch.randn(n, k, generator=generator))
    program = gemm_tiled.make(torch.bfloat16, 16, 16)
    return _compiled(program, gemm_tiled.arguments(a, b, c))


def norm(space: AddressSpace, quick: bool) -> Callable[[], None]:
    rows, columns = 1024 if quick else 8192, 10240
    generator = torch.Generator().manual_seed(2)
    x, w, y = (space.empty(shape, torch.bfloat16, name, initialised=True)
               for shape, name in (((rows, columns), "x"), ((columns,), "w"), ((rows, columns), "y")))  # fmt: skip
    x.copy_(torch.randn(rows, columns, generator=generator))
    w.fill_(1)
    program = rms_norm.make(columns)
    pointers = [flyc.from_c_void_p(fx.BFloat16, t.data_ptr(), assumed_align=16) for t in (x, w, y)]
    return _compiled(program, (*pointers, rows, 1e-6))


def _compiled(program: Any, arguments: tuple[Any, ...]) -> Callable[[], None]:
    """A call of the compiled launcher: a bare one traces the kernel again each time, which is FlyDSL's time."""
    arguments = (*arguments, fx.Stream(None))
    with runtime.launches_to(lambda launch: None):
        handle = flyc.compile(program, *arguments)
    return lambda: handle(*arguments)


def measure(
    make: Callable[[AddressSpace, bool], Callable[[], None]], quick: bool, rounds: int
) -> dict[str, tuple[int, float]]:
    """Mode -> (wave-instructions, best CPU seconds)."""
    space = AddressSpace()
    run = make(space, quick)
    best: dict[str, tuple[int, float]] = {}
    for _ in range(rounds):
        for name, checks in MODES.items():
            with emulate(checks=checks, space=space) as session:
                start = time.process_time()
                run()
                seconds = time.process_time() - start
            (launch,) = session.launches
            best[name] = (launch.instructions, min(seconds, best.get(name, (0, seconds))[1]))
    return best


def cold_start() -> tuple[float, float]:
    """Seconds to a first result, and seconds for importing torch alone, in a new process."""
    texts: list[str] = []
    with runtime.launches_to(lambda launch: texts.append(launch.asm)):
        norm(AddressSpace(), True)()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.s"
        path.write_text(texts[0])
        done = subprocess.run([sys.executable, "-c", COLD, str(path)], capture_output=True, text=True, check=True)
    first, torch_import = (float(x) for x in done.stdout.split())
    return first, torch_import


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="an eighth of the work")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved repetitions (default 3)")
    options = parser.parse_args()
    print(f"{'kernel':10} {'mode':20} {'M wave-instr':>12} {'seconds':>8} {'M/s':>7} {'ratio':>6}")
    for name, make in (("gemm", gemm), ("rms_norm", norm)):
        results = measure(make, options.quick, options.rounds + 1)
        base = results["unchecked"][1]
        for mode, (count, seconds) in results.items():
            print(
                f"{name:10} {mode:20} {count / 1e6:12.2f} {seconds:8.2f} {count / seconds / 1e6:7.2f}"
                f" {seconds / base:6.2f}"
            )
    first, torch_import = cold_start()
    print(f"cold process: first result after {first:.2f} s (import of torch, {torch_import:.2f} s, apart)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
