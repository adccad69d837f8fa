"""HCGR, the two-stage Hyper-Connection gated residual: its entry points, paths and costs.

Nothing here imports torch or the op itself; the drivers that do are named by reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from validation.operation import CostModel, EntryPoint, Operation
from validation.ops import contract_rows, cost_cases, direct_grid, mix_grid, shapes_due
from validation.ops.axes import KERNEL_LIMITS
from validation.ops.combine_entry import COMBINE, COMBINE_CONTRACT, COMBINE_GRID, LONGEST, MOST_ALLOCATED_ROWS
from validation.ops.protocol.catalogue import SCENARIOS

__all__ = ["COMBINE", "COMBINE_CONTRACT", "COMBINE_GRID", "LONGEST", "MOST_ALLOCATED_ROWS", "OPERATION"]


def _launches(params: Mapping[str, Any]) -> bool:
    return bool(params["m"] > 0)


def _variant(path: str, params: Mapping[str, Any]) -> str:
    shape = params["shape"]
    return f"hc{shape.hc}.hs{shape.hs}.r{shape.r}.n{shape.n_pad}.{path}"


COMBINE_AND_MIX = EntryPoint(
    name="combine_and_mix",
    function="flydsl_gr_two_stage_combine_and_mix",
    grid=mix_grid.COMBINE_AND_MIX_GRID,
    driver="validation.ops.mix:CombineAndMixDriver",
    contract=contract_rows.COMBINE_AND_MIX_CONTRACT,
    variant=lambda params: _variant(mix_grid.k1_path(params), params),
    launches=_launches,
    limits=KERNEL_LIMITS,
    timeout_s=300.0,
    invalid={"norm": ("float16", "shared")},
    paths=mix_grid.paths,
    shapes=shapes_due.combine_and_mix,
)
MIX = EntryPoint(
    name="mix",
    function="flydsl_gr_two_stage_mix",
    grid=mix_grid.MIX_GRID,
    driver="validation.ops.mix:MixDriver",
    contract=contract_rows.MIX_CONTRACT,
    variant=lambda params: _variant(mix_grid.k1_path(params), params),
    launches=_launches,
    limits=KERNEL_LIMITS,
    timeout_s=300.0,
    invalid={"norm": ("float16", "shared")},
    paths=mix_grid.paths,
    shapes=shapes_due.mix,
)
K1 = EntryPoint(
    name="k1",
    function="flydsl_k1_combine_norm_down",
    grid=direct_grid.K1_GRID,
    driver="validation.ops.direct_k1:K1Driver",
    contract=contract_rows.K1_CONTRACT,
    variant=lambda params: _variant(direct_grid.k1_path(params), params),
    launches=_launches,
    limits=KERNEL_LIMITS,
    timeout_s=300.0,
    invalid={"norm": ("float16", "shared")},
    paths=lambda params: (direct_grid.k1_path(params),),
    shapes=shapes_due.k1,
)
K2 = EntryPoint(
    name="k2",
    function="flydsl_up_gate_mix_norm",
    grid=direct_grid.K2_GRID,
    driver="validation.ops.direct_k2:K2Driver",
    contract=contract_rows.K2_CONTRACT,
    variant=lambda params: _variant("k2", params),
    launches=_launches,
    limits=KERNEL_LIMITS,
    timeout_s=300.0,
    invalid={"norm": ("float16", "shared")},
    paths=lambda params: ("k2",),
    shapes=shapes_due.k2,
)

OPERATION = Operation(
    name="hcgr",
    title="Hyper-Connection gated residual",
    packages=("hcgr",),
    entry_points=(COMBINE, COMBINE_AND_MIX, MIX, K1, K2),
    kernel_paths={
        "hcgr_combine_": "combine",
        "hcgr_k1_skinny_": "skinny",
        "hcgr_k1_fused_": "fused",
        "hcgr_k1_split_k_": "split_k",
        "hcgr_k1_resident_": "resident",
        "hcgr_k1_decoupled_": "decoupled",
        "hcgr_k2_": "k2",
    },
    cost=CostModel(cost_cases.cases, "validation.ops.cost:CostDriver"),
    protocol=SCENARIOS,
)
