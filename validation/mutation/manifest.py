"""The corpus: ``mutants/<class>/<name>/mutant.toml``, one defect each.

A manifest says what real defect it stands for, the edit, the cases that should see it and the check that must. Its
keys are those of ``schemas/mutant.schema.json``.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema

from schemas import load_schema
from validation import devices
from validation.mutation import trials
from validation.mutation.edit import ROOT, Change, Edit, edited_sources
from validation.mutation.operators import OperatorEdit
from validation.mutation.trials import Trial

CORPUS = ROOT / "mutants"
MANIFEST = "mutant.toml"
#: The mutant that must be killed before any other is believed to survive.
SENTINEL = "sentinel.toml"
CASE_NAMES = "cases.toml"


@dataclass(frozen=True)
class DefectClass:
    """A kind of defect, and how many mutants of it the corpus must hold at least."""

    title: str
    least: int


CLASSES: dict[str, DefectClass] = {
    "tail-guard": DefectClass("dropped tail guard", 12),
    "strided-view": DefectClass("strided view read as contiguous", 12),
    "wrong-stride": DefectClass("wrong stride", 12),
    "int32-overflow": DefectClass("int32 overflow", 12),
    "counter-reuse": DefectClass("counter reuse: key, wrap, zero-fill, stream, graph", 12),
    "missing-barrier": DefectClass("missing barrier", 6),
    "loose-wait": DefectClass("loose or missing wait", 6),
    "missing-fence": DefectClass("missing fence or scope bit", 6),
    "wrong-dtype": DefectClass("wrong dtype or missing dtype check", 6),
    "aliasing": DefectClass("aliasing", 6),
    "stale-workspace": DefectClass("stale or uninitialised workspace and padding", 6),
    "wrong-constant": DefectClass("wrong constant or epsilon", 6),
    "low-precision": DefectClass("low-precision accumulation", 6),
    "wrong-plan": DefectClass("wrong tuned plan or LDS limit", 6),
    "dropped-contract": DefectClass("dropped contract check", 6),
    "loosened-tolerance": DefectClass("loosened tolerance", 6),
    "removed-grid-case": DefectClass("removed grid case", 6),
}


class ManifestError(ValueError):
    """A manifest breaks its schema or contradicts itself; the message names the file and what is accepted."""


@dataclass(frozen=True)
class Equivalence:
    """A reviewed claim that no test can tell the mutant from the original."""

    reason: str
    expires: date


@dataclass(frozen=True)
class Mutant:
    """One defect. ``name`` is ``class/name``; ``checks`` holds the one that must kill it, or none: any check may."""

    name: str
    title: str
    why: str
    kind: str
    paths: tuple[str, ...]
    archs: tuple[str, ...]
    checks: tuple[str, ...]
    trials: tuple[Trial, ...]
    changes: tuple[Change, ...]
    rarity: str = ""
    reports: tuple[str, ...] = ()
    equivalent: Equivalence | None = None
    generated: bool = False
    digest: str = field(default="", compare=False)

    @property
    def defect_class(self) -> str:
        """Name of its class; ``generated`` for a generated one."""
        return self.name.partition("/")[0]

    def edited(self, root: Path = ROOT) -> dict[str, str]:
        """File to mutated text; :class:`validation.mutation.edit.EditError` if an edit does not fit."""
        return edited_sources(self.changes, root)


def digest(*parts: Any) -> str:
    """A short name for the content of some JSON values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _change(table: Mapping[str, str]) -> Change:
    return OperatorEdit(**table) if "operator" in table else Edit(**table)


def load_manifest(path: Path, name: str, names: Mapping[str, Trial]) -> Mutant:
    """The mutant of one manifest; ``names`` are the short names of cases."""
    try:
        table = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ManifestError(f"{path}: no TOML: {error}") from error
    broken = list(jsonschema.Draft202012Validator(load_schema("mutant")).iter_errors(table))
    if broken:
        raise ManifestError(f"{path}: {broken[0].json_path}: {broken[0].message}")
    given = table.get("equivalent")
    try:
        chosen = tuple(trials.resolve(case, names) for case in table["cases"])
        equivalent = Equivalence(given["reason"], date.fromisoformat(given["expires"])) if given else None
    except ValueError as error:
        raise ManifestError(f"{path}: {error}") from error
    return Mutant(
        name=name,
        title=table["title"],
        why=table["why"].strip(),
        kind=table["kind"],
        paths=tuple(table["paths"]),
        archs=tuple(table.get("archs", devices.ARCHES)),
        checks=(table["check"],),
        trials=chosen,
        changes=tuple(_change(edit) for edit in table["edit"]),
        rarity=table["rarity"],
        reports=tuple(table.get("reports", ())),
        equivalent=equivalent,
        digest=digest(table, [(trial.as_json(), trials.content(trial)) for trial in chosen]),
    )


@dataclass(frozen=True)
class Corpus:
    """All hand-written mutants of a folder, its sentinel and its short names of cases."""

    mutants: tuple[Mutant, ...]
    sentinel: Mutant
    names: Mapping[str, Trial]


def load_corpus(folder: Path = CORPUS, classes: Iterable[str] = tuple(CLASSES)) -> Corpus:
    """The corpus of ``folder``; a folder that is no class, or holds no manifest, is an error."""
    known = set(classes)
    names = trials.load_names(folder / CASE_NAMES)
    mutants = []
    for group in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("_")):
        if group.name not in known:
            raise ManifestError(f"{group}: no defect class of that name (classes: {', '.join(sorted(known))})")
        for place in sorted(path for path in group.iterdir() if path.is_dir()):
            if not (place / MANIFEST).is_file():
                raise ManifestError(f"{place}: has no {MANIFEST}")
            mutants.append(load_manifest(place / MANIFEST, f"{group.name}/{place.name}", names))
    return Corpus(tuple(mutants), load_manifest(folder / SENTINEL, "sentinel", names), names)


def distinct_trials(mutants: Sequence[Mutant]) -> list[Trial]:
    """Every trial that some mutant uses, once each."""
    return list({trial.settings: trial for mutant in mutants for trial in mutant.trials}.values())
