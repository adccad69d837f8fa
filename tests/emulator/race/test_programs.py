"""No false alarm on FlyDSL's own way of writing kernels, and the right values, under two schedules."""

from __future__ import annotations

import json

import pytest

from tests.flydsl_programs import PROGRAMS
from tests.forked import emulated, run_module

#: In the others no wave sees what another one has written.
SHARING = tuple(
    name for name in PROGRAMS if name not in ("vector_add", "mfma_builtins", "buffer_clamp", "register_array")
)


@pytest.mark.parametrize(("arch", "schedule"), [("gfx942", "lockstep"), ("gfx950", "random:1")])
def test_flydsl_programs_are_silent(arch: str, schedule: str) -> None:
    done = run_module("tests.emulator.race.programs_worker", schedule, *SHARING, environment=emulated(arch))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sorted(found) == sorted(SHARING)
    assert {name: what for name, what in found.items() if what} == {}
