"""Which kills a default run of ``hcgr-validate`` would have seen.

A trial may run what such a run does not: a grid case outside the cover, a checker that the correctness stage does not
use, another schedule. A kill by one of those says that the validator's parts can see the defect, not that they do.
"""

from __future__ import annotations

from validation import devices
from validation.mutation.engine import EMULATOR
from validation.mutation.manifest import Mutant
from validation.mutation.trials import Trial
from validation.operation import JsonDict, load_operation
from validation.stages import STAGES, Request, stage

#: Stages whose cases can see a defect.
_STAGES = tuple(name for name in STAGES if name not in ("environment", "mutants"))
#: Checkers of the emulator; everything else that fires is looked at in every run.
_CHECKERS = ("memcheck", "initcheck", "racecheck", "synccheck", "waits")


class DefaultRun:
    """The cases of a default run on one arch: seed 0, pairwise cover, the emulator for a device."""

    def __init__(self, operation: str, arch: str) -> None:
        request = Request(load_operation(operation), operation, arch, 0)
        self._cases: dict[str, JsonDict] = {}
        for name in _STAGES:
            self._cases |= {task.id: task.payload for task in stage(name).plan(request)}
        self._checkers = tuple(devices.device(EMULATOR).COVERS["checks"])

    def sees(self, mutant: Mutant, record: JsonDict) -> bool | None:
        """Whether a default run sees the kill of ``record``; ``None`` for one by a control or a test, or no kill."""
        if record["outcome"] != "killed":
            return None
        trial = next(trial for trial in mutant.trials if trial.name == record["trial"])
        kind = trial.case.partition(":")[0].partition(".")[0]
        if kind not in _STAGES:
            return None
        if kind == "protocol":  # its settings are its own
            name, _, setting = trial.case.partition("@")
            payload = self._cases.get(name)
            return payload is not None and (not setting or setting in payload["settings"])
        if trial.case not in self._cases:
            return False
        seen = [check for check in record["checks"] if check not in _CHECKERS or check in self._checkers]
        return bool(seen) and _stock(trial)


def _stock(trial: Trial) -> bool:
    """Whether a trial runs on the machine as the correctness stage sets it."""
    return (trial.schedule, trial.completion, trial.memory) == ("lockstep", "earliest", "flat")
