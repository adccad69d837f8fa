"""Runs one mutant in a fork of this worker, which has imported the heavy packages once.

A worker of :mod:`validation.devices.pool` imports torch, FlyDSL and the emulator, but neither the code under test nor
the stages. For each request it forks a child that puts the edited files in place, imports everything else anew, and
runs the trials in order until one fails. The child's end, whatever it is, becomes the outcome. No thread and no MLIR
context exists before the fork.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Imported before the first fork. Nothing here may import what a mutant can change.
PRELOADED = (
    "numpy",
    "torch",
    "torch.fx.experimental.symbolic_shapes",
    "flydsl.compiler",
    "flydsl.expr.gpu",
    "flydsl.expr.math",
    "flydsl.expr.rocdl",
    "flydsl.expr.typing",
    "flydsl.extension.coop",
    "flydsl._mlir.dialects.llvm",
    "jsonschema",
    "yaml",
    "validation.emulator.flydsl_plugin.backend",
    "validation.emulator.flydsl_plugin.runtime",
)
#: What a child forgets, so that it imports it anew through the overlay; the rest of ``validation`` stays.
_MUTABLE = ("hcgr", "oracle", "validation")
_KEPT = ("validation.emulator", "validation.mutation")
STDERR_KEPT = 2000
#: How LLVM announces that it gives up on a kernel, and with it the process: the mutant cannot be built.
COMPILER_DIED = "LLVM ERROR"


def execute(payload: dict[str, Any], context: Any) -> dict[str, Any]:
    """Run the trials of one mutant (or of no edit) in a child.

    ``payload``: ``sources`` (file to text), ``trials``, ``operation``, ``timeout_s``, ``stop`` at the first failure or
    not, ``private`` cache or the one called ``cache`` that the pool shares, ``root`` of the sources (empty: this
    project's, wherever it is on this machine).

    Returns:
        ``trials``: records of :func:`validation.mutation.run.run_trial`, as many as were finished; ``ended``: how the
        child ended: ``done``, ``timeout``, ``crashed`` or ``invalid``; ``reason``; ``cpu_s``; ``peak_mib``.
    """
    for name in PRELOADED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        return _in_child(payload, context.arch, Path(folder))


def _in_child(payload: dict[str, Any], arch: str, folder: Path) -> dict[str, Any]:
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reads)
            _child(payload, arch, folder, writes)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writes)
    lines, timed_out = _listen(reads, payload["timeout_s"])
    os.close(reads)
    if timed_out:
        os.kill(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    words = (folder / "stderr").read_text(errors="replace") if (folder / "stderr").exists() else ""
    trials = [line["record"] for line in lines if "record" in line]
    ended, reason = ending(lines, f"no end after {payload['timeout_s']:g} s" if timed_out else "", status, words)
    return {
        "trials": trials,
        "ended": ended,
        "reason": reason.replace(f"{folder}/overlay/", ""),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 3),
        "peak_mib": usage.ru_maxrss >> 10,
    }


def ending(lines: list[dict[str, Any]], timed_out: str, status: int, words: str) -> tuple[str, str]:
    """How a child ended, and why: by its ``lines``, its wait status and its ``words`` on stderr."""
    if timed_out:
        return "timeout", timed_out
    invalid = next((str(line["invalid"]) for line in lines if "invalid" in line), None)
    if invalid is not None:
        return "invalid", invalid
    if status == 0 and any("done" in line for line in lines):
        return "done", ""
    compiler = any(line.startswith(COMPILER_DIED) for line in words.splitlines())
    return "invalid" if compiler else "crashed", f"{_death(status)}; {_last(words)}"


def _listen(reads: int, timeout_s: float) -> tuple[list[dict[str, Any]], bool]:
    """Lines of JSON until the child closes its end; ``True`` when the time was up first."""
    deadline, data = time.monotonic() + timeout_s, b""
    timed_out = False
    while True:
        ready, _, _ = select.select([reads], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            timed_out = True
            break
        more = os.read(reads, 1 << 16)
        if not more:
            break
        data += more
    return [json.loads(line) for line in data.split(b"\n")[:-1]], timed_out


def _death(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"ended with exit code {os.WEXITSTATUS(status)}"


def _last(words: str) -> str:
    line = next((line for line in reversed(words[-STDERR_KEPT:].splitlines()) if line.strip()), "")
    return f"last words: {line.strip()}" if line else "no words on stderr"


# -- in the child -------------------------------------------------------------------------------------------------


def _child(payload: dict[str, Any], arch: str, folder: Path, writes: int) -> None:
    from validation.devices.keeper import end_with_parent
    from validation.mutation.edit import ROOT, Overlay
    from validation.mutation.trials import Trial

    def send(message: Mapping[str, Any]) -> None:
        os.write(writes, (json.dumps(message) + "\n").encode())

    end_with_parent(os.getppid())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    stderr = folder / "stderr"
    _redirect(stderr)
    _private(folder, payload)
    for name in [name for name in sys.modules if _forgotten(name)]:
        del sys.modules[name]
    overlay = Overlay(payload["sources"], folder / "overlay", Path(payload["root"] or ROOT))
    overlay.install()
    try:
        run = importlib.import_module("validation.mutation.run")
        for name in overlay.modules:  # a mutant that nobody imports changes nothing, one that cannot be is invalid
            importlib.import_module(name)
    except Exception as error:
        send({"invalid": overlay.real_paths(f"{type(error).__name__}: {error}")})
        return
    for trial in map(Trial.from_json, payload["trials"]):
        record = run.run_trial(trial, arch, payload["operation"], stderr)
        record["reason"] = overlay.real_paths(record["reason"])
        send({"record": record})
        if record["status"] == "fail" and payload["stop"]:
            break
    send({"done": True})


def _forgotten(name: str) -> bool:
    top = name.partition(".")[0]
    kept = any(name == one or name.startswith(f"{one}.") for one in _KEPT)
    return top in _MUTABLE and name != "validation" and not kept


def _redirect(stderr: Path) -> None:
    """Everything that is printed goes to a file of this mutant."""
    descriptor = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def _private(folder: Path, payload: Mapping[str, Any]) -> None:
    """Private directories; a FlyDSL cache of its own, a copy of the given one where kernels are not mutated."""
    cache = folder / "cache"
    shared = Path(os.environ["XDG_CACHE_HOME"], payload["cache"])
    if payload["cache"] and shared.is_dir() and payload["private"]:
        shutil.copytree(shared, cache)
    elif payload["cache"] and not payload["private"]:
        cache = shared
    cache.mkdir(parents=True, exist_ok=True)
    # Unchanged sources are compiled to bytecode once for all children; edited ones have paths of their own.
    sys.pycache_prefix, sys.dont_write_bytecode = str(Path(tempfile.gettempdir()) / "bytecode"), False
    for name in ("tmp", "home"):
        (folder / name).mkdir()
    os.environ |= {
        "FLYDSL_RUNTIME_CACHE_DIR": str(cache),
        "TMPDIR": str(folder / "tmp"),
        "HOME": str(folder / "home"),
    }
    tempfile.tempdir = None
