"""Small reports of every kind for the tests of ``validation.report``, made by real runs of a fake operation."""

from __future__ import annotations

import copy
import functools
import json
import os
import signal
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest import mock

import validation_fakes as fakes

from validation.report.digest import digest
from validation.report.shards import Shard
from validation.runner import Plan, run_arch

Report = dict[str, Any]
#: Everything that some format takes for markup.
HOSTILE = "<script>alert(1)</script> & \x00\x1b[31m | `x` \"'"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CLEAN = {"checkout": True, "commit": COMMIT, "dirty": False, "reason": ""}

MIXED = fakes.operation("good", "wrong", "finding", "raises", "skip", costs=("steady", "dear"))
GOOD = fakes.GOOD
FINE = fakes.operation("good", "good2", "straight", costs=("steady",))


class DishonestDriver(fakes.FakeDriver):
    """Code under test that ends, or speaks, where it should not."""

    def _killed(self, bench: fakes.FakeBench) -> None:
        bench.launch()
        os.kill(os.getpid(), signal.SIGKILL)

    def _forges(self, bench: fakes.FakeBench) -> None:
        """Answers in the harness's name, on every descriptor that it finds, that another case passed."""
        launch = {"kernel": "fake", "arch": "gfx942", "grid": [2, 1, 1], "block": [64, 1, 1]}
        value = {"status": "pass", "reason": "", "launches": [launch | {"workgroups_run": 2, "instructions": 100}]}
        for descriptor in range(3, 64):
            with suppress(OSError):
                os.write(descriptor, (json.dumps({"id": "correctness.fake.good.s1", "value": value}) + "\n").encode())


def _dishonest(*modes: str) -> fakes.Operation:
    honest = fakes.operation(*modes)
    return replace(honest, entry_points=(replace(honest.entry_points[0], driver="report_support:DishonestDriver"),))


#: What each mode's launches see; due are out [5,8] and weight [8].
SEEN: dict[str, list[dict[str, str] | None]] = {
    "whole": [{"out": "bfloat16[5,8] strides [16,1]", "weight": "float32[8]", "partials": "640 bytes", "bias": "null"}],
    "parted": [{"out": "bfloat16[5,8]"}, {"weight": "float32[8]", "out": "bfloat16[5,8]"}],
    "first_rows": [{"out": "bfloat16[2,8]", "weight": "float32[8]"}],
    "later_rows": [{"out": "bfloat16[5,8] at byte 16", "weight": "float32[8]"}],
    "narrower": [{"out": "bfloat16[5,4]", "weight": "float32[4]"}],
    "once_narrower": [{"out": "bfloat16[5,8]", "weight": "float32[8]"}, {"weight": "float32[4]"}],
    "no_weight": [{"out": "bfloat16[5,8]"}],
    "only_bytes": [{"out": "80 bytes", "weight": "float32[8]"}],
    "blind": [None],
}


class ShapedDriver(fakes.FakeDriver):
    """Right results each time, from launches that see what :data:`SEEN` says."""

    def run(self, inputs: dict[str, Any]) -> str:
        for arguments in SEEN.get(inputs["mode"], ()):
            inputs["bench"].launch(arguments=arguments)
        return str(inputs["mode"])


def _shaped(*modes: str) -> fakes.Operation:
    plain = fakes.operation(*modes)
    entry = replace(
        plain.entry_points[0],
        driver="report_support:ShapedDriver",
        shapes=lambda params: {"out": (5, 8), "weight|gain": (8,)} if params["mode"] == "parted" else DUE,
    )
    return replace(plain, entry_points=(entry,))


DUE = {"out": (5, 8), "weight": (8,)}
SHAPED = _shaped("whole", "parted", "empty")
MISSHAPEN = _shaped(*SEEN, "empty_launched")
KILLED = _dishonest("good", "killed", "good2")
FORGES = _dishonest("forges", "good")
#: A test that returns early, in every way that the fakes know.
EARLY = {mode: fakes.operation(mode) for mode in ("unlaunched", "partial_launch", "uncompared", "exits")}
globals().update({f"EARLY_{mode.upper()}": operation for mode, operation in EARLY.items()})


class Quiet:
    """A view that shows nothing."""

    def stage_started(self, arch: str, title: str, total: int) -> None: ...
    def case_done(self, arch: str, record: Report) -> None: ...
    def stage_skipped(self, arch: str, title: str, reason: str) -> None: ...


@functools.cache
def _run(name: str, shard: Shard | None, options: tuple[tuple[str, Any], ...]) -> Report:
    given: dict[str, Any] = {"jobs": 1, "skip": ("contract",), "device_modules": ("validation_fakes",)} | dict(options)
    command = ("hcgr-validate", "--arch", "gfx942", *(("--shard", str(shard)) if shard else ()))
    plan = Plan(globals()[name], f"report_support:{name}", shard=shard, command=command, **given)
    with mock.patch("validation.runner.source_state", return_value=dict(CLEAN)):
        return run_arch(plan, "gfx942", Quiet())


def run(name: str, shard: Shard | None = None, **options: Any) -> Report:
    """A copy of the report of a run of :data:`MIXED` or :data:`FINE`, from a clean checkout of :data:`COMMIT`."""
    return copy.deepcopy(_run(name, shard, tuple(options.items())))


def sealed(report: Report) -> Report:
    """``report`` with a digest that fits: what a forger who knows the code would hand in."""
    return report | {"digest": digest(report)}


def case(report: Report, name: str) -> Report:
    """The case called ``name``."""
    return next(c for stage in report["stages"] for c in stage["cases"] if c["id"] == name)


def hostile() -> Report:
    """A report whose free texts hold everything that some format takes for markup."""
    report = run("MIXED")
    for record in (c for s in report["stages"] for c in s["cases"] if c["status"] in ("fail", "error")):
        record["reason"] = record["detail"] = HOSTILE
        for finding in record["findings"]:
            finding["message"] = finding["instruction"] = HOSTILE
    report["operation"]["title"] = HOSTILE
    return report
