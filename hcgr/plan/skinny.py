"""Tiles of K1's skinny path: decode, a GEMV over the folded weight in one launch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from hcgr.arch import WAVE_LANES, Arch
from hcgr.plan.combine import LANE_COLUMNS, MAX_GRID_ITEMS, MAX_LANES, WAVE_COLUMNS

#: Most tokens that the heuristic sends down this path, and most of one workgroup.
MAX_TOKENS = 8
#: Columns that one lane publishes or writes at a time: four float32 are one 16-byte access.
QUAD = 4
#: Columns of packed a workgroup may take, the least traffic first.
COLUMN_CHOICES = (8, 4)
#: An arrival counter owns a 128-byte line, so that no two are bumped through one.
SLOT_BYTES = 128
#: Registers a lane for the sums and the operands of a step, where there are several steps; with about 50 more
#: for addresses and arithmetic a wave stays within 256. A single step needs no sums while it loads.
MAX_HELD = 192
SLOT_ELEMENTS = SLOT_BYTES // 4


def counter_slots(n_pad: int, token_groups: int) -> int:
    """Arrival counters of a set: enough for every column tile of every plan with this key."""
    return token_groups * -(-n_pad // min(COLUMN_CHOICES))


@dataclass(frozen=True)
class SkinnyPlan:
    """Static parameters of one skinny K1 build; equal plans share one compiled kernel.

    A workgroup takes one stream, `columns` columns of packed and `tokens` tokens, over the stream's whole
    width. The HC workgroups of a (token group, column tile) meet at an arrival counter.

    Attributes:
        hc: Residual streams, a power of two: arrivals of a counter.
        hs: Width of one stream, a multiple of the columns of a wave (512).
        n_pad: Rows of the folded weight and row stride of packed.
        live: Columns of packed in use, r + HC (r without inject rows); those from here on are written 0.
        tokens: Tokens of a workgroup, 1 to 8.
        columns: Columns of packed of a workgroup.
        combine: Whether COMBINE comes first; without it R2 is the residual and is not written.
        av: Publish partial sums by available-on-write stores and visible-on-read loads; False takes volatile
            (``sc0 sc1``) accesses, for compilers without those intrinsics.
    """

    hc: int
    hs: int
    n_pad: int
    live: int
    tokens: int
    columns: int
    combine: bool = True
    av: bool = True

    @cached_property
    def lanes(self) -> int:
        """Lanes of a workgroup: the largest whole number of waves that divides the width, up to MAX_LANES."""
        waves = self.hs // WAVE_COLUMNS
        return WAVE_LANES * max(n for n in range(1, MAX_LANES // WAVE_LANES + 1) if waves % n == 0)

    @cached_property
    def waves(self) -> int:
        """Waves of a workgroup."""
        return self.lanes // WAVE_LANES

    @cached_property
    def steps(self) -> int:
        """16-byte vectors of a row that each lane handles."""
        return self.hs // (self.lanes * LANE_COLUMNS)

    @cached_property
    def tiles(self) -> int:
        """Column tiles that hold a live column; dead tiles are neither read nor multiplied."""
        return -(-self.live // self.columns)

    @cached_property
    def lds_bytes(self) -> int:
        """LDS of a workgroup: each wave's sums and sums of squares, and the ticket."""
        return self.waves * self.record * 4 + 16

    @cached_property
    def record(self) -> int:
        """Float32 of one wave in LDS: the sums, then the sums of squares, padded to 16 bytes."""
        return self.tokens * self.columns + -(-self.tokens // QUAD) * QUAD

    @cached_property
    def held_registers(self) -> int:
        """Registers a lane that sums (pairs of f32) and a step's loads take together."""
        loads = self.columns + (2 if self.combine else 1) * self.tokens
        return 2 * self.tokens * (self.columns + 1) + 4 * loads

    def token_groups(self, tokens: int) -> int:
        """Workgroups along the tokens: part of the counter set's key."""
        return -(-tokens // self.tokens)

    def grid(self, tokens: int) -> tuple[int, int, int]:
        """(column tiles, streams, token groups)."""
        return self.tiles, self.hc, self.token_groups(tokens)

    def workgroups(self, tokens: int) -> int:
        """Workgroups of a launch over `tokens` rows."""
        return self.tiles * self.hc * self.token_groups(tokens)

    def max_tokens(self) -> int:
        """Most rows of one launch: HIP's limit for grid z."""
        return min(MAX_GRID_ITEMS, 1 << 16) // self.tokens * self.tokens - self.tokens

    def partial_elements(self, tokens: int) -> int:
        """Float32 elements of the workspace for partial sums; it needs no initial value."""
        return self.workgroups(tokens) * self.tokens * self.columns

    def counter_slots(self, tokens: int) -> int:
        """Arrival counters that a launch bumps, HC times each."""
        return self.tiles * self.token_groups(tokens)

    def problems(self, arch: Arch) -> Iterator[str]:
        """Why this plan cannot be built for `arch`; nothing if it can."""
        if self.hc < 2 or self.hc & (self.hc - 1):
            yield f"hc must be a power of two, 2 or more, got {self.hc}"
        if self.hs <= 0 or self.hs % WAVE_COLUMNS:
            yield f"hs must be a positive multiple of {WAVE_COLUMNS}, got {self.hs}"
        if not 1 <= self.tokens <= MAX_TOKENS:
            yield f"tokens must be 1 to {MAX_TOKENS}, got {self.tokens}"
        if self.columns not in COLUMN_CHOICES:
            yield f"columns must be one of {COLUMN_CHOICES}, got {self.columns}"
        if self.n_pad <= 0 or self.n_pad % max(COLUMN_CHOICES):
            yield f"n_pad must be a positive multiple of {max(COLUMN_CHOICES)}, got {self.n_pad}"
        if not 0 < self.live <= self.n_pad:
            yield f"live must be 1 to n_pad={self.n_pad}, got {self.live}"
        elif self.lds_bytes > arch.lds_bytes:
            yield f"LDS must be at most {arch.lds_bytes} bytes on {arch.name}, got {self.lds_bytes}"
        elif self.steps > 1 and self.held_registers > MAX_HELD:
            yield f"tokens and columns must take at most {MAX_HELD} registers, got {self.held_registers}"


@lru_cache(maxsize=1024)
def plan_skinny(
    tokens: int, hc: int, hs: int, n_pad: int, live: int, cus: int, arch: Arch, *, combine: bool = True
) -> SkinnyPlan:
    """The skinny plan for `tokens` rows on `cus` compute units of `arch`.

    All tokens up to :data:`MAX_TOKENS` share a workgroup, so that weights are read once. The widest column
    tile that still gives every CU a workgroup is taken, else the narrowest.

    Raises:
        ValueError: if nothing fits, naming what is accepted.
    """
    group = min(tokens, MAX_TOKENS)
    plans = [SkinnyPlan(hc, hs, n_pad, live, group, columns, combine) for columns in COLUMN_CHOICES]
    problem = next(plans[-1].problems(arch), None)
    if problem is not None:
        raise ValueError(f"skinny K1: {problem}")
    full = (plan for plan in plans if plan.workgroups(tokens) >= cus and not any(plan.problems(arch)))
    return next(full, plans[-1])
