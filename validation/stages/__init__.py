"""The stages of a run. Each module plans its tasks in the parent process and executes them in a worker.

A stage module has ``NAME``, ``TITLE``, ``NEEDS`` (the weakest evidence level at which it can execute), ``LEVEL``
(the evidence it gives, ``None`` for that of the claimed device), ``SETTLES`` (whether the verdict rests on it),
``plan(request)`` and ``execute(payload, context)``.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from validation.cases import Task
from validation.near import hint
from validation.operation import JsonDict, Operation

#: In the order they run.
STAGES = {
    "environment": "validation.stages.environment",
    "compile": "validation.stages.compile",
    "correctness": "validation.stages.correctness",
    "contract": "validation.stages.contract",
    "cost": "validation.stages.cost",
    "protocol": "validation.stages.protocol",
    "mutants": "validation.stages.mutants",
}


@dataclass(frozen=True)
class Request:
    """What a stage needs to plan: ``operation_name`` is how a worker finds the operation again.

    At level ``full`` a case runs every workgroup, where by default chosen ones stand for those of a huge call.
    ``mutants`` are paths of results of ``hcgr-mutate``. ``hashes`` asks for those of machine code and outputs, which a
    comparison with a base needs.
    """

    operation: Operation
    operation_name: str
    arch: str
    seed: int
    cover: str = "pairwise"
    level: str = "default"
    mutants: tuple[str, ...] = ()
    hashes: bool = False


class Stage(Protocol):
    """What each module named in :data:`STAGES` offers."""

    NAME: str
    TITLE: str
    NEEDS: str
    LEVEL: str | None
    SETTLES: bool

    def plan(self, request: Request) -> list[Task]:
        """Every task of the stage, in a fixed order. Imports neither torch nor code under test."""

    def find(self, request: Request, case_id: str) -> Task:
        """The task called ``case_id``, also one that the cover did not choose; ``LookupError`` if there is none."""

    def execute(self, payload: JsonDict, context: Any) -> JsonDict:
        """Carry out one task in a worker and return a :func:`validation.cases.fragment`."""


def stage(name: str) -> Stage:
    """The stage module called ``name``; ``LookupError`` names the stages there are."""
    if name not in STAGES:
        raise LookupError(f"unknown stage {name!r} (stages: {', '.join(STAGES)})")
    module: Stage = importlib.import_module(STAGES[name])
    return module


def find_planned(tasks: list[Task], case_id: str) -> Task:
    """The one of ``tasks`` called ``case_id``; ``LookupError`` as of :func:`no_case`."""
    for task in tasks:
        if task.id == case_id:
            return task
    raise no_case(case_id, [task.id for task in tasks])


def no_case(case_id: str, known: Sequence[str]) -> LookupError:
    """The error about a name that is none of ``known``: those that come near, else what the names look like."""
    if near := hint(case_id, known, 3):
        return LookupError(f"no case {case_id!r} in its stage{near}")
    return LookupError(f"no case {case_id!r} in its stage (cases are called like: {', '.join(known[:4]) or 'none'})")
