"""Runs a module as a program of its own, in a fork of a process that has imported torch and FlyDSL once.

FlyDSL reads its target from the environment once a process, so a test needs a process for each architecture, and to
import the two takes longer than most of what these programs do. No thread and no MLIR context exists before a fork.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from validation.devices.emulator import worker_environment
from validation.mutation.forked import PRELOADED

ROOT = Path(__file__).parents[1]
#: One thread a process: a pool of threads would not live through a fork.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def emulated(arch: str) -> dict[str, str]:
    """The environment in which a FlyDSL program is compiled for ``arch``, from scratch, and run by the emulator."""
    environment = os.environ | worker_environment(arch) | {"FLYDSL_RUNTIME_ENABLE_CACHE": "0"}
    environment.pop("COMPILE_ONLY", None)
    return environment


def run_module(
    module: str, *arguments: str, environment: Mapping[str, str] | None = None, text: str = "", timeout: float = 900
) -> subprocess.CompletedProcess[str]:
    """Like ``python -m module *arguments`` in the project's root with ``text`` as its input.

    But for what the interpreter itself takes from ``environment`` at its start (``PYTHONPATH``, ``PYTHONHASHSEED``),
    and for ``atexit``.

    Raises:
        subprocess.TimeoutExpired: it ran for more than ``timeout`` seconds, and has been ended.
    """
    command = [sys.executable, "-m", module, *arguments]
    with tempfile.TemporaryDirectory(prefix="forked-") as folder:
        Path(folder, "stdin").write_text(text)
        request = {
            "module": module,
            "arguments": arguments,
            "environment": dict(os.environ if environment is None else environment),
            "folder": folder,
            "timeout": timeout,
        }
        server = _server(os.getpid())
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        assert answer, f"the process that forks has ended with exit code {server.wait()}"
        ended, code = json.loads(answer)
        assert ended == folder, "the answer is to another request: one before was interrupted"
        if code is None:
            raise subprocess.TimeoutExpired(command, timeout)
        out, err = (Path(folder, name).read_text(errors="replace") for name in ("stdout", "stderr"))
        return subprocess.CompletedProcess(command, code, out, err)


@cache
def _server(pid: int) -> subprocess.Popen[str]:
    """The process that forks for the process ``pid``; it ends with it, for its input does."""
    server = subprocess.Popen(
        [sys.executable, "-m", __name__],
        cwd=ROOT,
        env=os.environ | ONE_THREAD,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(_end, server)
    return server


def _end(server: subprocess.Popen[str]) -> None:
    assert server.stdin is not None
    server.stdin.close()
    server.wait()


# -- in the process that forks ------------------------------------------------------------------------------------


def _serve() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        assert len(os.listdir("/proc/self/task")) == 1, "a thread would not live through the fork"
        pid = os.fork()
        if pid == 0:
            _program(request)
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it may have done so, or ended
            os.setpgid(pid, pid)
        print(json.dumps([request["folder"], _wait(pid, request["timeout"])]), flush=True)


def _wait(pid: int, timeout: float) -> int | None:
    """The exit code of the child (minus the number of the signal that ended it); ``None``: it was out of time."""
    handle = os.pidfd_open(pid)
    try:
        in_time = select.select([handle], [], [], timeout)[0]
    finally:
        os.close(handle)
    if not in_time:
        os.killpg(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if in_time else None


def _program(request: dict[str, Any]) -> None:
    """The child: its environment, arguments and files are those of a program that was just started."""
    code = 1
    try:
        os.setpgid(0, 0)
        os.environ.clear()
        os.environ.update(request["environment"])
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT
            os.dup2(os.open(Path(request["folder"], name), flags, 0o600), number)
        sys.stdin = os.fdopen(0, closefd=False)  # the one of the parent may hold lines that it has read ahead
        sys.argv = [request["module"], *request["arguments"]]
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        if not isinstance(end.code, (int, type(None))):
            print(end.code, file=sys.stderr)
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
