"""What K1 plans may be: the limits of an architecture, the workspaces of a plan, and the heuristic choice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TypeVar

import torch

from hcgr.arch import Arch
from hcgr.plan.combine import MAX_GRID_ITEMS, MAX_LANES, WAVE_COLUMNS
from hcgr.plan.k1 import (
    PAIR,
    STEP,
    TILE,
    K1DecoupledPlan,
    K1FusedPlan,
    K1NormPlan,
    K1ReducePlan,
    K1SplitKPlan,
    OnePass,
)
from hcgr.plan.k1_resident import FRAGMENT_VGPRS, K1ResidentPlan
from hcgr.requirements import Problem

_OnePass = TypeVar("_OnePass", bound=OnePass)
K1Plan = K1FusedPlan | K1SplitKPlan | K1ResidentPlan | K1DecoupledPlan

#: SIMDs of a compute unit, each with its own vector registers (CDNA3 and CDNA4 ISA manuals, wave state).
SIMDS = 4
#: Registers beside accumulators: addresses, temporaries. From compiled builds: with less the compiler spills.
BASE_VGPRS = 42
#: The same for each 16-row tile: the next pair of R and y (16), the pair being multiplied (8), its scales (8).
ROW_TILE_VGPRS = 32
#: (row_tiles, waves) of a fused workgroup, most rows first: more rows reread the weights from L2 less often.
FUSED_TILES = ((1, 8), (2, 4), (1, 4), (1, 2), (1, 1))
#: Most column tiles of a wave on the resident path, one less with more slots than these: the addresses of its weights
#: and of its slots are scalar, and more of them spill.
RESIDENT_OWNED_TILES, RESIDENT_SLOTS = 5, 5
#: (row_tiles, waves) of a resident workgroup, most rows first, for the same reason. A wave's share of a stream grows
#: with the rows, so more do not fit.
RESIDENT_TILES = ((2, 8), (1, 8))
#: Rows from which an unfolded weight takes the resident path. With fewer, the compute units that it leaves idle cost
#: more than it saves: :mod:`hcgr.tuned.model` finds it faster at 256 rows and slower at 128, on either architecture.
RESIDENT_ROWS = 256
#: Workgroups worth having, as a share of the compute units: fewer splits beat a last quarter of idle units.
FILLED = 0.75
#: (rows from which it holds, most partial traffic as a share of the compulsory). The totals that these leave
#: room for are 1.35 times compulsory below 2048 rows, 1.20 from there.
PARTIAL_SHARES = ((2048, 0.16), (0, 0.30))


def _shape_problems(hc: int, hs: int, n_pad: int, live: int, mfma_k: int, arch: Arch) -> Iterator[Problem]:
    if hc < 1:
        yield Problem("hc_count", "positive", str(hc))
    if hs < WAVE_COLUMNS or hs % WAVE_COLUMNS:
        yield Problem("hs", f"a positive multiple of {WAVE_COLUMNS}", str(hs))
    if n_pad < TILE or n_pad % TILE:
        yield Problem("n_pad", f"a positive multiple of {TILE}", str(n_pad))
    if not 1 <= live <= n_pad:
        yield Problem("live", f"1 to n_pad={n_pad}", str(live))
    if mfma_k not in {TILE, arch.mfma_k}:
        yield Problem("mfma_k", f"{TILE} or {arch.mfma_k} on {arch.name}", str(mfma_k))


def _tile_problems(row_tiles: int, waves: int) -> Iterator[Problem]:
    if row_tiles < 1:
        yield Problem("row_tiles", "positive", str(row_tiles))
    if not 1 <= waves <= MAX_LANES // 64:
        yield Problem("waves", f"1 to {MAX_LANES // 64}", str(waves))


def _resource_problems(lds: int, vgprs: int, waves: int, arch: Arch) -> Iterator[Problem]:
    if lds > arch.lds_bytes:
        yield Problem("plan", f"within {arch.lds_bytes} bytes of LDS on {arch.name}", f"{lds} bytes")
    budget = arch.vgprs // -(-waves // SIMDS)
    if vgprs > budget:
        accepted = f"within {budget} vector registers a lane with {waves} waves on {arch.name}"
        yield Problem("plan", accepted, f"about {vgprs}")


def working_vgprs(plan: K1FusedPlan) -> int:
    """Registers a lane of a fused plan needs, accumulators included: an estimate that no spilling build passes."""
    staged = 0 if plan.dma_bytes else FRAGMENT_VGPRS * plan.slots
    return plan.accumulator_vgprs + BASE_VGPRS + ROW_TILE_VGPRS * plan.row_tiles + staged


def weight_dma_bytes(arch: Arch, waves: int) -> int:
    """Bytes a lane by which one-pass plans move weights straight to LDS; 0 moves them through registers.

    One wave would have to keep the addresses of all its transfers in scalar registers, and spills them.
    """
    return 16 if 16 in arch.lds_dma_bytes and waves > 1 else 0


def fused_problems(plan: K1FusedPlan, arch: Arch) -> Iterator[Problem]:
    """Why `plan` cannot be built for `arch`; nothing if it can."""
    broken = [
        *_shape_problems(plan.hc, plan.hs, plan.n_pad, plan.live, plan.mfma_k, arch),
        *_tile_problems(plan.row_tiles, plan.waves),
    ]
    if plan.dma_bytes not in {0, 16} or plan.dma_bytes not in {0, *arch.lds_dma_bytes}:
        accepted = "0 or 16" if 16 in arch.lds_dma_bytes else "0"
        broken.append(Problem("dma_bytes", f"{accepted} on {arch.name}", str(plan.dma_bytes)))
    if not broken:
        whole = plan.splits >= 1 and plan.hc % plan.splits == 0
        parts = plan.splits >= 1 and plan.splits % plan.hc == 0 and plan.hs % (plan.slices * PAIR) == 0
        if not whole and not parts:
            accepted = f"a divisor of HC={plan.hc}, or HC times a divisor of HS/{PAIR}={plan.hs // PAIR}"
            broken.append(Problem("split_k", accepted, str(plan.splits)))
    if not broken:
        broken = list(_resource_problems(plan.lds_bytes, working_vgprs(plan), plan.waves, arch))
    yield from broken


def split_k_problems(plan: K1SplitKPlan, arch: Arch) -> Iterator[Problem]:
    """Why `plan` cannot be built for `arch`; nothing if it can."""
    yield from fused_problems(plan.tile, arch)


def decoupled_problems(plan: K1DecoupledPlan, arch: Arch) -> Iterator[Problem]:
    """Why `plan` cannot be built for `arch`; nothing if it can."""
    broken = [
        *_shape_problems(plan.hc, plan.hs, plan.n_pad, plan.live, plan.mfma_k, arch),
        *_tile_problems(plan.row_tiles, plan.waves),
    ]
    if plan.dma_bytes not in {4, 16} or plan.dma_bytes not in arch.lds_dma_bytes:
        accepted = " or ".join(str(n) for n in (4, 16) if n in arch.lds_dma_bytes)
        broken.append(Problem("dma_bytes", f"{accepted} on {arch.name}", str(plan.dma_bytes)))
    live_tiles = -(-plan.live // TILE)
    if not broken and (plan.column_groups < 1 or live_tiles % plan.column_groups):
        accepted = f"a divisor of the {live_tiles} column tiles"
        broken.append(Problem("column_groups", accepted, str(plan.column_groups)))
    if not broken:
        deepest = max_stages(plan, arch)
        if not 2 <= plan.stages <= deepest:
            accepted = f"2 to {deepest}" if deepest >= 2 else "of a smaller tile, since not even 2 fit"
            accepted += f" with {plan.rows} rows and {plan.column_tiles * TILE} columns a workgroup"
            accepted += f" on {arch.name} ({arch.lds_bytes} bytes of LDS, vmcnt up to {arch.max_vmcnt})"
            broken.append(Problem("stages", accepted, str(plan.stages)))
    if not broken:
        vgprs = plan.accumulator_vgprs + BASE_VGPRS + FRAGMENT_VGPRS * plan.row_tiles
        broken = list(_resource_problems(plan.lds_bytes, vgprs, plan.waves, arch))
    yield from broken


def resident_vgprs(plan: K1ResidentPlan) -> int:
    """Registers a lane of a resident plan needs: the rows it holds, accumulators, the weights and operands of a pair of
    steps, norm weights of a slot. An estimate that no spilling build passes."""
    pair = 2 * FRAGMENT_VGPRS * (plan.owned_tiles + plan.row_tiles + (2 if plan.norm_f32 else 1))
    return plan.resident_vgprs + plan.accumulator_vgprs + pair + BASE_VGPRS


def resident_problems(plan: K1ResidentPlan, arch: Arch) -> Iterator[Problem]:
    """Why `plan` cannot be built for `arch`; nothing if it can."""
    broken = [
        *_shape_problems(plan.hc, plan.hs, plan.n_pad, plan.live, plan.mfma_k, arch),
        *_tile_problems(plan.row_tiles, plan.waves),
    ]
    if not broken and plan.hs % (PAIR * plan.waves):
        accepted = f"a divisor of the {plan.hs // PAIR} pairs of steps in HS={plan.hs}"
        broken.append(Problem("waves", accepted, str(plan.waves)))
    if not broken and (plan.splits < 1 or plan.hc % plan.splits):
        broken.append(Problem("split_k", f"a divisor of HC={plan.hc}", str(plan.splits)))
    owned = RESIDENT_OWNED_TILES - (0 if broken or plan.slots <= RESIDENT_SLOTS else 1)
    if not broken and plan.owned_tiles > owned:
        most = owned * plan.waves
        broken.append(
            Problem("plan", f"of at most {most} column tiles with {plan.waves} waves", str(plan.column_tiles))
        )
    if not broken:
        broken = list(_resource_problems(plan.lds_bytes, resident_vgprs(plan), plan.waves, arch))
    yield from broken


def max_stages(plan: K1DecoupledPlan, arch: Arch) -> int:
    """Deepest pipeline of `plan`'s tile: LDS, the reach of vmcnt, and the steps there are."""
    by_lds = arch.lds_bytes * plan.stages // plan.lds_bytes if plan.stages > 0 else 0
    by_vmcnt = arch.max_vmcnt // plan.loads_per_stage + 1
    return min(by_lds, by_vmcnt, plan.hc * plan.hs // STEP)


def norm_plan(plan: K1SplitKPlan | K1DecoupledPlan, combine: bool, **norm: bool) -> K1NormPlan:
    """The first kernel of a two-kernel path. `norm`: norm_f32 and norm_full of an xn that is stored."""
    store_xn = isinstance(plan, K1DecoupledPlan) and not plan.folded
    return K1NormPlan(plan.hc, plan.hs, combine, store_xn, **(norm if store_xn else {}))


def reduce_plan(plan: K1Plan) -> K1ReducePlan | None:
    """The last kernel of a plan that leaves partials; ``None`` for one that writes packed itself."""
    if isinstance(plan, K1DecoupledPlan) or plan.splits == 1:
        return None
    raw = isinstance(plan, K1FusedPlan) and not plan.scaled
    return K1ReducePlan(plan.hc, plan.hs, plan.n_pad, plan.live, plan.splits, raw)


def k1_workspace(plan: K1Plan, tokens: int) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """Shapes and dtypes of what a call needs besides its inputs and r2, rrms and packed, by name.

    ``partials`` [splits, M, partial_columns] and ``squares`` [splits, M], float32, or ``xn`` [M, HC*HS] bf16.
    Nothing in them has to be initialised, and nothing in them outlives the call.
    """
    if isinstance(plan, K1DecoupledPlan):
        return {} if plan.folded else {"xn": ((tokens, plan.hc * plan.hs), torch.bfloat16)}
    if plan.splits == 1:
        return {}
    columns = -(-plan.live // TILE) * TILE
    shapes: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
        "partials": ((plan.splits, tokens, columns), torch.float32)
    }
    if isinstance(plan, K1FusedPlan) and not plan.scaled:
        shapes["squares"] = ((plan.splits, tokens), torch.float32)
    return shapes


def compulsory_bytes(tokens: int, hc: int, hs: int, n_pad: int, combine: bool = True) -> int:
    """Bytes of combine_and_mix that no kernel can avoid: R, y, R2 written and read once, packed written and
    read, rrms, x, and both weights once. Without `combine` those of mix: R read twice, no y and no R2."""
    streams, blocks = (3, 2) if combine else (2, 1)
    row = 2 * (streams * hc * hs + blocks * hs + 2 * n_pad) + 8 * hc
    return tokens * row + 2 * hc * hs * 2 * n_pad


def partial_budget(tokens: int, hc: int, hs: int, n_pad: int, combine: bool = True) -> float:
    """Most bytes of partials, written and read, by :data:`PARTIAL_SHARES`."""
    share = next(share for rows, share in PARTIAL_SHARES if tokens >= rows)
    return share * compulsory_bytes(tokens, hc, hs, n_pad, combine)


def partial_bytes(splits: int, tokens: int, live: int) -> int:
    """Bytes of the partials of a plan with so many parts of K, written and read."""
    return 0 if splits == 1 else splits * tokens * -(-live // TILE) * TILE * 8


def _filling(plans: Iterable[_OnePass], tokens: int, cus: int) -> _OnePass | None:
    """The first of ``plans`` whose workgroups fill the device, or else the one with most."""
    best: _OnePass | None = None
    for plan in plans:
        if plan.workgroups(tokens) >= FILLED * cus:
            return plan
        if best is None or plan.workgroups(tokens) > best.workgroups(tokens):
            best = plan
    return best


@lru_cache(maxsize=1024)
def plan_k1_fused(
    tokens: int, hc: int, hs: int, n_pad: int, live: int, arch: Arch, cus: int, combine: bool = True
) -> K1FusedPlan:
    """The fused plan for `tokens` rows on `cus` compute units: the tallest tile that fills the device.

    Splits are taken only as far as their partials stay within :data:`PARTIAL_SHARES`.

    Raises:
        ValueError: if no tile fits the shape.
    """
    budget = partial_budget(tokens, hc, hs, n_pad)
    slices = [n for n in range(1, hs // PAIR + 1) if hs % (n * PAIR) == 0]
    splits = [n for n in range(1, hc) if hc % n == 0] + [hc * n for n in slices]

    def plans() -> Iterator[K1FusedPlan]:
        for row_tiles, waves in FUSED_TILES:
            if (row_tiles, waves) != FUSED_TILES[-1] and TILE * row_tiles * waves >= 2 * tokens:
                continue  # half of its waves would have no row
            for split in splits:
                if partial_bytes(split, tokens, live) > budget:
                    break
                dma = weight_dma_bytes(arch, waves)
                plan = K1FusedPlan(hc, hs, n_pad, live, combine, split, row_tiles, waves, arch.mfma_k, dma)
                if plan.workgroups(tokens) * plan.lanes < MAX_GRID_ITEMS and not any(fused_problems(plan, arch)):
                    yield plan

    best = _filling(plans(), tokens, cus)
    if best is None:
        raise ValueError(f"no fused K1 tile fits hc={hc}, hs={hs}, n_pad={n_pad} on {arch.name}")
    return best


@lru_cache(maxsize=1024)
def plan_k1_resident(
    tokens: int,
    hc: int,
    hs: int,
    n_pad: int,
    live: int,
    arch: Arch,
    cus: int,
    combine: bool = True,
    norm_f32: bool = False,
    norm_full: bool = False,
    folded: bool = False,
) -> K1ResidentPlan | None:
    """The resident plan for `tokens` rows on `cus` compute units: as :func:`plan_k1_fused`, in whole streams.

    ``None`` if no tile fits the shape.
    """
    budget = partial_budget(tokens, hc, hs, n_pad, combine)

    def plans() -> Iterator[K1ResidentPlan]:
        for row_tiles, waves in RESIDENT_TILES:
            if row_tiles > 1 and TILE * row_tiles >= 2 * tokens:
                continue  # half of its rows would be padding
            for splits in (n for n in range(1, hc + 1) if hc % n == 0):
                if partial_bytes(splits, tokens, live) > budget:
                    break
                plan = K1ResidentPlan(
                    hc, hs, n_pad, live, combine, splits, row_tiles, waves, arch.mfma_k, norm_f32, norm_full, folded
                )
                if not any(resident_problems(plan, arch)):
                    yield plan

    return _filling(plans(), tokens, cus)
