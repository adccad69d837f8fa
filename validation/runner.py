"""Runs the stages of one operation on one arch and hands back the report."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from validation import devices
from validation.base import case, compare, perf, timing
from validation.base.run import Prepared, Seams, on_base, part
from validation.cases import Outcome, Task, case_record, replay_command
from validation.executors import Executor, Local, TaskPool
from validation.near import hint
from validation.operation import JsonDict, Operation
from validation.report.builder import StageRun, build_report
from validation.report.shards import Shard, left_out
from validation.stages import STAGES, Request, Stage, stage
from validation.stages.environment import describe, source_state


class SelectionError(LookupError):
    """A stage or case was asked for that does not exist; the message is fit for the command line."""


@dataclass(frozen=True)
class Plan:
    """What a run was asked to do. ``operation_name`` is the name that loads ``operation`` in a worker.

    ``cases`` are run alone: the stages that they are of in the order of stages, those of one stage in theirs.
    ``executor`` has the cases run, if it is given; ``jobs`` local workers do so otherwise.
    """

    operation: Operation
    operation_name: str
    seed: int = 0
    jobs: int = 1
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    cover: str = "pairwise"
    level: str = "default"
    required: str | None = None
    shard: Shard | None = None
    command: tuple[str, ...] = ()
    device_modules: tuple[str, ...] = devices.DEVICES
    mutants: tuple[str, ...] = ()
    base: Prepared | None = None
    calibrate: bool = False
    executor: Executor | None = None

    def request(self, arch: str) -> Request:
        """What the stages plan from."""
        hashes = self.base is not None
        return Request(
            self.operation, self.operation_name, arch, self.seed, self.cover, self.level, self.mutants, hashes
        )

    def tasks(self, name: str, arch: str) -> tuple[list[Task], int]:
        """The tasks of a stage that are to run here, and how many there are in all shards."""
        planned = self.named(name, arch) if self.cases else stage(name).plan(self.request(arch))
        return (self.shard.take(planned) if self.shard else planned), len(planned)

    def packages(self) -> tuple[str, ...]:
        """The packages whose sources decide an outcome, beside the validator's own."""
        module = [self.operation_name.partition(":")[0].partition(".")[0]] if ":" in self.operation_name else []
        return (*self.operation.packages, *module)

    def selected(self) -> tuple[str, ...]:
        """Names of the stages to run, in order."""
        if self.cases:
            return tuple(name for name in STAGES if any(case.partition(".")[0] == name for case in self.cases))
        return tuple(name for name in STAGES if (not self.only or name in self.only) and name not in self.skip)

    def left_out(self) -> tuple[str, ...]:
        """What the caller chose not to run, in words."""
        return left_out(self.selection(), tuple(STAGES), self.shard)

    def selection(self) -> JsonDict:
        """What was chosen, as the report holds it."""
        case: JsonDict = {"case": self.cases[0] if len(self.cases) == 1 else list(self.cases) or None}
        return {"stages": list(self.selected())} | case | {"cover": self.cover, "level": self.level}

    def check(self, arches: Sequence[str] = devices.ARCHES[:1]) -> None:
        """Raise :class:`SelectionError` when the selection is empty, or names what does not exist on ``arches``."""
        for name in (*self.only, *self.skip):
            if name not in STAGES:
                raise SelectionError(f"unknown stage {name!r} (stages: {', '.join(STAGES)})")
        if self.cases:
            twice = [case for i, case in enumerate(self.cases) if case in self.cases[:i]]
            if twice:
                raise SelectionError(f"case {twice[0]!r} is given twice; give each case once")
            for arch in arches:
                for case in self.cases:
                    self.find_case(arch, case)
        elif self.mutants:
            self.check_mutants()
        if not self.selected():
            raise SelectionError("--only and --skip leave no stage to run")

    def check_mutants(self) -> None:
        """Raise :class:`SelectionError` when a result of ``hcgr-mutate`` cannot be read or believed."""
        try:
            stage("mutants").plan(self.request(devices.ARCHES[0]))
        except LookupError as error:
            raise SelectionError(str(error.args[0])) from error

    def named(self, name: str, arch: str) -> list[Task]:
        """The tasks of :attr:`cases` that are of this stage, in their order."""
        return [self.find_case(arch, case) for case in self.cases if case.partition(".")[0] == name]

    def find_case(self, arch: str, case: str) -> Task:
        """The task called ``case``."""
        name = case.partition(".")[0]
        if name not in STAGES:
            known = f"(stages: {', '.join(STAGES)}){hint(name, STAGES)}"
            raise SelectionError(f"case {case!r} must start with a stage and a dot {known}")
        try:
            return stage(name).find(self.request(arch), case)
        except LookupError as error:
            raise SelectionError(str(error.args[0])) from error


class Progress(Protocol):
    """Who wants to know how a run is getting on."""

    def stage_started(self, arch: str, title: str, total: int) -> None:
        """A stage begins, with ``total`` cases."""

    def case_done(self, arch: str, record: JsonDict) -> None:
        """One case has its record; told of a case again, the record replaces the one before."""

    def stage_skipped(self, arch: str, title: str, reason: str) -> None:
        """A stage does not execute."""


def claim_device(arch: str, modules: Sequence[str]) -> tuple[str | None, list[devices.Claim]]:
    """The module of the strongest device that can run ``arch`` (``None``: nothing can), and every claim."""
    answers = devices.claim_all(arch, modules)
    chosen = next((module for module, claim in answers if claim.available), None)
    return chosen, [claim for _, claim in answers]


class Pools:
    """The worker pools of one arch, started when first used: one on the claimed device, one for each other level.

    A GPU's workers run FlyDSL's own backend; assembly text comes from the compile-only device, and stages of emulated
    evidence run in the emulator there too. Every other device does all of it in its own workers. All are given the
    variables ``extra``. The claimed GPU is this machine's, so what runs on it is not handed to an executor elsewhere.
    """

    def __init__(
        self,
        jobs: int,
        arch: str,
        module: str | None,
        extra: Mapping[str, str] | None = None,
        executor: Executor | None = None,
    ) -> None:
        self._arch, self._module, self._extra = arch, module, dict(extra or {})
        self._here = Local(jobs)
        self._executor = executor or self._here
        self._pools: dict[str, TaskPool] = {}

    def __enter__(self) -> Pools:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        with contextlib.ExitStack() as stack:  # each is left, whatever another one raises
            for pool in self._pools.values():
                stack.callback(pool.__exit__, kind, *exception)

    @property
    def replaced(self) -> int:
        """Workers that died or had to be ended."""
        return sum(pool.replaced for pool in self._pools.values())

    def fitting(self, module: Stage) -> TaskPool:
        """The pool in which the tasks of a stage run; only called when there is a device."""
        assert self._module is not None
        on_gpu = devices.device(self._module).LEVEL == "runtime"
        name = devices.BESIDE_A_GPU.get(module.LEVEL or "", self._module) if on_gpu else self._module
        if name not in self._pools:
            device = devices.device(name)
            executor = self._here if device.LEVEL == "runtime" else self._executor
            self._pools[name] = executor.pool(self._arch, name, device.worker_environment(self._arch) | self._extra)
        return self._pools[name]


def run_arch(plan: Plan, arch: str, progress: Progress) -> JsonDict:
    """Run the selected stages on ``arch`` and return the finished report (not yet checked or written)."""
    begun, started = time.monotonic(), datetime.now(UTC)
    module, claims = claim_device(arch, plan.device_modules)
    claimed = next((claim for claim in claims if claim.available), None)
    runs: list[StageRun] = []
    executor = plan.executor or Local(plan.jobs)
    executor.begin()
    jobs = executor.jobs  # of a cluster's, some may be lost
    with Pools(plan.jobs, arch, module, executor=executor) as pools:
        for name in STAGES:
            runs.append(_run_stage(plan, arch, stage(name), claimed, pools, progress))
        replaced = pools.replaced
    compared: JsonDict | None = None
    if plan.base is not None:
        # here: the base's code is in a worktree of this machine
        with Pools(plan.jobs, arch, module, plan.base.worker_environment()) as pools:
            seen = _compare(plan, plan.base, arch, runs, pools, progress)
            replaced += pools.replaced
        times = _wall_times(plan, plan.base, arch, (module, claimed), runs, seen, progress)
        compared = part(plan.base, seen, times)
    calibration = _calibrate(plan, arch, module, claimed, progress) if plan.calibrate and module and claimed else None
    header = {
        "operation": {
            "name": plan.operation.name,
            "title": plan.operation.title,
            "entry_points": [{"name": e.name, "function": e.function} for e in plan.operation.entry_points],
        },
        "arch": arch,
        "seed": plan.seed,
        "command": list(plan.command),
        "selection": plan.selection(),
        "shard": plan.shard.as_json() if plan.shard else None,
        "parts": [],
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "duration_s": round(time.monotonic() - begun, 3),
        "environment": describe(),
        "source": source_state(Path(__file__).parent),
    }
    covers = devices.device(module).COVERS if module else {"checks": [], "schedules": "none", "memory": "none"}
    return build_report(
        header=header,
        stage_runs=runs,
        claims=claims,
        claimed=claimed,
        required=plan.required,
        partial=plan.left_out(),
        covers=covers,
        workers={"jobs": jobs, "replaced": replaced, "executor": executor.record()},
        base=compared,
        calibration=calibration,
    )


def _compare(
    plan: Plan,
    base: Prepared,
    arch: str,
    runs: Sequence[StageRun],
    pools: Pools,
    progress: Progress,
) -> list[JsonDict]:
    """The cases of ``runs`` again, on the base's code."""
    names = [run.name for run in runs if run.name in compare.STAGES and run.records]
    return on_base(
        base,
        plan.operation,
        {name: plan.tasks(name, arch)[0] for name in names},
        [record for run in runs if run.name in names for record in run.records],
        Seams(
            pool=lambda name: pools.fitting(stage(name)),
            record=lambda task, outcome: _record(plan, arch, task, outcome),
            started=lambda title, total: progress.stage_started(arch, title, total),
            done=lambda record: progress.case_done(arch, record),
        ),
    )


def _wall_times(
    plan: Plan,
    base: Prepared,
    arch: str,
    device: tuple[str | None, devices.Claim | None],
    runs: Sequence[StageRun],
    seen: Sequence[JsonDict],
    progress: Progress,
) -> JsonDict:
    """The comparison's ``perf``: cases of ``runs`` on both revisions in turns, on a GPU that nothing else uses now."""
    module, claimed = device
    level = claimed.level if claimed else "none"
    if level != "runtime":
        return perf.not_timed(level)
    records = [record for run in runs if run.name == timing.STAGE for record in run.records]
    names = timing.chosen(records, seen)
    tasks = {task.id: task for task in plan.tasks(timing.STAGE, arch)[0]} if names else {}
    with Pools(1, arch, module) as head, Pools(1, arch, module, base.worker_environment()) as other:
        bed = timing.Bed(
            head.fitting(stage(timing.STAGE)),
            other.fitting(stage(timing.STAGE)),
            lambda task: case.wrapped(task, base.code.folder, base.code.packages),
            started=lambda title, total: progress.stage_started(arch, title, total),
            done=lambda record: progress.case_done(arch, record),
            commit=base.base.commit,
        )
        return timing.timed(names, tasks, bed)


def _calibrate(plan: Plan, arch: str, module: str, claimed: devices.Claim, progress: Progress) -> JsonDict:
    from validation.calibrate.run import Work, calibrate  # with it comes NumPy, which no other run needs here

    return calibrate(Work(arch, module, plan.jobs, plan.tasks("correctness", arch)[0]), claimed, progress)


def _run_stage(
    plan: Plan, arch: str, module: Stage, claimed: devices.Claim | None, pools: Pools, progress: Progress
) -> StageRun:
    level = claimed.level if claimed else "none"

    def skipped(reason: str, deselected: bool = False) -> StageRun:
        if not deselected:
            progress.stage_skipped(arch, module.TITLE, reason)
        return StageRun(module.NAME, module.TITLE, module.SETTLES, "none", [], 0.0, reason, deselected)

    if module.NAME not in plan.selected():
        return skipped("not selected", deselected=True)
    if claimed is None:
        return skipped("no device can run or compile anything here")
    if not devices.meets(level, module.NEEDS):
        return skipped(f"needs {module.NEEDS} evidence, the device gives {level}")
    tasks, planned = plan.tasks(module.NAME, arch)
    order = {task.id: position for position, task in enumerate(tasks)}
    progress.stage_started(arch, module.TITLE, len(tasks))
    begun = time.monotonic()
    by_id: dict[str, JsonDict] = {}
    for task, outcome in pools.fitting(module).run(tasks, STAGES):
        by_id[task.id] = _record(plan, arch, task, outcome)  # a second outcome of a task replaces the first
        progress.case_done(arch, by_id[task.id])
    records = sorted(by_id.values(), key=lambda record: order[record["id"]])
    evidence = module.LEVEL if module.LEVEL is not None else level
    return StageRun(
        module.NAME,
        module.TITLE,
        module.SETTLES,
        evidence,
        records,
        time.monotonic() - begun,
        "" if records else _nothing(plan, module, planned),
        planned=planned,
    )


def _nothing(plan: Plan, module: Stage, planned: int) -> str:
    if planned:
        return f"none of its {planned} cases falls into shard {plan.shard}"
    return str(getattr(module, "EMPTY", "the operation has no case for this stage"))


def _record(plan: Plan, arch: str, task: Task, outcome: Outcome) -> JsonDict:
    replay = replay_command(plan.operation_name, arch, task.id, plan.seed, plan.level, task.options)
    return case_record(task, outcome, replay)
