"""The five-stage baseline: right, in five launches, with its intermediates through memory."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hcgr.arch import ARCHS
from hcgr.plan.five_stage import plan_gemm

from .calls import HC, N_PAD, K, NoLaunch, R, combine_and_mix
from .workers import run_worker

CASES: list[dict[str, int]] = [
    {"m": 1, "hc": 2, "hs": 512, "r": 32, "n_pad": 48},
    {"m": 67, "hc": 4, "hs": 512, "r": 64, "n_pad": 80},
]


@pytest.mark.parametrize("case", range(len(CASES)), ids=[str(case) for case in CASES])
@pytest.mark.parametrize("arch", ARCHS)
def test_values_and_memory(arch: str, case: int) -> None:
    done = run_worker("five_stage_worker.py", arch, json.dumps(CASES))
    assert done.returncode == 0, done.stderr
    got: dict[str, Any] = json.loads(done.stdout)[case]
    kinds = ["k1_combine_norm", "five_gemm", "five_silu", "five_gemm", "five_mix"]
    assert len(got["kernels"]) == len(kinds)
    assert all(kind in kernel for kind, kernel in zip(kinds, got["kernels"], strict=True))
    assert got["findings"] == []
    assert got["failed"] == []
    assert got["z_wrong"] == 0
    assert got["x_wrong"] == 0


@pytest.mark.parametrize(("n", "k"), [(336, 10240), (384, 10240), (10240, 320), (80, 1024), (16, 32)])
def test_gemm_plans_cover_their_columns(n: int, k: int) -> None:
    plan = plan_gemm(n, k, 32)
    assert plan.column_groups * plan.tiles * 16 == n
    assert plan.workgroups(65) == 2 * plan.column_groups


@pytest.mark.parametrize(("n", "k", "message"), [(8, 32, "n must be"), (0, 32, "n must be"), (16, 40, "k must be")])
def test_gemm_plans_that_cannot_be(n: int, k: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_gemm(n, k, 16)


def test_launch_arguments(no_launch: NoLaunch) -> None:
    from hcgr.five_stage import five_stage_combine_and_mix

    call = combine_and_mix(3)
    del call["fold_w"]
    five_stage_combine_and_mix(**call, eps=1e-6)
    names = [[a.name for a in arguments if hasattr(a, "name")] for _, arguments in no_launch.launches]
    assert names[1:] == [["a", "b", "c"], ["lora", "h"], ["a", "b", "c"], ["z", "xn", "x"]]
    strides = [arguments[4] for name, arguments in no_launch.launches if name == "five_gemm"]
    assert strides == [K, R]
    assert [arguments[3] for name, arguments in no_launch.launches if name == "five_silu"] == [N_PAD]
    assert call["hc_count"] == HC
