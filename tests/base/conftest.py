"""Repositories with a tiny operation in them, and the device that it runs on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.insert(0, _HERE)

from tiny_repository import Repository, importable  # noqa: E402  (workers import this folder's modules by name, and so do tests)


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """A fresh repository with one commit; this process imports its package for as long as the test lasts."""
    made = Repository(tmp_path / "repository")
    with importable(made.root):
        yield made


@pytest.fixture(scope="module")
def shared_repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    """One for all tests of a module, which look at what one run has said."""
    made = Repository(tmp_path_factory.mktemp("shared") / "repository")
    with importable(made.root):
        yield made
