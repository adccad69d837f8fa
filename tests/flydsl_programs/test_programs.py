"""Every program on every architecture, run by the emulator through FlyDSL's own front door.

One process an architecture runs them all, as FlyDSL takes its target from the environment.
"""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.forked import emulated, run_module

from . import PROGRAMS

SCHEDULES = {"gfx942": "lockstep", "gfx950": "random:1"}
"""How each architecture's waves take turns: in neither way may a program give a wrong value or a finding."""
MINIMUM_CASES = {"mfma_builtins": 9, "warp_collectives": 14, "gemm_tiled": 8, "softmax": 3, "async_copy": 2}


@functools.cache
def outcomes(arch: str) -> dict[str, dict[str, Any]]:
    """Results of the worker, by program."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "results.json")
        done = run_module(
            "tests.flydsl_programs.worker", "--out", str(out), "--schedule", SCHEDULES[arch], environment=emulated(arch)
        )
        assert done.returncode == 0, done.stderr
        return {result["program"]: result for result in json.loads(out.read_text())}


@pytest.mark.parametrize("arch", SCHEDULES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_program(arch: str, program: str) -> None:
    result = outcomes(arch)[program]
    assert result["error"] is None, result["error"]
    assert result["launches"] > 0
    assert result["findings"] == []
    assert len(result["cases"]) >= MINIMUM_CASES.get(program, 1)
    assert [case for case in result["cases"] if not case["passed"]] == []
