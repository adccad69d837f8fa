"""The device module of the stand-in: it claims to be hardware, which only tests may."""

from __future__ import annotations

import json
import os

from tests.calibrate import tiny
from tests.calibrate.fake_hip import FakeRunner
from validation.devices import Claim

LEVEL = "runtime"
COVERS = {"checks": ["none"], "schedules": "none", "memory": "none"}
FAULTS = "CALIBRATE_FAULTS"


def claim(arch: str) -> Claim:
    return Claim("hip", LEVEL, True, "a stand-in that answers from the emulator")


def worker_environment(arch: str) -> dict[str, str]:
    return {"ARCH": arch, FAULTS: os.environ.get(FAULTS, "[]")}


def open_bench(arch: str) -> tiny.Bench:
    return tiny.Bench(arch, LEVEL)


def open_runner(arch: str) -> FakeRunner:
    return FakeRunner([(part, what) for part, what in json.loads(os.environ[FAULTS])])
