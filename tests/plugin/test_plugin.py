"""The FlyDSL backend plugin: each test runs a body of `child` in its own process."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.forked import emulated, run_module

ROOT = Path(__file__).parents[2]
ARCHS = ("gfx942", "gfx950")

MOVING = """
import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def moving_kernel(data: fx.Pointer):
    i = fx.thread_idx.x
    fx.generic_store(data + i, fx.generic_load(data + i) * 3.0)


@flyc.jit
def program(data: fx.Pointer, stream: fx.Stream = fx.Stream(None)):
    moving_kernel(data).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)
"""


def spawn(arch: str, *args: str, started: bool = False, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the child under the emulator backend, with `env` on top; a fork, or, if `started`, a new interpreter."""
    environment = emulated(arch) | env
    if "FLYDSL_DEBUG_ENABLE_DEBUG_INFO" not in env:
        environment.pop("FLYDSL_DEBUG_ENABLE_DEBUG_INFO", None)
    if not started:
        return run_module("tests.plugin.child", *args, environment=environment, timeout=300)
    command = [sys.executable, "-m", "tests.plugin.child", *args]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


def child(arch: str, *args: str, started: bool = False, **env: str) -> dict[str, Any]:
    """The child's answer, with what it printed to standard error as ``stderr``."""
    done = spawn(arch, *args, started=started, **env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]) | {"stderr": done.stderr}


def test_entry_point_is_registered() -> None:
    found = [e.value for e in entry_points(group="flydsl.backends") if e.name == "emulator"]
    assert set(found) == {"validation.emulator.flydsl_plugin:EmulatorBackend"}, (
        "the package is not installed in this environment: pip install -e ."
    )


@functools.cache
def everything(arch: str) -> dict[str, Any]:
    """Answers of the bodies that share a process."""
    return child(arch, "everything")


@pytest.mark.parametrize("arch", ARCHS)
def test_launches_arrive_with_all_their_arguments(arch: str) -> None:
    got = everything(arch)["record"]
    bare, handle = got["launches"]
    assert bare["kernel"] == handle["kernel"] == "scale_kernel_0"
    assert (bare["grid"], handle["grid"]) == ([3, 1, 1], [2, 1, 1])
    assert bare["block"] == handle["block"] == [128, 1, 1]
    assert bare["dynamic_lds"] == handle["dynamic_lds"] == 512
    assert (bare["stream"], handle["stream"]) == (77, 0)
    assert (bare["scalars"], handle["scalars"]) == ([300, 300, 2.5], [300, 200, 0.5])
    assert all(launch[key] for launch in (bare, handle) for key in ("source", "target", "tensors"))
    assert got["launched_by_compile"] == 0
    assert got["outside"] == 0


@pytest.mark.parametrize("arch", ARCHS)
def test_isa_names_source_lines_and_arguments(arch: str) -> None:
    got = everything(arch)["record"]
    assert got["names"] == ["source", "target"]
    assert got["file"] == ["kernels.py"]
    assert {got["guard_line"], got["store_line"]} <= set(got["lines"])


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind", ["call", "handle"])
def test_exceptions_reach_the_caller(arch: str, kind: str) -> None:
    got = everything(arch)["failures"]
    # A failed launch stops the launcher: the second kernel of the first case never arrives.
    assert got[f"{kind} first"] == ["'launch 0'", 1]
    assert got[f"{kind} second"] == ["'launch 1'", 2]
    assert got[f"{kind} clean"] == ["returned", 2]


def test_threads_keep_their_failures_apart() -> None:
    got = everything("gfx942")["threads"]
    assert got == {"seen": [["thread 0"], ["thread 1"]], "counts": [20, 20], "wrong": []}


@pytest.mark.parametrize("arch", ARCHS)
def test_a_finding_names_the_python_line_and_argument(arch: str) -> None:
    got = everything(arch)["overrun"]
    assert got["check"] == "memcheck"
    assert (got["argument"], got["index"], got["lane"]) == ("data", [60], 60)
    assert got["source"] == ["kernels.py", got["line"]]
    # Two launches, of one workgroup and of two, which write to the same elements.
    assert got["launches"] == 2
    assert all(i < value for i, value in enumerate(got["data"]))


@pytest.mark.parametrize("arch", ARCHS)
def test_an_instruction_belongs_to_the_kernels_own_innermost_line(arch: str) -> None:
    """In nested branches the statement's line, for a helper's instruction the line of the call."""
    got = everything(arch)["call_sites"]
    assert sorted(got["lines"]) == got["expected"]
    assert got["helpers"] == ["helpers.py", "kernels.py"]


@pytest.mark.parametrize("arch", ARCHS)
def test_outside_of_a_session_a_memory_fault_reaches_the_caller(arch: str) -> None:
    assert everything(arch)["overrun"]["raised"] == "KernelFault"


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("program", "words"),
    [("too_much_lds", "local memory (200000) exceeds limit"), ("no_lowering", "no libcall available for ftanh")],
)
def test_errors_that_llvm_only_prints_are_raised(arch: str, program: str, words: str) -> None:
    got = everything(arch)[program]
    assert got["error"] == "BackendCompileError"
    assert words in got["message"]


@pytest.mark.parametrize("arch", ARCHS)
def test_functions_of_the_device_library_that_are_one_intrinsic_need_no_rocm(arch: str) -> None:
    got = everything(arch)["library_functions"]
    x, y = np.array(got["x"]), np.array(got["y"])
    halves = x.astype(np.float16).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        exact = [np.floor(x), np.ceil(x), np.exp2(x), np.log2(x), np.log10(x), np.floor(x), np.ceil(halves)]
    for row, (found, wanted) in enumerate(zip(y, exact, strict=True)):
        with np.errstate(over="ignore", invalid="ignore"):
            nearest = wanted.astype(np.float32)
            # of exp2 and log2, LLVM promises one unit in the last place; log10 multiplies once more
            allowed = np.where(np.isfinite(nearest) & (row in (2, 3, 4)), 2 * np.spacing(np.abs(nearest)), 0.0)
            near = np.abs(found - wanted) <= allowed
        same = (found == nearest) | (np.isnan(found) & np.isnan(nearest))
        assert (same | near).all(), (row, x, found, wanted)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.skipif(Path("/opt/rocm/amdgcn/bitcode").exists(), reason="ROCm's device library is installed here")
def test_other_functions_of_the_device_library_are_refused_with_advice(arch: str) -> None:
    got = everything(arch)["needs_rocm"]
    assert got["error"] == "MissingLibraryError"
    assert "device library (OCML), which is not installed here" in got["message"]
    assert "math.exp2" in got["message"]


@pytest.mark.parametrize("arch", ARCHS)
def test_nothing_else_is_printed(arch: str) -> None:
    """Standard error holds what LLVM printed, once each, and nothing from the callbacks or the exit."""
    lines = everything(arch)["stderr"].splitlines()
    assert len(lines) == 2
    assert all("error: " in line for line in lines)


def test_an_abort_of_the_compiler_leaves_its_words() -> None:
    done = spawn("gfx942", "broken", "aborts_on_gfx942")
    assert done.returncode != 0
    assert "Cannot select" in done.stderr
    assert everything("gfx950")["aborts_on_gfx942"]["error"] is None


def test_warp_collectives_compile_to_the_code_of_the_real_backend() -> None:
    assert everything("gfx942")["dispatch"] == {"dpp": True, "bpermute": False}


def test_unsupported_settings_are_refused_by_name() -> None:
    said = child("gfx942", "refusals")
    assert "gfx942 and gfx950, not gfx1100" in said["arch"]
    assert "set both to the same architecture" in said["disagreement"]
    assert "unset FLYDSL_COMPILE_LLVM_DIR" in said["external LLVM"]
    assert "unset FLYDSL_KTRACE_ENABLE" in said["tracing"]


@pytest.mark.parametrize("arch", ARCHS)
def test_a_launcher_follows_the_environment_from_one_architecture_to_another(arch: str) -> None:
    got = everything(arch)["retargeted"]
    assert got == {"ran": ["gfx942", "gfx950", "gfx942"], "results": [True] * 3}


def test_source_lines_can_be_turned_off() -> None:
    assert child("gfx942", "record", FLYDSL_DEBUG_ENABLE_DEBUG_INFO="0")["lines"] == []


def test_cached_kernels_work_in_a_new_process(tmp_path: Path) -> None:
    """Hits when nothing changed; misses when the code, its place or the line information did."""
    source = tmp_path / "moving.py"
    source.write_text(MOVING)
    path = os.pathsep.join(p for p in (str(tmp_path), os.environ.get("PYTHONPATH", "")) if p)
    env = {
        "FLYDSL_RUNTIME_ENABLE_CACHE": "1",
        "FLYDSL_RUNTIME_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    first = child("gfx942", "cached", started=True, **env)
    again = child("gfx942", "cached", started=True, **env)
    assert (first["lowered"], again["lowered"]) == (1, 0)
    assert again["lines"] == first["lines"] != []
    assert again["kernel"] == "moving_kernel_0"

    without = child("gfx942", "cached", started=True, **env, FLYDSL_DEBUG_ENABLE_DEBUG_INFO="0")
    assert (without["lowered"], without["lines"]) == (1, [])

    source.write_text("\n\n\n" + MOVING)
    moved = child("gfx942", "cached", started=True, **env)
    assert moved["lowered"] == 1
    assert moved["lines"] == [n + 3 for n in first["lines"]]
