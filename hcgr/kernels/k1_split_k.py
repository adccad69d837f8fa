"""K1's GEMM for an unfolded weight, K split over workgroups: ``P = bf16(R2 * rrms * (1 + Wnorm)) . W^T``.

R2 and rrms come from :mod:`hcgr.kernels.k1_combine_norm`; xn is rebuilt in registers as the matrix operand,
rounded to bf16 there, and never stored. A workgroup takes a row tile and one of `splits` equal parts of K, and
covers all n_pad columns. With one part it writes packed, else float32 partials that
:mod:`hcgr.kernels.k1_reduce` adds up.

Loads, stages and waits are those of :mod:`hcgr.kernels.k1_fused`; the norm weights are prefetched with R2. Rows
past the last one are loaded as the last row, and stored nowhere. Addresses are 64-bit.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import const_expr, gpu, range_constexpr, rocdl

from hcgr.kernels.mfma import lds_layout, load_norm8, norm_gain8, store_row, uniform, weight_stages
from hcgr.plan.k1 import PAIR, STEP, TILE, K1SplitKPlan


def build(plan: K1SplitKPlan) -> tuple[Any, tuple[Any, ...]]:
    """The launcher of one plan, and null arguments to compile it with.

    The launcher takes, in order: r2, rrms, norm_weight, weight, out (device addresses), tokens, the row stride
    of r2 in elements, the number of workgroups, and the stream. `out` is packed [M, n_pad] bf16 with
    ``splits == 1``, else partials [splits, M, plan.tile.partial_columns] f32.
    """
    tile = plan.tile
    hc, hs, n_pad, live = plan.hc, plan.hs, plan.n_pad, plan.live
    mt, splits = plan.row_tiles, plan.splits
    tiles, part, streams, pairs = tile.column_tiles, hc * hs // splits, tile.streams, tile.columns // PAIR
    dma, direct = plan.dma_bytes != 0, splits == 1
    # on an only turn the loads of the next one are dead: see k1_fused
    prefetched = 0 if streams * pairs == 1 else 2 * (mt + (2 if plan.norm_f32 else 1))
    stages = lds_layout(weight=fx.Array[fx.BFloat16, tile.lds_bytes // 2, 16])
    norm_kind = f"{'f32' if plan.norm_f32 else 'bf16'}{'_full' if plan.norm_full else ''}"

    @flyc.kernel(
        name=f"hcgr_k1_split_k_hc{hc}_hs{hs}_n{n_pad}l{live}_s{splits}_r{mt}x{plan.waves}_{norm_kind}",
        known_block_size=[tile.lanes, 1, 1],
    )
    def k1_split_k(
        r2: fx.Pointer,
        rrms: fx.Pointer,
        norm_weight: fx.Pointer,
        weight: fx.Pointer,
        out: fx.Pointer,
        tokens: fx.Int32,
        r2_stride: fx.Int64,
    ) -> None:
        split = fx.block_idx.x % splits
        lane = fx.thread_idx.x % 64
        wave = uniform(fx.thread_idx.x // 64)
        group = lane // TILE
        lds = fx.SharedAllocator().allocate(stages).peek().weight.ptr
        first_row = fx.block_idx.x // splits * tile.rows + wave * (TILE * mt) + lane % TILE
        rows = [first_row + i * TILE for i in range_constexpr(mt)]
        valid = [row < tokens for row in rows]
        held = [fx.Int64((row < tokens).select(row, tokens - 1)) for row in rows]
        r2_rows = [r2 + (row * r2_stride + group * 8) for row in held]
        scale_rows = [rrms + row * hc for row in held]
        gain_lane = norm_weight + group * 8
        first_k = split * part
        last_k = first_k + (part - PAIR)
        send_weights, load_weights, keep_weights, multiply = weight_stages(tile, weight, lds, wave, lane)

        def load_rows(k):
            return [
                fx.generic_load(r2_rows[i] + (k + q * STEP), count=8)
                for i in range_constexpr(mt)
                for q in range_constexpr(2)
            ]

        def load_gains(k):
            column = k if plan.norm_full else k % hs
            loaded = [load_norm8(gain_lane + (column + q * STEP), plan.norm_f32) for q in range_constexpr(2)]
            return [*loaded[0], *loaded[1]]

        if const_expr(dma):
            send_weights(first_k, 0)
            rocdl.sched_barrier(0)
        else:
            keep_weights(load_weights(first_k), 0)
        r = load_rows(first_k)
        gains = load_gains(first_k)
        acc = [fx.full(4, 0.0, fx.Float32) for _ in range_constexpr(mt * tiles)]
        for turn in range(0, streams, 1, unroll=1):
            stream = first_k // hs + turn
            scales = [fx.full(8, fx.generic_load(row + stream), fx.Float32) for row in scale_rows]
            for pair in range(0, pairs, 1, unroll=1):
                k = first_k + turn * hs + pair * PAIR
                next_k = (k < last_k).select(k + PAIR, last_k)
                if const_expr(dma):
                    rocdl.s_waitcnt(vmcnt=0)
                gpu.barrier()
                if const_expr(not dma):
                    staged = load_weights(k + STEP)
                half = len(gains) // 2
                gain8 = [norm_gain8(gains[q * half : (q + 1) * half]) for q in range_constexpr(2)]
                x = []
                for i in range_constexpr(mt):
                    for q in range_constexpr(2):
                        value = r[2 * i + q].to(fx.Float32) * scales[i] * gain8[q]
                        x.append(value.to(fx.BFloat16))
                rocdl.sched_barrier(0)
                if const_expr(dma):
                    send_weights(k + STEP, 1)
                    rocdl.sched_barrier(0)
                r = load_rows(next_k)
                gains = load_gains(next_k)
                rocdl.sched_barrier(0)
                acc = multiply(acc, [x[2 * i] for i in range_constexpr(mt)], 0)
                if const_expr(dma):
                    rocdl.s_waitcnt(vmcnt=prefetched)
                else:
                    keep_weights(staged, 1)
                gpu.barrier()
                if const_expr(dma):
                    send_weights(next_k, 0)
                    rocdl.sched_barrier(0)
                else:
                    staged = load_weights(next_k)
                acc = multiply(acc, [x[2 * i + 1] for i in range_constexpr(mt)], 1)
                if const_expr(not dma):
                    keep_weights(staged, 0)
        if const_expr(dma):
            rocdl.s_waitcnt(vmcnt=0)
        for i in range_constexpr(mt):
            if valid[i]:
                base = fx.Int64(rows[i]) if direct else fx.Int64(split) * fx.Int64(tokens) + fx.Int64(rows[i])
                place = out + (base * (n_pad if direct else tiles * TILE) + group * 4)
                store_row(place, acc[i * tiles : (i + 1) * tiles], group, live, n_pad, direct)

    @flyc.jit
    def launch_k1_split_k(
        r2: fx.Pointer,
        rrms: fx.Pointer,
        norm_weight: fx.Pointer,
        weight: fx.Pointer,
        out: fx.Pointer,
        tokens: fx.Int32,
        r2_stride: fx.Int64,
        workgroups: fx.Int32,
        stream: fx.Stream = fx.Stream(None),  # noqa: B008 - FlyDSL reads the default as the parameter's kind
    ) -> None:
        k1_split_k(r2, rrms, norm_weight, weight, out, tokens, r2_stride).launch(
            grid=(workgroups, 1, 1), block=(tile.lanes, 1, 1), stream=stream
        )

    vector = flyc.from_c_void_p(fx.BFloat16, None, assumed_align=16)
    single = flyc.from_c_void_p(fx.Float32, None, assumed_align=4)
    norm = flyc.from_c_void_p(fx.Float32 if plan.norm_f32 else fx.BFloat16, None, assumed_align=16)
    target = vector if direct else flyc.from_c_void_p(fx.Float32, None, assumed_align=16)
    return launch_k1_split_k, (vector, single, norm, vector, target, 1, 1, 1, fx.Stream(None))
