"""Tiles of the five-stage path, the baseline that two launches replace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hcgr.plan.combine import LANE_COLUMNS
from hcgr.plan.k1 import STEP, TILE

#: Waves of a workgroup of the plain GEMM, one 16-row tile each.
GEMM_WAVES = 4
#: Lanes of an elementwise workgroup.
ELEMENTWISE_LANES = 256


@dataclass(frozen=True)
class GemmPlan:
    """``C = bf16(A . B^T)``, operands straight from memory to registers.

    Attributes:
        n: Rows of B and columns of C, a multiple of 16.
        k: Contraction, a multiple of :data:`~hcgr.plan.k1.STEP`.
        mfma_k: K of the matrix instruction, 16 or 32.
        tiles: 16-column tiles of a workgroup; divides n / 16.
    """

    n: int
    k: int
    mfma_k: int
    tiles: int

    @property
    def rows(self) -> int:
        """Rows of a workgroup."""
        return TILE * GEMM_WAVES

    @property
    def column_groups(self) -> int:
        """Workgroups across the columns."""
        return self.n // (TILE * self.tiles)

    def workgroups(self, tokens: int) -> int:
        """Workgroups of a launch over `tokens` rows, column groups fastest."""
        return -(-tokens // self.rows) * self.column_groups

    def problems(self) -> Iterator[str]:
        """Why this plan cannot be built; nothing if it can."""
        if self.n <= 0 or self.n % (TILE * self.tiles):
            yield f"n must be a positive multiple of {TILE * self.tiles}, got {self.n}"
        if self.k <= 0 or self.k % STEP:
            yield f"k must be a positive multiple of {STEP}, got {self.k}"


def plan_gemm(n: int, k: int, mfma_k: int) -> GemmPlan:
    """The GEMM with the widest column group, up to 21 tiles, that divides `n`.

    Raises:
        ValueError: if n or k cannot be tiled.
    """
    tiles = max((t for t in range(1, 22) if n % (TILE * t) == 0), default=1)
    plan = GemmPlan(n, k, mfma_k, tiles)
    problem = next(plan.problems(), None)
    if problem is not None:
        raise ValueError(f"five-stage GEMM: {problem}")
    return plan


@dataclass(frozen=True)
class SiluPlan:
    """``h = bf16(SiLU(lora / HC))``; `rank` is a multiple of 8."""

    hc: int
    rank: int

    def workgroups(self, tokens: int) -> int:
        """Workgroups of a launch over `tokens` rows: a lane for eight columns."""
        return -(-tokens * (self.rank // LANE_COLUMNS) // ELEMENTWISE_LANES)


@dataclass(frozen=True)
class MixPlan:
    """``x = (1/HC) sum_s sigma(z[s]) * xn[s]``; `hs` is a multiple of 8."""

    hc: int
    hs: int

    def workgroups(self, tokens: int) -> int:
        """Workgroups of a launch over `tokens` rows: a lane for eight columns of x."""
        return -(-tokens * (self.hs // LANE_COLUMNS) // ELEMENTWISE_LANES)
