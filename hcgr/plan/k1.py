"""Tiles of K1: fused, split-K and decoupled, their limits, and the workspaces they need.

All paths share one tile: a wave owns ``16 * row_tiles`` token rows, and K advances by :data:`STEP` columns a
matrix-instruction step. Plans carry what differs between architectures (``mfma_k``, ``dma_bytes``), so that a
plan alone determines a kernel; :mod:`hcgr.plan.k1_limits` tells which limit of an architecture a plan breaks.
"""

from __future__ import annotations

from dataclasses import dataclass

from hcgr.arch import WAVE_LANES
from hcgr.plan.combine import LANE_COLUMNS, MAX_GRID_ITEMS, MAX_LANES, WAVE_COLUMNS

#: Rows and columns of the matrix instruction's tile.
TILE = 16
#: K that one step multiplies: four lane groups of eight columns.
STEP = 4 * LANE_COLUMNS
#: Residual columns that a lane prefetches together: two steps, so that a row's 128-byte line moves at once.
PAIR = 2 * STEP
#: Bytes of one 16 x STEP fragment of bf16.
FRAGMENT_BYTES = TILE * STEP * 2
#: Lanes of a reduce workgroup: four waves, each lane eight columns of every partial.
REDUCE_LANES = 256


class OnePass:
    """What plans of one pass over the residual share: a workgroup takes a row tile and one of `splits` parts of K, and
    covers all live columns. The fields are those of :class:`K1FusedPlan`; `rows` is each plan's own."""

    hc: int
    hs: int
    live: int
    splits: int
    waves: int
    mfma_k: int

    @property
    def rows(self) -> int:
        """Token rows of a workgroup."""
        raise NotImplementedError

    @property
    def lanes(self) -> int:
        """Lanes of a workgroup."""
        return self.waves * WAVE_LANES

    @property
    def column_tiles(self) -> int:
        """16-column tiles of packed that hold live columns: what is multiplied."""
        return -(-self.live // TILE)

    @property
    def partial_columns(self) -> int:
        """Row length of the partials."""
        return self.column_tiles * TILE

    @property
    def streams(self) -> int:
        """Streams that a workgroup walks; 1 where it takes a part of one."""
        return max(1, self.hc // self.splits)

    def workgroups(self, tokens: int) -> int:
        """Workgroups of a launch over `tokens` rows, along grid x, parts of K fastest."""
        return -(-tokens // self.rows) * self.splits

    def max_tokens(self) -> int:
        """Most rows of one launch within the grid limit."""
        return (MAX_GRID_ITEMS - 1) // self.lanes // self.splits * self.rows

    def mfmas(self, tokens: int) -> int:
        """Matrix instructions (a wave each) that a launch executes, row padding of the last tile included."""
        tiles = -(-tokens // self.rows) * self.rows // TILE
        return tiles * self.column_tiles * (self.hc * self.hs // self.mfma_k)


@dataclass(frozen=True)
class K1FusedPlan(OnePass):
    """COMBINE, norm and the GEMM with a folded weight in one kernel that reads the residual once.

    A workgroup takes a row tile and one of `splits` equal parts of K, and covers all n_pad columns. A part of
    one or more whole streams (``splits <= hc``) is scaled by rrms in registers; with ``splits == 1`` the
    workgroup writes packed itself. A part of a stream (``splits > hc``) leaves raw partials and sums of
    squares to the reduce kernel.

    Attributes:
        hc: Residual streams.
        hs: Width of one stream, a multiple of :data:`WAVE_COLUMNS`.
        n_pad: Rows of the merged weight and columns of packed, a multiple of :data:`TILE`.
        live: Columns of packed in use, ``r + HC``, or r without inject rows. Weight rows from the next multiple
            of :data:`TILE` on are not read, and the columns from `live` on are written 0.
        combine: Whether block_output is added first; False for ``mix``, whose r2 is the residual itself.
        splits: Parts of K.
        row_tiles: 16-row tiles of a wave.
        waves: Waves of a workgroup.
        mfma_k: K of the matrix instruction, 16 or 32.
        dma_bytes: Bytes a lane that weights move straight to LDS; 0 moves them through registers.
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
    dma_bytes: int = 0

    @property
    def rows(self) -> int:
        """Token rows of a workgroup."""
        return TILE * self.row_tiles * self.waves

    @property
    def slots(self) -> int:
        """Weight fragments that each wave fetches for a step; the last may be padding."""
        return -(-self.column_tiles // self.waves)

    @property
    def stage_bytes(self) -> int:
        """LDS of one weight stage, with the fragments that pad it to a whole number of slots."""
        return self.slots * self.waves * FRAGMENT_BYTES

    @property
    def lds_bytes(self) -> int:
        """LDS of a workgroup: two weight stages."""
        return 2 * self.stage_bytes

    @property
    def scaled(self) -> bool:
        """Whether a workgroup sees whole streams, and so applies rrms itself."""
        return self.splits <= self.hc

    @property
    def slices(self) -> int:
        """Parts of one stream."""
        return max(1, self.splits // self.hc)

    @property
    def columns(self) -> int:
        """Columns of a stream that a workgroup walks."""
        return self.hs // self.slices

    @property
    def accumulator_vgprs(self) -> int:
        """Registers of the accumulators: one set for the stream at hand, one for the scaled sum of several."""
        return 4 * self.row_tiles * self.column_tiles * (2 if self.streams > 1 else 1)


@dataclass(frozen=True)
class K1ReducePlan:
    """Partials to packed.

    Attributes:
        hc: Residual streams.
        hs: Width of one stream.
        n_pad: Columns of packed, a multiple of :data:`TILE`.
        live: Columns in use; the others are written 0.
        splits: Partials.
        raw: Whether partials are unscaled parts of streams, ``splits / hc`` each, beside sums of squares.
    """

    hc: int
    hs: int
    n_pad: int
    live: int
    splits: int
    raw: bool

    @property
    def partial_columns(self) -> int:
        """Row length of the partials."""
        return -(-self.live // TILE) * TILE

    def workgroups(self, tokens: int) -> int:
        """Workgroups of a launch over `tokens` rows."""
        return -(-tokens * (self.n_pad // LANE_COLUMNS) // REDUCE_LANES)


@dataclass(frozen=True)
class K1NormPlan:
    """COMBINE, rrms and optionally xn, a workgroup a token row.

    Attributes:
        hc: Residual streams.
        hs: Width of one stream, a multiple of :data:`WAVE_COLUMNS`.
        combine: Whether block_output is added first.
        store_xn: Whether the normalised rows are written.
        norm_f32: Whether norm_weight is float32 rather than bf16 (read only with `store_xn`).
        norm_full: Whether norm_weight is [HC*HS] rather than [HS].
    """

    hc: int
    hs: int
    combine: bool = True
    store_xn: bool = False
    norm_f32: bool = False
    norm_full: bool = False

    @property
    def lanes(self) -> int:
        """Lanes of a workgroup: the largest whole number of waves that divides the row, up to MAX_LANES."""
        waves = self.hs // WAVE_COLUMNS
        return WAVE_LANES * max(n for n in range(1, MAX_LANES // WAVE_LANES + 1) if waves % n == 0)

    @property
    def column_tiles(self) -> int:
        """Eight-column vectors that a lane owns in one stream."""
        return self.hs // (self.lanes * LANE_COLUMNS)

    def workgroups(self, tokens: int) -> int:
        """Workgroups of a launch over `tokens` rows."""
        return tokens


@dataclass(frozen=True)
class K1SplitKPlan:
    """The GEMM of an unfolded weight over stored R2: xn is rebuilt in registers, K is split over workgroups.

    Attributes:
        norm_f32: Whether norm_weight is float32 rather than bf16.
        norm_full: Whether norm_weight is [HC*HS] rather than [HS].
        hc, hs, n_pad, live, splits, row_tiles, waves, mfma_k, dma_bytes: As for :class:`K1FusedPlan`.
    """

    hc: int
    hs: int
    n_pad: int
    live: int
    splits: int = 1
    row_tiles: int = 1
    waves: int = 4
    mfma_k: int = 16
    dma_bytes: int = 0
    norm_f32: bool = False
    norm_full: bool = False

    @property
    def tile(self) -> K1FusedPlan:
        """The fused plan of the same tile, whose geometry this shares."""
        return K1FusedPlan(
            self.hc,
            self.hs,
            self.n_pad,
            self.live,
            True,
            self.splits,
            self.row_tiles,
            self.waves,
            self.mfma_k,
            self.dma_bytes,
        )

    def workgroups(self, tokens: int) -> int:
        """Workgroups of a launch over `tokens` rows."""
        return self.tile.workgroups(tokens)


@dataclass(frozen=True)
class K1DecoupledPlan:
    """The GEMM of stored rows, both operands by asynchronous loads to LDS, `stages` steps deep.

    Attributes:
        hc: Residual streams.
        hs: Width of one stream.
        n_pad: Rows of the merged weight and columns of packed, a multiple of :data:`TILE`.
        live: Columns of packed in use, as for :class:`K1FusedPlan`.
        folded: Whether rows are R2 and rrms scales each stream's sum; else rows are xn.
        stages: LDS stages, at least 2.
        column_groups: Workgroups across packed's columns; each reads the rows again.
        row_tiles: 16-row tiles of a wave.
        waves: Waves of a workgroup.
        mfma_k: K of the matrix instruction.
        dma_bytes: Bytes a lane of one LDS-DMA, 4 or 16.
    """

    hc: int
    hs: int
    n_pad: int
    live: int
    folded: bool = True
    stages: int = 2
    column_groups: int = 1
    row_tiles: int = 1
    waves: int = 4
    mfma_k: int = 16
    dma_bytes: int = 4

    @property
    def lanes(self) -> int:
        """Lanes of a workgroup."""
        return self.waves * WAVE_LANES

    @property
    def rows(self) -> int:
        """Token rows of a workgroup."""
        return TILE * self.row_tiles * self.waves

    @property
    def column_tiles(self) -> int:
        """16-column tiles that a workgroup multiplies."""
        return -(-self.live // TILE) // self.column_groups

    @property
    def slots(self) -> int:
        """Weight fragments that each wave fetches for a step; the last may be padding."""
        return -(-self.column_tiles // self.waves)

    @property
    def stage_fragments(self) -> int:
        """Fragments of one stage: each wave's own rows, then the weight with its padding."""
        return self.waves * (self.row_tiles + self.slots)

    @property
    def lds_bytes(self) -> int:
        """LDS of a workgroup."""
        return self.stages * self.stage_fragments * FRAGMENT_BYTES

    @property
    def loads_per_stage(self) -> int:
        """LDS-DMA instructions that each wave issues for a step."""
        return (self.row_tiles + self.slots) * (FRAGMENT_BYTES // WAVE_LANES // self.dma_bytes)

    @property
    def pending_loads(self) -> int:
        """The ``vmcnt`` of the loop's wait: every stage behind the one about to be used may be in flight."""
        return (self.stages - 2) * self.loads_per_stage

    @property
    def accumulator_vgprs(self) -> int:
        """Registers of the accumulators, as for the fused plan."""
        return 4 * self.row_tiles * self.column_tiles * (2 if self.folded else 1)

    def workgroups(self, tokens: int) -> int:
        """Workgroups of a launch over `tokens` rows, along grid x, column groups fastest."""
        return -(-tokens // self.rows) * self.column_groups

    def mfmas(self, tokens: int) -> int:
        """Matrix instructions (a wave each) that a launch executes, row padding of the last tile included."""
        tiles = -(-tokens // self.rows) * self.rows // TILE
        return tiles * self.column_tiles * self.column_groups * (self.hc * self.hs // self.mfma_k)
