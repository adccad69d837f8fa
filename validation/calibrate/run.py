"""The parent's side of calibration: spreads vectors and cases over workers, survives what is lost, makes the part.

A crash or a hang takes one vector or one case: the journal of a worker that died tells which vector it was at, and
another worker goes on behind it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from validation import devices
from validation.calibrate import kernels, vectors
from validation.calibrate.assemble import AssemblerError, assembler
from validation.calibrate.differ import DIFFERENT, LOST, NOT_COMPARED, counted, row
from validation.cases import Outcome, Task, case_record, fragment
from validation.devices.pool import Pool
from validation.operation import JsonDict

EMULATOR = "validation.devices.emulator"
MODULES = {"vectors": vectors.__name__, "kernels": kernels.__name__}
FILE_TIMEOUT_S = 1800.0
#: A GPU that takes this many workers with it over one file is not asked again; the rest of the file is lost.
MOST_LOSSES = 8


class CalibrationError(RuntimeError):
    """Calibration cannot take place here; nothing has been run, and the message says what is missing."""


class Progress(Protocol):
    """Who wants to know how it is getting on: the runner's view has these."""

    def stage_started(self, arch: str, title: str, total: int) -> None:
        """A part begins."""

    def case_done(self, arch: str, record: JsonDict) -> None:
        """One piece is done; ``record`` has ``id``, ``status`` and ``reason``."""


@dataclass(frozen=True)
class Work:
    """What is calibrated beside the vectors: correctness tasks. ``hang_s``: seconds that one vector may take."""

    arch: str
    device: str
    jobs: int
    tasks: Sequence[Task]
    hang_s: float = vectors.HANG_S


def require_gpu(arch: str, modules: Sequence[str]) -> tuple[str, devices.Claim]:
    """The device module that can run ``arch`` on hardware, claimed; :class:`CalibrationError` with the reasons if none.

    Vectors and an assembler must be here too.
    """
    answers = devices.claim_all(arch, modules)
    for module, claim in answers:
        if claim.available and claim.level == "runtime":
            try:
                vectors.files()
                assembler()
            except (vectors.NoVectorsError, AssemblerError) as error:
                raise CalibrationError(f"--calibrate: {error.args[0]}") from error
            return module, claim
    reasons = "; ".join(claim.reason for _, claim in answers if devices.rank(claim.level) >= devices.rank("runtime"))
    others = "; ".join(claim.reason for _, claim in answers if claim.device == "hip" and claim.level != "runtime")
    found = reasons or others or "no device here stands for one"
    raise CalibrationError(f"--calibrate compares the emulator with a GPU of {arch}, and there is none: {found}")


def calibrate(work: Work, claim: devices.Claim, progress: Progress) -> JsonDict:
    """Run everything on both sides and return the report's part ``calibration``."""
    entries: list[JsonDict] = []
    names: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="hcgr-calibrate-") as folder, _pool(work, work.device) as gpu:
        entries += _vectors(work, gpu, Path(folder), progress, names)
        with _pool(work, EMULATOR) as emulator:
            entries += _kernels(work, gpu, emulator, Path(folder), progress)
    shown = [entry for entry in entries if entry["status"] in (DIFFERENT, LOST)]
    return {
        "device": claim.reason,
        "runner": ", ".join(sorted(set(names.values()))) or "none: no worker came to its end",
        "counts": counted(entries),
        "entries": shown + _merged(entry for entry in entries if entry["status"] == NOT_COMPARED),
    }


def _pool(work: Work, device: str) -> Pool:
    return Pool(work.jobs, work.arch, device, devices.device(device).worker_environment(work.arch))


def _merged(entries: Iterable[JsonDict]) -> list[JsonDict]:
    """Entries of one kind and reason as one, which says how many they were."""
    merged: dict[tuple[str, str], JsonDict] = {}
    for entry in entries:
        known = merged.setdefault((entry["kind"], entry["reason"]), entry | {"times": 0})
        known["times"] += entry["times"]
    return list(merged.values())


def _vectors(work: Work, pool: Pool, folder: Path, progress: Progress, names: dict[str, str]) -> list[JsonDict]:
    """The entries of all vectors. ``names`` gets the runner of each file that came to its end."""
    files = vectors.files()
    progress.stage_started(work.arch, "Calibration: instruction vectors", len(files))
    entries: list[JsonDict] = []
    waiting = [_file_task(path, folder, work.hang_s) for path in files]
    losses: dict[str, int] = {}
    while waiting:
        again: list[Task] = []
        found: dict[str, list[JsonDict]] = {}
        for task, outcome in pool.run(waiting, MODULES):
            if task.id in found:  # its first outcome is taken back, and with it what the same worker wrote
                del names[task.id]
                found[task.id] = [row("vector", task.id, task.id, LOST, outcome.error[:500])]
                progress.case_done(work.arch, _record(task, outcome, outcome.error))
                continue
            done, begun, seen = vectors.read_journal(Path(task.payload["journal"]))
            rows = found[task.id] = list(done)
            if outcome.value is not None:
                names[task.id] = outcome.value["runner"]
                rows += _failed_tests(task, outcome.value)
                progress.case_done(work.arch, _record(task, outcome, ""))
                continue
            losses[task.id] = losses.get(task.id, 0) + 1
            if begun is not None:
                rows.append(row("vector", begun["begun"] or task.id, begun["what"], LOST, outcome.error[:500]))
            if begun is not None and losses[task.id] < MOST_LOSSES:
                again.append(_file_task(Path(task.payload["file"]), folder, work.hang_s, seen, losses[task.id]))
            else:
                reason = f"the rest of the file was not run: {outcome.error}"
                rows.append(row("vector", task.id, task.id, LOST, reason[:500]))
                progress.case_done(work.arch, _record(task, outcome, reason))
        entries += [entry for rows in found.values() for entry in rows]
        waiting = again
    return entries


def _file_task(path: Path, folder: Path, hang_s: float, skip: int = 0, part: int = 0) -> Task:
    journal = folder / f"{path.stem}.{part}.jsonl"
    payload = {"file": str(path), "skip": skip, "journal": str(journal), "hang_s": hang_s}
    return Task(path.name, "vectors", payload, timeout_s=FILE_TIMEOUT_S)


def _failed_tests(task: Task, value: Mapping[str, object]) -> list[JsonDict]:
    """A file whose own tests fail, or that holds no vector of the arch it was run for."""
    if value["pytest"] == 0:
        return []
    reason = f"its tests do not pass on the emulator itself: pytest ended with {value['pytest']}"
    return [row("vector", task.id, task.id, LOST, reason)]


def _kernels(work: Work, gpu: Pool, emulator: Pool, folder: Path, progress: Progress) -> list[JsonDict]:
    progress.stage_started(work.arch, "Calibration: kernel cases", len(work.tasks))
    sides: list[dict[str, Outcome]] = []
    for name, pool in (("gpu", gpu), ("emulator", emulator)):
        outcomes: dict[str, Outcome] = {}
        for task, outcome in pool.run(_saving(work.tasks, folder, name), MODULES):
            outcomes[task.id] = outcome
            if name == "emulator":
                progress.case_done(work.arch, _record(task, outcome, outcome.error))
        sides.append(outcomes)
    return [_judged(task, number, sides, folder) for number, task in enumerate(work.tasks)]


def _saving(tasks: Sequence[Task], folder: Path, side: str) -> list[Task]:
    return [
        replace(task, stage="kernels", payload=dict(task.payload) | {"save": str(_saved(folder, side, number))})
        for number, task in enumerate(tasks)
    ]


def _saved(folder: Path, side: str, number: int) -> Path:
    return folder / f"{side}{number}.npz"


def _judged(task: Task, number: int, sides: Sequence[Mapping[str, Outcome]], folder: Path) -> JsonDict:
    measured, emulated = (side[task.id] for side in sides)
    kernel = str(task.payload["entry"])
    for where, outcome in (("the GPU", measured), ("the emulator", emulated)):
        if outcome.value is None:
            return row("kernel", task.id, kernel, LOST, f"on {where}: {outcome.error}"[:500])
    assert emulated.value is not None
    assert measured.value is not None
    files = _saved(folder, "emulator", number), _saved(folder, "gpu", number)
    return kernels.compare(task.id, kernel, emulated.value, measured.value, files)


def _record(task: Task, outcome: Outcome, reason: str) -> JsonDict:
    """What a progress view is told of a piece of work."""
    seen = replace(outcome, value=None if reason else fragment("pass"), error=reason)
    return case_record(replace(task, id=f"calibration.{task.id}"), seen, "the whole calibration, with --calibrate")
