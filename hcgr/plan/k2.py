"""Tiles of K2 (SiLU, G2, sigmoid and MIX)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from hcgr.arch import WAVE_LANES, Arch
from hcgr.plan.combine import MAX_GRID_ITEMS

#: Token rows of one MFMA tile.
TILE_ROWS = 16
#: Columns of x that one wave handles at a time: two MFMA tiles, so that a lane owns 8 of them, 16 bytes.
WAVE_CHUNK = 32
#: Contraction granule on both architectures, 8 bf16 a lane: one MFMA with K=32, or two with K=16. r is padded
#: up to it with zeros ("rank padding").
RANK_BLOCK = 32
#: r must be a multiple of this, so that 16-byte reads of w_up and lora rows are aligned and whole.
RANK_UNIT = 8
#: Largest r: the weight fragments of a wave, r/4 registers a lane, stay within half of a lane's 256.
MAX_RANK = 512
#: Registers a lane that weight fragments (r/4), sums over streams (block_rows/2) and a full-width Wnorm (8) may
#: take together; about 105 more go to operands, results and addresses, and eight waves of a workgroup have 256 each.
MAX_HELD = 144
#: Heights of a block of rows, tallest first.
BLOCK_ROWS = (128, 64, 32, 16)
#: Most waves of a workgroup.
MAX_WAVES = 8


@dataclass(frozen=True)
class K2Plan:
    """Static parameters of one K2 build; equal plans share one compiled kernel.

    A workgroup takes `block_rows` tokens. Its waves are `stream_waves` groups, which share out the HC streams,
    by `column_waves` columns of :data:`WAVE_CHUNK`; it goes over `passes` such column blocks in turn, with
    h in LDS throughout.

    Attributes:
        hc: Residual streams.
        hs: Width of one stream.
        rank: r, the columns of lora and w_up.
        block_rows: Tokens of a workgroup.
        column_waves: Waves side by side along the columns.
        stream_waves: Groups of waves that share out the streams; their sums meet in LDS.
        passes: Column blocks of a workgroup, one after the other.
        full_norm: Whether norm_weight is [HC*HS] rather than [HS].
        norm_f32: Whether norm_weight is float32 rather than bf16.
        activated: Whether `lora` already holds h = bf16(SiLU(packed / HC)).
    """

    hc: int
    hs: int
    rank: int
    block_rows: int
    column_waves: int
    stream_waves: int = 1
    passes: int = 1
    full_norm: bool = False
    norm_f32: bool = False
    activated: bool = False

    @cached_property
    def waves(self) -> int:
        """Waves of a workgroup."""
        return self.column_waves * self.stream_waves

    @cached_property
    def lanes(self) -> int:
        """Lanes of a workgroup."""
        return self.waves * WAVE_LANES

    @cached_property
    def block_columns(self) -> int:
        """Columns that a workgroup handles at a time."""
        return self.column_waves * WAVE_CHUNK

    @cached_property
    def padded_rank(self) -> int:
        """r with the rank padding."""
        return -(-self.rank // RANK_BLOCK) * RANK_BLOCK

    @cached_property
    def column_groups(self) -> int:
        """Workgroups across the columns: grid y."""
        return self.hs // (self.block_columns * self.passes)

    @cached_property
    def held_registers(self) -> int:
        """Registers a lane that a wave holds throughout: weight fragments, sums and a stream's 1 + Wnorm."""
        return self.padded_rank // 4 + self.block_rows // 2 + (8 if self.full_norm else 0)

    @cached_property
    def exchange_bytes(self) -> int:
        """LDS in which the groups of stream waves meet; the first group keeps its own sums."""
        return (self.stream_waves - 1) * self.block_rows * self.block_columns * 4

    @cached_property
    def lds_bytes(self) -> int:
        """Static LDS of a workgroup: h in bf16, and the exchange."""
        return self.block_rows * self.padded_rank * 2 + self.exchange_bytes

    def row_tiles(self, tokens: int) -> int:
        """Workgroups down the rows: grid x, so that neighbours in time share the columns of w_up."""
        return -(-tokens // self.block_rows)

    def workgroups(self, tokens: int) -> int:
        """Workgroups of a launch over `tokens` rows."""
        return self.row_tiles(tokens) * self.column_groups

    def max_tokens(self) -> int:
        """Most rows that one launch can cover within the grid limit."""
        return (MAX_GRID_ITEMS - 1) // self.lanes * self.block_rows

    def mfmas(self, tokens: int, arch: Arch) -> int:
        """16x16 MFMAs that a launch executes, row and rank padding included."""
        rows = self.row_tiles(tokens) * self.block_rows
        return rows // TILE_ROWS * (self.hc * self.hs // 16) * (self.padded_rank // arch.mfma_k)

    def problems(self, arch: Arch) -> Iterator[str]:
        """Why this plan cannot be built for `arch`; nothing if it can."""
        if self.stream_waves < 1 or self.hc % self.stream_waves:
            yield f"stream_waves must divide hc={self.hc}, got {self.stream_waves}"
        if not 0 < self.rank <= MAX_RANK or self.rank % RANK_UNIT:
            yield f"rank must be a multiple of {RANK_UNIT} up to {MAX_RANK}, got {self.rank}"
        if self.block_rows not in BLOCK_ROWS:
            yield f"block_rows must be one of {BLOCK_ROWS}, got {self.block_rows}"
        if not 0 < self.waves <= MAX_WAVES:
            yield f"a workgroup must have 1 to {MAX_WAVES} waves, got {self.waves}"
        if self.passes < 1:
            yield f"passes must be 1 or more, got {self.passes}"
        elif self.waves and self.hs % (self.block_columns * self.passes):
            yield f"hs={self.hs} must be a multiple of {self.block_columns} columns x {self.passes} passes"
        if self.stream_waves > 1 and self.passes > 1:
            yield f"stream_waves above 1 must come with passes=1, got passes={self.passes}"
        if self.held_registers > MAX_HELD:
            yield (
                f"r/4 + block_rows/2 (+ 8 with full_norm) must be at most {MAX_HELD} registers, "
                f"got {self.held_registers}"
            )
        if self.lds_bytes > arch.lds_bytes:
            yield f"LDS must be at most {arch.lds_bytes} bytes on {arch.name}, got {self.lds_bytes}"


def tile_heights(tokens: int) -> tuple[int, ...]:
    """Block heights that divide `tokens` rows, tallest first; the direct K2 accepts only such row counts."""
    return tuple(rows for rows in BLOCK_ROWS if tokens % rows == 0)


def _shapes(hc: int, hs: int) -> Iterator[tuple[int, int, int, int]]:
    """(block_rows, column_waves, stream_waves, passes), the least traffic first, the most workgroups last."""
    blocks = hs // (8 * WAVE_CHUNK)
    for rows in BLOCK_ROWS[:2]:
        for passes in range(blocks, 0, -1):
            if blocks % passes == 0:
                yield rows, 8, 1, passes
    for rows in BLOCK_ROWS[1:]:
        yield rows, max(1, 8 // hc), hc, 1
    # One column of waves: the most workgroups that there are.
    yield TILE_ROWS, 1, hc, 1


@lru_cache(maxsize=1024)
def plan_k2(
    tokens: int,
    hc: int,
    hs: int,
    rank: int,
    cus: int,
    arch: Arch,
    *,
    full_norm: bool = False,
    norm_f32: bool = False,
    activated: bool = False,
    whole_tiles: bool = False,
) -> K2Plan:
    """The K2 plan for `tokens` rows on `cus` compute units of `arch`.

    Taller tiles read w_up less often, more passes compute SiLU less often; both leave fewer workgroups. The
    first shape that gives every CU one is taken, else the one with the most workgroups.

    Args:
        whole_tiles: Take only block heights that divide `tokens`.

    Raises:
        ValueError: if no tile fits, naming what is accepted.
    """
    if hs % (8 * WAVE_CHUNK) or not 0 < rank <= MAX_RANK or rank % RANK_UNIT:
        raise ValueError(
            f"K2 needs HS a multiple of {8 * WAVE_CHUNK} and r a multiple of {RANK_UNIT} up to {MAX_RANK}, "
            f"got HS={hs}, r={rank}"
        )
    plans = [
        plan
        for rows, column_waves, stream_waves, passes in _shapes(hc, hs)
        if not (whole_tiles and tokens % rows)
        for plan in [K2Plan(hc, hs, rank, rows, column_waves, stream_waves, passes, full_norm, norm_f32, activated)]
        if not any(plan.problems(arch))
    ]
    if not plans:
        raise ValueError(f"K2 needs a row count that one of its tile heights {BLOCK_ROWS} divides, got {tokens} rows")
    full = (plan for plan in plans if plan.workgroups(tokens) >= cus)
    return next(full, max(plans, key=lambda plan: plan.workgroups(tokens)))
