"""The Dask executor: which Dask workers there are, whether they may take part, and who did."""

from __future__ import annotations

import contextlib
import logging
import signal
import tempfile
import time
from asyncio import CancelledError
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any

import distributed
from distributed import Client, LocalCluster

from validation.executors import ExecutorError, TaskPool, identity, site
from validation.operation import JsonDict

OWN_CLUSTER = "a cluster of its own"
#: Seconds that a scheduler may take to answer, and its first worker to come.
CONNECT_S, FIRST_WORKER_S = 15.0, 60.0
#: What asking a scheduler raises that does not answer.
GONE = (OSError, TimeoutError, CancelledError, RuntimeError)
#: Seconds between two looks at the list of workers.
LOOK_S = 0.5


@dataclass
class Member:
    """A Dask worker that takes part: ``slots`` of its threads, each with a worker process; ``cases`` it has ended."""

    address: str
    machine: str
    slots: int
    cases: int = 0
    lost: bool = False


class Dask:
    """Work for the workers of a cluster. Those whose Python, packages or sources are others are refused."""

    def __init__(self, client: Client, scheduler: str, packages: Sequence[str]) -> None:
        self.client = client
        self.packages = tuple(packages)
        self.ours = identity.identify(self.packages)
        self.members: dict[str, Member] = {}
        self._scheduler = scheduler
        self._asked: dict[str, tuple[int, Any]] = {}
        self._refused: dict[str, str] = {}
        self._gone: list[Member] = []
        self._looked = 0.0
        #: Cases that ran again, alone, because their worker was lost with others beside them.
        self.suspected = 0

    @property
    def jobs(self) -> int:
        """How many tasks run at once."""
        return max(1, sum(member.slots for member in self.members.values()))

    def begin(self) -> None:
        """See :class:`validation.executors.Executor`."""
        self._gone.clear()
        self.suspected = 0
        for member in self.members.values():
            member.cases = 0

    def record(self) -> JsonDict:
        """See :class:`validation.executors.Executor`."""
        workers = [*self._gone, *self.members.values()]
        return {
            "name": "dask",
            "version": distributed.__version__,
            "scheduler": self._scheduler,
            "machines": len({worker.machine for worker in workers if worker.cases}),
            "lost": len(self._gone),
            "again_alone": self.suspected,
            "workers": [
                {
                    "name": worker.address,
                    "machine": worker.machine,
                    "slots": worker.slots,
                    "cases": worker.cases,
                    "lost": worker.lost,
                }
                for worker in workers
            ],
            "refused": [{"name": name, "reason": reason} for name, reason in self._refused.items()],
        }

    def pool(self, arch: str, device: str, environment: Mapping[str, str]) -> TaskPool:
        """See :class:`validation.executors.Executor`."""
        from validation.executors.spread import DaskPool

        return DaskPool(self, arch, device, environment)

    def sharing(self, member: Member) -> int:
        """How many worker processes share the memory of the machine of ``member``."""
        return sum(other.slots for other in self.members.values() if other.machine == member.machine)

    def there(self) -> dict[str, int]:
        """Address and threads of every worker of the cluster.

        Raises:
            ExecutorError: the scheduler does not answer.
        """
        try:
            return dict(self.client.nthreads())
        except GONE as error:
            raise ExecutorError(f"the scheduler of {self._scheduler} does not answer any more: {error}") from error

    # -- members -----------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Take up workers that have come, and strike off those that have gone.

        Raises:
            ExecutorError: the scheduler does not answer.
        """
        if time.monotonic() - self._looked < LOOK_S:
            return
        there = self.there()
        for address in [address for address in self.members if address not in there]:
            self.strike(address)
        for address, slots in there.items():
            if address not in self.members and address not in self._refused and address not in self._asked:
                asked = self.client.submit(
                    site.identify, self.packages, workers=[address], allow_other_workers=False, pure=False
                )
                self._asked[address] = slots, asked
        for address, (slots, asked) in list(self._asked.items()):
            if address not in there:
                asked.cancel()
                del self._asked[address]
            elif asked.done():
                del self._asked[address]
                self._judge(address, slots, asked)
        self._looked = time.monotonic()

    def _judge(self, address: str, slots: int, asked: Any) -> None:
        theirs: JsonDict = {}
        try:
            error = asked.exception(timeout=CONNECT_S)
            if error is None:
                theirs = asked.result(timeout=CONNECT_S)
        except GONE as gone:  # the worker went with the answer, or keeps it
            error = gone
        if error is not None:
            self._refused[address] = f"it cannot say what it is: {type(error).__name__}: {error}"
            return
        wrong = identity.differences(self.ours, theirs)
        if wrong:
            self._refused[address] = "; ".join(wrong)
        else:
            self.members[address] = Member(address, theirs["machine"], slots)

    def strike(self, address: str) -> None:
        """The worker at ``address`` has gone, or does not answer: it gets no more work."""
        member = self.members.pop(address)
        member.lost = True
        self._gone.append(member)

    def wait_for_members(self, seconds: float) -> None:
        """Return once there is a worker.

        Raises:
            ExecutorError: there is none within ``seconds``.
        """
        end = time.monotonic() + seconds
        while not self.members:
            self.look()
            if time.monotonic() > end or (self._refused and not self._asked and not self.members):
                break
            time.sleep(0.05)
        if not self.members:
            refused = "; ".join(f"{name}: {reason}" for name, reason in self._refused.items())
            why = f"those that came are refused: {refused}" if refused else f"none came within {seconds:g} s"
            raise ExecutorError(f"no Dask worker can take part at {self._scheduler}: {why}")

    def settle(self, seconds: float) -> None:
        """Wait for the answers of the workers that are there now, so that the first tasks are spread over them; one
        that is silent for ``seconds`` may come later."""
        end = time.monotonic() + seconds
        while self._asked and time.monotonic() < end:
            self._looked = 0.0
            self.look()
            time.sleep(0.02)


@contextmanager
def joined(jobs: int, scheduler: str | None, packages: Sequence[str]) -> Iterator[Dask]:
    """The cluster at ``scheduler``, or one of ``jobs`` worker processes of this machine, ended afterwards.

    Raises:
        ExecutorError: nobody answers there, or no worker of the cluster may take part.
    """
    logging.getLogger("distributed").setLevel(logging.ERROR)  # what happens to workers is in the report
    with contextlib.ExitStack() as stack:
        address = scheduler or stack.enter_context(_own(jobs)).scheduler_address
        try:
            client = stack.enter_context(Client(address, timeout=CONNECT_S, set_as_default=False))
        except (*GONE, ValueError) as error:
            raise ExecutorError(f"no Dask scheduler answers at {address}: {error}") from error
        executor = Dask(client, scheduler or OWN_CLUSTER, packages)
        executor.wait_for_members(FIRST_WORKER_S)
        executor.settle(CONNECT_S)
        yield executor


@contextmanager
def _own(jobs: int) -> Iterator[LocalCluster]:
    with (
        tempfile.TemporaryDirectory(prefix="hcgr-dask-", ignore_cleanup_errors=True) as folder,
        _started(jobs, folder) as cluster,
    ):
        yield cluster


def _started(jobs: int, folder: str) -> LocalCluster:
    """A cluster whose processes a Ctrl-C at the terminal does not reach: this process ends them.

    They inherit the signals that the thread which starts them blocks, now and when one is replaced.
    """
    resource_tracker.ensure_running()  # it would unblock them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return LocalCluster(
            n_workers=jobs,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            memory_limit=0,  # ours holds for the worker processes, in which the work is done
            local_directory=folder,
            silence_logs=logging.ERROR,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
