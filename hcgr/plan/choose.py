"""Which plan a call runs: what the caller asks for, else the tuned table, else the heuristics.

K1's paths: *skinny* for up to 8 rows of a folded weight; *fused* (folded) and *split-K* (unfolded), one pass
over K or several; *decoupled*, which is ``split_k=1`` or a given `stages`, and what the table may choose.

A tuned plan is discarded for the heuristic where it does not apply: another hidden size or CU count, a shape or
depth that cannot be built, no tile height that divides the rows. All functions are pure and cached.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import torch

from hcgr import arch as arch_table
from hcgr.arch import Arch
from hcgr.plan import k1_limits
from hcgr.plan.combine import MAX_GRID_ITEMS
from hcgr.plan.k1 import TILE, K1DecoupledPlan, K1FusedPlan, K1SplitKPlan
from hcgr.plan.k1_limits import FILLED, FUSED_TILES, K1Plan
from hcgr.plan.k2 import BLOCK_ROWS, K2Plan, plan_k2
from hcgr.plan.skinny import MAX_TOKENS, SkinnyPlan, plan_skinny
from hcgr.requirements import Problem
from hcgr.tuned import table

#: Tile heights of the tiled K1 paths, tallest first; the direct K1 takes row counts that one of them divides.
K1_HEIGHTS = tuple(sorted({TILE * row_tiles * waves for row_tiles, waves in FUSED_TILES}, reverse=True))
#: Tile heights of K2; the direct K2 takes row counts that one of them divides.
K2_HEIGHTS = BLOCK_ROWS
#: Depth of a decoupled pipeline that nobody chose: one stage multiplied, one arriving, one just asked for.
DEPTH = 3
#: Rows of the merged weight are rounded up to this where the op merges it itself.
MERGED_ROW_UNIT = 64

AnyK1Plan = K1Plan | SkinnyPlan


@dataclass(frozen=True)
class Request:
    """What a caller of the direct K1 asks for.

    Attributes:
        split_k: "auto"; 1 for the decoupled path; parts of K above that.
        stages: Depth of the decoupled pipeline; ``None`` leaves it to the plan.
        tile_rows: Tile height, one of :data:`K1_HEIGHTS`; ``None`` likewise.
        use_tuned: Whether the tuned table may choose.
    """

    split_k: int | Literal["auto"] = "auto"
    stages: int | None = None
    tile_rows: int | None = None
    use_tuned: bool = True

    @property
    def explicit(self) -> bool:
        """Whether anything but the table is asked for."""
        return self.split_k != "auto" or self.stages is not None or self.tile_rows is not None


AUTO = Request()


class NoPlanError(ValueError):
    """Nothing can be built for a call.

    Attributes:
        problem: What is wrong with the call, by argument.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def request_problems(request: Request) -> Iterator[Problem]:
    """What is wrong with a request, whatever the shape and the architecture."""
    if request.split_k != "auto" and not _is_count(request.split_k, 1):
        yield Problem("split_k", '"auto" or a positive integer', repr(request.split_k))
    if request.stages is not None and not _is_count(request.stages, 2):
        yield Problem("stages", "None or an integer of at least 2", repr(request.stages))
    elif request.stages not in (None, 2) and request.split_k not in ("auto", 1):
        accepted = "None or 2 with split_k above 1, whose kernels are two stages deep; deeper with split_k=1"
        yield Problem("stages", accepted, f"{request.stages} with split_k={request.split_k!r}")
    if request.tile_rows is not None and request.tile_rows not in K1_HEIGHTS:
        yield Problem("block_m", f"None or one of {', '.join(map(str, K1_HEIGHTS))}", repr(request.tile_rows))


def is_skinny(tokens: int, folded: bool, request: Request = AUTO) -> bool:
    """Whether a call takes the skinny path."""
    return folded and not request.explicit and tokens <= MAX_TOKENS


def merged_rows(w_down: torch.Tensor, w_inject: torch.Tensor | None, merged: torch.Tensor | None) -> int:
    """n_pad of a call: the merged weight's rows, or those that merging on the fly gives."""
    if merged is not None:
        return merged.shape[0]
    used = w_down.shape[0] + (0 if w_inject is None else w_inject.shape[0])
    return -(-used // MERGED_ROW_UNIT) * MERGED_ROW_UNIT


def live_columns(lowrank: int, hc: int, n_pad: int) -> int:
    """Columns of packed in use in a direct K1, which is not told whether its weight has inject rows."""
    return min(lowrank + hc, n_pad)


@dataclass(frozen=True)
class _Shape:
    """What every tiled K1 plan of a call shares."""

    tokens: int
    rows: int
    hc: int
    hs: int
    n_pad: int
    live: int
    arch: Arch
    cus: int
    folded: bool
    combine: bool
    norm_f32: bool
    norm_full: bool

    @property
    def dma16(self) -> bool:
        """Whether weights go straight to LDS in 16-byte loads."""
        return 16 in self.arch.lds_dma_bytes

    def split(self, splits: int, row_tiles: int, waves: int) -> K1FusedPlan | K1SplitKPlan:
        """The one-pass plan of this shape: fused with a folded weight, split-K with an unfolded one."""
        tile: dict[str, Any] = {
            "hc": self.hc,
            "hs": self.hs,
            "n_pad": self.n_pad,
            "live": self.live,
            "splits": splits,
            "row_tiles": row_tiles,
            "waves": waves,
            "mfma_k": self.arch.mfma_k,
            "dma_bytes": 16 if self.dma16 else 0,
        }
        if self.folded:
            return K1FusedPlan(combine=self.combine, **tile)
        return K1SplitKPlan(norm_f32=self.norm_f32, norm_full=self.norm_full, **tile)

    def decoupled(self, stages: int, column_groups: int, row_tiles: int, waves: int) -> K1DecoupledPlan:
        """The decoupled plan of this shape."""
        return K1DecoupledPlan(
            hc=self.hc,
            hs=self.hs,
            n_pad=self.n_pad,
            live=self.live,
            folded=self.folded,
            stages=stages,
            column_groups=column_groups,
            row_tiles=row_tiles,
            waves=waves,
            mfma_k=self.arch.mfma_k,
            dma_bytes=16 if self.dma16 else 4,
        )

    def problem(self, plan: K1Plan) -> Problem | None:
        """Why `plan` cannot run this call."""
        broken = next(_limits(plan, self.arch), None)
        if broken is None and not self.fits_grid(plan):
            broken = Problem("residual", "of fewer rows in one launch", f"{self.tokens} rows")
        return broken

    def fits_grid(self, plan: K1Plan) -> bool:
        """Whether every launch of `plan` is within the grid limit."""
        lanes = plan.tile.lanes if isinstance(plan, K1SplitKPlan) else plan.lanes
        items = [plan.workgroups(self.tokens) * lanes]
        if not isinstance(plan, K1FusedPlan):
            norm = k1_limits.norm_plan(plan, self.combine)
            items.append(norm.workgroups(self.tokens) * norm.lanes)
        return max(items) < MAX_GRID_ITEMS


def _limits(plan: K1Plan, arch: Arch) -> Iterator[Problem]:
    if isinstance(plan, K1FusedPlan):
        return k1_limits.fused_problems(plan, arch)
    if isinstance(plan, K1SplitKPlan):
        return k1_limits.split_k_problems(plan, arch)
    return k1_limits.decoupled_problems(plan, arch)


def _tiles(height: int | None) -> list[tuple[int, int]]:
    """(row_tiles, waves), tallest first, of one height if given."""
    return [(r, w) for r, w in FUSED_TILES if height is None or TILE * r * w == height]


def _best(shape: _Shape, plans: list[Any]) -> Any:
    """The first plan that fills the device, else the one with the most workgroups. Prefers whole tiles.

    Raises:
        NoPlanError: if none can run, with what is wrong with the last.
    """
    sound = [plan for plan in plans if shape.problem(plan) is None]
    if not sound:
        problem = shape.problem(plans[-1])
        assert problem is not None
        raise NoPlanError(problem)
    whole = [plan for plan in sound if shape.rows % _rows(plan) == 0]
    sound = whole or sound
    full = (plan for plan in sound if plan.workgroups(shape.rows) >= FILLED * shape.cus)
    return next(full, max(sound, key=lambda plan: plan.workgroups(shape.rows)))


def _rows(plan: K1Plan) -> int:
    return plan.tile.rows if isinstance(plan, K1SplitKPlan) else plan.rows


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def _decoupled(shape: _Shape, stages: int | None, height: int | None) -> K1DecoupledPlan:
    """The decoupled plan that rereads rows least."""
    tiles = _tiles(height)
    depths = [stages] if stages is not None else list(range(DEPTH, 1, -1))
    deepest = 1
    for groups in _divisors(-(-shape.live // TILE)):
        for depth in depths:
            plans = [shape.decoupled(depth, groups, *tile) for tile in tiles]
            deepest = max([deepest, *(k1_limits.max_stages(plan, shape.arch) for plan in plans)])
            if any(shape.problem(plan) is None for plan in plans):
                return _best(shape, plans)
    if stages is not None and stages > deepest:
        limits = f"{shape.arch.lds_bytes} bytes of LDS and a vmcnt of {shape.arch.max_vmcnt} on {shape.arch.name}"
        raise NoPlanError(Problem("stages", f"2 to {deepest}, what {limits} allow", str(stages)))
    return _best(shape, plans)


def _heuristic(shape: _Shape) -> K1Plan:
    """The fused plan of :func:`~hcgr.plan.k1_limits.plan_k1_fused`; its tile for an unfolded weight."""
    try:
        fused = k1_limits.plan_k1_fused(
            shape.rows, shape.hc, shape.hs, shape.n_pad, shape.live, shape.arch, shape.cus, shape.combine
        )
    except ValueError:
        return _best(shape, [shape.split(1, *tile) for tile in FUSED_TILES])
    plan = shape.split(fused.splits, fused.row_tiles, fused.waves)
    if shape.problem(plan) is None:
        return plan
    return _best(shape, [shape.split(fused.splits, *tile) for tile in FUSED_TILES])


def _applies(entry: table.Entry, hc: int, hs: int, cus: int) -> bool:
    return (entry["hc"], entry["hidden"], entry["cus"]) == (hc, hc * hs, cus) and entry["method"] != "heuristic"


def _tuned_k1(shape: _Shape) -> K1Plan | None:
    """The table's plan, its tile lowered until it divides the rows; ``None`` where it does not apply."""
    entry = table.k1_entry(shape.arch.name, shape.rows, shape.n_pad)
    if entry is None or not _applies(entry, shape.hc, shape.hs, shape.cus):
        return None
    tiles = [(entry["row_tiles"], entry["waves"])]
    tiles += [tile for tile in FUSED_TILES if TILE * tile[0] * tile[1] < TILE * entry["row_tiles"] * entry["waves"]]
    for row_tiles, waves in tiles:
        if shape.rows % (TILE * row_tiles * waves):
            continue
        plan: K1Plan
        if entry["method"] == "decoupled":
            plan = shape.decoupled(entry["stages"], entry["column_groups"], row_tiles, waves)
        else:
            plan = shape.split(entry["split_k"], row_tiles, waves)
        if shape.problem(plan) is None:
            return plan
    return None


@lru_cache(maxsize=4096)
def k1(
    tokens: int,
    hc: int,
    hs: int,
    n_pad: int,
    live: int,
    arch: str,
    cus: int,
    folded: bool,
    combine: bool = True,
    norm_f32: bool = False,
    norm_full: bool = False,
    rows: int | None = None,
    request: Request = AUTO,
) -> AnyK1Plan:
    """The K1 plan of a call.

    Args:
        tokens: Rows of the call, above 0.
        live: Columns of packed in use.
        arch: LLVM target, without feature suffixes.
        cus: Compute units of the device.
        rows: Rows to tile for, as a direct K1's `gemm_pad` sets them; ``None`` is `tokens`.

    Raises:
        NoPlanError: if nothing can be built, naming the argument and what is accepted.
    """
    arch_entry = arch_table.get(arch)
    if is_skinny(tokens, folded, request):
        return plan_skinny(tokens, hc, hs, n_pad, live, cus, arch_entry, combine=combine)
    padded = tokens if rows is None else rows
    shape = _Shape(
        tokens, padded, hc, hs, n_pad, live, arch_entry, cus, folded, combine, norm_f32, norm_full
    )
    if not request.explicit:
        return (_tuned_k1(shape) if request.use_tuned else None) or _heuristic(shape)
    if request.split_k == 1 or (request.split_k == "auto" and request.stages is not None):
        return _decoupled(shape, request.stages, request.tile_rows)
    splits = _heuristic_splits(shape) if request.split_k == "auto" else request.split_k
    return _best(shape, [shape.split(splits, *tile) for tile in _tiles(request.tile_rows)])


def _heuristic_splits(shape: _Shape) -> int:
    plan = _heuristic(shape)
    return 1 if isinstance(plan, K1DecoupledPlan) else plan.splits


def _k2_shapes(hc: int, hs: int, rows: int) -> Iterator[tuple[int, int, int]]:
    """(column_waves, stream_waves, passes) of one tile height, the least rereading first."""
    blocks = hs // 256
    for passes in range(blocks, 0, -1):
        if blocks % passes == 0:
            yield 8, 1, passes
    yield max(1, 8 // hc), hc, 1
    yield 1, hc, 1


@lru_cache(maxsize=4096)
def k2(
    tokens: int,
    hc: int,
    hs: int,
    rank: int,
    arch: str,
    cus: int,
    lora_stride: int,
    norm_f32: bool = False,
    norm_full: bool = False,
    whole_tiles: bool = False,
    block_m: int | None = None,
    use_tuned: bool = True,
) -> K2Plan:
    """The K2 plan of a call.

    Args:
        lora_stride: Row stride of lora, n_pad for a view of packed; sections of the table are for one stride.
        whole_tiles: Take only tile heights that divide `tokens`.
        block_m: Tile height that the caller asks for.

    Raises:
        NoPlanError: if nothing can be built, naming the argument and what is accepted.
    """
    arch_entry = arch_table.get(arch)
    base = K2Plan(hc, hs, rank, TILE, 1, full_norm=norm_full, norm_f32=norm_f32)
    plan: K2Plan | None = None
    if block_m is not None:
        plans = [
            replace(base, block_rows=block_m, column_waves=c, stream_waves=s, passes=p)
            for c, s, p in _k2_shapes(hc, hs, block_m)
        ]
        sound = [plan for plan in plans if not any(plan.problems(arch_entry))]
        if not sound:
            accepted = f"a tile height that fits r={rank} on {arch}: {next(plans[-1].problems(arch_entry))}"
            raise NoPlanError(Problem("block_m", accepted, str(block_m)))
        full = (plan for plan in sound if plan.workgroups(tokens) >= cus)
        plan = next(full, max(sound, key=lambda plan: plan.workgroups(tokens)))
    elif use_tuned:
        plan = _tuned_k2(base, tokens, arch_entry, cus, lora_stride)
    if plan is None:
        options = {"full_norm": norm_full, "norm_f32": norm_f32, "whole_tiles": whole_tiles}
        plan = plan_k2(tokens, hc, hs, rank, cus, arch_entry, **options)
    if tokens > plan.max_tokens():
        accepted = f"of at most {plan.max_tokens()} rows in one launch"
        raise NoPlanError(Problem("residual", accepted, f"{tokens} rows"))
    return plan


def _tuned_k2(base: K2Plan, tokens: int, arch: Arch, cus: int, lora_stride: int) -> K2Plan | None:
    entry = table.up_gate_mix_entry(arch.name, tokens, lora_stride)
    if entry is None or not _applies(entry, base.hc, base.hs, cus):
        return None
    for rows in (r for r in K2_HEIGHTS if r <= entry["block_rows"] and tokens % r == 0):
        names = ("column_waves", "stream_waves", "passes")
        plan = replace(base, block_rows=rows, **{name: entry[name] for name in names})
        if not any(plan.problems(arch)):
            return plan
    return None


def k1_problems(
    rows: int,
    hc: int,
    hs: int,
    n_pad: int,
    live: int,
    arch: str,
    *,
    tokens: int | None = None,
    folded: bool,
    combine: bool = True,
    request: Request = AUTO,
    weight_name: str = "w_dn_merged",
) -> Iterator[Problem]:
    """Why no K1 plan exists for a call; nothing if one does. As :func:`k1`, for the full part's CUs."""
    try:
        m = rows if tokens is None else tokens
        cus = arch_table.get(arch).cus
        k1(m, hc, hs, n_pad, live, arch, cus, folded, combine, rows=rows, request=request)
    except NoPlanError as error:
        yield by_argument(error.problem, weight_name, n_pad)


def by_argument(problem: Problem, weight_name: str, n_pad: int) -> Problem:
    """A limit that K1's weight breaks, under the name of the argument that brings the weight."""
    if problem.argument in ("plan", "n_pad", "live"):
        accepted = f"of fewer rows: a tile must be {problem.accepted}"
        return Problem(weight_name, accepted, f"{n_pad} rows, {problem.given}")
    return problem


def k2_problems(
    tokens: int, hc: int, hs: int, rank: int, arch: str, *, block_m: int | None = None
) -> Iterator[Problem]:
    """Why no K2 plan exists for a call; nothing if one does. As :func:`k2`, for the full part's CUs."""
    try:
        k2(tokens, hc, hs, rank, arch, arch_table.get(arch).cus, 0, block_m=block_m)
    except NoPlanError as error:
        yield error.problem


def two_stage_problems(
    tokens: int, hc: int, hs: int, n_pad: int, rank: int, arch: str, *, folded: bool, combine: bool
) -> Iterator[Problem]:
    """Why no plans exist for both stages of a call; nothing if they do."""
    yield from k1_problems(
        tokens, hc, hs, n_pad, rank, arch, folded=folded, combine=combine, weight_name="w_down_merged"
    )
    yield from k2_problems(tokens, hc, hs, rank, arch)
