"""Fixtures of several files."""

from __future__ import annotations

import pytest
from mutation_fakes import FakePool

from validation import executors


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> type[FakePool]:
    monkeypatch.setattr(executors, "Pool", FakePool)
    FakePool.answers, FakePool.asked, FakePool.before = {}, [], {}
    FakePool.revised, FakePool.at_exit = [], []
    return FakePool
