"""Which path and which tiles a launch uses. No FlyDSL here: plans are made, compared and rejected without it."""

from hcgr.plan.combine import (
    LANE_COLUMNS,
    MAX_GRID_ITEMS,
    MAX_LANES,
    ROW_CHOICES,
    WAVE_COLUMNS,
    WORKGROUPS_PER_CU,
    CombinePlan,
    max_combine_tokens,
    plan_combine,
)

__all__ = [
    "LANE_COLUMNS",
    "MAX_GRID_ITEMS",
    "MAX_LANES",
    "ROW_CHOICES",
    "WAVE_COLUMNS",
    "WORKGROUPS_PER_CU",
    "CombinePlan",
    "max_combine_tokens",
    "plan_combine",
]
