"""Compiled programs give the same bits whenever their memory operations complete, and wait for all that they use."""

from __future__ import annotations

import json

import pytest

from tests.forked import emulated, run_module

from .probe import ARCHS

#: Loads into LDS, gathers, split-K, LDS reductions.
PROGRAMS = ("async_copy", "gather_scatter", "gemm_split_k", "rms_norm")


@pytest.mark.parametrize("arch", ARCHS)
def test_latest_completion_changes_nothing(arch: str) -> None:
    done = run_module("tests.emulator.waits.programs_worker", *PROGRAMS, environment=emulated(arch))
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    for name in PROGRAMS:
        earliest, latest = results[name]
        assert earliest["digests"], name
        assert earliest["findings"] == earliest["failed"] == [], name
        assert latest == earliest, name
