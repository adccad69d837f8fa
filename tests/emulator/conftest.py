"""Fixtures of several folders."""

from __future__ import annotations

import pytest

from validation.emulator import schedule
from validation.emulator.machine import engine


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch is watched, yields, and lets those run that have waited longest after a sixteenth of the turns that are
    shipped: a loop that never ends costs a second otherwise."""
    for name in ("WATCH_AFTER", "PATIENCE", "ROUND", "SHARE"):
        monkeypatch.setattr(engine, name, getattr(engine, name) // 16)
    monkeypatch.setattr(schedule, "ROUND", engine.ROUND)
