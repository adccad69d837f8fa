"""Policy findings: what a change does to the judge, each rule on a change that it must see and on one that is none."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tiny_repository as tiny

from validation.base import policy
from validation.base.policy import Tree, Trees, budget, grid, machinery, mutants, skips, suite, thresholds, tolerance
from validation.base.policy.describe import describe
from validation.operation import JsonDict, load_operation
from validation.report.verdict import decide

ORACLE = '''\
"""Bounds."""

from oracle.rounding import ULP as STEP

SLACK = 1.5
NAMES = ("a", "b")


class Bound:
    """A bound."""

    factor: float = 2.0

    def of(self, values, eps=1e-6):
        """Its value for some values."""
        scaled = values.abs() * SLACK + eps
        return scaled * 4 <= self.factor
'''
TEST = """\
import pytest


def test_one():
    assert True


@pytest.mark.skipif(not GPU, reason="needs a GPU")
def test_two():
    assert True
"""
CI = """\
# hcgr-mutate --min-kill-rate 0.1 is what a comment may say
set -e
hcgr-validate --arch all --require emulated --report out.json
hcgr-mutate --arch all --min-kill-rate 1.0
hcgr-report check out.json --against HEAD --pass
pytest -n auto tests/
"""
MACHINERY = """\
import pytest


@pytest.mark.parametrize("value", [1, 2, 3])
def test_many(value):
    assert value


class TestKept:
    def test_method(self):
        with pytest.raises(ValueError):
            int("")
"""
BUDGET = """{"rows": [{"arch": "gfx942", "case": "one", "path": "p", "bytes_moved": 100, "mfma": 4},
 {"arch": "gfx950", "case": "one", "path": "p", "bytes_moved": 90, "mfma": 4}]}"""
MUTANT = """\
title = "the guard is gone"
check = "memcheck"
cases = ["tail"]
"""

FILES = {
    "oracle/bounds.py": ORACLE,
    "tests/test_it.py": TEST,
    "tests/test_machinery.py": MACHINERY,
    "validation/stages/judge.py": "def judge(case):\n    return case\n",
    ".ci/run": CI,
    "tiny/budget.json": BUDGET,
    "mutants/tail-guard/row/mutant.toml": MUTANT,
}


@dataclass(frozen=True)
class Pair:
    """Two checkouts with the same files, of which a test changes the head's."""

    base: Path
    head: Path

    def put(self, file: str, old: str, new: str) -> None:
        """Replace, in the head, a text that occurs once."""
        place = self.head / file
        text = place.read_text()
        assert text.count(old) == 1
        place.write_text(text.replace(old, new))

    def found(self, rule: Any) -> list[str]:
        """The names of what a rule finds, with the head's operation as it is now."""
        with tiny.importable(self.head):
            trees = Trees(Tree(self.base), Tree(self.head), load_operation(tiny.REFERENCE), tiny.REFERENCE, 0)
            return [finding.name for finding in rule.find(trees)]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    made = Pair(tmp_path / "base", tmp_path / "head")
    for root in (made.base, made.head):
        tiny.Repository(root).write(FILES)
    return made


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> JsonDict:
    """What the unchanged operation says of itself, in a process of its own."""
    root = tmp_path_factory.mktemp("described") / "repository"
    tiny.Repository(root)
    with tiny.importable(root):
        trees = Trees(Tree(root), Tree(root), load_operation(tiny.REFERENCE), tiny.REFERENCE, 0)
        found = grid.described(trees, tiny.REFERENCE)
        assert isinstance(found, dict), found
        assert found == json.loads(json.dumps(describe(trees.operation, 0)))
    return found


BOUNDS = "tolerance:oracle/bounds.py"
MACHINE = "tests/test_machinery.py"
SEEN = [
    ("tests/test_it.py", "def test_one():\n    assert True\n", "", suite, ["test:tests/test_it.py:test_one"]),
    (MACHINE, "def test_many", "def _test_many", suite, [f"test:{MACHINE}:test_many"]),
    (MACHINE, "[1, 2, 3]", "[1, 2]", suite, [f"test:{MACHINE}:test_many.parameters"]),
    (MACHINE, "assert value", "return", suite, [f"test:{MACHINE}:test_many.asserts"]),
    (MACHINE, "def test_method", "def method", suite, [f"test:{MACHINE}:TestKept.test_method"]),
    # what is changed, from what, to what, by which rule it is found, under which names
    ("oracle/bounds.py", "SLACK = 1.5", "SLACK = 1.75", tolerance, [f"{BOUNDS}:SLACK"]),
    ("oracle/bounds.py", "SLACK = 1.5", "SLACK = 1.25", tolerance, [f"{BOUNDS}:SLACK"]),
    ("oracle/bounds.py", 'NAMES = ("a", "b")', 'NAMES = ("a",)', tolerance, [f"{BOUNDS}:NAMES"]),
    ("oracle/bounds.py", "factor: float = 2.0", "factor: float = 3.0", tolerance, [f"{BOUNDS}:Bound.factor"]),
    ("oracle/bounds.py", "eps=1e-6", "eps=1e-3", tolerance, [f"{BOUNDS}:Bound.of"]),
    ("oracle/bounds.py", "* 4 <=", "* 2 <=", tolerance, [f"{BOUNDS}:Bound.of"]),
    ("oracle/bounds.py", "<= self", "< self", tolerance, [f"{BOUNDS}:Bound.of"]),
    ("oracle/bounds.py", "* SLACK", "* SLACK * SLACK", tolerance, [f"{BOUNDS}:Bound.of"]),
    ("oracle/bounds.py", "values.abs()", "values.clamp()", tolerance, [f"{BOUNDS}:Bound.of"]),
    ("oracle/bounds.py", "return scaled * 4 <= self.factor", "return True", tolerance, [f"{BOUNDS}:Bound.of"]),
    ("oracle/bounds.py", "ULP as STEP", "WIDE as STEP", tolerance, [f"{BOUNDS}:STEP"]),
    ("tiny/driver.py", "BOUND = 0.5", "BOUND = 5.0", tolerance, ["tolerance:tiny/driver.py:BOUND"]),
    ("tiny/driver.py", "error <= BOUND,", "error <= BOUND * 2,", tolerance, ["tolerance:tiny/driver.py:Driver.check"]),
    (
        "tests/test_it.py",
        "def test_one",
        "@pytest.mark.xfail\ndef test_one",
        skips,
        ["skip:tests/test_it.py:test_one.xfail"],
    ),
    (
        "tests/test_it.py",
        "def test_one():\n",
        "def test_one():\n    pytest.skip('later')\n",
        skips,
        ["skip:tests/test_it.py:test_one.skip"],
    ),
    ("tests/test_it.py", "not GPU", "not GPU or True", skips, ["skip:tests/test_it.py:test_two.skipif"]),
    (
        "tests/test_it.py",
        "import pytest\n",
        "import pytest\ncollect_ignore = ['x']\n",
        skips,
        ["skip:tests/test_it.py:test_it.collect_ignore = ['x']"],
    ),
    (
        "tiny/budget.json",
        '"bytes_moved": 100',
        '"bytes_moved": 101',
        budget,
        ["budget:tiny/budget.json:gfx942.one.bytes_moved"],
    ),
    ("tiny/budget.json", '"bytes_moved": 90, ', "", budget, ["budget:tiny/budget.json:gfx950.one.bytes_moved"]),
    ("tiny/budget.json", '"arch": "gfx950"', '"arch": "gfx940"', budget, ["budget:tiny/budget.json:gfx950.one"]),
    (
        "mutants/tail-guard/row/mutant.toml",
        'check = "memcheck"',
        'check = ["memcheck", "oracle"]',
        mutants,
        ["mutant:mutants/tail-guard/row/mutant.toml:tail-guard/row.check"],
    ),
    (
        "mutants/tail-guard/row/mutant.toml",
        "cases =",
        'archs = ["gfx942"]\nequivalent = {reason = "r", expires = 2030-01-01}\ncases =',
        mutants,
        [f"mutant:mutants/tail-guard/row/mutant.toml:tail-guard/row.{what}" for what in ("equivalent", "archs")],
    ),
    (".ci/run", "--min-kill-rate 1.0", "--min-kill-rate 0.9", thresholds, ["threshold:.ci/run:--min-kill-rate"]),
    (".ci/run", " --min-kill-rate 1.0", "", thresholds, ["threshold:.ci/run:--min-kill-rate"]),
    (".ci/run", "--require emulated", "--require compile-only", thresholds, ["threshold:.ci/run:--require"]),
    (".ci/run", " --pass", "", thresholds, ["threshold:.ci/run:--pass"]),
    (".ci/run", "tests/\n", "tests/ --ignore=tests/oracle\n", thresholds, ["threshold:.ci/run:--ignore"]),
    (".ci/run", "tests/\n", "tests/ || true\n", thresholds, ["threshold:.ci/run:failure ignored"]),
    (".ci/run", "--report out.json", "--report out.json --skip contract", thresholds, ["threshold:.ci/run:--skip"]),
    (".ci/run", "pytest -n auto tests/\n", "", thresholds, ["threshold:.ci/run:pytest"]),
    ("tiny/operation.py", "range(1, 6)", "range(1, 5)", grid, ["grid:tiny.value.v5"]),
    (
        "tiny/operation.py",
        'shift=("shift"',
        'shift=("scale"',
        grid,
        ["grid:tiny.kernel.shift", "grid:tiny.paths.shift"],
    ),
    ("tiny/operation.py", "2**20", "2**10", grid, ["grid:tiny.value.big"]),
    ("tiny/operation.py", '"v", 1, 64', '"v", 1, 32', grid, ["grid:tiny.value.between"]),
    ("tiny/operation.py", "value != 5", "value not in (4, 5)", grid, ["grid:tiny.pairs.kernel-value"]),
    (
        "tiny/operation.py",
        'paths=lambda params: (params["kernel"],)',
        "paths=lambda params: ()",
        grid,
        ["grid:tiny.paths.shift", "grid:tiny.paths.scale"],
    ),
    (
        "tiny/operation.py",
        "launches=lambda params: True",
        "launches=lambda params: False",
        grid,
        ["grid:tiny.launches"],
    ),
    ("tiny/operation.py", '"vgprs": 64', '"vgprs": 65', grid, ["limit:tiny.vgprs"]),
    ("tiny/operation.py", 'limits={"vgprs": 64},', "", grid, ["limit:tiny.vgprs"]),
    (
        "tiny/operation.py",
        'CONTRACT = (ContractRow("negative"',
        'CONTRACT = (ContractRow("below"',
        grid,
        ["contract:tiny.negative"],
    ),
    ("tiny/operation.py", '("value", "negative")),', '("value",)),', grid, ["contract:tiny.negative.mentions"]),
    ("tiny/operation.py", '"ValueError"', '"Exception"', grid, ["contract:tiny.negative.error"]),
    ("tiny/operation.py", 'CostCase("one"', 'CostCase("two"', grid, ["cost:gfx942.one", "cost:gfx950.one"]),
    ("tiny/operation.py", 'name="tiny",', 'name="other",', grid, ["grid:tiny"]),
]


@pytest.mark.parametrize(("file", "old", "new", "rule", "expected"), SEEN, ids=range(len(SEEN)))
def test_a_change_that_demands_less_is_found(
    pair: Pair,
    description: JsonDict,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    old: str,
    new: str,
    rule: Any,
    expected: list[str],
) -> None:
    monkeypatch.setattr(grid, "described", lambda trees, reference: copy.deepcopy(description))
    pair.put(file, old, new)
    assert sorted(pair.found(rule)) == sorted(expected)


QUIET = [
    ("oracle/bounds.py", "SLACK = 1.5", "#: A share.\nSLACK = 1.5  # as derived"),
    ("oracle/bounds.py", '"""Its value for some values."""', '"""Another 3.5 words."""'),
    ("oracle/bounds.py", "class Bound:", "class Other:\n    factor = 9.0\n\n\nclass Bound:"),
    ("tiny/driver.py", "time.sleep(0.05)", "time.sleep(0.1)"),
    ("tests/test_it.py", 'reason="needs a GPU"', 'reason="there is no GPU"'),
    ("tests/test_it.py", "def test_one", "def test_three():\n    assert 1\n\n\ndef test_one"),
    ("tiny/budget.json", '"bytes_moved": 100', '"bytes_moved": 99'),
    ("mutants/tail-guard/row/mutant.toml", "the guard is gone", "no guard"),
    (".ci/run", "--min-kill-rate 0.1", "--min-kill-rate 0.0"),
    (".ci/run", "--require emulated", "--require runtime"),
    (".ci/run", "set -e\n", "set -e\npytest tests/more\n"),
    ("tiny/operation.py", "range(1, 6)", "range(1, 7)"),
    ("tiny/operation.py", '"v", 1, 64', '"v", 1, 65'),
    ("tiny/operation.py", '"vgprs": 64', '"vgprs": 32'),
    ("tiny/operation.py", '("value", "negative")),', '("value", "negative", "0")),'),
    ("tiny/operation.py", "value != 5", "True"),
]


@pytest.mark.parametrize(("file", "old", "new"), QUIET, ids=range(len(QUIET)))
def test_a_change_that_demands_no_less_is_no_finding(
    pair: Pair, description: JsonDict, monkeypatch: pytest.MonkeyPatch, file: str, old: str, new: str
) -> None:
    monkeypatch.setattr(grid, "described", lambda trees, reference: copy.deepcopy(description))
    pair.put(file, old, new)
    assert [
        name for rule in (tolerance, skips, suite, grid, budget, mutants, thresholds) for name in pair.found(rule)
    ] == []


def test_what_moves_to_another_file_unchanged_is_no_finding(pair: Pair) -> None:
    (pair.head / "oracle/bounds.py").rename(pair.head / "oracle/limits.py")
    (pair.head / "tests/test_it.py").rename(pair.head / "tests/test_that.py")
    assert pair.found(tolerance) + pair.found(skips) == []


def test_what_moves_and_changes_is_one(pair: Pair) -> None:
    pair.put("oracle/bounds.py", "SLACK = 1.5", "SLACK = 2.5")
    (pair.head / "oracle/bounds.py").rename(pair.head / "oracle/limits.py")
    assert pair.found(tolerance) == ["tolerance:oracle/limits.py:SLACK"]


def test_what_leaves_the_oracle_is_one(pair: Pair) -> None:
    (pair.head / "oracle/bounds.py").unlink()
    names = ("STEP", "SLACK", "NAMES", "Bound.factor", "Bound.of")
    assert sorted(pair.found(tolerance)) == sorted(f"{BOUNDS}:{name}" for name in names)


def test_a_test_file_removed_is_one_for_each_test(pair: Pair) -> None:
    (pair.head / MACHINE).unlink()
    assert pair.found(suite) == [f"test:{MACHINE}:test_many", f"test:{MACHINE}:TestKept.test_method"]


def test_a_test_that_moved_is_none_and_one_of_two_that_went_is_one(pair: Pair) -> None:
    (pair.head / MACHINE).rename(pair.head / "tests/test_moved.py")
    assert pair.found(suite) == []
    (pair.base / "tests/test_moved.py").write_text(MACHINERY)
    assert pair.found(suite) == [f"test:{MACHINE}:test_many", f"test:{MACHINE}:TestKept.test_method"]


def test_what_judges_may_not_change_with_what_is_judged_unseen(pair: Pair) -> None:
    def notes() -> list[str]:
        with tiny.importable(pair.head):
            given = policy.compared(pair.base, pair.head, load_operation(tiny.REFERENCE), tiny.REFERENCE, 0)
            return policy.notes(given)

    assert notes() == []
    pair.put("validation/stages/judge.py", "return case", "return 'pass'")
    pair.put("tiny/driver.py", "error <= BOUND,", "True,")
    pair.put("oracle/bounds.py", '"""Bounds."""', '# of errors\n"""Bounds."""')  # says nothing else
    (pair.head / "validation/stages/new.py").write_text("1\n")  # nobody names it yet
    said = "the change is to what judges, not to the code under test: tiny/driver.py, validation/stages/judge.py"
    assert (pair.found(machinery), notes()) == ([], [said])
    pair.put("tiny/host.py", "if value < 0", "if value <= 0")
    assert (pair.found(machinery), notes()) == (["judge:tiny", "judge:validation/stages"], [])
    (pair.head / "validation/stages/judge.py").unlink()
    assert pair.found(machinery) == ["judge:tiny", "judge:validation/stages"]


def test_a_mutant_removed_is_one(pair: Pair) -> None:
    (pair.head / "mutants/tail-guard/row/mutant.toml").unlink()
    assert pair.found(mutants) == ["mutant:mutants/tail-guard/row/mutant.toml:tail-guard/row"]


def test_a_budget_removed_is_one_for_each_row(pair: Pair) -> None:
    (pair.head / "tiny/budget.json").unlink()
    assert pair.found(budget) == ["budget:tiny/budget.json:gfx942.one", "budget:tiny/budget.json:gfx950.one"]


def test_a_base_that_cannot_be_read_is_a_finding_and_never_silence(pair: Pair) -> None:
    (pair.base / "tiny/operation.py").write_text("raise RuntimeError('half a commit')\n")
    assert pair.found(grid) == ["grid:tiny.unknown"]


@pytest.mark.parametrize("accepted", [False, True])
def test_a_finding_keeps_a_verdict_from_pass_until_it_is_accepted(accepted: bool) -> None:
    counts = {"pass": 1, "fail": 0, "error": 0, "skip": 0, "total": 1}
    stage = {"name": "correctness", "status": "pass", "evidence": "emulated", "settles": True, "deselected": False}
    stages = [stage | {"counts": counts, "cases": [], "planned": 1, "reason": ""}]
    finding = policy.Finding("tolerance", "oracle/bounds.py", "SLACK", "value changed", "1.5", "2.5", 3)
    base = {"policy": [finding.as_json(accepted)], "red": {"red on both": []}}
    verdict = decide(stages, None, (), base)
    assert verdict["result"] == ("PASS" if accepted else "INCONCLUSIVE")
    assert verdict["reasons"] == (
        [] if accepted else ["policy: value changed: tolerance:oracle/bounds.py:SLACK: 1.5 -> 2.5"]
    )
