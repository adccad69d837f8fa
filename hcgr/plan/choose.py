"""Which plan a call runs: what the caller asks for, else the tuned table, else the heuristics.

K1's paths: *skinny* for up to 8 rows of a folded weight; *fused* (folded) and *split-K* (unfolded), one pass
over K or several; *resident*, for an unfolded weight of many rows that nobody asked to split, where a workgroup can
hold a stream, and for a folded one of too many columns for LDS; *decoupled*, which is ``split_k=1`` or a given
`stages`, what the table may choose, and what few rows of such a weight take.

A tuned plan is discarded for the heuristic where it does not apply: another hidden size or CU count, a shape or
depth that cannot be built, no tile height that divides the rows. Where the entry was made for just this shape, a
:class:`~hcgr.plan.request.DiscardedPlanWarning` says that it cannot be built. Results are cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from hcgr import arch as arch_table
from hcgr.arch import Arch
from hcgr.plan import k1_limits
from hcgr.plan.choose_k2 import K2_HEIGHTS, k2, k2_problems, k2_shapes
from hcgr.plan.combine import MAX_GRID_ITEMS
from hcgr.plan.k1 import TILE, K1DecoupledPlan, K1FusedPlan, K1SplitKPlan
from hcgr.plan.k1_limits import FILLED, FUSED_TILES, RESIDENT_ROWS, K1Plan
from hcgr.plan.k1_resident import K1ResidentPlan
from hcgr.plan.request import (
    AUTO,
    K1_HEIGHTS,
    DiscardedPlanWarning,
    NoPlanError,
    Request,
    applies,
    discarded,
    is_skinny,
    live_columns,
    merged_rows,
    request_problems,
    tile_height,
)
from hcgr.plan.skinny import SkinnyPlan, plan_skinny
from hcgr.requirements import Problem
from hcgr.tuned import table

__all__ = [
    "AUTO",
    "DEPTH",
    "K1_HEIGHTS",
    "K2_HEIGHTS",
    "AnyK1Plan",
    "DiscardedPlanWarning",
    "NoPlanError",
    "Request",
    "by_argument",
    "by_k2_argument",
    "is_skinny",
    "k1",
    "k1_problems",
    "k2",
    "k2_problems",
    "k2_shapes",
    "live_columns",
    "merged_rows",
    "request_problems",
    "tile_height",
    "two_stage_problems",
]

#: Depth of a decoupled pipeline that nobody chose: one stage multiplied, one arriving, one just asked for.
DEPTH = 3
AnyK1Plan = K1Plan | SkinnyPlan


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
            "dma_bytes": k1_limits.weight_dma_bytes(self.arch, waves),
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
            dma_bytes=16 if 16 in self.arch.lds_dma_bytes else 4,
        )

    def most_tokens(self, plan: K1Plan) -> int:
        """Most rows for which every launch of `plan` is within the grid limit."""
        if isinstance(plan, K1FusedPlan | K1ResidentPlan):
            return plan.max_tokens()
        norm = k1_limits.norm_plan(plan, self.combine)
        if isinstance(plan, K1SplitKPlan):
            most = plan.tile.max_tokens()
        else:
            most = (MAX_GRID_ITEMS - 1) // plan.lanes // plan.column_groups * plan.rows
        return min(most, (MAX_GRID_ITEMS - 1) // norm.lanes)

    def runs(self, plan: K1Plan) -> bool:
        """Whether `plan` can be built and launched for this call."""
        return not any(_limits(plan, self.arch)) and self.tokens <= self.most_tokens(plan)


#: What limits each kind of plan.
_LIMITS: dict[type, Callable[[Any, Arch], Iterator[Problem]]] = {
    K1FusedPlan: k1_limits.fused_problems,
    K1SplitKPlan: k1_limits.split_k_problems,
    K1ResidentPlan: k1_limits.resident_problems,
    K1DecoupledPlan: k1_limits.decoupled_problems,
}


def _limits(plan: K1Plan, arch: Arch) -> Iterator[Problem]:
    return _LIMITS[type(plan)](plan, arch)


def _tiles(height: int | None) -> list[tuple[int, int]]:
    """(row_tiles, waves), tallest first, of one height if given."""
    return [(r, w) for r, w in FUSED_TILES if height is None or TILE * r * w == height]


def _best(shape: _Shape, plans: list[Any]) -> Any:
    """The first plan that fills the device, else the one with the most workgroups. Prefers whole tiles.

    Raises:
        NoPlanError: if none can run: with what is wrong with the last, or with the most rows that any can take.
    """
    sound = [plan for plan in plans if not any(_limits(plan, shape.arch))]
    if not sound:
        raise NoPlanError(next(_limits(plans[-1], shape.arch)))
    most = max(shape.most_tokens(plan) for plan in sound)
    if shape.tokens > most:
        raise NoPlanError(Problem("residual", f"of at most {most} rows in one launch", f"{shape.tokens} rows"))
    sound = [plan for plan in sound if shape.runs(plan)]
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
    plans: list[K1DecoupledPlan] = []
    for groups in _divisors(-(-shape.live // TILE)):
        for depth in depths:
            plans = [shape.decoupled(depth, groups, *tile) for tile in tiles]
            if any(shape.runs(plan) for plan in plans):
                return _best(shape, plans)
    return _best(shape, plans)  # raises, for the plan that takes least LDS: no depth is possible that it does not allow


def _resident(shape: _Shape) -> K1ResidentPlan | None:
    """The resident plan; ``None`` for few rows, and where none can be built.

    Raises:
        NoPlanError: for more rows than one launch of it takes.
    """
    if shape.rows < RESIDENT_ROWS:
        return None
    plan = k1_limits.plan_k1_resident(
        shape.rows,
        shape.hc,
        shape.hs,
        shape.n_pad,
        shape.live,
        shape.arch,
        shape.cus,
        shape.combine,
        shape.norm_f32 and not shape.folded,
        shape.norm_full and not shape.folded,
        shape.folded,
    )
    if plan is not None and shape.tokens > plan.max_tokens():
        accepted = f"of at most {plan.max_tokens()} rows in one launch"
        raise NoPlanError(Problem("residual", accepted, f"{shape.tokens} rows"))
    return plan


def _heuristic(shape: _Shape) -> K1Plan:
    """The resident plan of an unfolded weight, if there is one; else that of :func:`_in_parts`."""
    return (None if shape.folded else _resident(shape)) or _in_parts(shape)


def _in_parts(shape: _Shape) -> K1Plan:
    """The fused plan of :func:`~hcgr.plan.k1_limits.plan_k1_fused`; its tile for an unfolded weight.

    A weight with more columns than fit a workgroup's LDS takes the resident path, which keeps none there, or with few
    rows the decoupled one, which shares them out.
    """
    try:
        fused = k1_limits.plan_k1_fused(
            shape.rows, shape.hc, shape.hs, shape.n_pad, shape.live, shape.arch, shape.cus, shape.combine
        )
    except ValueError:
        return _one_pass_or_decoupled(shape)
    plan = shape.split(fused.splits, fused.row_tiles, fused.waves)
    if shape.runs(plan):
        return plan
    return _best(shape, [shape.split(fused.splits, *tile) for tile in FUSED_TILES])


def _one_pass_or_decoupled(shape: _Shape) -> K1Plan:
    try:
        return _best(shape, [shape.split(1, *tile) for tile in FUSED_TILES])
    except NoPlanError as error:
        if error.problem.argument != "plan":
            raise
    return _resident(shape) or _decoupled(shape, None, None)


def _tuned_k1(shape: _Shape) -> K1Plan | None:
    """The table's plan, its tile lowered until it divides the rows; ``None`` where it does not apply.

    Its entries are for folded weights. The splits of one hold for an unfolded weight only where that is split too.
    """
    entry = table.k1_entry(shape.arch.name, shape.rows, shape.n_pad)
    if entry is None or not applies(entry, shape.hc, shape.hs, shape.cus):
        return None
    if entry["method"] == "split_k" and not shape.folded and _resident(shape) is not None:
        return None
    tiles = [(entry["row_tiles"], entry["waves"])]
    tiles += [tile for tile in FUSED_TILES if TILE * tile[0] * tile[1] < TILE * entry["row_tiles"] * entry["waves"]]
    for row_tiles, waves in tiles:
        plan: K1Plan
        if entry["method"] == "decoupled":
            plan = shape.decoupled(entry["stages"], entry["column_groups"], row_tiles, waves)
        else:
            plan = shape.split(entry["split_k"], row_tiles, waves)
        problem = next(_limits(plan, shape.arch), None)
        if problem is not None and shape.folded and shape.n_pad == entry["n_pad"]:
            discarded("k1", shape.arch.name, shape.rows, problem)
        if problem is not None or not shape.runs(plan):
            return None
        if shape.rows % _rows(plan) == 0:
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
    shape = _Shape(tokens, padded, hc, hs, n_pad, live, arch_entry, cus, folded, combine, norm_f32, norm_full)
    if not request.explicit:
        return (_tuned_k1(shape) if request.use_tuned else None) or _heuristic(shape)
    if request.split_k == 1 or (request.split_k == "auto" and request.stages is not None):
        return _decoupled(shape, request.stages, request.tile_rows)
    splits = _heuristic_splits(shape) if request.split_k == "auto" else request.split_k
    return _best(shape, [shape.split(splits, *tile) for tile in _tiles(request.tile_rows)])


def _heuristic_splits(shape: _Shape) -> int:
    plan = _in_parts(shape)
    return 1 if isinstance(plan, K1DecoupledPlan | K1ResidentPlan) else plan.splits


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


def by_k2_argument(problem: Problem) -> Problem:
    """A limit of K2 on the rows, under the name of the direct K2's argument that has them."""
    return replace(problem, argument="r2") if problem.argument == "residual" else problem


def two_stage_problems(
    tokens: int, hc: int, hs: int, n_pad: int, rank: int, arch: str, *, folded: bool, combine: bool
) -> Iterator[Problem]:
    """Why no plans exist for both stages of a call; nothing if they do."""
    yield from k1_problems(
        tokens, hc, hs, n_pad, rank, arch, folded=folded, combine=combine, weight_name="w_down_merged"
    )
    yield from k2_problems(tokens, hc, hs, rank, arch)
