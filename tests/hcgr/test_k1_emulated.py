"""K1's machine code in the emulator, on both architectures, with memcheck and initcheck, against the oracle."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hcgr.arch import ARCHS

from .workers import run_worker, takes_turn

SMALL: dict[str, Any] = {"hc": 4, "hs": 512, "r": 20, "n_pad": 32}
#: One case a path: hcgr-validate runs this shape far more.
PRODUCTION: dict[str, Any] = {"hc": 4, "hs": 2560, "r": 320, "n_pad": 336}
#: Checks of order, on top of those that every case runs under; they cost several times the run.
ORDER: dict[str, Any] = {"checks": ["racecheck", "synccheck"]}
#: Rows in front whose tensors reach past 2**32 bytes, and partials with them, at HC = 2 and HS = 512.
FAR: dict[str, Any] = {"hc": 2, "hs": 512, "r": 20, "n_pad": 32, "m": 5, "before": 2_200_000, "exact": True}


def fused(m: int, plan: dict[str, Any], base: dict[str, Any] = SMALL, **more: Any) -> dict[str, Any]:
    return {"path": "fused", "fold": True, **base, "m": m, "plan": plan, **more}


def split_k(m: int, plan: dict[str, Any], base: dict[str, Any] = SMALL, **more: Any) -> dict[str, Any]:
    return {"path": "split_k", "fold": False, **base, "m": m, "plan": plan, **more}


def resident(m: int, plan: dict[str, Any], base: dict[str, Any] = SMALL, **more: Any) -> dict[str, Any]:
    return {"path": "resident", "fold": False, **base, "m": m, "plan": plan, **more}


def decoupled(m: int, fold: bool, plan: dict[str, Any], base: dict[str, Any] = SMALL, **more: Any) -> dict[str, Any]:
    return {"path": "decoupled", "fold": fold, **base, "m": m, "plan": plan, **more}


CASES: dict[str, list[dict[str, Any]]] = {
    "fused": [
        *(fused(m, {"waves": 1}, exact=True) for m in (1, 15, 16, 17)),
        fused(37, {"waves": 2, "splits": 2}, exact=True, **ORDER),
        fused(33, {"waves": 2, "splits": 4}, exact=True, eps=3.0),
        fused(63, {"waves": 2, "splits": 8, "row_tiles": 2}, exact=True, **ORDER),
        fused(5, {"waves": 1, "splits": 32}, exact=True, n_pad=48),
        fused(9, {"waves": 2}, exact=True, hc=2, n_pad=64),
        fused(9, {"waves": 2, "splits": 2}, exact=True, hc=8, r=39, n_pad=48),
        fused(20, {"waves": 2}, combine=False, residual_pad=16),
        fused(20, {"waves": 2, "splits": 8}, combine=False, kind="zero_rows"),
        fused(20, {"waves": 2, "splits": 4}, kind="special", residual_pad=8, y_pad=24),
        fused(20, {"waves": 1, "splits": 16}, kind="wide"),
        fused(3, {"waves": 1, "splits": 40}, hc=2, hs=40960, kind="large_mean"),
        fused(3, {"waves": 2, "splits": 8}, hs=8192, norm_full=True),
        fused(5, {"waves": 1, "splits": 16}, PRODUCTION, n_pad=384),
        fused(129, {"waves": 8, "splits": 4}),
        fused(40, {"waves": 2, "row_tiles": 2, "splits": 4}),
        {**fused(5, {"waves": 1}), **FAR},
        {**fused(5, {"waves": 1, "splits": 16}), **FAR},
    ],
    "split_k": [
        *(split_k(m, {"waves": 1}, exact=True) for m in (1, 15, 16, 17)),
        split_k(37, {"waves": 2, "splits": 2}, exact=True, eps=3.0, **ORDER),
        split_k(31, {"waves": 1, "splits": 8, "row_tiles": 2}, exact=True),
        split_k(5, {"waves": 1, "splits": 32}, exact=True, n_pad=48),
        split_k(9, {"waves": 2}, exact=True, hc=2, n_pad=64),
        split_k(9, {"waves": 2, "splits": 2}, exact=True, hc=8, r=39, n_pad=48),
        split_k(20, {"waves": 2, "splits": 4}, norm_f32=True),
        split_k(20, {"waves": 2, "splits": 4}, norm_full=True),
        split_k(20, {"waves": 2, "splits": 16}, norm_f32=True, norm_full=True),
        split_k(20, {"waves": 2}, combine=False, residual_pad=16),
        split_k(20, {"waves": 2, "splits": 4}, kind="special", residual_pad=8, y_pad=24),
        split_k(20, {"waves": 1, "splits": 16}, kind="wide"),
        split_k(2, {"waves": 1, "splits": 20}, hc=2, hs=40960, kind="large_mean"),
        split_k(5, {"waves": 1, "splits": 4}, PRODUCTION, n_pad=384),
        split_k(64, {"waves": 4, "splits": 4}),
        {**split_k(5, {"waves": 1, "splits": 16}), **FAR},
    ],
    "resident": [
        *(resident(m, {"waves": 2}, exact=True) for m in (1, 15, 16, 17)),
        resident(37, {"waves": 4, "splits": 2, "row_tiles": 2}, exact=True, eps=3.0, **ORDER),
        resident(17, {"waves": 8, "splits": 4, "row_tiles": 2}, exact=True, **ORDER),
        resident(31, {"waves": 1, "splits": 2}, exact=True, n_pad=48),
        resident(9, {"waves": 2}, exact=True, hc=2, n_pad=64),
        resident(9, {"waves": 2, "splits": 2}, exact=True, hc=8, r=39, n_pad=48),
        resident(20, {"waves": 2, "splits": 4}, norm_f32=True, r=28),
        resident(20, {"waves": 2, "row_tiles": 2}, norm_full=True),
        resident(20, {"waves": 2, "splits": 2}, norm_f32=True, norm_full=True),
        resident(20, {"waves": 2}, combine=False, residual_pad=16),
        resident(20, {"waves": 2, "splits": 4}, kind="special", residual_pad=8, y_pad=24),
        resident(20, {"waves": 1, "splits": 2}, kind="wide", hs=1536),
        resident(3, {"waves": 8}, hc=2, hs=8192, kind="large_mean"),
        resident(17, {"waves": 8, "splits": 4, "row_tiles": 2}, PRODUCTION),
        resident(17, {"waves": 2, "folded": True}, exact=True, fold=True, eps=3.0),
        resident(37, {"waves": 4, "splits": 2, "row_tiles": 2, "folded": True}, exact=True, fold=True, **ORDER),
        resident(20, {"waves": 2, "splits": 4, "folded": True}, fold=True, kind="special", residual_pad=8, y_pad=24),
        resident(20, {"waves": 2, "folded": True}, fold=True, combine=False, kind="wide", residual_pad=16),
        resident(17, {"waves": 8, "splits": 2, "folded": True}, PRODUCTION, fold=True, r=512, n_pad=528),
        {**resident(5, {"waves": 1, "splits": 2}), **FAR},
    ],
    "decoupled": [
        *(decoupled(m, True, {"waves": 1}, exact=True) for m in (1, 15, 16, 17)),
        decoupled(37, True, {"waves": 2, "stages": 3, "column_groups": 2}, exact=True, **ORDER),
        decoupled(37, False, {"waves": 2, "stages": 4, "row_tiles": 2}, exact=True, eps=3.0),
        decoupled(9, True, {"waves": 2}, exact=True, hc=2, n_pad=64),
        decoupled(9, False, {"waves": 2, "stages": 3}, exact=True, hc=8, r=39, n_pad=48),
        decoupled(20, False, {"waves": 2}, norm_f32=True),
        decoupled(20, False, {"waves": 2}, norm_full=True),
        decoupled(20, False, {"waves": 2}, combine=False, residual_pad=16, norm_f32=True, norm_full=True),
        decoupled(20, True, {"waves": 2}, combine=False, residual_pad=16),
        decoupled(20, True, {"waves": 2, "dma_bytes": 4}),
        decoupled(20, False, {"waves": 2}, kind="special", residual_pad=8, y_pad=24),
        decoupled(20, True, {"waves": 1, "stages": 3}, kind="wide"),
        decoupled(2, True, {"waves": 1}, hc=2, hs=4096, kind="large_mean"),
        decoupled(1, True, {"waves": 1, "column_groups": 7}, PRODUCTION, n_pad=384),
        decoupled(17, True, {"waves": 2, "stages": 3, "column_groups": 2}, r=60, n_pad=64),
        decoupled(33, False, {"waves": 2, "stages": 2}, {**PRODUCTION, "hs": 512}),
        {**decoupled(5, True, {"waves": 1, "column_groups": 2}), **FAR},
    ],
}
#: Cases of each path, from the first, that run on both architectures.
ON_BOTH = 2


def cases_of(arch: str, path: str) -> list[int]:
    return [i for i in range(len(CASES[path])) if takes_turn(arch, i, ON_BOTH)]


ALL = [(arch, path, i) for arch in ARCHS for path in CASES for i in cases_of(arch, path)]


def label(value: Any) -> str | None:
    return str(value)


def result(arch: str, path: str, index: int) -> dict[str, Any]:
    """What happened in one case; all cases of a path run in one process."""
    chosen = cases_of(arch, path)
    done = run_worker("k1_worker.py", arch, json.dumps([CASES[path][i] for i in chosen]))
    assert done.returncode == 0, done.stderr
    outcome: dict[str, Any] = json.loads(done.stdout)[chosen.index(index)]
    return outcome


@pytest.mark.parametrize(("arch", "path", "index"), ALL, ids=label)
def test_values_and_memory(arch: str, path: str, index: int) -> None:
    case, outcome = CASES[path][index], result(arch, path, index)
    assert outcome["findings"] == []
    assert set(outcome["unwritten"].values()) == {0}
    assert outcome["passed"], outcome["report"]
    assert outcome["pad_columns"] == 0
    if case.get("exact"):
        assert outcome["different"] == [0, 0, 0]


@pytest.mark.parametrize(("arch", "path", "index"), ALL, ids=label)
def test_matrix_instructions_are_what_the_shape_needs(arch: str, path: str, index: int) -> None:
    executed, expected = result(arch, path, index)["mfma"]
    assert executed == expected


#: Rows that do not start on a line share some with their neighbours, and cannot be counted by the row.
WHOLE_LINES = [case for case in ALL if not CASES[case[1]][case[2]].get("residual_pad")]


@pytest.mark.parametrize(("arch", "path", "index"), WHOLE_LINES, ids=label)
def test_residual_moves_once(arch: str, path: str, index: int) -> None:
    """128-byte lines, summed over workgroups: the one-pass paths read R once, the others R2 once more a group."""
    case, outcome = CASES[path][index], result(arch, path, index)
    lines = case["m"] * case["hc"] * case["hs"] * 2 // 128
    read = [launch.get("residual", {}).get("lines_read_by_workgroups", 0) for launch in outcome["lines"]]
    assert sum(read) == lines * (1 if case.get("combine", True) or path in ("fused", "resident") else 2)
    if case.get("combine", True):
        written = [launch.get("r2", {}).get("lines_written_by_workgroups", 0) for launch in outcome["lines"]]
        assert sum(written) == lines
        again = [launch.get("r2", {}).get("lines_read_by_workgroups", 0) for launch in outcome["lines"]]
        groups = case["plan"].get("column_groups", 1)
        operand = path == "split_k" or (path == "decoupled" and case["fold"])
        assert sum(again) == (lines * groups if operand else 0)
