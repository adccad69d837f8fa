"""K1 in one pass over the residual: R2 stays in registers between its norm and the GEMM.

For a workgroup's rows, stream by stream: ``R2 = bf16(R + y * iw)`` (stored), ``rrms = rsq(mean R2^2 + eps)`` over
the stored values, ``xn = bf16(R2 * rrms * (1 + Wnorm))`` in place, ``P += xn . W^T`` in float32. xn is scaled
already, so one accumulator serves all streams. With one part of K it becomes packed, else a float32 partial that
:mod:`hcgr.kernels.k1_reduce` adds up. With a folded weight R2 is multiplied as it is, ``P += rrms * (R2 . W'^T)``.

A stream's columns are shared out among the waves, 64 at a time, and each wave holds its own of *all* rows: lane l
has eight columns of row ``l % 16``, which is fragment order. The sums of squares of the waves meet in LDS. So do the
operands: a slot of every wave goes to LDS, and each wave multiplies all of them by its own column tiles, whose
weights come straight from global memory, since no other wave of the workgroup uses them.

One stage of LDS serves both, hence two barriers around each filling. Rows past the last one are loaded as the last
row, and stored nowhere. Addresses are 64-bit.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import const_expr, gpu, range_constexpr, rocdl
from flydsl.expr import math as fmath
from flydsl.expr.typing import ReductionOp

from hcgr.kernels.device import inject_weight
from hcgr.kernels.mfma import (
    FRAGMENT,
    lds_layout,
    live_only,
    load_norm8,
    mfma_step,
    norm_gain8,
    packed_again,
    recomputed,
    rsq,
    sum_over_lane_groups,
    uniform,
)
from hcgr.plan.k1 import PAIR, STEP, TILE
from hcgr.plan.k1_resident import K1ResidentPlan


def build(plan: K1ResidentPlan) -> tuple[Any, tuple[Any, ...]]:
    """The launcher of one plan, and null arguments to compile it with.

    The launcher takes, in order: residual, block_output, injection, norm_weight, weight, r2, rrms, out (device
    addresses), tokens, then the row strides of residual, block_output and injection in elements, eps, the number of
    workgroups, and the stream.

    `out` is packed [M, n_pad] bf16 with ``splits == 1``, else partials [splits, M, plan.partial_columns] f32; rrms
    is [M, HC] f32. Without ``combine``, block_output, injection and r2 are not accessed and the residual is
    normalised; with ``folded``, norm_weight is not. Addresses that a plan does not access may be those of any tensor.
    """
    hc, hs, n_pad, live = plan.hc, plan.hs, plan.n_pad, plan.live
    mt, waves, splits, streams, slots = plan.row_tiles, plan.waves, plan.splits, plan.streams, plan.slots
    tiles, owned, combine, direct = plan.column_tiles, plan.owned_tiles, plan.combine, plan.splits == 1
    folded = plan.folded
    width, stored_tiles = hc * hs, n_pad // TILE if direct else plan.column_tiles
    # Column tiles that every wave owns; the first `fullest` waves own one more.
    shared, fullest = tiles // waves, tiles % waves
    middle = slots // 2
    name = (
        f"hcgr_k1_resident_hc{hc}_hs{hs}_n{n_pad}l{live}_{'combine' if combine else 'stored'}_s{splits}_r{mt}x{waves}"
        f"_{'folded' if folded else 'f32' if plan.norm_f32 else 'bf16'}{'_full' if plan.norm_full else ''}"
    )
    layout = lds_layout(stage=fx.Array[fx.BFloat16, plan.lds_bytes // 2, 16])

    @flyc.kernel(name=name, known_block_size=[plan.lanes, 1, 1])
    def k1_resident(
        residual: fx.Pointer,
        block_output: fx.Pointer,
        injection: fx.Pointer,
        norm_weight: fx.Pointer,
        weight: fx.Pointer,
        r2: fx.Pointer,
        rrms: fx.Pointer,
        out: fx.Pointer,
        tokens: fx.Int32,
        residual_stride: fx.Int64,
        block_output_stride: fx.Int64,
        injection_stride: fx.Int64,
        eps: fx.Float32,
    ) -> None:
        split = fx.block_idx.x % splits
        block_row = fx.block_idx.x // splits * plan.rows
        lane = fx.thread_idx.x % 64
        wave = uniform(fx.thread_idx.x // 64)
        stage = fx.SharedAllocator().allocate(layout).peek().stage.ptr
        sums = fx.recast_iter(fx.Float32, stage)
        stage_lane = stage + lane * 8
        # Wave-uniform bases and one 32-bit lane offset. A tile past the last is fetched as the last, for nobody.
        last_tile = fx.Int32(tiles - 1)
        mine = [wave + waves * n for n in range_constexpr(owned)]
        fetched = [(tile < tiles).select(tile, last_tile) for tile in mine]
        sources = [weight + fx.Int64(tile) * (TILE * width) for tile in fetched]
        weight_lane = lane % TILE * width + lane // TILE * 8

        def load_weights(k):
            lane_offset = fx.Int64(fx.Uint32(recomputed(weight_lane)))
            return [
                fx.generic_load((source + (k + q * STEP)) + lane_offset, count=8)
                for source in sources
                for q in range_constexpr(2)
            ]

        def load_rows(pointers, p):
            column = (p - middle) * (waves * PAIR)
            return [fx.generic_load(row + (column + q * STEP), count=8) for row in pointers for q in range_constexpr(2)]

        def load_gains(base, p):
            column = recomputed(lane) // TILE * 8 + (wave * PAIR + p * (waves * PAIR))
            place = base + fx.Int64(fx.Uint32(column))
            return [load_norm8(place + q * STEP, plan.norm_f32) for q in range_constexpr(2)]

        def load_operands(pair):
            place = stage_lane + pair * (2 * mt * FRAGMENT)
            return [fx.generic_load(place + f * FRAGMENT, count=8) for f in range_constexpr(2 * mt)]

        def multiply(total, fragments, xs, following, tiles_now):
            """One pair of steps by some column tiles. Each weight's register is filled again right behind its use, from
            column `following`; None fills none."""
            lane_offset = fx.Int64(fx.Uint32(recomputed(weight_lane)))
            total, fragments = list(total), list(fragments)
            for q in range_constexpr(2):
                for n in tiles_now:
                    for i in range_constexpr(mt):
                        t = i * owned + n
                        total[t] = mfma_step(fragments[2 * n + q], xs[q * mt + i], total[t], plan.mfma_k)
                    if following is not None:
                        place = (sources[n] + (following + q * STEP)) + lane_offset
                        fragments[2 * n + q] = fx.generic_load(place, count=8)
            return total, fragments

        result = [fx.full(4, 0.0, fx.Float32) for _ in range_constexpr(mt * owned)]
        for turn in range(0, streams, 1, unroll=1):
            acc = [fx.full(4, 0.0, fx.Float32) if folded else total for total in result]
            stream = split * streams + turn
            first_k = stream * hs
            here = recomputed(lane)
            group = here // TILE
            rows = [block_row + here % TILE + i * TILE for i in range_constexpr(mt)]
            valid = [row < tokens for row in rows]
            held = [fx.Int64((row < tokens).select(row, tokens - 1)) for row in rows]
            # The middle slot's columns: those of all slots are within reach of an instruction's offset.
            own = middle * (waves * PAIR) + wave * PAIR + group * 8
            residual_rows = [residual + (row * residual_stride + (first_k + own)) for row in held]
            x = []
            for p in range_constexpr(slots):
                x += load_rows(residual_rows, p)
            if const_expr(combine):
                y_rows = [block_output + (row * block_output_stride + own) for row in held]
                r2_rows = [r2 + (fx.Int64(row) * width + (first_k + own)) for row in rows]
                logits = [fx.generic_load(injection + (row * injection_stride + stream)) for row in held]
                iw8 = [fx.full(8, inject_weight(logit, hc), fx.Float32) for logit in logits]
            ss = [fx.full(2, 0.0, fx.Float32) for _ in range_constexpr(mt)]
            y = load_rows(y_rows, 0) if combine else []
            for p in range_constexpr(slots):
                column = (p - middle) * (waves * PAIR)
                if const_expr(combine):
                    ahead = load_rows(y_rows, p + 1) if p + 1 < slots else []
                    for i in range_constexpr(mt):
                        for q in range_constexpr(2):
                            t = (p * mt + i) * 2 + q
                            mixed = fmath.fma(y[2 * i + q].to(fx.Float32), iw8[i], x[t].to(fx.Float32))
                            x[t] = mixed.to(fx.BFloat16)
                    y = ahead
                    for i in range_constexpr(mt):
                        if valid[i]:
                            for q in range_constexpr(2):
                                fx.generic_store(r2_rows[i] + (column + q * STEP), x[(p * mt + i) * 2 + q])
                for i in range_constexpr(mt):
                    for q in range_constexpr(2):
                        wide = x[(p * mt + i) * 2 + q].to(fx.Float32)
                        for e in range_constexpr(4):
                            two = wide.shuffle(wide, [2 * e, 2 * e + 1])
                            ss[i] = fmath.fma(two, two, ss[i])
                rocdl.sched_barrier(0)
            x = [packed_again(value) for value in x]
            wave_sums = [sum_over_lane_groups(ss[i].reduce(ReductionOp.ADD)) for i in range_constexpr(mt)]
            gain_base = norm_weight + first_k if plan.norm_full else norm_weight
            gains = load_gains(gain_base, 0)
            w = load_weights(first_k)
            gpu.barrier()
            if group == 0:
                for i in range_constexpr(mt):
                    fx.generic_store(sums + (wave * plan.rows + (i * TILE + here)), wave_sums[i])
            gpu.barrier()
            scales = []
            for i in range_constexpr(mt):
                place = sums + (i * TILE + here % TILE)
                total = fx.generic_load(place)
                for other in range_constexpr(1, waves):
                    total = total + fx.generic_load(place + other * plan.rows)
                scales.append(rsq(total * (1.0 / hs) + eps))
            for i in range_constexpr(mt):
                if valid[i] & (group == 0) & (wave == 0):
                    fx.generic_store(rrms + (fx.Int64(rows[i]) * hc + stream), scales[i])
            scales8 = [fx.full(8, scale, fx.Float32) for scale in scales]
            for p in range_constexpr(slots):
                gpu.barrier()
                for q in range_constexpr(2):
                    gain8 = None if folded else norm_gain8(gains[q])
                    for i in range_constexpr(mt):
                        xn = x[(p * mt + i) * 2 + q]
                        if const_expr(not folded):
                            xn = (xn.to(fx.Float32) * scales8[i] * gain8).to(fx.BFloat16)
                        fx.generic_store(stage_lane + ((wave * 2 + q) * mt + i) * FRAGMENT, xn)
                gains = load_gains(gain_base, p + 1) if p + 1 < slots else []
                gpu.barrier()
                for pair in range(0, waves - 1 if p == slots - 1 else waves, 1, unroll=1):
                    following = first_k + (p * waves + pair + 1) * PAIR
                    operands = load_operands(pair)
                    acc, w = multiply(acc, w, operands, following, range(shared))
                    if const_expr(shared < owned):  # noqa: SIM102 - only the inner condition is the device's
                        if wave < fullest:
                            acc, w = multiply(acc, w, operands, following, range(shared, owned))
            operands = load_operands(waves - 1)
            acc, w = multiply(acc, w, operands, None, range(shared))
            if const_expr(shared < owned):  # noqa: SIM102 - only the inner condition is the device's
                if wave < fullest:
                    acc, w = multiply(acc, w, operands, None, range(shared, owned))
            result = list(result)
            for t in range_constexpr(mt * owned):
                if const_expr(not folded):
                    result[t] = acc[t]
                else:
                    scale4 = fx.full(4, scales[t // owned], fx.Float32)
                    result[t] = fmath.fma(acc[t], scale4, result[t]) if streams > 1 else acc[t] * scale4

        for i in range_constexpr(mt):
            row = block_row + (i * TILE + lane % TILE)
            base = fx.Int64(row) if direct else fx.Int64(split) * fx.Int64(tokens) + fx.Int64(row)
            row_out = out + (base * (stored_tiles * TILE) + lane // TILE * 4)
            for n in range_constexpr(-(-stored_tiles // waves)):
                tile = wave + waves * n
                total = result[i * owned + n] if n < owned else fx.full(4, 0.0, fx.Float32)
                if const_expr(direct and n == owned - 1 and live % TILE):
                    total = live_only(total, tile * TILE + lane // TILE * 4, live)
                if (row < tokens) & (tile < stored_tiles):
                    fx.generic_store(row_out + tile * TILE, total.to(fx.BFloat16) if direct else total)

    @flyc.jit
    def launch_k1_resident(
        residual: fx.Pointer,
        block_output: fx.Pointer,
        injection: fx.Pointer,
        norm_weight: fx.Pointer,
        weight: fx.Pointer,
        r2: fx.Pointer,
        rrms: fx.Pointer,
        out: fx.Pointer,
        tokens: fx.Int32,
        residual_stride: fx.Int64,
        block_output_stride: fx.Int64,
        injection_stride: fx.Int64,
        eps: fx.Float32,
        workgroups: fx.Int32,
        stream: fx.Stream = fx.Stream(None),  # noqa: B008 - FlyDSL reads the default as the parameter's kind
    ) -> None:
        k1_resident(
            residual,
            block_output,
            injection,
            norm_weight,
            weight,
            r2,
            rrms,
            out,
            tokens,
            residual_stride,
            block_output_stride,
            injection_stride,
            eps,
        ).launch(grid=(workgroups, 1, 1), block=(plan.lanes, 1, 1), stream=stream)

    vector = flyc.from_c_void_p(fx.BFloat16, None, assumed_align=16)
    scalar = flyc.from_c_void_p(fx.BFloat16, None, assumed_align=2)
    single = flyc.from_c_void_p(fx.Float32, None, assumed_align=4)
    norm = flyc.from_c_void_p(fx.Float32 if plan.norm_f32 else fx.BFloat16, None, assumed_align=16)
    target = vector if direct else flyc.from_c_void_p(fx.Float32, None, assumed_align=16)
    addresses = (vector, vector, scalar, norm, vector, vector, single, target)
    return launch_k1_resident, (*addresses, 1, 1, 1, 1, 1e-6, 1, fx.Stream(None))
