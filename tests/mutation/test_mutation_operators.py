"""Each operator does to its examples what they say, and makes Python of the real sources."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from validation.mutation.edit import ROOT, EditError
from validation.mutation.generated import generate, load_targets, sample
from validation.mutation.manifest import ManifestError, load_corpus
from validation.mutation.operators import OPERATORS, OperatorEdit, SiteEdit, sites_of

EXAMPLES = [
    pytest.param(operator, before, after, id=f"{name}-{number}")
    for name, operator in OPERATORS.items()
    for number, (before, after) in enumerate(operator.examples)
]


@pytest.mark.parametrize(("operator", "before", "after"), EXAMPLES)
def test_examples(operator: object, before: str, after: tuple[str, ...]) -> None:
    assert tuple(site.applied_to(before) for site in sites_of(operator, before)) == after  # type: ignore[arg-type]


@pytest.mark.parametrize("name", OPERATORS)
def test_each_operator_has_an_example_that_changes_something(name: str) -> None:
    assert any(after for _, after in OPERATORS[name].examples)


@pytest.mark.parametrize("name", OPERATORS)
def test_each_operator_finds_places_in_the_real_sources(name: str) -> None:
    operator = OPERATORS[name]
    files = sorted({path for pattern in operator.files for path in ROOT.glob(pattern)})
    found = [(path, site) for path in files for site in sites_of(operator, path.read_text())]
    assert found, f"no place in {operator.files}"
    for path, site in found[:: max(1, len(found) // 12)]:
        text = path.read_text()
        assert text[site.start : site.end] == site.before
        ast.parse(site.applied_to(text))


def test_places_are_counted_in_characters() -> None:
    text = 'def f(a, b):\n    return "σ → σ", a < b\n'
    (site,) = sites_of(OPERATORS["bounds.boundary"], text)
    assert site.applied_to(text) == text.replace("a < b", "a <= b")
    assert (site.line, site.function, str(site)) == (2, "f", "f:2: a < b -> a <= b")


def test_an_operator_edit_needs_exactly_one_place() -> None:
    text = "gpu.barrier()\nx = 1\ngpu.barrier()  # second\n"
    assert OperatorEdit("f.py", "waits.no-barrier", "# second").applied_to(text) == (
        "gpu.barrier()\nx = 1\npass  # second\n"
    )
    with pytest.raises(EditError, match="finds 2 places"):
        OperatorEdit("f.py", "waits.no-barrier", "gpu.barrier()").applied_to(text)
    with pytest.raises(EditError, match="finds 0 places"):
        OperatorEdit("f.py", "waits.no-barrier", "x = 1").applied_to(text)
    with pytest.raises(EditError, match="unknown operator 'no-such'"):
        OperatorEdit("f.py", "no-such", "x").applied_to(text)


def test_a_place_is_known_by_its_number() -> None:
    text = "gpu.barrier()\ngpu.barrier()\n"
    assert SiteEdit("f.py", "waits.no-barrier", 1).applied_to(text) == "gpu.barrier()\npass\n"
    with pytest.raises(EditError, match="finds 2 places, no number 2"):
        SiteEdit("f.py", "waits.no-barrier", 2).applied_to(text)


def test_generated_mutants_are_many_distinct_and_sampled_alike() -> None:
    made = generate(load_targets(load_corpus().names))
    names = [mutant.name for mutant in made]
    assert len(set(names)) == len(names) > 500
    few = sample(made, 20, seed=1)
    assert [m.name for m in few] == [m.name for m in sample(made, 20, seed=1)]
    assert [m.name for m in few] != [m.name for m in sample(made, 20, seed=2)]
    assert len({m.name.split("/")[1] for m in few}) == min(20, len({name.split("/")[1] for name in names}))
    assert sample(made, None, seed=1) == made
    assert {name.split("/")[1] for name in names} == set(OPERATORS)  # each operator has a target, host code too


def test_a_pattern_of_cases_means_all_that_are_called_so() -> None:
    targets = load_targets(load_corpus().names)
    cases = [trial.case for trial in targets.trials["hcgr/contract/k2.py"]]
    assert "contract.k2.hc_count_3" in cases
    assert len(cases) > 30
    assert all(case.startswith("contract.k2.") for case in cases)


def test_a_pattern_of_no_case_is_refused(tmp_path: Path) -> None:
    (tmp_path / "generated.toml").write_text('[cases]\n"hcgr/k1.py" = ["contract.k3.*"]\n')
    with pytest.raises(ManifestError, match=r"no case of the grid is called 'contract\.k3\.\*'"):
        load_targets({}, tmp_path)


def test_every_target_exists() -> None:
    for file in load_targets(load_corpus().names).trials:
        assert Path(ROOT / file).is_file(), file
