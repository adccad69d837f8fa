"""The error contract of the direct K1: as for the others, and its rows, depth and splits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hcgr import contract
from hcgr.plan import choose

from . import calls
from .calls import FUNCTIONS, Call, K, NoLaunch, R, on, replace
from .contract_rows import (
    NORMS,
    NUMBERS,
    PENDING,
    SHAPES,
    STREAMS,
    Row,
    cases,
    check_refusal,
    overlapping,
    tensor_rows,
)

K1_ROWS = [
    Row("lowrank 0", replace(lowrank=0), ("lowrank", "positive integer", "got 0")),
    Row("lowrank float", replace(lowrank=64.0), ("lowrank", "positive integer", "64.0")),
    Row("no room for inject rows", replace(lowrank=78), ("lowrank", "at most n_pad - HC = 76", "78")),
    Row("lowrank above n_pad", replace(lowrank=96), ("lowrank", "n_pad = 80", "96")),
    Row("n_pad untileable", replace(w_dn_merged=calls.ones(84, K)), ("w_dn_merged", "multiple of 16", "84 rows")),
    Row("split_k 0", replace(split_k=0), ("split_k", '"auto"', "positive integer", "got 0")),
    Row("split_k text", replace(split_k="4"), ("split_k", '"auto"', "'4'")),
    Row("stages 1", replace(stages=1, split_k=1), ("stages", "at least 2", "got 1")),
    Row("stages float", replace(stages=2.5), ("stages", "at least 2", "2.5")),
    Row("stages with split-K", replace(stages=3, split_k=4), ("stages", "2 with split_k above 1", "3")),
    Row("block_m", replace(block_m=48), ("block_m", "16", "128", "48")),
    Row("sk_block_m", replace(sk_block_m=48, split_k=4), ("sk_block_m", "16", "128", "48")),
    Row("dn_block_m", replace(dn_block_m=48, split_k=1), ("dn_block_m", "16", "128", "48")),
    Row("dn_block_m and stages", replace(dn_block_m=48, stages=2, split_k="auto"), ("dn_block_m", "16", "128", "48")),
    Row("sk_block_m that is not read", replace(sk_block_m=-1, split_k=1), ("sk_block_m", "positive integer", "-1")),
    Row("hint 0", replace(block_k=0), ("block_k", "positive integer", "0")),
    Row("use_tuned", replace(use_tuned=1), ("use_tuned", "True or False")),
    Row("gemm_pad below M", replace(gemm_pad=2), ("gemm_pad", "at least M=", "2")),
    Row("gemm_pad 0", replace(gemm_pad=0), ("gemm_pad", "positive integer", "0")),
    Row("r2_out rows", on("r2_out", lambda t: t[:2]), ("r2_out", "[M, HC*HS]", "[2, 2048]")),
    Row("out columns of lora only", replace(out=calls.ones(32, R)), ("out", "[M, n_pad]")),
    Row("rrms_out bf16", on("rrms_out", lambda t: t.bfloat16()), ("rrms_out", "float32", "bfloat16")),
    Row("r2_out is residual", lambda c: {"r2_out": c["residual"]}, ("r2_out", "disjoint from residual")),
    *(
        Row(f"{a} overlaps {b}", overlapping(a, b), (b if b.endswith("out") else a, "disjoint"))
        for a, b in (("r2_out", "block_output"), ("out", "w_dn_merged"), ("rrms_out", "injection"), ("r2_out", "out"))
    ),
]
ROWS = {"k1": [*tensor_rows("k1"), *NUMBERS, *NORMS, *STREAMS, *SHAPES, *PENDING, *K1_ROWS]}


@pytest.mark.parametrize(("entry", "make", "row"), cases(ROWS))
def test_a_broken_call_raises_and_leaves_everything_alone(
    entry: str, make: Callable[[], Call], row: Row, no_launch: NoLaunch
) -> None:
    check_refusal(entry, make, row, no_launch)


@pytest.mark.parametrize(
    ("m", "gemm_pad", "accepted"),
    [(100, None, False), (100, 128, True), (100, 112, True), (100, 104, False), (224, None, True), (16, None, True),
     (9, None, False), (9, 16, True)],
)  # fmt: skip
@pytest.mark.parametrize("split_k", ["auto", 1, 4])
@pytest.mark.parametrize("fold_w", [False, True])
def test_rows_that_no_tile_divides_need_gemm_pad(
    m: int, gemm_pad: int | None, accepted: bool, split_k: Any, fold_w: bool, no_launch: NoLaunch
) -> None:
    call = calls.k1(m, fold_w, gemm_pad=gemm_pad, split_k=split_k)
    if accepted:
        r2, packed = FUNCTIONS["k1"](**call)
        assert (r2.shape[0], packed.shape[0]) == (m, m)
        assert no_launch.launches
        return
    with pytest.raises(ValueError, match=rf"gemm_pad must be a multiple of 16 of at least M={m}.*128, 64, 32, 16"):
        FUNCTIONS["k1"](**call)
    assert not no_launch.compiled


@pytest.mark.parametrize("changes", [{"fold_w": False}, {"split_k": 4}, {"split_k": 1}, {"stages": 2}, {"block_m": 16}])
def test_few_rows_on_a_tiled_path_need_gemm_pad(changes: Call, no_launch: NoLaunch) -> None:
    with pytest.raises(ValueError, match="gemm_pad"):
        FUNCTIONS["k1"](**calls.k1(3) | changes)
    FUNCTIONS["k1"](**calls.k1(3, gemm_pad=16) | changes)
    assert "k1_skinny" not in no_launch.kernels


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_stages_go_as_deep_as_lds_and_vmcnt_allow(
    arch: str, no_launch: NoLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hcgr.arch.configured", lambda: arch)
    deepest = {"gfx942": 8, "gfx950": 32}[arch]
    for stages in range(2, deepest + 1):
        FUNCTIONS["k1"](**calls.k1(split_k=1, stages=stages))
    plans = [plan for kernel, plan, _ in no_launch.compiled if kernel.endswith("k1_decoupled")]
    assert [plan.stages for plan in plans] == list(range(2, deepest + 1))
    launched = len(no_launch.launches)
    for stages in (deepest + 1, 1000):
        with pytest.raises(ValueError, match=rf"stages must be 2 to {deepest} .* on {arch} .*LDS.*vmcnt.*, got"):
            FUNCTIONS["k1"](**calls.k1(split_k=1, stages=stages))
    assert len(no_launch.launches) == launched


@pytest.mark.parametrize("split_k", [3, 5, 7, 64])
def test_split_k_that_cannot_be_tiled(split_k: int, no_launch: NoLaunch) -> None:
    with pytest.raises(ValueError, match=rf"split_k must be a divisor of HC=4.*got {split_k}"):
        FUNCTIONS["k1"](**calls.k1(split_k=split_k))
    assert not no_launch.compiled


def test_n_pad_8_is_for_the_skinny_path(no_launch: NoLaunch) -> None:
    weight = {"w_dn_merged": calls.ones(8, K), "lowrank": 4}
    FUNCTIONS["k1"](**calls.k1(8, buffers=False) | weight)
    assert no_launch.kernels == ["k1_skinny"]
    for call in (calls.k1(16, buffers=False), calls.k1(8, False, buffers=False, gemm_pad=16)):
        with pytest.raises(ValueError, match="w_dn_merged must be of n_pad rows, a multiple of 16"):
            FUNCTIONS["k1"](**call | weight)
    with pytest.raises(ValueError, match="lowrank must be at most n_pad - HC = 4"):
        FUNCTIONS["k1"](**calls.k1(8, buffers=False) | weight | {"lowrank": 5})


@pytest.mark.parametrize(("arch", "n_pad"), [("gfx942", 2048), ("gfx950", 4096)])
def test_n_pad_that_no_split_k_tile_fits(
    arch: str, n_pad: int, no_launch: NoLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hcgr.arch.configured", lambda: arch)
    call = calls.k1(buffers=False) | {"w_dn_merged": calls.ones(n_pad, K), "lowrank": n_pad - 4, "split_k": 4}
    with pytest.raises(ValueError, match=f"w_dn_merged must be of fewer rows.* on {arch}.*{n_pad} rows"):
        FUNCTIONS["k1"](**call)
    assert not no_launch.compiled


def test_depth_is_part_of_the_contract() -> None:
    request = choose.Request(1, 20)
    call = calls.k1()
    assert [p.argument for p in contract.k1_problems(**call, request=request, arch="gfx942")] == ["stages"]
    assert not list(contract.k1_problems(**call, request=request, arch="gfx950"))
    assert not list(contract.k1_problems(**call, request=request))


def test_an_expanded_row_is_no_buffer() -> None:
    """Its rows overlap each other."""
    buffer = calls.ones(1, K).expand(32, K)
    problems = list(contract.k1_problems(**calls.k1() | {"r2_out": buffer}))
    assert [problem.argument for problem in problems] == ["r2_out"]
