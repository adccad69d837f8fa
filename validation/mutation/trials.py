"""Trials: the cases that may kill a mutant, with the machine settings under which they run."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from validation.mutation.edit import ROOT

#: Every checker of the emulator that tells right from wrong: a trial runs under all of them unless it says otherwise.
ALL_CHECKS = ("memcheck", "initcheck", "waits", "racecheck", "synccheck")


class TrialError(ValueError):
    """A case that cannot be named or configured that way; the message says what is accepted."""


@dataclass(frozen=True)
class Trial:
    """One case and its settings.

    ``case`` is a case of ``hcgr-validate``, ``control.<name>`` (:mod:`validation.mutation.controls`) or
    ``pytest:<node>``. ``name`` is the short name that manifests use for it. The settings are those of
    :func:`validation.emulator.emulate`; they matter to cases that launch kernels only.
    """

    name: str
    case: str
    checks: tuple[str, ...] = ALL_CHECKS
    schedule: str = "lockstep"
    completion: str = "earliest"
    memory: str = "flat"

    def as_json(self) -> dict[str, Any]:
        """The form that a worker is given, and the report holds."""
        return asdict(self) | {"checks": list(self.checks)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Trial:
        """The trial behind :meth:`as_json`."""
        return cls(**{**record, "checks": tuple(record["checks"])})

    @property
    def settings(self) -> tuple[Any, ...]:
        """What, besides the code, decides the trial's outcome. Two names may stand for one such."""
        return self.case, self.checks, self.schedule, self.completion, self.memory


def content(trial: Trial) -> str:
    """What of a trial is in no package of the sources: the text of a test's file; else nothing."""
    kind, _, node = trial.case.partition(":")
    file = ROOT / node.partition("::")[0]
    return file.read_text() if kind == "pytest" and file.is_file() else ""


def parse(name: str, table: Mapping[str, Any]) -> Trial:
    """The trial of a table with ``id`` and settings; unknown keys are refused (``TrialError``)."""
    known = {"id", "checks", "schedule", "completion", "memory", "why"}
    wrong = set(table) - known
    if wrong or "id" not in table:
        raise TrialError(f"case {name!r}: keys must be id and any of {', '.join(sorted(known - {'id'}))}")
    checks = tuple(table.get("checks", ALL_CHECKS))
    unknown = set(checks) - set(ALL_CHECKS)
    if unknown:
        raise TrialError(f"case {name!r}: unknown checks {', '.join(sorted(unknown))} (known: {', '.join(ALL_CHECKS)})")
    completion = table.get("completion", "earliest")
    if completion == "latest" and "checks" not in table:
        checks = tuple(check for check in checks if check != "racecheck")  # the emulator refuses the two together
    return Trial(name, table["id"], checks, table.get("schedule", "lockstep"), completion, table.get("memory", "flat"))


def load_names(path: Path) -> dict[str, Trial]:
    """The short names of ``mutants/cases.toml``."""
    return {name: parse(name, table) for name, table in tomllib.loads(path.read_text()).items()}


def resolve(given: str | Mapping[str, Any], names: Mapping[str, Trial]) -> Trial:
    """The trial that a manifest means: a short name, a case, or a table with settings.

    A table's ``id`` may be a short name too; the settings beside it replace that trial's.
    """
    if isinstance(given, str):
        if given in names:
            return names[given]
        if "." in given or ":" in given:
            return parse(given, {"id": given})
        raise TrialError(f"no case is called {given!r} (names: {', '.join(sorted(names))}; or give a whole case)")
    if given["id"] in names:
        base = names[given["id"]]
        checks = {} if "completion" in given else {"checks": base.checks}
        merged = {"schedule": base.schedule, "completion": base.completion, "memory": base.memory, **checks, **given}
        merged["id"] = base.case
    else:
        merged = dict(given)
    shown = [str(value) for key, value in given.items() if key not in ("id", "why", "checks")]
    return parse("+".join([given["id"], *shown]), merged)
