"""The error contract of the direct K2: error type, message, nothing launched, nothing written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from hcgr import contract

from . import calls
from .calls import HC, HS, Call, K, NoLaunch, R, on, replace
from .contract_rows import (
    NUMBERS,
    STREAMS,
    Row,
    cases,
    check_refusal,
    overlapping,
    tensor_rows,
)

K2_ROWS = [
    Row("M tail", lambda c: {n: c[n][:20] for n in ("lora", "r2", "rrms", "block_input")}, ("lora", "16", "20 rows")),
    Row("lora rows", on("lora", lambda t: t[:16]), ("lora", "[M, r]", "[16, 64]")),
    Row("lora columns", on("lora", lambda t: t[:, :60]), ("lora", "rank r", "r=60")),
    Row("r2 untileable", replace(r2=calls.ones(32, K - 8)), ("r2", "512", str(K - 8))),
    Row("rrms columns", on("rrms", lambda t: t[:, :2]), ("rrms", "[M, HC]", "[32, 2]")),
    Row("w_up rows", on("w_up", lambda t: t[:-8]), ("w_up", "[HC*HS, r]")),
    Row("w_up columns of a strided weight", on("w_up", lambda t: calls.ones(K, 2 * R)[:, :R]), ("w_up", "contiguous")),
    Row("block_m", replace(block_m=48), ("block_m", "128", "48")),
    Row("block_m that does not divide", replace(block_m=64), ("lora", "64", "32 rows")),
    Row("block_input rows", on("block_input", lambda t: t[:16]), ("block_input", "[M, HS]", "[16, 512]")),
    Row("block_input overlaps r2", overlapping("block_input", "r2"), ("block_input", "disjoint from r2")),
    Row("block_input overlaps w_up", overlapping("block_input", "w_up"), ("block_input", "disjoint from w_up")),
]
ROWS = {"k2": [*tensor_rows("k2"), *NUMBERS, *STREAMS, *K2_ROWS]}


@pytest.mark.parametrize(("entry", "make", "row"), cases(ROWS))
def test_a_broken_call_raises_and_leaves_everything_alone(
    entry: str, make: Callable[[], Call], row: Row, no_launch: NoLaunch
) -> None:
    check_refusal(entry, make, row, no_launch)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_k2_blames_its_own_argument_for_too_many_rows(arch: str) -> None:
    """On the meta device: no memory holds so many rows."""

    def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    m = 1 << 40
    call = {
        "lora": empty(m, R), "r2": empty(m, K), "rrms": empty(m, HC, dtype=torch.float32), "norm_weight": empty(HS),
        "w_up": empty(K, R), "hc_count": HC,
    }  # fmt: skip
    (problem,) = contract.k2_problems(**call, arch=arch, addresses=False)
    assert (problem.argument, problem.given) == ("r2", f"{m} rows")
