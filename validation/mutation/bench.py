"""The emulator's bench under the settings of one trial, with a record of the machine code that was launched.

Only imported in a child that runs a mutant: what it derives from may be mutated.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from validation.devices.emulator import EmulatorBench, Session
from validation.emulator.flydsl_plugin import runtime
from validation.mutation.trials import Trial
from validation.operation import Workgroups
from validation.worker import TaskContext

#: Taken backward branches of a wave before a launch counts as endless: no loop of a trial's cases takes so many.
BRANCH_LIMIT = 200_000

_DEBUG = re.compile(r"^\s*(?:\.(?:loc|file|cfi_\w+|ident|addrsig\w*)\b.*|\.Ltmp\d+:)?\s*$")


def code_digest(asm: str) -> str:
    """A name for the machine code of an assembly text: comments, and lines that only serve a debugger, do not count."""
    code, _, rest = asm.partition("\t.section\t.debug_")
    metadata = rest[rest.find(".amdgpu_metadata") :] if ".amdgpu_metadata" in rest else ""
    lines = (line.partition(";")[0].rstrip() for line in (code + metadata).splitlines())
    kept = "\n".join(line for line in lines if not _DEBUG.match(line))
    return hashlib.sha256(kept.encode()).hexdigest()[:16]


@contextmanager
def recorded_code() -> Iterator[dict[str, None]]:
    """Within the block, the digest of every launched kernel's code becomes a key of the yielded dict."""
    seen: dict[str, None] = {}
    known: dict[str, str] = {}

    def launch(asked: runtime.KernelLaunch) -> None:
        if asked.asm not in known:
            known[asked.asm] = code_digest(asked.asm)
        seen[known[asked.asm]] = None
        runtime.emulate(asked)

    with runtime.launches_to(launch):
        yield seen


class TrialBench(EmulatorBench):
    """Sessions run under the trial's checks, schedule, completion and memory model."""

    def __init__(self, arch: str, trial: Trial) -> None:
        super().__init__(arch)
        self._trial = trial

    @contextmanager
    def session(self, workgroups: Workgroups = None, checks: Sequence[str] = (), **options: Any) -> Iterator[Session]:
        """Observe the launches of a block. What a driver asks for itself comes first."""
        trial = self._trial
        settings: dict[str, Any] = {"schedule": trial.schedule, "completion": trial.completion, "memory": trial.memory}
        settings |= {"branch_limit": BRANCH_LIMIT, **options}
        with super().session(workgroups, tuple(checks) or trial.checks, **settings) as session:
            yield session


class TrialContext(TaskContext):
    """What a stage is given: the worker's context, with :class:`TrialBench` for a bench."""

    trial: Trial

    @contextmanager
    def bench(self) -> Iterator[Any]:
        """A fresh bench under the trial's settings."""
        bench = TrialBench(self.arch, self.trial)
        try:
            yield bench
        finally:
            bench.close()
