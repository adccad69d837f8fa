"""Architecture table and plans."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from hcgr import arch
from hcgr.plan import MAX_GRID_ITEMS, MAX_LANES, ROW_CHOICES, WORKGROUPS_PER_CU, CombinePlan, plan_combine


def test_importing_hcgr_leaves_flydsl_alone() -> None:
    code = "import sys, hcgr; sys.exit(any(m.split('.')[0] == 'flydsl' for m in sys.modules))"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


@pytest.mark.parametrize(("given", "name"), [("gfx942", "gfx942"), ("gfx950:sramecc+:xnack-", "gfx950")])
def test_arch_names(given: str, name: str) -> None:
    assert arch.get(given).name == name


@pytest.mark.parametrize("given", ["gfx90a", "gfx1100", "sm_90", ""])
def test_unknown_arch_says_what_is_accepted_and_how_to_run(given: str) -> None:
    with pytest.raises(NotImplementedError) as caught:
        arch.get(given)
    for word in (repr(given), "gfx942", "gfx950", "FLYDSL_COMPILE_BACKEND=emulator"):
        assert word in str(caught.value)


def test_arch_of_a_gpu_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(gcnArchName="gfx950:sramecc+:xnack-", name="x", multi_processor_count=80)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: properties)
    device = torch.device("cuda", 3)
    assert arch.of_device(device) is arch.GFX950
    assert arch.cus_of_device(device) == 80


def test_arch_of_another_vendors_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: SimpleNamespace(name="Some GPU"))
    with pytest.raises(NotImplementedError, match="Some GPU"):
        arch.of_device(torch.device("cuda", 0))


def test_arch_of_a_meta_device() -> None:
    with pytest.raises(NotImplementedError, match="meta"):
        arch.of_device(torch.device("meta"))


@pytest.mark.parametrize("name", arch.ARCHS)
def test_arch_of_the_cpu_is_the_configured_target(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCH", name)
    monkeypatch.setenv("FLYDSL_GPU_ARCH", name)
    assert arch.of_device(torch.device("cpu")).name == name


def test_peak_rates_agree_with_the_data_sheets() -> None:
    """AMD's data sheets: MI300X 1307.4 and MI355X 2.5 PFLOP/s of dense bf16."""
    peaks = {part.name: a.peak_bf16_flops(part) for a in arch.ARCHS.values() for part in a.parts}
    assert peaks["MI300X"] == pytest.approx(1307.4e12, rel=1e-3)
    assert peaks["MI355X"] == pytest.approx(2516.6e12, rel=1e-3)
    assert peaks["MI308X"] is None


@pytest.mark.parametrize(("vgprs", "waves"), [(1, 8), (64, 8), (65, 7), (128, 4), (129, 3), (256, 2), (512, 1)])
def test_waves_per_simd(vgprs: int, waves: int) -> None:
    assert arch.GFX942.waves_per_simd(vgprs) == waves


@pytest.mark.parametrize("hs", [512, 1024, 2560, 4096, 5120, 5632, 7168, 8192, 40960])
@pytest.mark.parametrize("hc", [2, 4, 8])
def test_lanes_and_column_tiles_cover_a_row_exactly(hc: int, hs: int) -> None:
    plan = CombinePlan(hc, hs, 1)
    assert plan.lanes % 64 == 0
    assert plan.lanes <= MAX_LANES
    assert plan.lanes * 8 * plan.column_tiles == hs


@pytest.mark.parametrize("tokens", [1, 2, 3, 7, 8, 487, 2433, 4864, 65536, 10_000_019])
@pytest.mark.parametrize("cus", [80, 256, 304])
def test_plans_cover_every_row_and_fill_the_device_first(tokens: int, cus: int) -> None:
    plan = plan_combine(tokens, 4, 2560, cus)
    row_tiles = plan.workgroups(tokens) // plan.column_tiles
    assert (row_tiles - 1) * plan.rows < tokens <= row_tiles * plan.rows
    assert plan.rows == 1 or plan.workgroups(tokens) >= WORKGROUPS_PER_CU * cus
    larger = [r for r in ROW_CHOICES if r > plan.rows]
    assert all(CombinePlan(4, 2560, r).workgroups(tokens) < WORKGROUPS_PER_CU * cus for r in larger)


@pytest.mark.parametrize("plan", [CombinePlan(4, 2560, 4), CombinePlan(2, 40960, 2), CombinePlan(8, 512, 1)])
def test_max_tokens_is_the_last_launch_hip_accepts(plan: CombinePlan) -> None:
    limit = plan.max_tokens()
    assert plan.workgroups(limit) * plan.lanes < MAX_GRID_ITEMS
    assert plan.workgroups(limit + 1) * plan.lanes >= MAX_GRID_ITEMS
    assert limit + plan.rows < 2**31
