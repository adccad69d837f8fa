"""Policy findings about tests: tables of parameters wherever they stand, and what pytest is told."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from validation.base import policy
from validation.base.policy import Tree, Trees, hooks, pytest_options, skips, slack, suite, thresholds

TABLES = """\
MORE = {"x": 1, "y": 2}
SIZES = [1, 4096, *range(3)]
SIZES += [7]
NAMES = tuple(MORE) + ("z",)
PAIRS = [(1, 2), (3, 4)]
"""
TESTS = """\
import pytest
from itertools import product
from hypothesis import given, settings
import shapes
from shapes import MORE, NAMES, SIZES as ROWS
from tests.support.made import made
pytestmark = pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
OWN = [pytest.param(1, 2, id="first"), pytest.param(3, 4, id="second")]


@pytest.mark.parametrize("m", ROWS)
def test_sizes(m):
    assert m


@pytest.mark.parametrize(("a", "b"), shapes.PAIRS)
def test_pairs(a, b):
    assert a


@pytest.mark.parametrize("name", [n for n in NAMES])
@pytest.mark.parametrize(argnames="key,value", argvalues=MORE.items())
def test_names(name, key, value):
    assert name


@pytest.mark.parametrize("a, b", OWN)
class TestOwn:
    def test_one(self, a, b):
        assert a


@pytest.mark.parametrize("x", made())
def test_made(x):
    assert x


@pytest.mark.parametrize(("i", "j"), list(product(range(len(ROWS)), "a b c".split())))
def test_product(i, j):
    assert i


@settings(max_examples=200, deadline=None)
@given(...)
def test_drawn(x):
    assert x
"""
HELPED = """\
import pytest
from helper import close

RTOL = 1e-3


def test_close():
    close(1, 1)
    assert abs(1 - 1) <= RTOL


class TestHeld:
    def test_one(self):
        assert True
"""
HELPER = "def close(a, b, tol=1e-3):\n    assert abs(a - b) < tol\n"
CONFTEST = """\
import pytest

LIMIT = 3


def pytest_collection_modifyitems(items):
    \"\"\"Sort.\"\"\"
    items.sort()


@pytest.fixture(autouse=True)
def seeded():
    seed(0)


@pytest.fixture(params=["a", "b"])
def kind(request):
    return request.param


@pytest.fixture
def asked():
    return LIMIT
"""
PROJECT = """\
[project]
dependencies = ["pytest", "torch"]
[tool.pytest.ini_options]
testpaths = ["tests", "more"]
addopts = "-ra --strict-markers -n 2"
xfail_strict = true
filterwarnings = ["error"]
markers = ["slow: takes long"]
"""
CI = """\
jobs:
  with:
    accept-policy: ${{ inputs.accept }}
  run: |
    python -m pytest -q tests/ more/  # pytest -k nothing
    PYTEST_ADDOPTS="-ra" .venv/bin/pytest tests
"""
FILES = {
    "tests/shapes.py": TABLES,
    "tests/support/made.py": "from shapes import MORE\n\n\ndef made():\n    return list(MORE)\n",
    "tests/test_it.py": TESTS,
    "tests/conftest.py": CONFTEST,
    "tests/test_held.py": HELPED,
    "tests/helper.py": HELPER,
    "Makefile": "test:\n\tpytest -n auto tests/\n",
    "pyproject.toml": PROJECT,
    ".github/workflows/ci.yml": CI,
}
HELD, BY = "tests/test_held.py", "tests/helper.py"
IT, CONF, CI_FILE = "tests/test_it.py", "tests/conftest.py", ".github/workflows/ci.yml"


def written(root: Path, files: dict[str, str]) -> Tree:
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    for name, text in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return Tree(root)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return written(tmp_path_factory.mktemp("base"), FILES)


def compared(base: Tree, root: Path, files: dict[str, str | None]) -> Trees:
    head = {name: text for name, text in (FILES | files).items() if text is not None}
    nothing: Any = None
    return Trees(base, written(root, head), nothing, "", 0)


def changed(file: str, old: str, new: str) -> dict[str, str | None]:
    assert FILES[file].count(old) == 1
    return {file: FILES[file].replace(old, new)}


RULES = (suite, slack, hooks, skips, pytest_options, thresholds)
SEEN: list[tuple[str, str, str, list[str]]] = [
    # tables in another file
    ("tests/shapes.py", "*range(3)", "*range(2)", ["test_sizes.parameters", "test_product.parameters"]),
    ("tests/shapes.py", "SIZES += [7]\n", "", ["test_sizes.parameters", "test_product.parameters"]),
    ("tests/shapes.py", "4096", "2", ["test_sizes.parameters.m"]),
    ("tests/shapes.py", ", (3, 4)", "", ["test_pairs.parameters"]),
    ("tests/shapes.py", '"y": 2', '"w": 2', ["test_names.parameters.name", "test_names.parameters.key,value"]),
    ("tests/shapes.py", '("z",)', "()", ["test_names.parameters"]),
    # in the test's own file, and its class, and for all of it
    (IT, ', pytest.param(3, 4, id="second")', "", ["TestOwn.test_one.parameters"]),
    (IT, 'id="second"', 'id="other"', ["TestOwn.test_one.parameters.a,b"]),
    (IT, "argvalues=MORE.items()", "argvalues=[(1, 2)]", ["test_names.parameters"]),
    (IT, "max_examples=200", "max_examples=20", ["test_drawn.examples"]),
    (IT, '"a b c"', '"a b"', ["test_product.parameters"]),
    # what conftest.py tells
    (CONF, "items.sort()", "items[:] = items[:1]", [f"pytest:{CONF}:pytest_collection_modifyitems"]),
    (CONF, "seed(0)", "patch()", [f"pytest:{CONF}:seeded"]),
    (CONF, "(autouse=True)", "", [f"pytest:{CONF}:seeded"]),
    (CONF, '["a", "b"]', '["a"]', [f"test:{CONF}:kind.parameters"]),
    (CONF, "LIMIT = 3", "pytest_plugins = ['x']", [f"pytest:{CONF}:pytest_plugins"]),
    (
        CONF,
        "LIMIT = 3",
        "collect_ignore_glob = ['*_slow.py']",
        [f"skip:{CONF}:conftest.collect_ignore_glob = ['*_slow.py']"],
    ),
    # tolerances of tests, and assertions that say nothing
    (HELD, "RTOL = 1e-3", "RTOL = 1e3", [f"tolerance:{HELD}:(file)"]),
    (HELD, "abs(1 - 1) <= RTOL", "1 == pytest.approx(1, rel=0.5)", [f"tolerance:{HELD}:test_close"]),
    (HELD, "abs(1 - 1) <= RTOL", "torch.allclose(a, b, 0.5)", [f"tolerance:{HELD}:test_close"]),
    (BY, "tol=1e-3", "tol=1e3", [f"tolerance:{BY}:close"]),
    (BY, "assert abs(a - b) < tol", "return", [f"test:{BY}:close.asserts"]),
    (
        HELD,
        "    close(1, 1)\n",
        "    return\n    close(1, 1)\n",
        [f"test:{HELD}:test_close.asserts", f"test:{HELD}:test_close.asserts.dead"],
    ),
    (HELD, "    assert abs", "    if False:\n        assert abs", [f"test:{HELD}:test_close.asserts.dead"]),
    (
        HELD,
        "    close(1, 1)\n",
        "    try:\n        close(1, 1)\n    except AssertionError:\n        pass\n",
        [f"test:{HELD}:test_close.asserts.caught"],
    ),
    (HELD, "TestHeld:", "TestHeld:\n    __test__ = False\n", [f"skip:{HELD}:TestHeld.__test__ = False"]),
    (HELD, "import pytest", "from pytest import mark as m, skip\nskip('x')", [f"skip:{HELD}:test_held.skip"]),
    (HELD, "import pytest", "from pytest import mark as m\npytestmark = m.skip", [f"skip:{HELD}:test_held.skip"]),
    (
        CI_FILE,
        "inputs.accept }}",
        "inputs.accept || 'tolerance:x' }}",
        [f"threshold:{CI_FILE}:accept-policy"],
    ),
    ("Makefile", "tests/", "tests/; true", ["threshold:Makefile:failure overwritten"]),
    ("Makefile", "tests/", "tests/ | tee log", ["threshold:Makefile:output piped"]),
    # settings, and options of commands
    ("pyproject.toml", ', "more"', "", ["pytest:pyproject.toml:testpaths"]),
    ("pyproject.toml", "xfail_strict = true\n", "", ["pytest:pyproject.toml:xfail_strict"]),
    ("pyproject.toml", '["error"]', '["ignore"]', ["pytest:pyproject.toml:filterwarnings"]),
    ("pyproject.toml", "-n 2", "-n 2 -k 'not slow'", ["threshold:pyproject.toml:-k"]),
    ("pyproject.toml", "-n 2", "--deselect=tests/a.py::b", ["threshold:pyproject.toml:--deselect"]),
    ("pyproject.toml", " --strict-markers", "", ["threshold:pyproject.toml:--strict-markers"]),
    ("pyproject.toml", "xfail", 'python_files = ["test_a*.py"]\nxfail', ["pytest:pyproject.toml:python_files"]),
    (CI_FILE, "-q tests/", '-q -m "not slow" tests/', [f"threshold:{CI_FILE}:-m"]),
    (CI_FILE, "-q tests/", "-q --co tests/", [f"threshold:{CI_FILE}:--co"]),
    (CI_FILE, "tests/ more/", "tests/", [f"pytest:{CI_FILE}:paths"]),
    (CI_FILE, '"-ra"', '"-k fast"', [f"threshold:{CI_FILE}:-k"]),
]


@pytest.mark.parametrize(("file", "old", "new", "expected"), SEEN, ids=range(len(SEEN)))
def test_what_demands_less_of_tests_is_found(
    base: Tree, tmp_path: Path, file: str, old: str, new: str, expected: list[str]
) -> None:
    trees = compared(base, tmp_path, changed(file, old, new))
    found = sorted(finding.name for rule in RULES for finding in rule.find(trees))
    assert found == sorted(name if ":" in name else f"test:{IT}:{name}" for name in expected)


QUIET: list[tuple[str, str, str]] = [
    ("tests/shapes.py", '("z",)', '("z", "zz")'),
    ("tests/shapes.py", "(3, 4)", "(3, 5)"),  # rows of several parts are counted, and not read
    ("tests/shapes.py", "NAMES = tuple(MORE) + (", "NAMES = (*MORE, *["),
    (IT, "from shapes import MORE, NAMES, SIZES as ROWS", "from shapes import MORE, NAMES, SIZES\nROWS = SIZES"),
    (IT, "max_examples=200", "max_examples=300"),
    (CONF, "Sort.", "Sort them."),
    (HELD, "close(1, 1)", "close(2, 1 + 1)"),
    (HELD, "    close(1, 1)\n", "    try:\n        close(1, 1)\n    except ValueError:\n        raise\n"),
    (BY, "def close", "def other(n):\n    return n\n\n\ndef close"),
    ("Makefile", "-n auto tests/", "-n auto tests/ || exit 1"),
    ("pyproject.toml", '"more"', '"more", "others"'),
    ("pyproject.toml", "takes long", "takes very long"),
    ("pyproject.toml", "-n 2", "-n 4 -q --durations 3"),
    (CI_FILE, "-q tests/", "-q -n auto tests/ another/"),
    (CI_FILE, "pytest -k nothing", "pytest -k something"),
]


@pytest.mark.parametrize(("file", "old", "new"), QUIET, ids=range(len(QUIET)))
def test_what_demands_no_less_is_no_finding(base: Tree, tmp_path: Path, file: str, old: str, new: str) -> None:
    files = changed(file, old, new)
    if "(*MORE" in new:
        files = {file: str(files[file]).replace('["z",)', '["z"])')}
    trees = compared(base, tmp_path, files)
    assert [finding.name for rule in RULES for finding in rule.find(trees)] == []


@pytest.mark.parametrize("name", ["pytest.ini", "tests/pytest.ini", "tox.ini"])
def test_another_configuration_takes_the_place_of_the_one_before(base: Tree, tmp_path: Path, name: str) -> None:
    trees = compared(base, tmp_path, {name: "[pytest]\naddopts = -x\n"})
    (finding,) = pytest_options.find(trees)
    assert (finding.name, finding.head) == (f"pytest:{name}:configuration", "addopts = -x")


def test_a_configuration_that_went_or_broke_is_one(base: Tree, tmp_path: Path) -> None:
    for i, text in enumerate((None, "[tool.pytest", "[project]\n")):
        trees = compared(base, tmp_path / str(i), {"pyproject.toml": text})
        assert [finding.name for finding in pytest_options.find(trees)] == ["pytest:pyproject.toml:configuration"]


def test_a_file_that_is_collected_no_more_has_lost_its_tests(base: Tree, tmp_path: Path) -> None:
    trees = compared(base, tmp_path, {HELD: None, "tests/held_off.py": HELPED})
    names = [f"test:{HELD}:test_close", f"test:{HELD}:TestHeld.test_one"]
    assert [finding.name for finding in suite.find(trees)] == names


def test_what_cannot_be_told_is_named(base: Tree, tmp_path: Path) -> None:
    def notes(i: int, files: dict[str, str | None]) -> list[str]:
        trees = compared(base, tmp_path / str(i), files)
        assert [finding.name for rule in RULES for finding in rule.find(trees)] == []
        return suite.notes(trees) + hooks.notes(trees)

    said = "not seen: tables of parameters that are computed changed, whether they hold less cannot be told: "
    assert notes(0, {}) == []
    assert notes(1, changed("tests/support/made.py", "list(MORE)", "list(MORE)[:1]")) == [f"{said}{IT}::test_made (x)"]
    computed = changed(IT, '"m", ROWS', '"m", [r for r in ROWS if r]')
    assert notes(2, computed) == [f"{said}{IT}::test_sizes (m)"]
    assert notes(3, changed(CONF, "LIMIT = 3", "LIMIT = 2")) == [f"not seen: what the change to {CONF} does to tests"]
    assert notes(4, changed(IT, "assert m\n", "assert m, m\n")) == []
    assert any("computed" in text for text in policy.BLIND.split(","))
