"""Tiles of K1's resident path: R2 kept in registers between its norm and the GEMM.

A workgroup takes ``16 * row_tiles`` token rows and whole streams. Its waves share a stream's columns out among
them, :data:`~hcgr.plan.k1.PAIR` at a time, and packed's column tiles likewise; what a wave holds for all others to
multiply reaches them through LDS, one pair a wave at a time: a *slot*.
"""

from __future__ import annotations

from dataclasses import dataclass

from hcgr.arch import WAVE_LANES
from hcgr.plan.k1 import FRAGMENT_BYTES, PAIR, STEP, TILE, OnePass

#: Registers of one lane's share of a fragment.
FRAGMENT_VGPRS = FRAGMENT_BYTES // WAVE_LANES // 4


@dataclass(frozen=True)
class K1ResidentPlan(OnePass):
    """COMBINE, norm and the GEMM in one kernel that reads the residual once, and whose weight does not go through LDS.

    Attributes:
        hc: Residual streams.
        hs: Width of one stream, a multiple of ``PAIR * waves``.
        n_pad: Rows of the merged weight and columns of packed, a multiple of :data:`TILE`.
        live: Columns of packed in use, as for :class:`~hcgr.plan.k1.K1FusedPlan`.
        combine: Whether block_output is added first; False for ``mix``, whose r2 is the residual itself.
        splits: Parts of K, each of whole streams: a divisor of `hc`. 1 writes packed itself.
        row_tiles: 16-row tiles of a workgroup.
        waves: Waves of a workgroup.
        mfma_k: K of the matrix instruction, 16 or 32.
        norm_f32: Whether norm_weight is float32 rather than bf16.
        norm_full: Whether norm_weight is [HC*HS] rather than [HS].
        folded: Whether the weight holds ``1 + Wnorm``: R2 itself is multiplied, each stream's sum is scaled by rrms,
            and norm_weight is not read.
    """

    hc: int
    hs: int
    n_pad: int
    live: int
    combine: bool = True
    splits: int = 1
    row_tiles: int = 1
    waves: int = 8
    mfma_k: int = 16
    norm_f32: bool = False
    norm_full: bool = False
    folded: bool = False

    @property
    def rows(self) -> int:
        """Token rows of a workgroup; every wave has columns of all of them."""
        return TILE * self.row_tiles

    @property
    def slots(self) -> int:
        """Pairs of steps that a wave holds of one stream."""
        return self.hs // (PAIR * self.waves)

    @property
    def owned_tiles(self) -> int:
        """Column tiles of a wave, at most: wave w multiplies tiles w, w + waves, ..."""
        return -(-self.column_tiles // self.waves)

    @property
    def lds_bytes(self) -> int:
        """LDS of a workgroup: one slot of every wave. Sums of squares go through the same memory before."""
        return self.waves * (PAIR // STEP) * self.row_tiles * FRAGMENT_BYTES

    @property
    def resident_vgprs(self) -> int:
        """Registers of a lane's columns of R2, later xn."""
        return self.slots * (PAIR // STEP) * self.row_tiles * FRAGMENT_VGPRS

    @property
    def accumulator_vgprs(self) -> int:
        """Registers of the accumulators: one set, for xn is scaled already; with a folded weight another for the scaled
        sum of several streams."""
        return 4 * self.row_tiles * self.owned_tiles * (2 if self.folded and self.streams > 1 else 1)
