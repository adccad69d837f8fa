"""Runs this folder's worker scripts, each in a process of its own: FlyDSL reads its target once a process."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from hcgr.arch import ARCHS


def takes_turn(arch: str, index: int, on_both: int = 1) -> bool:
    """Whether the case ``index`` of a list runs on ``arch``: the first ones run on each architecture, the others on one
    of the two, for hcgr-validate runs far more on each."""
    return index < on_both or index % len(ARCHS) != list(ARCHS).index(arch)


@cache
def run_worker(script: str, arch: str, request: str = "") -> subprocess.CompletedProcess[str]:
    """One run of `script` for `arch`; cached whether it succeeds or not."""
    repository = str(Path(__file__).parents[2])
    search_path = os.pathsep.join([repository, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, str(Path(__file__).with_name(script)), arch],
        input=request,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": search_path},
        timeout=300,
    )
