"""Compiled programs give the same bits whenever their memory operations complete, and wait for all that they use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .probe import ARCHS

ROOT = Path(__file__).parents[3]
#: Loads into LDS, gathers, split-K, LDS reductions.
PROGRAMS = ("async_copy", "gather_scatter", "gemm_split_k", "rms_norm")


@pytest.mark.parametrize("arch", ARCHS)
def test_latest_completion_changes_nothing(arch: str) -> None:
    environment = {
        **os.environ,
        "FLYDSL_COMPILE_BACKEND": "emulator",
        "FLYDSL_RUNTIME_ENABLE_CACHE": "0",
        "ARCH": arch,
        "FLYDSL_GPU_ARCH": arch,
    }
    environment.pop("COMPILE_ONLY", None)
    command = [sys.executable, "-m", "tests.emulator.waits.programs_worker", *PROGRAMS]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    for name in PROGRAMS:
        earliest, latest = results[name]
        assert earliest["digests"], name
        assert earliest["findings"] == earliest["failed"] == [], name
        assert latest == earliest, name
