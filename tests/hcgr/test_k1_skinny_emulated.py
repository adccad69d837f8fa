"""The skinny K1's machine code in the emulator on both architectures, against the oracle, checked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hcgr.arch import ARCHS
from hcgr.plan.skinny import SkinnyPlan

from .workers import run_worker, takes_turn


def case(m: int, plan: SkinnyPlan, **options: Any) -> dict[str, Any]:
    """A case of the worker."""
    return {"m": m, **vars(plan), **options}


#: Cases, from the first, that run on both architectures.
ON_BOTH = 4
#: Counters start where they wrap, or in the middle; NaN stands in weight rows that must not matter.
CASES = [
    case(1, SkinnyPlan(4, 512, 24, 20, 1, 4)),
    case(5, SkinnyPlan(2, 1024, 24, 18, 3, 8), padding=8, poisoned_padding=True, rounds=2, start=-2),
    case(3, SkinnyPlan(8, 512, 16, 9, 3, 4, combine=False), poisoned_padding=True, start=8),
    case(8, SkinnyPlan(4, 512, 8, 8, 8, 4), kind="special", start=-4, rounds=2),
    case(7, SkinnyPlan(2, 512, 64, 22, 7, 4), kind="wide", poisoned_padding=True),
    case(11, SkinnyPlan(4, 1536, 32, 30, 4, 8), kind="zero_rows", padding=1032),
    case(6, SkinnyPlan(8, 512, 24, 24, 6, 8), kind="large_mean"),
    case(2, SkinnyPlan(2, 512, 16, 12, 2, 4, av=False), rounds=3),
    case(4, SkinnyPlan(2, 8192, 16, 14, 4, 8)),
    case(2, SkinnyPlan(2, 40960, 8, 6, 2, 4)),
    case(1, SkinnyPlan(4, 2560, 336, 324, 1, 4)),
    case(7, SkinnyPlan(4, 2560, 384, 324, 7, 4), poisoned_padding=True),
    case(4, SkinnyPlan(4, 2560, 336, 320, 4, 8, combine=False)),
]


def cases_of(arch: str) -> list[int]:
    return [i for i in range(len(CASES)) if takes_turn(arch, i, ON_BOTH)]


def results(arch: str, index: int) -> list[dict[str, Any]]:
    """The exact and the random run of one case."""
    chosen = cases_of(arch)
    done = run_worker("skinny_worker.py", arch, json.dumps([CASES[i] for i in chosen]))
    assert done.returncode == 0, done.stderr
    exact_and_random: list[dict[str, Any]] = json.loads(done.stdout)[chosen.index(index)]
    return exact_and_random


def launches(arch: str, index: int) -> list[dict[str, Any]]:
    """Every launch of one case."""
    return [launch for run in results(arch, index) for launch in run["rounds"]]


every_case = pytest.mark.parametrize(("arch", "index"), [(arch, i) for arch in ARCHS for i in cases_of(arch)], ids=str)


@every_case
def test_values_and_memory(arch: str, index: int) -> None:
    assert len(launches(arch, index)) == 2 * CASES[index].get("rounds", 1)
    for run in launches(arch, index):
        assert run["launches"] == 1
        assert run["findings"] == []
        assert run["failed"] == []
        assert len(run["compared"]) == (3 if CASES[index]["combine"] else 2)
        assert set(run["unwritten"].values()) == {0}
        assert run["breaches"] == []
        assert run["r2_untouched"]


@every_case
def test_counters_only_count_up_and_only_in_their_slots(arch: str, index: int) -> None:
    assert all(run["counters"] for run in results(arch, index))


@every_case
def test_traffic(arch: str, index: int) -> None:
    """Live weight rows are read once a token group, partials written and read once; R2 once, if at all."""
    given = CASES[index]
    plan = SkinnyPlan(**{k: given[k] for k in SkinnyPlan.__dataclass_fields__})
    m, groups, width = given["m"], plan.token_groups(given["m"]), plan.hc * plan.hs
    for run in launches(arch, index):
        arguments = run["arguments"]
        assert arguments["weight"]["bytes_read"] == groups * plan.tiles * plan.columns * width * 2
        assert arguments["packed"]["bytes_written"] == m * plan.n_pad * 2
        assert arguments["rrms"]["bytes_written"] == m * plan.hc * 4
        assert arguments["residual"]["bytes_read"] == groups * plan.tokens * plan.tiles * width * 2
        partials = m * plan.hc * plan.tiles * plan.columns * 4
        assert arguments["partials"]["bytes_written"] == arguments["partials"]["bytes_read"] == partials
        # An arrival reads and writes its four bytes.
        assert arguments["counters"]["bytes_written"] == plan.workgroups(m) * 4
        if plan.combine:
            assert arguments["r2"]["bytes_written"] == m * width * 2
        else:
            assert not {"r2", "block_output", "injection"} & arguments.keys()


@every_case
def test_one_arrival_a_workgroup(arch: str, index: int) -> None:
    given = CASES[index]
    plan = SkinnyPlan(**{k: given[k] for k in SkinnyPlan.__dataclass_fields__})
    for run in launches(arch, index):
        assert run["mnemonics"]["global_atomic_add"] == plan.workgroups(given["m"])
