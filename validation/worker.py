"""The worker process: takes tasks from a pipe, runs them, answers on another pipe.

Started as ``python -m validation.worker`` by :mod:`validation.devices.process`, below a keeper that ends what it leaves
behind. Requests and answers are JSON, one a line, on two descriptors of their own: standard output and error belong to
the code under test, which may print anything there, and go to files that the parent reads only when something went
wrong. A request holds a number that was drawn for it, which the answer repeats, and so does the line after it that says
that the worker has ended the case's processes and waits again.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from validation import devices
from validation.devices.keeper import end_children, keep
from validation.operation import Bench, JsonDict, Operation, load_operation

#: Bytes of a task's standard error that a stage is shown.
STDERR_SHOWN = 1 << 20


class TaskContext:
    """What a stage may use while it executes a task."""

    def __init__(self, arch: str, device: str, stderr_path: Path) -> None:
        self.arch = arch
        self.device = device
        self._stderr_path = stderr_path
        self._stderr_start = 0
        self._operations: dict[str, Operation] = {}

    def operation(self, name: str) -> Operation:
        """The operation called ``name``, loaded once a process."""
        if name not in self._operations:
            self._operations[name] = load_operation(name)
        return self._operations[name]

    @contextmanager
    def bench(self) -> Iterator[Bench]:
        """A fresh bench on this worker's device, closed afterwards."""
        bench = self.open_bench()
        try:
            yield bench
        finally:
            bench.close()

    def open_bench(self) -> Bench:
        """A fresh bench on this worker's device, which the caller closes."""
        bench: Bench = devices.device(self.device).open_bench(self.arch)
        return bench

    def begin(self) -> None:
        """Forget what earlier tasks wrote to standard error."""
        self._stderr_start = _size(self._stderr_path)

    def stderr_text(self) -> str:
        """What this task has written to standard error so far, at the level of file descriptors: the first MiB."""
        sys.stderr.flush()
        try:
            with self._stderr_path.open("rb") as stream:
                stream.seek(self._stderr_start)
                return stream.read(STDERR_SHOWN).decode(errors="replace")
        except FileNotFoundError:
            return ""


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def execute(request: JsonDict, context: TaskContext) -> JsonDict:
    """Run one request; an exception becomes part of the answer, never the end of the worker."""
    context.begin()
    try:
        stage = importlib.import_module(request["module"])
        value = stage.execute(request["payload"], context)
        json.dumps(value)
    except Exception as error:  # of whatever kind: the case is an error with its trace, and the other cases go on
        return {"error": f"{type(error).__name__}: {error}", "detail": traceback.format_exc()}
    return {"value": value}


def serve(requests: TextIO, answers: TextIO, context: TaskContext) -> None:
    """Answer requests until the parent closes the pipe."""

    def send(message: JsonDict) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    send({"ready": os.getpid()})
    for line in requests:
        request = json.loads(line)
        mark = {"id": request["id"], "nonce": request["nonce"]}
        send(mark | execute(request, context))
        end_children()
        send(mark | {"idle": True})


def main(argv: list[str] | None = None) -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(prog="validation.worker", description=__doc__)
    for name, kind in (
        ("read-fd", int),
        ("write-fd", int),
        ("parent", int),
        ("arch", str),
        ("device", str),
        ("stderr", Path),
    ):
        parser.add_argument(f"--{name}", type=kind, required=True)
    arguments: Any = parser.parse_args(argv)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when workers end
    keep(arguments.parent, (arguments.read_fd, arguments.write_fd))
    for descriptor in (arguments.read_fd, arguments.write_fd):
        os.set_inheritable(descriptor, False)
    context = TaskContext(arguments.arch, arguments.device, arguments.stderr)
    with os.fdopen(arguments.read_fd) as requests, os.fdopen(arguments.write_fd, "w") as answers:
        serve(requests, answers, context)


if __name__ == "__main__":
    main()
