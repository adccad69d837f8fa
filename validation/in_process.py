"""One case of an operation in this process, without workers or a report: what tests and searches need."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from validation import devices
from validation.cases import Outcome, Task, case_record, replay_command
from validation.operation import JsonDict, load_operation
from validation.stages import Request, stage
from validation.worker import TaskContext

EMULATOR = "validation.devices.emulator"


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Within the block this process has ``variables``; afterwards it has what it had."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def find_task(operation_name: str, arch: str, case_id: str, seed: int) -> Task:
    """The task called ``case_id``; ``LookupError`` if there is none. Imports no code under test."""
    request = Request(load_operation(operation_name), operation_name, arch, seed)
    return stage(case_id.partition(".")[0]).find(request, case_id)


def run_case(operation_name: str, arch: str, case_id: str, seed: int = 0, device: str = EMULATOR) -> JsonDict:
    """Run one case here and return its record in the report's form, with the command that replays it.

    FlyDSL reads its target whenever it compiles, so cases of both archs can follow each other in one process. An
    exception that accuses nobody, which a worker would answer with, is raised.

    device: module of the device that runs it.
    """
    task = find_task(operation_name, arch, case_id, seed)
    with tempfile.TemporaryDirectory() as folder, environment(devices.device(device).worker_environment(arch)):
        context = TaskContext(arch, device, Path(folder) / "stderr")
        value = stage(task.stage).execute(task.payload, context)
    return case_record(task, Outcome(value), replay_command(operation_name, arch, case_id, seed))
