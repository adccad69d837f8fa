"""Edits fit exactly once or not at all, and the overlay serves edited modules and nothing else."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from validation.mutation.edit import Edit, EditError, Overlay, edited_sources, module_name, variant


@pytest.fixture
def root(tmp_path: Path) -> Path:
    package = tmp_path / "root" / "mutpkg"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text("VALUE = 1\n")
    (package / "two.py").write_text("from mutpkg.one import VALUE\n\nDOUBLE = VALUE * 2\n")
    (package / "data.json").write_text("[1]")
    (package / "table.py").write_text(
        "from pathlib import Path\n\nTEXT = Path(__file__).with_name('data.json').read_text()\n"
    )
    return tmp_path / "root"


@pytest.fixture
def importable(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(root))
    yield root
    for name in [name for name in sys.modules if name.partition(".")[0] == "mutpkg"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (Edit("mutpkg/one.py", "VALUE = 2", "VALUE = 3"), "occurs 0 times"),
        (Edit("mutpkg/two.py", "VALUE", "x"), "occurs 2 times"),
        (Edit("mutpkg/one.py", "VALUE = 1", "VALUE = 1"), "same text"),
        (Edit("mutpkg/one.py", "", "x"), "occurs 0 times"),
        (Edit("mutpkg/none.py", "a", "b"), "no such file"),
        (Edit("../outside.py", "a", "b"), "no such file"),
        (Edit("mutpkg/one.py", "VALUE = 1", "VALUE = ("), "no Python after the edit"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(root: Path, edit: Edit, words: str) -> None:
    (root.parent / "outside.py").write_text("a")
    with pytest.raises(EditError, match=words):
        edited_sources([edit], root)


def test_edits_of_one_file_follow_each_other(root: Path) -> None:
    edits = [Edit("mutpkg/one.py", "1", "2"), Edit("mutpkg/one.py", "2", "3")]
    assert edited_sources(edits, root) == {"mutpkg/one.py": "VALUE = 3\n"}
    assert (root / "mutpkg/one.py").read_text() == "VALUE = 1\n"


def test_module_names() -> None:
    assert module_name("a/b/c.py") == "a.b.c"
    assert module_name("a/b/__init__.py") == "a.b"


def test_variant_swaps_and_restores(importable: Path) -> None:
    two = importlib.import_module("mutpkg.two")
    one = sys.modules["mutpkg.one"]
    with variant([Edit("mutpkg/one.py", "1", "5")], ("mutpkg.two",), importable) as modules:
        assert importlib.import_module("mutpkg.one").VALUE == 5
        assert modules["mutpkg.two"].DOUBLE == 10
        assert sys.modules["mutpkg"].two is modules["mutpkg.two"]
    assert sys.modules["mutpkg.one"] is one
    assert sys.modules["mutpkg.two"] is two
    assert sys.modules["mutpkg"].one.VALUE == 1


def test_variant_restores_after_a_failure(importable: Path) -> None:
    one = importlib.import_module("mutpkg.one")
    with pytest.raises(ZeroDivisionError), variant([Edit("mutpkg/one.py", "1", "1 / 0")], (), importable):
        pass
    assert sys.modules["mutpkg.one"] is one
    assert not any(isinstance(finder, Overlay) for finder in sys.meta_path)


def test_variant_reads_its_source_from_a_file(importable: Path) -> None:
    with variant([Edit("mutpkg/one.py", "1", "5")], (), importable) as modules:
        assert Path(modules["mutpkg.one"].__file__ or "").read_text() == "VALUE = 5\n"


def test_edited_data_is_found_beside_its_module(importable: Path) -> None:
    with variant([Edit("mutpkg/data.json", "1", "2")], (), importable) as modules:
        assert modules["mutpkg.table"].TEXT == "[2]"
    assert importlib.import_module("mutpkg.table").TEXT == "[1]"


def test_overlay_refuses_a_module_that_is_imported_already(importable: Path, tmp_path: Path) -> None:
    importlib.import_module("mutpkg.one")
    overlay = Overlay({"mutpkg/one.py": "VALUE = 2\n"}, tmp_path / "overlay", importable)
    with pytest.raises(EditError, match=r"mutpkg\.one: imported before"):
        overlay.install()
    assert overlay not in sys.meta_path


def test_overlay_serves_a_package_and_leaves_its_other_modules(importable: Path, tmp_path: Path) -> None:
    overlay = Overlay({"mutpkg/__init__.py": "NAME = 'edited'\n"}, tmp_path / "overlay", importable)
    overlay.install()
    try:
        assert importlib.import_module("mutpkg").NAME == "edited"
        assert importlib.import_module("mutpkg.one").__file__ == str(importable / "mutpkg/one.py")
    finally:
        overlay.remove()
    assert overlay.real_paths(f"at {tmp_path}/overlay/mutpkg/one.py:3") == "at mutpkg/one.py:3"
