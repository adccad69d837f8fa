"""The corpus fits the sources as they are: every manifest is legal, every edit applies once, every case exists."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from validation import devices
from validation.mutation import trials
from validation.mutation.controls import CONTROLS
from validation.mutation.edit import ROOT
from validation.mutation.fired import checks_fired
from validation.mutation.manifest import CLASSES, CORPUS, ManifestError, Mutant, distinct_trials, load_corpus
from validation.mutation.trials import ALL_CHECKS, Trial, TrialError
from validation.operation import load_operation
from validation.stages import Request, stage

LOADED = load_corpus()
MUTANTS = (*LOADED.mutants, LOADED.sentinel)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_edits_apply_to_the_sources_as_they_are(mutant: Mutant) -> None:
    for file, text in mutant.edited().items():
        assert text != (ROOT / file).read_text()
    kernels = [change.file for change in mutant.changes if change.file.startswith("hcgr/kernels/")]
    assert bool(kernels) == (mutant.kind == "kernel"), f"kind {mutant.kind} edits {mutant.changes[0].file}"


def test_no_defect_is_counted_twice() -> None:
    by_result: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for mutant in MUTANTS:
        by_result.setdefault(tuple(sorted(mutant.edited().items())), []).append(mutant.name)
    assert [names for names in by_result.values() if len(names) > 1] == []


@pytest.mark.parametrize("trial", distinct_trials(MUTANTS), ids=lambda trial: trial.name)
def test_cases_exist(trial: Trial) -> None:
    kind = re.split(r"[.:]", trial.case)[0]
    if kind == "control":
        assert trial.case.partition(".")[2] in CONTROLS
    elif kind == "pytest":
        file, _, function = trial.case.partition(":")[2].partition("::")
        assert f"def {function.partition('[')[0]}(" in (ROOT / file).read_text()
    else:
        for arch in devices.ARCHES:
            request = Request(load_operation("hcgr"), "hcgr", arch, 0)
            assert stage(kind).find(request, trial.case).id == trial.case


@pytest.mark.parametrize("arch", devices.ARCHES)
def test_every_class_has_the_mutants_that_are_asked_for(arch: str) -> None:
    numbers = Counter(mutant.defect_class for mutant in LOADED.mutants if arch in mutant.archs)
    short = {name: numbers[name] for name, known in CLASSES.items() if numbers[name] < known.least}
    assert short == {}
    five = ("tail-guard", "strided-view", "wrong-stride", "int32-overflow", "counter-reuse")
    assert {name: known.least for name, known in CLASSES.items()} == {
        name: 12 if name in five else 6 for name in CLASSES
    }


def test_names_of_cases_are_all_used() -> None:
    named = [*CORPUS.glob("*/*/mutant.toml"), CORPUS / "generated.toml", CORPUS / "sentinel.toml"]
    tables = "".join(path.read_text() for path in named)
    assert [name for name in LOADED.names if f'"{name}"' not in tables] == []


def test_every_control_is_a_check_of_the_schema_and_passes_on_the_sources() -> None:
    from schemas import load_schema

    known = load_schema("mutant")["$defs"]["check"]["enum"]
    for name, control in CONTROLS.items():
        assert control.check in known
        for arch in devices.ARCHES if control.check == "plan-check" else devices.ARCHES[:1]:
            assert control.run(arch) == [], name


MANIFEST = """
title = "a defect of some kind"
why = "it stands for a defect of some kind"
kind = "kernel"
paths = ["combine"]
check = "oracle"
cases = ["known"]
rarity = "always"
[[edit]]
file = "a.py"
find = "x"
replace = "y"
"""


def _corpus(folder: Path, text: str, group: str = "tail-guard") -> Path:
    place = folder / group / "one"
    place.mkdir(parents=True)
    (folder / "cases.toml").write_text('[known]\nid = "control.bounds"\n')
    (folder / "sentinel.toml").write_text(MANIFEST)
    (place / "mutant.toml").write_text(text)
    return folder


def test_a_manifest_is_read_whole(tmp_path: Path) -> None:
    text = MANIFEST + '[equivalent]\nreason = "no input can tell the two apart"\nexpires = "2027-01-31"\n'
    (mutant,) = load_corpus(_corpus(tmp_path, text)).mutants
    assert (mutant.name, mutant.defect_class, mutant.archs) == ("tail-guard/one", "tail-guard", devices.ARCHES)
    assert mutant.checks == ("oracle",)
    assert [trial.case for trial in mutant.trials] == ["control.bounds"]
    assert mutant.equivalent is not None
    assert mutant.equivalent.expires.year == 2027


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("always", "no"), "rarity"),
        (('"kernel"', '"kernal"'), "kind"),
        (('"oracle"', '"luck"'), "check"),
        (('"oracle"', '["oracle", "memcheck"]'), "check"),
        (('["known"]', '["unknown"]'), "no case is called 'unknown'"),
        (('["known"]', "[]"), "cases"),
        (("[[edit]]", "[[edits]]"), "edit"),
        (('find = "x"', 'find = "x"\nwhere = "y"'), "edit"),
        (("title =", "titel ="), "titel"),
        (("rarity =", "rarity"), "no TOML"),
        (("[[edit]]", '[equivalent]\nreason = "' + "r" * 30 + '"\nexpires = "2027-13-40"\n[[edit]]'), "month"),
    ],
)
def test_a_malformed_manifest_is_refused(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    with pytest.raises(ManifestError, match=words):
        load_corpus(_corpus(tmp_path, MANIFEST.replace(*change)))


def test_a_folder_that_is_no_class_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="no defect class of that name"):
        load_corpus(_corpus(tmp_path, MANIFEST, "bad-luck"))
    assert len(CLASSES) == 17


def test_settings_of_a_case_can_be_given_beside_its_name() -> None:
    names = {"base": trials.parse("base", {"id": "contract.combine.x", "memory": "weak"})}
    plain = trials.resolve("base", names)
    assert (plain.memory, plain.checks) == ("weak", ALL_CHECKS)
    late = trials.resolve({"id": "base", "completion": "latest"}, names)
    assert (late.case, late.memory, late.completion) == ("contract.combine.x", "weak", "latest")
    assert "racecheck" not in late.checks
    assert late.settings != plain.settings
    assert Trial.from_json(late.as_json()) == late
    with pytest.raises(TrialError, match="unknown checks"):
        trials.parse("x", {"id": "contract.combine.x", "checks": ["luck"]})
    with pytest.raises(TrialError, match="keys must be id"):
        trials.parse("x", {"ids": "contract.combine.x"})


@pytest.mark.parametrize(
    ("stage_name", "fragment", "fired"),
    [
        ("correctness", {"status": "pass", "reason": ""}, []),
        ("correctness", {"status": "error", "reason": "r"}, []),
        ("contract", {"status": "fail", "reason": "r"}, ["contract"]),
        ("compile", {"status": "fail", "reason": "r"}, ["isa"]),
        (
            "protocol",
            {"status": "fail", "reason": "r", "protocol": {"runs": [{"caught": {}}, {"caught": {"value": "m"}}]}},
            ["protocol", "oracle"],
        ),
        (
            "correctness",
            {
                "status": "fail",
                "reason": "guard bytes changed beside x",
                "findings": [{"check": "memcheck"}, {"check": "memcheck"}],
                "comparisons": [{"tier": "exact", "passed": False}, {"tier": "form", "passed": True}],
            },
            ["memcheck", "oracle", "guard"],
        ),
        ("correctness", {"status": "fail", "reason": "refused a legal call: x"}, ["refused"]),
        ("correctness", {"status": "fail", "reason": "built for fused, which no launch took"}, ["path"]),
        ("correctness", {"status": "fail", "reason": "deadlock"}, ["fault"]),
    ],
)
def test_checks_are_told_from_the_record(stage_name: str, fragment: dict[str, object], fired: list[str]) -> None:
    assert checks_fired(stage_name, fragment) == fired


def test_the_published_matrices_are_of_this_corpus() -> None:
    names = {mutant.name for mutant in LOADED.mutants}
    matrix = (ROOT / "docs" / "kill_matrix.md").read_text()
    again = "run hcgr-mutate --arch all --report mutants.json and publish its --table and --matrix --table"
    assert set(re.findall(r"^\| ([\w-]+/[\w-]+) \|", matrix, re.MULTILINE)) == names, again
    assert f"| **all** | {len(names)} |" in (ROOT / "README.md").read_text(), again
