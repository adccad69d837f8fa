"""Runs FlyDSL programs twice, earliest on flat memory and latest on weak memory, and writes JSON: ``NAME...``.

Both under the ``waits`` check. A launch's digest is over every allocation that it could reach.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from typing import Any
from unittest import mock

import numpy as np
import torch

from validation.emulator import emulate
from validation.emulator.dispatch import Launch
from validation.emulator.memory.space import AddressSpace

SEED = 20250521
MODES: tuple[dict[str, str], ...] = ({}, {"completion": "latest", "memory": "weak"})


def digest(space: AddressSpace) -> str:
    total = hashlib.sha256()
    for allocation in sorted(space.allocations, key=lambda a: (a.name, a.size)):
        interface = {"version": 3, "typestr": "|u1", "shape": (allocation.size,), "data": (allocation.base, True)}
        total.update(np.asarray(type("Span", (), {"__array_interface__": interface})()).tobytes())
    return total.hexdigest()


def run(name: str, options: dict[str, str]) -> dict[str, Any]:
    """Digests after each launch, failed cases and findings of one program."""
    digests: list[str] = []
    close = Launch.close

    def close_and_digest(launch: Launch) -> None:
        close(launch)
        digests.append(digest(launch.space))

    with emulate(checks=("waits",), **options) as session, mock.patch.object(Launch, "close", close_and_digest):
        module = importlib.import_module(f"tests.flydsl_programs.{name}")
        cases = list(module.run(torch.Generator().manual_seed(SEED)))
    failed = [str(case) for case in cases if not case.passed]
    return {"digests": digests, "failed": failed, "findings": [str(f) for f in session.findings]}


if __name__ == "__main__":
    json.dump({name: [run(name, dict(options)) for options in MODES] for name in sys.argv[1:]}, sys.stdout)
