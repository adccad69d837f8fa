"""The tuner: what it rejects, when the heuristic wins, and that exports are all or nothing."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from hcgr import arch as arch_table
from hcgr.tuned import model, table, tuner
from hcgr.tuned.tuner import Candidate, Evaluation, InvalidTokenCountError, Job, export, tune

SHAPE = {"hc": 4, "hidden": 10240, "n_pad": 336, "cus": 256}


def split(plan: str, splits: int) -> Candidate:
    return Candidate(plan, {"method": "split_k", "split_k": splits, "row_tiles": 1, "waves": 4})


JOB = Job(512, SHAPE, Candidate("heuristic", {"method": "heuristic"}), [split("a", 1), split("b", 2), split("c", 4)])


def run(results: dict[str, tuple[float, float | None]]) -> dict[str, Any]:
    asked: list[tuple[str, int, int]] = []

    def evaluate(plan: str, tokens: int, n_pad: int) -> Evaluation:
        asked.append((plan, tokens, n_pad))
        return Evaluation(*results[plan])

    entry = tune(JOB, evaluate, evidence="measured", command="tune it")
    assert asked == [(plan, 512, 336) for plan in ("heuristic", "a", "b", "c")]
    return entry


def test_the_fastest_wins() -> None:
    entry = run({"heuristic": (9.0, 0.5), "a": (7.0, 0.5), "b": (5.0, 1.0), "c": (6.0, 0.1)})
    assert entry == {
        "method": "split_k",
        "split_k": 2,
        "row_tiles": 1,
        "waves": 4,
        **SHAPE,
        "evidence": "measured",
        "command": "tune it",
    }


@pytest.mark.parametrize(
    "bad", [(1.0, 1.001), (1.0, math.nan), (1.0, math.inf), (math.nan, 0.1), (math.inf, 0.1), (0.0, 0.1), (-1.0, 0.1)]
)
def test_a_wrong_or_non_finite_candidate_is_rejected_however_fast(bad: tuple[float, float]) -> None:
    assert run({"heuristic": (9.0, 0.5), "a": bad, "b": bad, "c": (6.0, None)})["split_k"] == 4


def test_the_heuristic_is_recorded_when_it_wins() -> None:
    entry = run({"heuristic": (5.0, 0.5), "a": (5.0, 0.5), "b": (4.96, 0.5), "c": (6.0, 0.1)})
    assert entry == {"method": "heuristic", **SHAPE, "evidence": "measured", "command": "tune it"}


@pytest.mark.parametrize("bad", [(9.0, 1.5), (9.0, math.nan), (math.nan, 0.5)])
def test_an_invalid_token_count_stops_everything(bad: tuple[float, float]) -> None:
    with pytest.raises(InvalidTokenCountError, match=r"512 tokens.*must give finite outputs"):
        run({"heuristic": bad, "a": (1.0, 0.5), "b": (1.0, 0.5), "c": (1.0, 0.5)})


def test_an_unknown_evidence_is_no_entry() -> None:
    with pytest.raises(table.TunedTableError, match="evidence"):
        tune(JOB, lambda *_: Evaluation(1.0, None), evidence="felt", command="x")


def entry(**changes: Any) -> dict[str, Any]:
    return {"method": "heuristic", **SHAPE, "evidence": "modelled", "command": "c", **changes}


def test_export_replaces_sections_of_one_arch_only(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    export(path, "gfx942", {"k1": {"64": entry()}})
    export(path, "gfx950", {"k1": {"64": entry()}, "k1_n336": {"64": entry()}})
    export(path, "gfx950", {"k1": {"128": entry()}})
    data = json.loads(path.read_text(encoding="utf-8"))
    assert {arch: {s: list(e) for s, e in sections.items()} for arch, sections in data.items()} == {
        "gfx942": {"k1": ["64"]},
        "gfx950": {"k1": ["128"], "k1_n336": ["64"]},
    }
    assert os.listdir(tmp_path) == ["table.json"]


@pytest.mark.parametrize("sections", [{"k1": {"64": entry(cus=0)}}, {"k3": {"64": entry()}}, {"k1": {"x": entry()}}])
def test_export_of_anything_invalid_leaves_the_table_as_it_was(tmp_path: Path, sections: Any) -> None:
    path = tmp_path / "table.json"
    export(path, "gfx950", {"k1": {"64": entry()}})
    before = path.read_bytes()
    with pytest.raises(table.TunedTableError):
        export(path, "gfx950", sections)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["table.json"]


def test_a_failed_rename_leaves_the_table_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.json"
    export(path, "gfx950", {"k1": {"64": entry()}})
    before = path.read_bytes()

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(tuner.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        export(path, "gfx950", {"k1": {"128": entry()}})
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["table.json"]


# -- the model ---------------------------------------------------------------------------------------------


def test_a_launch_is_as_slow_as_its_slowest_resource() -> None:
    arch, part = arch_table.GFX950, arch_table.GFX950.parts[0]
    assert part.hbm_bytes_per_s is not None
    assert part.clock_hz is not None
    memory = model.Work(256, part.hbm_bytes_per_s, 0.0)
    assert model.launch_seconds(memory, arch, part) == pytest.approx(1.0)
    # One workgroup a CU at full matrix rate for a second; one more workgroup takes a second round.
    flops = arch.mfma_flops_per_clock_per_cu * part.clock_hz
    assert model.launch_seconds(model.Work(256, 0.0, 0.0, flops), arch, part) == pytest.approx(1.0)
    assert model.launch_seconds(model.Work(257, 0.0, 0.0, flops), arch, part) == pytest.approx(2.0)
    # One wave reaches one SIMD of four, unless other workgroups of the CU use the others.
    assert model.launch_seconds(model.Work(256, 0.0, 0.0, flops, waves=1), arch, part) == pytest.approx(4.0)
    shared = model.Work(1024, 0.0, 0.0, flops / 4, waves=1, resident=4)
    assert model.launch_seconds(shared, arch, part) == pytest.approx(1.0)


def test_a_part_without_public_figures_cannot_be_modelled() -> None:
    part = arch_table.GFX942.parts[-1]
    with pytest.raises(ValueError, match="must have a public bandwidth"):
        model.launch_seconds(model.Work(1, 1.0, 1.0), arch_table.GFX942, part)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_candidates_divide_the_rows_and_leave_no_more_idle_than_the_heuristic(arch: str) -> None:
    entry = arch_table.get(arch)
    part = entry.parts[0]
    for section, job in model.jobs(entry, part):
        least = model.busy_simds(job.heuristic.plan, job.tokens, part)
        assert job.candidates, (section, job.tokens)
        for candidate in job.candidates:
            plan = candidate.plan
            rows = plan.block_rows if section.startswith("up") else plan.rows
            assert job.tokens % rows == 0
            assert model.busy_simds(plan, job.tokens, part) >= least
