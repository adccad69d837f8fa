"""The error contract of combine_and_mix and mix: error type, message, nothing launched, nothing written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from . import calls
from .calls import Call, K, NoLaunch, R, on, replace
from .contract_rows import (
    NORMS,
    NUMBERS,
    PENDING,
    SHAPES,
    STREAMS,
    Row,
    cases,
    check_refusal,
    tensor_rows,
)

PROJECTIONS = [
    Row("w_down width", on("w_down", lambda t: t[:, :-8]), ("w_down", "[r, HC*HS]", str(K))),
    Row("r untileable", lambda c: {"w_down": c["w_down"][:-4], "w_up": calls.ones(K, R - 4)}, ("w_down", "8", "r=60")),
    Row(
        "r too large",
        replace(w_down=calls.ones(520, K), w_up=calls.ones(K, 520), w_down_merged=None),
        ("w_down", "512", "r=520"),
    ),
    Row("r 0", replace(w_down=calls.ones(0, K), w_up=calls.ones(K, 0)), ("w_down", "positive", "r=0")),
    Row("w_up rows", on("w_up", lambda t: t[:-8]), ("w_up", "[HC*HS, r]", str(K - 8))),
    Row("w_up columns", replace(w_up=calls.ones(K, R + 8)), ("w_up", "[HC*HS, r]", str(R + 8))),
    Row("w_up transposed shape", on("w_up", lambda t: t.t().contiguous()), ("w_up", "[HC*HS, r]")),
    Row("w_inject rows", on("w_inject", lambda t: t[:2]), ("w_inject", "[HC, HC*HS]", "[2, 2048]")),
    Row("merged too few rows", on("w_down_merged", lambda t: t[:64]), ("w_down_merged", "at least 68 rows", "64")),
    Row("n_pad untileable", replace(w_down_merged=calls.ones(84, K)), ("w_down_merged", "multiple of 16", "84 rows")),
    Row("n_pad 0", on("w_down_merged", lambda t: t[:0]), ("w_down_merged", "positive multiple", "0 rows")),
    Row("merged width", on("w_down_merged", lambda t: t[:, :-8]), ("w_down_merged", "[n_pad, HC*HS]")),
]
MIXED = [*NUMBERS, *NORMS, *STREAMS, *SHAPES, *PROJECTIONS]
ROWS = {
    "combine_and_mix": [*tensor_rows("combine_and_mix"), *MIXED, *PENDING],
    "mix": [*tensor_rows("mix"), *MIXED],
}


@pytest.mark.parametrize(("entry", "make", "row"), cases(ROWS))
def test_a_broken_call_raises_and_leaves_everything_alone(
    entry: str, make: Callable[[], Call], row: Row, no_launch: NoLaunch
) -> None:
    check_refusal(entry, make, row, no_launch)
