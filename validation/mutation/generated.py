"""Mutants that operators make, beside the hand-written ones: every place of every operator, sampled with a seed.

``mutants/generated.toml`` says which cases to try for a file, and which generated mutants are reviewed as equivalent.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from validation import devices
from validation.mutation import trials
from validation.mutation.edit import ROOT
from validation.mutation.manifest import CORPUS, Equivalence, ManifestError, Mutant, digest
from validation.mutation.operators import OPERATORS, SiteEdit, sites_of
from validation.mutation.trials import Trial
from validation.operation import load_operation
from validation.stages import Request, stage

TABLE = "generated.toml"
#: Whose cases a pattern of the table names.
OPERATION = "hcgr"


@dataclass(frozen=True)
class Targets:
    """File to the trials that its mutants are run with, and reviewed equivalences by name."""

    trials: Mapping[str, tuple[Trial, ...]]
    equivalent: Mapping[str, Equivalence]


def load_targets(names: Mapping[str, Trial], folder: Path = CORPUS) -> Targets:
    """The targets of ``folder``; an unknown case or a malformed date is an error."""
    table = tomllib.loads((folder / TABLE).read_text())
    try:
        chosen = {
            file: tuple(trials.resolve(case, names) for given in cases for case in _expanded(given))
            for file, cases in table["cases"].items()
        }
        reviewed = {
            name: Equivalence(entry["reason"], date.fromisoformat(entry["expires"]))
            for name, entry in table.get("equivalent", {}).items()
        }
    except (KeyError, ValueError) as error:
        raise ManifestError(f"{folder / TABLE}: {error}") from error
    return Targets(chosen, reviewed)


def _expanded(case: str) -> list[str]:
    """``contract.k1.*`` stands for every case of the grid that is called so; other names for themselves."""
    if not case.endswith(".*"):
        return [case]
    request = Request(load_operation(OPERATION), OPERATION, devices.ARCHES[0], 0)
    found = [task.id for task in stage(case.partition(".")[0]).plan(request) if task.id.startswith(case[:-1])]
    if not found:
        raise ValueError(f"no case of the grid is called {case!r} (see hcgr-validate --list)")
    return found


def generate(targets: Targets, root: Path = ROOT, arches: Sequence[str] = devices.ARCHES) -> list[Mutant]:
    """Every generated mutant of the targets, in a fixed order.

    A name is ``generated/<operator>/<file>:<number>``, numbered by place in the file.
    """
    made = []
    for operator in OPERATORS.values():
        for file, chosen in targets.trials.items():
            if not any(Path(file).match(pattern) for pattern in operator.files):
                continue
            for number, site in enumerate(sites_of(operator, (root / file).read_text())):
                name = f"generated/{operator.name}/{file}:{number}"
                made.append(
                    Mutant(
                        name=name,
                        title=f"{operator.title}, {file}, {site}",
                        why=operator.title,
                        kind="kernel" if file.startswith("hcgr/kernels/") else "host",
                        paths=("all",),
                        archs=tuple(arches),
                        checks=(),
                        trials=chosen,
                        changes=(SiteEdit(file, operator.name, number),),
                        equivalent=targets.equivalent.get(name),
                        generated=True,
                        digest=digest(name, [trial.as_json() for trial in chosen]),
                    )
                )
    return made


def sample(mutants: Sequence[Mutant], size: int | None, seed: int) -> list[Mutant]:
    """``size`` of ``mutants`` in a random order that ``seed`` decides, operators taking turns; all for ``None``.

    Without turns, index arithmetic would be most of every sample.
    """
    if size is None or size >= len(mutants):
        return list(mutants)
    rng = random.Random(seed)
    groups: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        groups.setdefault(mutant.name.split("/")[1], []).append(mutant)
    for group in groups.values():
        rng.shuffle(group)
    order = list(groups)
    rng.shuffle(order)
    chosen: list[Mutant] = []
    while len(chosen) < size:
        for name in order:
            if groups[name] and len(chosen) < size:
                chosen.append(groups[name].pop())
    return chosen
