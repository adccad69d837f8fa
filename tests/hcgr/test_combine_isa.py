"""Properties of COMBINE's machine code on both architectures, compiled without a GPU."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest

from hcgr.arch import ARCHS
from hcgr.plan import CombinePlan

from .workers import run_worker

PLANS = [
    CombinePlan(hc, hs, rows)
    for hc in (2, 4, 8)
    for hs, rows in ((512, 1), (2560, 1), (2560, 4), (8192, 2), (40960, 4))
]


def build(arch: str) -> dict[CombinePlan, dict[str, Any]]:
    """Every plan compiled for `arch`."""
    done = run_worker("isa_worker.py", arch, json.dumps([[p.hc, p.hs, p.rows] for p in PLANS]))
    # FlyDSL reports some backend errors on standard error only, and still returns text.
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr.lower(), done.stderr
    return dict(zip(PLANS, json.loads(done.stdout), strict=True))


def mnemonics(kernel: dict[str, Any]) -> Counter[str]:
    return Counter(line.split()[0] for line in kernel["instructions"])


every_build = pytest.mark.parametrize(
    ("arch", "plan"), [(arch, plan) for arch in ARCHS for plan in PLANS], ids=lambda value: str(value)
)


@every_build
def test_no_spill_no_scratch_no_lds_and_full_occupancy(arch: str, plan: CombinePlan) -> None:
    metadata = build(arch)[plan]["metadata"]
    for field in (
        "vgpr_spill_count",
        "sgpr_spill_count",
        "private_segment_fixed_size",
        "group_segment_fixed_size",
    ):
        assert metadata[field] == "0", field
    assert ARCHS[arch].waves_per_simd(int(metadata["vgpr_count"])) == 8
    assert metadata["max_flat_workgroup_size"] == str(plan.lanes)
    assert metadata["name"] == f"hcgr_combine_hc{plan.hc}_hs{plan.hs}_rows{plan.rows}"


@every_build
def test_every_stream_access_is_sixteen_bytes_and_made_once(arch: str, plan: CombinePlan) -> None:
    memory = [line for line in build(arch)[plan]["instructions"] if re.match(r"(global|buffer|flat|scratch)_", line)]
    vectors = Counter(line.split()[0] for line in memory if re.search(r"\bnt\b", line))
    assert vectors == {
        "global_load_dwordx4": plan.rows * (plan.hc + 1),
        "global_store_dwordx4": plan.rows * plan.hc,
    }
    # What is left loads the injection logits, and stores nothing.
    rest = [line for line in memory if not re.search(r"\bnt\b", line)]
    assert all(line.startswith("global_load_") for line in rest)
    assert plan.rows <= len(rest) <= plan.rows * plan.hc


@every_build
def test_loads_of_a_row_are_all_in_flight_before_its_first_store(arch: str, plan: CombinePlan) -> None:
    lines = build(arch)[plan]["instructions"]
    kinds = [line.split()[0].split("_")[1] for line in lines if line.startswith("global_")]
    loads = kinds.index("store")
    stores = [i for i, kind in enumerate(kinds) if kind == "store"]
    assert kinds[:loads].count("load") * plan.rows == kinds.count("load")
    for first in stores[:: plan.hc]:
        assert kinds[first : first + plan.hc] == ["store"] * plan.hc


@every_build
def test_arithmetic_per_element(arch: str, plan: CombinePlan) -> None:
    """One fused multiply-add (two a packed instruction), one sigmoid a row and stream, one conversion."""
    count = mnemonics(build(arch)[plan])
    elements = plan.rows * plan.hc * 8
    assert 2 * count["v_pk_fma_f32"] + count["v_fma_f32"] + count["v_fmac_f32_e32"] == elements
    assert count["v_exp_f32_e32"] == count["v_rcp_f32_e32"] == plan.rows * plan.hc
    if ARCHS[arch].packed_bf16_convert:
        assert 2 * count["v_cvt_pk_bf16_f32"] == elements
    else:
        assert (
            count["v_bfe_u32"] == count["v_add3_u32"] == count["v_cmp_u_f32_e32"] + count["v_cmp_u_f32_e64"] == elements
        )


@every_build
def test_each_row_is_guarded(arch: str, plan: CombinePlan) -> None:
    """One uniform branch a row skips everything that the row would touch."""
    count = mnemonics(build(arch)[plan])
    assert sum(n for name, n in count.items() if name.startswith("s_cbranch")) == plan.rows


@every_build
def test_row_addresses_are_64_bit(arch: str, plan: CombinePlan) -> None:
    """Three products of a row and a run-time stride, each with its high half, on the scalar unit."""
    count = mnemonics(build(arch)[plan])
    assert count["s_mul_hi_u32"] >= 3
    assert not [name for name in count if name.startswith("v_mul_lo_u32")]
