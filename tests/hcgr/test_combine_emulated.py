"""COMBINE's machine code in the emulator, on both architectures, with memcheck."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hcgr.arch import ARCHS

from .emulated_worker import CASES
from .workers import run_worker


def results(arch: str, case: int) -> list[dict[str, Any]]:
    """The exact and the bounded run of one case."""
    done = run_worker("emulated_worker.py", arch)
    assert done.returncode == 0, done.stderr
    exact_and_bounded: list[dict[str, Any]] = json.loads(done.stdout)[case]
    return exact_and_bounded


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("case", range(len(CASES)), ids=[str(case) for case in CASES])
def test_values_and_memory(arch: str, case: int) -> None:
    exact, bounded = results(arch, case)
    assert exact["launches"] == bounded["launches"] == 1
    assert exact["findings"] == bounded["findings"] == []
    assert exact["different"] == 0
    assert bounded["over_bound"] == 0
