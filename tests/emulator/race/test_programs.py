"""No false alarm on FlyDSL's own way of writing kernels, and the right values, under two schedules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flydsl_programs import PROGRAMS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(("arch", "schedule"), [("gfx942", "lockstep"), ("gfx950", "random:1")])
def test_flydsl_programs_are_silent(arch: str, schedule: str) -> None:
    environment = {
        **os.environ,
        "FLYDSL_COMPILE_BACKEND": "emulator",
        "FLYDSL_RUNTIME_ENABLE_CACHE": "0",
        "ARCH": arch,
        "FLYDSL_GPU_ARCH": arch,
    }
    command = [sys.executable, "-m", "tests.emulator.race.programs_worker", schedule]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sorted(found) == sorted(PROGRAMS)
    assert {name: what for name, what in found.items() if what} == {}
