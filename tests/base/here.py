"""A pool whose tasks run in this process, each with the ``tiny`` package that its workers would import."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tiny_repository as tiny

from validation.cases import Outcome, Task
from validation.worker import TaskContext, execute


class HerePool:
    """See :class:`validation.devices.pool.Pool`; no process is started, so nothing is isolated."""

    replaced = 0

    def __init__(self, jobs: int, arch: str, device: str, environment: Mapping[str, str]) -> None:
        self._context = arch, device, Path(os.devnull)
        self._folder = environment.get("PYTHONPATH", "").partition(os.pathsep)[0]

    def __enter__(self) -> HerePool:
        return self

    def __exit__(self, *exception: object) -> None: ...

    def run(self, tasks: Sequence[Task], modules: Mapping[str, str]) -> Iterator[tuple[Task, Outcome]]:
        for task in tasks:
            yield task, self._outcome(task, modules[task.stage])

    def _outcome(self, task: Task, module: str) -> Outcome:
        request: dict[str, Any] = {"module": module, "payload": task.payload}
        root = self._folder or next(place for place in sys.path if (Path(place) / "tiny").is_dir())
        with tiny.importable(Path(root)):
            answer = execute(request, TaskContext(*self._context))
        return Outcome(answer.get("value"), answer.get("error", ""), answer.get("detail", ""))
