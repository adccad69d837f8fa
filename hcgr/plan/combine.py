"""Tiles of COMBINE."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from hcgr.arch import WAVE_LANES

#: Columns that one lane handles: eight bf16 are one 16-byte access.
LANE_COLUMNS = 8
#: Columns that one wave handles, and so the unit of HS.
WAVE_COLUMNS = WAVE_LANES * LANE_COLUMNS
#: Largest workgroup of COMBINE, in lanes: 8 waves leave room for four workgroups on a CU at 8 waves a SIMD.
MAX_LANES = 512
#: Rows a workgroup may take, best first. More rows spread the fixed cost of a workgroup over more traffic.
ROW_CHOICES = (4, 2, 1)
#: Workgroups take more rows only while this many of them remain for each CU, so that no CU idles at the end.
WORKGROUPS_PER_CU = 4
#: HIP launches fewer than 2**32 work-items along a dimension (hipModuleLaunchKernel, HIP documentation).
MAX_GRID_ITEMS = 1 << 32


@dataclass(frozen=True)
class CombinePlan:
    """Static parameters of one COMBINE build; equal plans share one compiled kernel.

    Attributes:
        hc: Residual streams.
        hs: Width of one stream, a multiple of :data:`WAVE_COLUMNS`.
        rows: Tokens of one workgroup.
    """

    hc: int
    hs: int
    rows: int

    @cached_property
    def lanes(self) -> int:
        """Lanes of a workgroup: the largest whole number of waves that divides the row, up to MAX_LANES."""
        waves = self.hs // WAVE_COLUMNS
        return WAVE_LANES * max(n for n in range(1, MAX_LANES // WAVE_LANES + 1) if waves % n == 0)

    @cached_property
    def column_tiles(self) -> int:
        """Workgroups across one row."""
        return self.hs // (self.lanes * LANE_COLUMNS)

    def workgroups(self, tokens: int) -> int:
        """Workgroups of a launch over `tokens` rows, all along grid x, column tiles fastest."""
        return -(-tokens // self.rows) * self.column_tiles

    def max_tokens(self) -> int:
        """Most rows that one launch can cover within :data:`MAX_GRID_ITEMS`."""
        return (MAX_GRID_ITEMS - 1) // self.lanes // self.column_tiles * self.rows


@lru_cache(maxsize=1024)
def plan_combine(tokens: int, hc: int, hs: int, cus: int) -> CombinePlan:
    """The COMBINE plan for `tokens` rows of `hc` streams of `hs` columns on `cus` compute units."""
    plans = [CombinePlan(hc, hs, rows) for rows in ROW_CHOICES]
    return next((p for p in plans if p.workgroups(tokens) >= WORKGROUPS_PER_CU * cus), plans[-1])


@lru_cache(maxsize=1024)
def max_combine_tokens(hc: int, hs: int) -> int:
    """Most rows that one COMBINE launch can cover."""
    return CombinePlan(hc, hs, max(ROW_CHOICES)).max_tokens()
