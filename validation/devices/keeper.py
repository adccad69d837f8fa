"""Nothing that a worker starts outlives it: the process above it, its *keeper*, ends all that it leaves behind.

A keeper is a fork of the worker's interpreter from before it has imported anything. Linux hands it every process
below the worker whose own parent has gone, daemons with a session of their own among them (``prctl(2)``,
``PR_SET_CHILD_SUBREAPER``). It ends when the worker does, in the same way, or when the pool asks for it or dies.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
#: The kernel takes a worker before anything else of this machine when memory runs out (``proc(5)``).
_FIRST_TO_GO = "1000"
_WATCHED = {signal.SIGTERM, signal.SIGCHLD}
#: What reading of a process that has ended meanwhile raises.
_GONE = (FileNotFoundError, ProcessLookupError)
_LISTS_CHILDREN = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists()


def end_with_parent(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel to send this process ``by`` when its parent dies, however that happens (Linux only)."""
    _prctl(_PR_SET_PDEATHSIG, by)
    if os.getppid() != parent:
        raise SystemExit("the process that started this worker is gone")


def _prctl(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}, {value}): {os.strerror(number)}")


def keep(pool: int, descriptors: Sequence[int]) -> None:
    """Fork. Returns in the worker only; this process stays as its keeper, closes ``descriptors``, and never returns.

    pool: the process that started this one.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    end_with_parent(pool, signal.SIGTERM)
    keeper, worker = os.getpid(), os.fork()
    if worker == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
        os.setsid()
        end_with_parent(keeper)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _expendable()
        return
    for descriptor in descriptors:
        os.close(descriptor)
    status = _watch(worker)
    end_children()
    _end_like(status)


def _expendable() -> None:
    with suppress(OSError):  # a container may show /proc read-only; then the machine's own order holds
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO)


def _watch(worker: int) -> int:
    """The wait status of ``worker``, once it has ended by itself or because we were asked to end."""
    while True:
        if signal.sigwait(_WATCHED) == signal.SIGTERM:
            os.kill(worker, signal.SIGKILL)  # not waited for yet, so the number is still its own
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)  # the worker, or an orphan that came to us
            if pid == worker:
                return status
            if pid == 0:
                break


def _end_like(status: int) -> None:
    """End as the worker did: the pool sees its exit code or signal."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def end_children() -> int:
    """End every child of this process, and the orphans of those that come to it, until none is left; how many."""
    ended = 0
    while found := children(os.getpid()):
        for pid in found:
            # ours: until it is waited for, which a thread of the code under test may do first, the number is its own
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        ended += len(found)
    return ended


def children(pid: int) -> list[int]:
    """Processes that ``pid`` is the parent of, zombies among them; none when it has gone."""
    if not _LISTS_CHILDREN:
        return [child for child, parent in _parents() if parent == pid]
    found: list[int] = []
    with suppress(*_GONE):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(*_GONE):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def _parents() -> Iterator[tuple[int, int]]:
    """Every process and its parent, for kernels without ``CONFIG_PROC_CHILDREN``."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(*_GONE):
            yield int(name), int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])


def resident(pid: int) -> int:
    """Bytes of memory that ``pid`` and all below it hold; pages that two of them share count for each."""
    pages, waiting = 0, [pid]
    while waiting:
        each = waiting.pop()
        with suppress(*_GONE):
            pages += int(Path(f"/proc/{each}/statm").read_text().split()[1])
            waiting += children(each)
    return pages * os.sysconf("SC_PAGE_SIZE")
