"""Where the work of a run is done: by worker processes of this machine, or by those of a Dask cluster's.

An executor makes pools, which run tasks in isolated worker processes (:class:`validation.devices.pool.Pool`) wherever
they are, and says afterwards who took part.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from validation.cases import Outcome, Task
from validation.devices.pool import Pool
from validation.operation import JsonDict

NAMES = ("local", "dask")
#: Names the cluster to join where ``--scheduler`` does not.
SCHEDULER_VARIABLE = "HCGR_SCHEDULER"


class ExecutorError(RuntimeError):
    """Work cannot be handed out, or no longer: the message says why, and what to do."""


class TaskPool(Protocol):
    """What runs tasks of one arch on one device. A context manager: leaving it ends its worker processes."""

    replaced: int

    def run(self, tasks: Sequence[Task], modules: Mapping[str, str]) -> Iterator[tuple[Task, Outcome]]:
        """Run ``tasks`` and yield each with its outcome; a second one of a task replaces the first.

        Modules: stage to module.
        """

    def __enter__(self) -> TaskPool: ...

    def __exit__(self, kind: type[BaseException] | None, *exception: Any) -> None: ...


class Executor(Protocol):
    """Hands work out. ``jobs`` is how many tasks run at once."""

    @property
    def jobs(self) -> int:
        """How many tasks run at once."""

    def pool(self, arch: str, device: str, environment: Mapping[str, str]) -> TaskPool:
        """Workers for the device module ``device``, with ``environment`` beside what every worker has."""

    def begin(self) -> None:
        """Another run begins: what was recorded of the one before is forgotten."""

    def record(self) -> JsonDict:
        """Who took part since :meth:`begin`, in the form of the report's schema (``executor``)."""


@dataclass(frozen=True)
class Local:
    """``jobs`` worker processes of this machine, started by this process."""

    jobs: int = 1

    def pool(self, arch: str, device: str, environment: Mapping[str, str]) -> TaskPool:
        """See :class:`Executor`."""
        return Pool(self.jobs, arch, device, environment)

    def begin(self) -> None:
        """See :class:`Executor`."""

    def record(self) -> JsonDict:
        """See :class:`Executor`."""
        return {
            "name": "local",
            "version": None,
            "scheduler": None,
            "machines": 1,
            "lost": 0,
            "workers": [],
            "refused": [],
        }


@contextmanager
def opened(name: str, jobs: int, scheduler: str | None = None, packages: Sequence[str] = ()) -> Iterator[Executor]:
    """The executor called ``name``, for as long as the block lasts.

    ``jobs``: workers of a cluster that is started here; one at ``scheduler``, or at the address in
    ``HCGR_SCHEDULER``, has its own. ``packages``: those whose sources must be the same on every machine.

    Raises:
        ExecutorError: there is no such cluster, or Dask is not installed.
    """
    if name == "local":
        yield Local(jobs)
        return
    try:
        from validation.executors.cluster import joined
    except ModuleNotFoundError as error:
        if error.name not in ("dask", "distributed"):
            raise
        raise ExecutorError(
            "--executor dask needs Dask distributed, which is not installed: pip install -e '.[dask]'"
        ) from error
    with joined(jobs, scheduler or os.environ.get(SCHEDULER_VARIABLE) or None, packages) as executor:
        yield executor
