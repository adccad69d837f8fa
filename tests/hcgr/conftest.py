"""Fixtures of the hcgr tests. No kernel runs here: launches go to :mod:`tests.hcgr.standin`."""

from __future__ import annotations

import pytest

from hcgr import dispatch

from .calls import NoLaunch
from .standin import StandIn


@pytest.fixture
def standin(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """CPU tensors count as runnable, as under the emulator, and handles are stand-ins."""
    standin = StandIn()
    monkeypatch.setenv(dispatch.BACKEND_VARIABLE, "emulator")
    monkeypatch.setattr(dispatch, "_compile", standin)
    monkeypatch.setattr(dispatch, "_handles", {})
    # The configured target, without asking FlyDSL to load a backend called "emulator".
    monkeypatch.setattr("hcgr.arch.configured", lambda: "gfx942")
    return standin


@pytest.fixture
def no_launch(monkeypatch: pytest.MonkeyPatch) -> NoLaunch:
    """As `standin`, with handles that record their launch and do nothing."""
    recorder = NoLaunch()
    monkeypatch.setenv(dispatch.BACKEND_VARIABLE, "emulator")
    monkeypatch.setattr(dispatch, "_compile", recorder)
    monkeypatch.setattr(dispatch, "_handles", {})
    monkeypatch.setattr("hcgr.arch.configured", lambda: "gfx942")
    return recorder
