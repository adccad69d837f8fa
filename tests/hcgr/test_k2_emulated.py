"""K2's machine code in the emulator on both architectures, against the oracle, with memcheck and initcheck."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hcgr.arch import ARCHS
from hcgr.plan.k2 import K2Plan

from .workers import run_worker, takes_turn


def case(m: int, plan: K2Plan, n_pad: int = 0, **options: Any) -> dict[str, Any]:
    """A case of the worker; n_pad is r + 16 by default, so that rows of lora are further apart than they are wide."""
    return {"m": m, "n_pad": n_pad or plan.rank + 16, **vars(plan), **options}


#: Cases, from the first, that run on both architectures.
ON_BOTH = 3
#: Around the edges of row blocks, of r and of MFMA tiles; then production shape.
CASES = [
    case(1, K2Plan(4, 512, 64, 16, 1, 4)),
    case(15, K2Plan(2, 512, 80, 16, 2, 2), r2_padding=8),
    case(17, K2Plan(2, 512, 8, 16, 4, 1, 2), kind="special"),
    case(33, K2Plan(8, 512, 64, 32, 1, 8, full_norm=True), kind="wide"),
    case(31, K2Plan(4, 512, 104, 32, 2, 4, norm_f32=True), r2_padding=520),
    case(65, K2Plan(2, 512, 128, 64, 8, 1, 2, full_norm=True, norm_f32=True)),
    case(64, K2Plan(8, 512, 72, 64, 8, 1, 1), kind="large_mean"),
    case(40, K2Plan(4, 512, 256, 64, 4, 2), kind="zero_rows"),
    case(20, K2Plan(4, 512, 64, 32, 8, 1, 2, activated=True)),
    case(3, K2Plan(2, 8192, 64, 16, 8, 1, 32)),
    case(2, K2Plan(2, 40960, 64, 16, 8, 1, 32)),
    case(1, K2Plan(4, 2560, 320, 16, 1, 4), 336),
    case(8, K2Plan(4, 2560, 320, 16, 1, 4), 384),
    case(70, K2Plan(4, 2560, 320, 64, 8, 1, 10), 336),
    case(130, K2Plan(2, 512, 320, 128, 8, 1, 2), 336),
]


def cases(arch: str) -> list[dict[str, Any]]:
    """Those of the cases that run on `arch`, where their plan can be built."""
    return [c for i, c in enumerate(CASES) if takes_turn(arch, i, ON_BOTH) and buildable(c, arch)]


def buildable(given: dict[str, Any], arch: str) -> bool:
    """Whether a case's plan can be built for `arch`."""
    plan = K2Plan(**{field: given[field] for field in K2Plan.__dataclass_fields__})
    return not any(plan.problems(ARCHS[arch]))


def results(arch: str, index: int) -> list[dict[str, Any]]:
    """The exact and the random run of one case."""
    done = run_worker("k2_worker.py", arch, json.dumps(cases(arch)))
    assert done.returncode == 0, done.stderr
    exact_and_random: list[dict[str, Any]] = json.loads(done.stdout)[index]
    return exact_and_random


every_case = pytest.mark.parametrize(
    ("arch", "index"), [(arch, i) for arch in ARCHS for i in range(len(cases(arch)))], ids=str
)


def test_only_the_tallest_tile_is_left_out() -> None:
    assert [c["m"] for c in CASES if not buildable(c, "gfx942")] == [130]
    assert all(buildable(c, "gfx950") for c in CASES)
    assert all(c in cases("gfx942") or c in cases("gfx950") for c in CASES)


@every_case
def test_values_and_memory(arch: str, index: int) -> None:
    for run in results(arch, index):
        assert run["launches"] == 1
        assert run["findings"] == []
        assert run["passed"], run["compared"]
        assert run["unwritten"] == 0
        assert run["breaches"] == []


@every_case
def test_executed_mfmas_are_the_planned_ones(arch: str, index: int) -> None:
    for run in results(arch, index):
        assert run["mfmas"] == run["planned_mfmas"] > 0


@every_case
def test_lds_is_free_of_bank_conflicts(arch: str, index: int) -> None:
    for run in results(arch, index):
        assert run["lds_conflict_cycles"] == 0


@every_case
def test_traffic(arch: str, index: int) -> None:
    """R2 and x move once, w_up once a row block, lora once a workgroup; rows of the padding re-read the last."""
    given = cases(arch)[index]
    plan = K2Plan(**{k: given[k] for k in K2Plan.__dataclass_fields__})
    blocks, width = plan.row_tiles(given["m"]), plan.hc * plan.hs
    rows = blocks * plan.block_rows
    for run in results(arch, index):
        arguments = run["arguments"]
        assert arguments["r2"]["bytes_read"] == rows * width * 2
        assert arguments["x"]["bytes_written"] == given["m"] * plan.hs * 2
        assert arguments["w_up"]["bytes_read"] == blocks * width * (plan.padded_rank * 2)
        # A wave without a fragment in the last turn may load one all the same.
        fragments = plan.block_rows // 16 * (plan.padded_rank // 32)
        loads = -(-fragments // plan.waves) * plan.waves
        per_fragment = blocks * plan.column_groups * 1024
        assert fragments * per_fragment <= arguments["lora"]["bytes_read"] <= loads * per_fragment
        # A workgroup's columns are whole lines, so no line of R2 or x is shared between two.
        if plan.block_columns % 64 == 0 and given.get("r2_padding", 0) == 0:
            for name, direction in (("r2", "read"), ("x", "written")):
                own, shared = (arguments[name][f"lines_{direction}{s}"] for s in ("", "_by_workgroups"))
                # The allocation may start inside a line: then each boundary between workgroups shares one.
                assert shared - own <= plan.workgroups(given["m"]) * given["m"] * plan.hc
