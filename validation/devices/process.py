"""One worker process as its pool sees it: started, asked, watched, ended."""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from validation.cases import Outcome, Task
from validation.devices.keeper import resident
from validation.devices.surroundings import worker_environment

STDERR_KEPT = 4000
#: Bytes of standard output or error that a task may write: more is a fault, which would fill the disk.
OUTPUT_LIMIT = 256 << 20
#: Seconds that a keeper has to end all below it, before it is ended itself.
KEEPER_S = 20.0
#: Seconds that a worker which was just started, or waits, has to take a request off its pipe.
REQUEST_S = 60.0
#: Seconds that a process whose pipe is closed may take to end, before we say that it only closed the pipe.
DEATH_S = 5.0


@dataclass
class Worker:
    """A worker, the task that it has, and those that it had before.

    ``answer`` is the task's outcome, which counts once the worker says that it waits again; ``cause`` why it is to be
    ended at the next look. By the number of their request: ``answered`` are the tasks with an outcome that can be taken
    back, ``settled`` the names of those whose outcome cannot any more.
    """

    process: subprocess.Popen[bytes]
    requests: int
    answers: int
    stdout: Path
    stderr: Path
    own: Path
    ready: bool = False
    buffer: bytes = b""
    task: Task | None = None
    nonce: str = ""
    answer: Outcome | None = None
    answered: dict[str, Task] = field(default_factory=dict)
    settled: dict[str, str] = field(default_factory=dict)
    task_started: float = 0.0
    deadline: float = field(default=float("inf"))
    stderr_start: int = 0
    cause: str = ""

    @classmethod
    def start(cls, serial: int, home: Path, arch: str, device: str, extra: Mapping[str, str]) -> Worker:
        """Start the ``serial``-th worker of the pool whose private directory is ``home``."""
        own = home / f"worker{serial}"
        environment = worker_environment(extra, home, own)
        stdout, stderr = (home / f"worker{serial}.{name}" for name in ("out", "err"))
        child_reads, requests = os.pipe()
        answers, child_writes = os.pipe()
        given = {
            "read-fd": child_reads,
            "write-fd": child_writes,
            "parent": os.getpid(),
            "arch": arch,
            "device": device,
            "stderr": stderr,
        }
        with stdout.open("ab") as out, stderr.open("ab") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", "validation.worker", *(f"--{name}={value}" for name, value in given.items())],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=own,
                env=environment,
                pass_fds=(child_reads, child_writes),
                start_new_session=True,
            )
        os.close(child_reads)
        os.close(child_writes)
        os.set_blocking(requests, False)
        return cls(process, requests, answers, stdout, stderr, own)

    def send(self, task: Task, module: str, timeout_s: float) -> bool:
        """Hand ``task`` over; ``False`` when the worker had died between two tasks."""
        self.task, self.nonce, self.answer = task, secrets.token_hex(8), None
        self.task_started = time.monotonic()
        self.deadline = self.task_started + timeout_s
        self.stdout.open("wb").close()  # one task's chatter must not fill the disk for the next
        self.stderr_start = self.stderr.stat().st_size
        request = {"id": task.id, "nonce": self.nonce, "module": module, "payload": task.payload}
        waiting = memoryview((json.dumps(request) + "\n").encode())
        poll = select.poll()
        poll.register(self.requests, select.POLLOUT)
        while waiting:
            if not poll.poll(REQUEST_S * 1000):
                self.cause = f"worker did not take its request within {REQUEST_S:g} s"
                return True
            try:
                waiting = waiting[os.write(self.requests, waiting) :]
            except BrokenPipeError:
                return False
        return True

    def finish(self) -> None:
        """The task has its answer, and the worker waits."""
        if self.task is not None:
            self.answered[self.nonce] = self.task
        self.task, self.nonce, self.answer, self.deadline = None, "", None, float("inf")

    def settle(self) -> None:
        """What the worker has answered so far is not to be taken back."""
        self.settled |= {nonce: task.id for nonce, task in self.answered.items()}
        self.answered.clear()

    def fault(self, now: float, memory_limit: int) -> str:
        """Why the worker must be ended; empty if it need not."""
        if self.cause:
            return self.cause
        if now > self.deadline:
            return f"timed out after {now - self.task_started:.1f} s" if self.ready else "worker did not start"
        if resident(self.process.pid) > memory_limit:
            return f"used more than {memory_limit >> 20} MiB of memory"
        if max(self.stdout.stat().st_size, self.stderr.stat().st_size - self.stderr_start) > OUTPUT_LIMIT:
            return f"wrote more than {OUTPUT_LIMIT >> 20} MiB to standard output or error"
        return ""

    def words(self) -> str:
        """The end of what the task has written to standard error."""
        with self.stderr.open("rb") as stream:
            end = stream.seek(0, os.SEEK_END)
            stream.seek(max(self.stderr_start, end - STDERR_KEPT))
            return stream.read(STDERR_KEPT).decode(errors="replace")

    def cause_of_death(self) -> str:
        """How the worker ended, whose pipe is closed."""
        try:
            code = self.process.wait(DEATH_S)
        except subprocess.TimeoutExpired:
            return "worker closed its answer pipe"
        if code >= 0:
            return f"worker ended with exit code {code}"
        name = signal.Signals(-code).name
        return f"worker killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")

    def stop(self) -> None:
        """Ask the keeper to end the worker and all below it; safe from any thread."""
        self.process.terminate()

    def end(self) -> None:
        """See the worker and all below it ended, and remove what it kept."""
        self.stop()
        os.close(self.answers)
        os.close(self.requests)
        try:
            self.process.wait(KEEPER_S)
        except subprocess.TimeoutExpired:
            self.process.kill()  # the kernel ends the worker with its keeper
            self.process.wait()
        shutil.rmtree(self.own, ignore_errors=True)
