"""Which K2 plan a call runs: the caller's tile height, else the tuned table, else the heuristics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from hcgr import arch as arch_table
from hcgr.arch import Arch
from hcgr.plan.k2 import BLOCK_ROWS, WAVE_CHUNK, K2Plan, plan_k2
from hcgr.plan.request import NoPlanError, applies, discarded
from hcgr.requirements import Problem
from hcgr.tuned import table

#: Tile heights of K2; the direct K2 takes row counts that one of them divides.
K2_HEIGHTS = BLOCK_ROWS


def k2_shapes(hc: int, hs: int) -> Iterator[tuple[int, int, int]]:
    """(column_waves, stream_waves, passes) to try at any tile height, the least rereading first."""
    blocks = hs // (8 * WAVE_CHUNK)
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
    base = K2Plan(hc, hs, rank, min(BLOCK_ROWS), 1, full_norm=norm_full, norm_f32=norm_f32)
    plan: K2Plan | None = None
    if block_m is not None:
        plans = [
            replace(base, block_rows=block_m, column_waves=c, stream_waves=s, passes=p) for c, s, p in k2_shapes(hc, hs)
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
    if entry is None or not applies(entry, base.hc, base.hs, cus):
        return None
    problem: str | None = None
    for rows in (r for r in K2_HEIGHTS if r <= entry["block_rows"] and tokens % r == 0):
        names = ("column_waves", "stream_waves", "passes")
        plan = replace(base, block_rows=rows, **{name: entry[name] for name in names})
        problem = next(plan.problems(arch), None)
        if problem is None:
            return plan
    if problem is not None and lora_stride == entry["n_pad"]:
        discarded("up_gate_mix", arch.name, tokens, problem)
    return None


def k2_problems(
    tokens: int, hc: int, hs: int, rank: int, arch: str, *, block_m: int | None = None
) -> Iterator[Problem]:
    """Why no K2 plan exists for a call; nothing if one does. As :func:`k2`, for the full part's CUs."""
    try:
        k2(tokens, hc, hs, rank, arch, arch_table.get(arch).cus, 0, block_m=block_m)
    except NoPlanError as error:
        yield error.problem
