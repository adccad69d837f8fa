"""A pool of worker processes: start, feed, time, watch and replace.

One process, one thread, one ``select``: whatever a task does (abort, hang, eat memory, close its pipes), the pool
notices, blames that task alone, and puts a new worker in the place of the old one.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from validation.cases import Outcome, Task
from validation.operation import JsonDict

#: Variables that a worker may inherit. Everything else, secrets among it, stays outside.
ALLOWED_ENVIRONMENT = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "SYSTEMROOT",
    "ROCM_PATH",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
)

#: Every numeric library in a worker uses one thread: work is spread over processes.
FIXED_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUNBUFFERED": "1",
}

STARTUP_TIMEOUT_S = 120.0
TICK_S = 0.2
STDERR_KEPT = 4000


def worker_environment(extra: Mapping[str, str], home: Path) -> dict[str, str]:
    """The whole environment of a worker: allow-listed, fixed and device variables, and private directories."""
    environment = {name: os.environ[name] for name in ALLOWED_ENVIRONMENT if name in os.environ}
    environment |= FIXED_ENVIRONMENT
    environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(entry or ".") for entry in sys.path)
    for name, folder in (
        ("HOME", "home"),
        ("TMPDIR", "tmp"),
        ("XDG_CACHE_HOME", "cache"),
        ("FLYDSL_RUNTIME_CACHE_DIR", "cache/flydsl"),
        ("TRITON_CACHE_DIR", "cache/triton"),
    ):
        path = home / folder
        path.mkdir(parents=True, exist_ok=True)
        environment[name] = str(path)
    return environment | dict(extra)


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    requests: int
    answers: int
    stdout: Path
    stderr: Path
    started: float
    ready: bool = False
    buffer: bytes = b""
    task: Task | None = None
    task_started: float = 0.0
    deadline: float = field(default=float("inf"))
    stderr_start: int = 0


def memory_limit(jobs: int) -> int:
    """Bytes of resident memory that one of ``jobs`` workers may use: its share of four fifths of the machine."""
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 0.8 / max(jobs, 1))


class Pool:
    """Worker processes for one arch and device. Use as a context manager: leaving it ends every worker."""

    def __init__(self, jobs: int, arch: str, device: str, environment: Mapping[str, str], limit: int = 0) -> None:
        self.jobs = jobs
        self.arch = arch
        self.device = device
        self.replaced = 0
        self._extra = dict(environment)
        self._limit = limit or memory_limit(jobs)
        self._folder = tempfile.TemporaryDirectory(prefix="hcgr-validate-", ignore_cleanup_errors=True)
        self.home = Path(self._folder.name)
        self._selector = selectors.DefaultSelector()
        self._workers: list[_Worker] = []
        self._groups: dict[str, _Worker] = {}
        self._serial = 0

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End every worker of this pool, and only those, and remove its private directory."""
        for worker in list(self._workers):
            self._end(worker)
        self._selector.close()
        self._folder.cleanup()

    def run(self, tasks: Sequence[Task], modules: Mapping[str, str]) -> Iterator[tuple[Task, Outcome]]:
        """Run ``tasks`` and yield each with its outcome, in the order they end. ``modules``: stage to module."""
        waiting = list(tasks)
        running = 0
        while waiting or running:
            for worker in self._idle(min(self.jobs, len(waiting))):
                at = self._next(worker, waiting)
                if self._send(worker, waiting[at], modules):
                    self._groups.setdefault(waiting.pop(at).group, worker)
                    running += 1
            for task, outcome in self._wait():
                running -= 1
                yield task, outcome

    def _next(self, worker: _Worker, waiting: Sequence[Task]) -> int:
        """Which task ``worker`` does best: one of a group of its own, else of nobody's, else of another worker's."""
        nobody = None
        for at, task in enumerate(waiting):
            owner = self._groups.get(task.group) if task.group else None
            if owner is worker:
                return at
            if owner is None and nobody is None:
                nobody = at
        return nobody or 0

    # -- workers -----------------------------------------------------------------------------------------------

    def _idle(self, wanted: int) -> list[_Worker]:
        idle = [worker for worker in self._workers if worker.task is None][:wanted]
        while len(idle) < wanted and len(self._workers) < self.jobs:
            idle.append(self._start())
        return idle

    def _start(self) -> _Worker:
        self._serial += 1
        stdout, stderr = (self.home / f"worker{self._serial}.{name}" for name in ("out", "err"))
        child_reads, requests = os.pipe()
        answers, child_writes = os.pipe()
        command = [
            sys.executable,
            "-m",
            "validation.worker",
            "--read-fd",
            str(child_reads),
            "--write-fd",
            str(child_writes),
            "--parent",
            str(os.getpid()),
            "--arch",
            self.arch,
            "--device",
            self.device,
            "--stderr",
            str(stderr),
        ]
        with stdout.open("ab") as out, stderr.open("ab") as err:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self.home,
                env=worker_environment(self._extra, self.home),
                pass_fds=(child_reads, child_writes),
                start_new_session=True,
            )
        os.close(child_reads)
        os.close(child_writes)
        worker = _Worker(process, requests, answers, stdout, stderr, time.monotonic())
        self._workers.append(worker)
        self._selector.register(answers, selectors.EVENT_READ, worker)
        return worker

    def _end(self, worker: _Worker) -> None:
        """Kill a worker's process group (its own session, started by us) and forget the worker."""
        self._selector.unregister(worker.answers)
        os.close(worker.answers)
        os.close(worker.requests)
        with contextlib.suppress(ProcessLookupError):  # everything in the group is gone already
            os.killpg(worker.process.pid, signal.SIGKILL)
        worker.process.wait()
        self._workers.remove(worker)
        self._groups = {group: owner for group, owner in self._groups.items() if owner is not worker}

    # -- tasks -------------------------------------------------------------------------------------------------

    def _send(self, worker: _Worker, task: Task, modules: Mapping[str, str]) -> bool:
        """Hand ``task`` over; ``False`` when the worker had died between two tasks (another one gets it then)."""
        now = time.monotonic()
        worker.task, worker.task_started = task, now
        worker.deadline = now + (task.timeout_s if worker.ready else STARTUP_TIMEOUT_S)
        worker.stdout.open("wb").close()  # one task's chatter must not fill the disk for the next
        worker.stderr_start = worker.stderr.stat().st_size
        request = {"id": task.id, "module": modules[task.stage], "payload": task.payload}
        try:
            os.write(worker.requests, (json.dumps(request) + "\n").encode())
        except BrokenPipeError:
            self._end(worker)
            self.replaced += 1
            return False
        return True

    def _wait(self) -> list[tuple[Task, Outcome]]:
        done: list[tuple[Task, Outcome]] = []
        for key, _ in self._selector.select(TICK_S):
            worker: _Worker = key.data
            data = os.read(worker.answers, 1 << 20)
            if not data:
                done += self._lost(worker, self._cause_of_death(worker))
                continue
            worker.buffer += data
            *lines, worker.buffer = worker.buffer.split(b"\n")
            for line in lines:
                done += self._answer(worker, line)
        now = time.monotonic()
        for worker in list(self._workers):
            if worker.task is None:
                continue
            if now > worker.deadline:
                what = f"timed out after {now - worker.task_started:.1f} s" if worker.ready else "worker did not start"
                done += self._lost(worker, what)
            elif _resident(worker.process.pid) > self._limit:
                done += self._lost(worker, f"used more than {self._limit >> 20} MiB of memory")
        return done

    def _answer(self, worker: _Worker, line: bytes) -> list[tuple[Task, Outcome]]:
        try:
            message: JsonDict = json.loads(line)
        except ValueError:
            return self._lost(worker, f"wrote to the answer pipe what is not an answer: {line[:80]!r}")
        task = worker.task
        if "ready" in message:
            worker.ready = True
            if task is not None:
                worker.task_started = time.monotonic()
                worker.deadline = worker.task_started + task.timeout_s
            return []
        if task is None or message.get("id") != task.id:
            return self._lost(worker, f"answered {message.get('id')!r}, which it was not asked")
        worker.task, worker.deadline = None, float("inf")
        duration = time.monotonic() - worker.task_started
        if "value" in message:
            return [(task, Outcome(message["value"], duration_s=duration))]
        detail = _join(message.get("detail", ""), self._stderr(worker))
        return [(task, Outcome(None, message["error"], detail, duration))]

    def _lost(self, worker: _Worker, cause: str) -> list[tuple[Task, Outcome]]:
        task, words = worker.task, self._stderr(worker)
        duration = time.monotonic() - worker.task_started
        self._end(worker)
        self.replaced += 1
        if task is None:
            return []
        last = next((line for line in reversed(words.splitlines()) if line.strip()), "")
        reason = f"{cause}; last words on stderr: {last.strip()[:300]}" if last else f"{cause}; stderr is empty"
        return [(task, Outcome(None, reason, words, duration))]

    def _cause_of_death(self, worker: _Worker) -> str:
        try:
            code = worker.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "worker closed its answer pipe"
        if code >= 0:
            return f"worker ended with exit code {code}"
        name = signal.Signals(-code).name
        return f"worker killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")

    def _stderr(self, worker: _Worker) -> str:
        with worker.stderr.open("rb") as stream:
            stream.seek(worker.stderr_start)
            return stream.read().decode(errors="replace")[-STDERR_KEPT:]


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as stream:
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0  # ended in the meantime (the pipe tells), or no /proc on this system


def _join(*parts: str) -> str:
    return "\n".join(part.rstrip() for part in parts if part.strip())
