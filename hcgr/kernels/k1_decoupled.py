"""K1's GEMM with both operands by asynchronous loads to LDS, `stages` steps of 32 columns deep.

Rows come from :mod:`hcgr.kernels.k1_combine_norm`: R2 with a folded weight, whose per-stream sums are scaled by
rrms, or xn with an unfolded one. A wave owns ``16 * row_tiles`` rows and the workgroup's columns; it fetches
its own rows' fragments and its share of the weight's, straight to LDS in fragment order.

At step t the stages t+1 .. t+stages-2 may be in flight, so the wait in front of its barrier is
``vmcnt((stages - 2) * loads a stage)``. Only then is step t+stages-1 started, into the stage that the barrier
freed. rrms loads are younger than the stages they follow, which makes that wait stricter, never looser. Steps
past the last repeat it, into stages that nobody reads.

Rows past the last one are loaded as the last row, and stored nowhere. Addresses are 64-bit.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import const_expr, gpu, range_constexpr, rocdl
from flydsl.expr import math as fmath

from hcgr.kernels.mfma import FRAGMENT, lds_layout, live_only, mfma_step, uniform
from hcgr.plan.k1 import STEP, TILE, K1DecoupledPlan


def build(plan: K1DecoupledPlan) -> tuple[Any, tuple[Any, ...]]:
    """The launcher of one plan, and null arguments to compile it with.

    The launcher takes, in order: rows, rrms, weight, packed (device addresses), tokens, the row stride of rows
    in elements, the number of workgroups, and the stream. `rows` is R2 or xn [M, HC*HS] bf16, `packed`
    [M, n_pad] bf16. Without ``folded``, rrms is not accessed.
    """
    hc, hs, n_pad, mt, waves = plan.hc, plan.hs, plan.n_pad, plan.row_tiles, plan.waves
    tiles, slots, groups, depth, folded = (
        plan.column_tiles,
        plan.slots,
        plan.column_groups,
        plan.stages,
        plan.folded,
    )
    width, steps, streams = hc * hs, hs // STEP, hc
    stage_size = plan.stage_fragments * FRAGMENT
    lane_bytes, issues = plan.dma_bytes, 16 // plan.dma_bytes
    stages = lds_layout(ring=fx.Array[fx.BFloat16, plan.lds_bytes // 2, 16])
    kind = "folded" if folded else "xn"

    @flyc.kernel(
        name=f"hcgr_k1_decoupled_hc{hc}_hs{hs}_n{n_pad}l{plan.live}_{kind}_d{depth}_g{groups}_r{mt}x{waves}",
        known_block_size=[plan.lanes, 1, 1],
    )
    def k1_decoupled(
        rows_in: fx.Pointer,
        rrms: fx.Pointer,
        weight: fx.Pointer,
        packed: fx.Pointer,
        tokens: fx.Int32,
        row_stride: fx.Int64,
    ) -> None:
        column_group = fx.block_idx.x % groups
        lane = fx.thread_idx.x % 64
        wave = uniform(fx.thread_idx.x // 64)
        group = lane // TILE
        lds = fx.SharedAllocator().allocate(stages).peek().ring.ptr
        wave_row = fx.block_idx.x // groups * plan.rows + wave * (TILE * mt)
        first_tile = column_group * tiles

        # What a lane fetches of a fragment. With 4 bytes a lane, issue b fills the 256 bytes that hold columns
        # 8b .. 8b+7 of all 16 rows, four lanes a row.
        if const_expr(issues == 1):
            fetch_row, fetch_column = lane % TILE, group * 8
        else:
            fetch_row, fetch_column = lane // 4, lane % 4 * 2
        fetched = [wave_row + i * TILE + fetch_row for i in range_constexpr(mt)]
        sources = [
            rows_in + (fx.Int64((row < tokens).select(row, tokens - 1)) * row_stride + fetch_column)
            for row in fetched
        ]
        places = [lds + (wave * mt + i) * FRAGMENT for i in range_constexpr(mt)]
        for j in range_constexpr(slots):
            slot = wave + waves * j
            held = (slot < tiles).select(slot, fx.Int32(tiles - 1)) if (j + 1) * waves > tiles else slot
            offset = fx.Int64(fx.Uint32(fetch_row * width + fetch_column))
            sources.append((weight + fx.Int64(first_tile + held) * (TILE * width)) + offset)
            places.append(lds + (waves * mt + slot) * FRAGMENT)
        atom = fx.make_copy_atom(rocdl.cdna4.GlobalLoadAsyncLDS(lane_bytes * 8), lane_bytes * 8)
        unit = fx.make_layout(1, 1)

        def send(k, stage):
            for source, place in zip(sources, places, strict=True):
                for b in range_constexpr(issues):
                    fx.copy(
                        atom,
                        fx.make_view(source + (k + b * 8), unit),
                        fx.make_view(place + (stage * stage_size + b * (FRAGMENT // issues)), unit),
                    )

        rows = [wave_row + i * TILE + lane % TILE for i in range_constexpr(mt)]
        valid = [row < tokens for row in rows]
        scale_rows = [rrms + fx.Int64((row < tokens).select(row, tokens - 1)) * hc for row in rows]
        for stage in range_constexpr(depth - 1):
            send(fx.Int32(stage * STEP), fx.Int32(stage))
        rocdl.sched_barrier(0)
        buffer = fx.Int32(0)
        result = [fx.full(4, 0.0, fx.Float32) for _ in range_constexpr(mt * tiles)]
        for turn in range(0, streams, 1, unroll=1):
            if const_expr(folded):
                scales = [fx.full(4, fx.generic_load(row + turn), fx.Float32) for row in scale_rows]
            acc = [fx.full(4, 0.0, fx.Float32) if folded else total for total in result]
            for step in range(0, steps, 1, unroll=1):
                ahead = turn * hs + (step + (depth - 1)) * STEP
                ahead = (ahead < width).select(ahead, fx.Int32(width - STEP))
                free = (buffer == 0).select(fx.Int32(depth - 1), buffer - 1)
                rocdl.s_waitcnt(vmcnt=plan.pending_loads)
                gpu.barrier()
                send(ahead, free)
                rocdl.sched_barrier(0)
                acc = list(acc)
                stage_lane = lds + (buffer * stage_size + lane * 8)
                x = [
                    fx.generic_load(stage_lane + (wave * mt + i) * FRAGMENT, count=8)
                    for i in range_constexpr(mt)
                ]
                for n in range_constexpr(tiles):
                    w = fx.generic_load(stage_lane + (waves * mt + n) * FRAGMENT, count=8)
                    for i in range_constexpr(mt):
                        acc[i * tiles + n] = mfma_step(w, x[i], acc[i * tiles + n], plan.mfma_k)
                buffer = (buffer + 1 == depth).select(fx.Int32(0), buffer + 1)
            result = list(result)
            for t in range_constexpr(mt * tiles):
                result[t] = fmath.fma(acc[t], scales[t // tiles], result[t]) if folded else acc[t]
        rocdl.s_waitcnt(vmcnt=0)
        for i in range_constexpr(mt):
            if valid[i]:
                place = packed + (fx.Int64(rows[i]) * n_pad + first_tile * TILE + group * 4)
                for n in range_constexpr(tiles):
                    total = result[i * tiles + n]
                    if const_expr(n == tiles - 1 and plan.live % TILE):
                        # Only the last tile of the last group is cut; before it, every column is live.
                        total = live_only(total, (first_tile + n) * TILE + group * 4, plan.live)
                    fx.generic_store(place + n * TILE, total.to(fx.BFloat16))
            if valid[i] & (column_group == groups - 1):
                place = packed + (fx.Int64(rows[i]) * n_pad + group * 4)
                for n in range_constexpr(groups * tiles, n_pad // TILE):
                    fx.generic_store(place + n * TILE, fx.full(4, 0.0, fx.Float32).to(fx.BFloat16))

    @flyc.jit
    def launch_k1_decoupled(
        rows_in: fx.Pointer,
        rrms: fx.Pointer,
        weight: fx.Pointer,
        packed: fx.Pointer,
        tokens: fx.Int32,
        row_stride: fx.Int64,
        workgroups: fx.Int32,
        stream: fx.Stream = fx.Stream(None),  # noqa: B008 - FlyDSL reads the default as the parameter's kind
    ) -> None:
        k1_decoupled(rows_in, rrms, weight, packed, tokens, row_stride).launch(
            grid=(workgroups, 1, 1), block=(plan.lanes, 1, 1), stream=stream
        )

    vector = flyc.from_c_void_p(fx.BFloat16, None, assumed_align=16)
    single = flyc.from_c_void_p(fx.Float32, None, assumed_align=4)
    return launch_k1_decoupled, (vector, single, vector, vector, 1, 1, 1, fx.Stream(None))
