"""K1 with a folded weight in one pass over the residual: COMBINE, rrms, and the merged down/inject GEMM.

Formula, for a workgroup's rows and its part of K: ``R2 = bf16(R + y * iw)`` (stored), ``ss = sum R2^2`` over
the stored values, ``P = R2 . W'^T`` in float32. A lane loads eight columns of R and y, and their bf16 sums *are*
its matrix-instruction operand, so the residual never passes through LDS. Weights do, in fragment order, two
stages of 32 columns.

What becomes of P depends on the plan:

* whole streams: ``sum_s rsq(ss_s / HS + eps) * P_s``, in a second accumulator when there are several streams;
  packed itself where the part is all of K, else float32 partials, one set a part;
* a part of a stream: raw P and ss, which :mod:`hcgr.kernels.k1_reduce` scales.

Rows past the last one are loaded as the last row, and stored nowhere. Addresses are 64-bit.

Waits: a pair of steps loads the next pair's R and y in the middle of it, after that pair's R2 stores and after
the weight stage's LDS-DMA, so in front of the second barrier ``vmcnt`` may leave exactly those loads pending.
Stores do not count towards it: a wave without valid rows skips them.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import const_expr, gpu, range_constexpr, rocdl
from flydsl.expr import math as fmath
from flydsl.expr.typing import ReductionOp

from hcgr.kernels.device import inject_weight
from hcgr.kernels.mfma import lds_layout, rsq, store_row, sum_over_lane_groups, uniform, weight_stages
from hcgr.plan.k1 import PAIR, STEP, TILE, K1FusedPlan


def build(plan: K1FusedPlan) -> tuple[Any, tuple[Any, ...]]:
    """The launcher of one plan, and null arguments to compile it with.

    The launcher takes, in order: residual, block_output, injection, weight, r2, rrms, out, squares (device
    addresses), tokens, then the row strides of residual, block_output and injection in elements, eps, the
    number of workgroups, and the stream.

    `out` is packed [M, n_pad] bf16 with ``splits == 1``, else partials [splits, M, plan.partial_columns] f32.
    `rrms` [M, HC] f32 is written by plans that are ``scaled``, `squares` [splits, M] f32 by those that are not.
    Without ``combine``, block_output, injection and r2 are not accessed. Addresses that a plan does not access
    may be those of any tensor.
    """
    hc, hs, n_pad, live = plan.hc, plan.hs, plan.n_pad, plan.live
    mt, splits = plan.row_tiles, plan.splits
    tiles, combine, scaled = plan.column_tiles, plan.combine, plan.scaled
    k_all, part, columns, streams = hc * hs, hc * hs // splits, plan.columns, plan.streams
    dma, direct = plan.dma_bytes != 0, splits == 1
    pairs = columns // PAIR
    # Loads of the next turn that are younger than the weights being waited for. On an only turn they are dead and the
    # compiler drops them: a count that included them would let the weights' last transfers pass.
    only_turn = streams * pairs == 1
    prefetched = 0 if only_turn else (2 if combine else 1) * 2 * mt
    kind = "combine" if combine else "stored"
    name = f"hcgr_k1_fused_hc{hc}_hs{hs}_n{n_pad}l{live}_{kind}_s{splits}_r{mt}x{plan.waves}"

    stages = lds_layout(weight=fx.Array[fx.BFloat16, plan.lds_bytes // 2, 16])

    @flyc.kernel(name=name, known_block_size=[plan.lanes, 1, 1])
    def k1_fused(
        residual: fx.Pointer,
        block_output: fx.Pointer,
        injection: fx.Pointer,
        weight: fx.Pointer,
        r2: fx.Pointer,
        rrms: fx.Pointer,
        out: fx.Pointer,
        squares: fx.Pointer,
        tokens: fx.Int32,
        residual_stride: fx.Int64,
        block_output_stride: fx.Int64,
        injection_stride: fx.Int64,
        eps: fx.Float32,
    ) -> None:
        split = fx.block_idx.x % splits
        lane = fx.thread_idx.x % 64
        wave = uniform(fx.thread_idx.x // 64)
        group = lane // TILE
        lds = fx.SharedAllocator().allocate(stages).peek().weight.ptr
        first_row = fx.block_idx.x // splits * plan.rows + wave * (TILE * mt) + lane % TILE
        rows = [first_row + i * TILE for i in range_constexpr(mt)]
        valid = [row < tokens for row in rows]
        held = [fx.Int64((row < tokens).select(row, tokens - 1)) for row in rows]
        residual_rows = [residual + (row * residual_stride + group * 8) for row in held]
        y_rows = [block_output + (row * block_output_stride + group * 8) for row in held]
        logit_rows = [injection + row * injection_stride for row in held]
        r2_rows = [r2 + (fx.Int64(row) * k_all + group * 8) for row in rows]
        first_k = split * part
        last_k = first_k + (part - PAIR)
        first_stream = first_k // hs
        first_column = first_k % hs

        send_weights, load_weights, keep_weights, multiply = weight_stages(plan, weight, lds, wave, lane)

        def load_rows(pointers, k):
            return [
                fx.generic_load(pointers[i] + (k + q * STEP), count=8)
                for i in range_constexpr(mt)
                for q in range_constexpr(2)
            ]

        result = [fx.full(4, 0.0, fx.Float32) for _ in range_constexpr(mt * tiles)]
        if const_expr(dma):
            send_weights(first_k, 0)
            rocdl.sched_barrier(0)
        else:
            keep_weights(load_weights(first_k), 0)
        r = load_rows(residual_rows, first_k)
        y = load_rows(y_rows, first_column) if combine else []
        square_sums = [fx.Float32(0.0) for _ in range_constexpr(mt)]

        for turn in range(0, streams, 1, unroll=1):
            stream = first_stream + turn
            if const_expr(combine):
                iw = [inject_weight(fx.generic_load(row + stream), hc) for row in logit_rows]
                iw8 = [fx.full(8, iw[i], fx.Float32) for i in range_constexpr(mt)]
            acc = [fx.full(4, 0.0, fx.Float32) for _ in range_constexpr(mt * tiles)]
            ss = [fx.full(2, 0.0, fx.Float32) for _ in range_constexpr(mt)]
            for pair in range(0, pairs, 1, unroll=1):
                k = first_k + turn * hs + pair * PAIR
                next_k = (k < last_k).select(k + PAIR, last_k)
                next_column = (pair + 1 < pairs).select(first_column + (pair + 1) * PAIR, first_column)
                if const_expr(dma):
                    rocdl.s_waitcnt(vmcnt=0)
                gpu.barrier()
                if const_expr(not dma):
                    staged = load_weights(k + STEP)
                x = []
                ss = list(ss)
                for i in range_constexpr(mt):
                    for q in range_constexpr(2):
                        if const_expr(combine):
                            mixed = fmath.fma(
                                y[2 * i + q].to(fx.Float32), iw8[i], r[2 * i + q].to(fx.Float32)
                            )
                            stored = mixed.to(fx.BFloat16)
                        else:
                            stored = r[2 * i + q]
                        x.append(stored)
                        wide = stored.to(fx.Float32)
                        for e in range_constexpr(4):
                            two = wide.shuffle(wide, [2 * e, 2 * e + 1])
                            ss[i] = fmath.fma(two, two, ss[i])
                if const_expr(combine):
                    for i in range_constexpr(mt):
                        if valid[i]:
                            for q in range_constexpr(2):
                                fx.generic_store(r2_rows[i] + (k + q * STEP), x[2 * i + q])
                rocdl.sched_barrier(0)
                if const_expr(dma):
                    send_weights(k + STEP, 1)
                    rocdl.sched_barrier(0)
                r = load_rows(residual_rows, next_k)
                if const_expr(combine):
                    y = load_rows(y_rows, next_column)
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
            result = list(result)
            square_sums = list(square_sums)
            for i in range_constexpr(mt):
                square_sums[i] = sum_over_lane_groups(ss[i].reduce(ReductionOp.ADD))
                if const_expr(scaled):
                    scale = rsq(square_sums[i] * (1.0 / hs) + eps)
                    if valid[i] & (group == 0):
                        fx.generic_store(rrms + (fx.Int64(rows[i]) * hc + stream), scale)
                    scale4 = fx.full(4, scale, fx.Float32)
                    for n in range_constexpr(tiles):
                        t = i * tiles + n
                        result[t] = fmath.fma(acc[t], scale4, result[t]) if streams > 1 else acc[t] * scale4
                else:
                    for n in range_constexpr(tiles):
                        result[i * tiles + n] = acc[i * tiles + n]
        if const_expr(dma):
            rocdl.s_waitcnt(vmcnt=0)

        for i in range_constexpr(mt):
            if valid[i]:
                base = fx.Int64(rows[i]) if direct else fx.Int64(split) * fx.Int64(tokens) + fx.Int64(rows[i])
                place = out + (base * (n_pad if direct else tiles * TILE) + group * 4)
                store_row(place, result[i * tiles : (i + 1) * tiles], group, live, n_pad, direct)
        if const_expr(not scaled):
            for i in range_constexpr(mt):
                if valid[i] & (group == 0):
                    place = squares + (fx.Int64(split) * fx.Int64(tokens) + fx.Int64(rows[i]))
                    fx.generic_store(place, square_sums[i])

    @flyc.jit
    def launch_k1_fused(
        residual: fx.Pointer,
        block_output: fx.Pointer,
        injection: fx.Pointer,
        weight: fx.Pointer,
        r2: fx.Pointer,
        rrms: fx.Pointer,
        out: fx.Pointer,
        squares: fx.Pointer,
        tokens: fx.Int32,
        residual_stride: fx.Int64,
        block_output_stride: fx.Int64,
        injection_stride: fx.Int64,
        eps: fx.Float32,
        workgroups: fx.Int32,
        stream: fx.Stream = fx.Stream(None),  # noqa: B008 - FlyDSL reads the default as the parameter's kind
    ) -> None:
        k1_fused(
            residual,
            block_output,
            injection,
            weight,
            r2,
            rrms,
            out,
            squares,
            tokens,
            residual_stride,
            block_output_stride,
            injection_stride,
            eps,
        ).launch(grid=(workgroups, 1, 1), block=(plan.lanes, 1, 1), stream=stream)

    vector = flyc.from_c_void_p(fx.BFloat16, None, assumed_align=16)
    scalar = flyc.from_c_void_p(fx.BFloat16, None, assumed_align=2)
    single = flyc.from_c_void_p(fx.Float32, None, assumed_align=4)
    target = vector if direct else flyc.from_c_void_p(fx.Float32, None, assumed_align=16)
    addresses = (vector, vector, scalar, vector, vector, single, target, single)
    return launch_k1_fused, (*addresses, 1, 1, 1, 1, 1e-6, 1, fx.Stream(None))
