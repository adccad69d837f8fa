"""Runs this folder's worker scripts, each in a process of its own: FlyDSL reads its target once a process."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from hcgr.arch import ARCHS
from tests.forked import run_module

Entry = TypeVar("Entry")


def takes_turn(arch: str, index: int, on_both: int = 1) -> bool:
    """Whether the case ``index`` of a list runs on ``arch``: the first ones run on each architecture, the others on one
    of the two, for hcgr-validate runs far more on each."""
    return index < on_both or index % len(ARCHS) != list(ARCHS).index(arch)


def in_turn(arch: str, entries: Sequence[Entry], on_both: int) -> list[Entry]:
    """Those of ``entries`` whose turn it is on ``arch``."""
    return [entry for index, entry in enumerate(entries) if takes_turn(arch, index, on_both)]


@cache
def run_worker(script: str, arch: str, request: str = "") -> subprocess.CompletedProcess[str]:
    """One run of `script` for `arch`; cached whether it succeeds or not."""
    return run_module(f"{__package__}.{script.removesuffix('.py')}", arch, text=request, timeout=300)
