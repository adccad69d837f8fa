"""Which task a worker does best: those of one group go to one worker, as long as that leaves none idle."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from validation.cases import Task

_Worker = TypeVar("_Worker", bound=Hashable)


class Affinity(Generic[_Worker]):
    """Which worker has a group's kernels already."""

    def __init__(self) -> None:
        self._owners: dict[str, _Worker] = {}

    def best(self, worker: _Worker, waiting: Sequence[Task]) -> int:
        """Position of the task for ``worker``: one of a group of its own, else of nobody's, else of another's."""
        nobody = None
        for at, task in enumerate(waiting):
            owner = self._owners.get(task.group) if task.group else None
            if owner is not None and owner == worker:
                return at
            if owner is None and nobody is None:
                nobody = at
        return nobody or 0

    def take(self, worker: _Worker, group: str) -> None:
        """``worker`` runs a task of ``group``, and owns the group from now on if nobody does."""
        self._owners.setdefault(group, worker)

    def forget(self, worker: _Worker) -> None:
        """``worker`` has gone, and with it what it had compiled."""
        self._owners = {group: owner for group, owner in self._owners.items() if owner != worker}
