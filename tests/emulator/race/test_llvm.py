"""What LLVM makes of acquire and release is silent and works over weak memory; a relaxed or narrower twin is found."""

from __future__ import annotations

import pytest
import torch

from .llvm_idioms import RIGHT, WRONG, Message, assemble, run

pytest.importorskip("triton", reason="Triton, whose LLVM compiles these, has no wheel for this platform")

ARCHS = ("gfx942", "gfx950")
LANES = torch.arange(64, dtype=torch.int32)


#: arch, a schedule for racecheck, one for late operations over weak memory
TURNS = (("gfx942", "lockstep", "reversed"), ("gfx950", "random:1", "in-order"))


@pytest.mark.parametrize(("arch", "checked", "late"), TURNS)
@pytest.mark.parametrize("message", RIGHT, ids=str)
def test_right_is_silent_and_right(message: Message, arch: str, checked: str, late: str) -> None:
    text = assemble(message.text(), arch)
    result, out = run(text, message, schedule=checked, checks=("racecheck", "synccheck", "waits"))
    assert result.findings == ()
    assert (out == LANES).all()
    result, out = run(text, message, schedule=late, checks=("waits",), completion="latest", memory="weak")
    assert result.findings == ()
    assert (out == LANES).all()


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("message", WRONG, ids=str)
def test_wrong_is_found_under_every_schedule(message: Message, arch: str) -> None:
    text = assemble(message.text(), arch)
    for schedule in ("lockstep", "in-order", "reversed", "random:1"):
        result, _ = run(text, message, schedule=schedule, checks=("racecheck",))
        assert any(WRONG[message] in finding.message for finding in result.findings), (schedule, result.findings)
