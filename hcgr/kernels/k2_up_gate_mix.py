"""K2: ``h = bf16(SiLU(packed / HC))``; ``G = sigma(h . Wu^T)``; ``x = (1/HC) sum_s G[s] * xn[s]``.

xn = R2 * rrms * (1 + Wnorm) is rebuilt in registers, in f32, so neither it nor the gate reaches memory.

A workgroup takes a block of rows. It computes their h once, into LDS, in the order in which the MFMAs read
it: fragment after fragment, 16 bytes a lane, so that reads and writes are free of bank conflicts. Each wave
then owns 32 columns. For one stream after the other it loads the weight fragments of those columns straight
into registers and runs down the block's rows: h fragments from LDS, MFMA, sigmoid, times xn, added to its sums
over streams. Waves share nothing but h, so there is no barrier in the loops, and while one wave multiplies
another does its epilogue.

The weight is the MFMA's first operand: a lane then holds four consecutive columns of one token. Its two tiles
interleave the weight's rows (`_weight_row`), which makes them eight consecutive columns, so that R2 and x move
in 16-byte accesses and the product meets its R2 in the same lane.

Traffic: R2 and x once; w_up once per block of rows, lora once per workgroup, both through L2. R2 is not read
non-temporally: a wave takes half of a 128-byte line, its neighbour the other half.

Tails: the rows beyond `tokens` of the last block re-read the last row and are not stored; k beyond r (the rank
padding) is zero in both operands, and not read. Row addresses are 64-bit.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import const_expr, gpu, range_constexpr, rocdl
from flydsl.expr import math as fmath

from hcgr import arch as arch_table
from hcgr.arch import WAVE_LANES
from hcgr.kernels.device import sigmoid_of_quotient
from hcgr.kernels.memory import read8, write8
from hcgr.kernels.mfma import FRAGMENT, lds_layout, mfma_step, uniform
from hcgr.kernels.silu import silu_of_quotient
from hcgr.plan.k2 import RANK_BLOCK, TILE_ROWS, WAVE_CHUNK, K2Plan

#: Columns of one lane.
LANE_COLUMNS = 8


def build(plan: K2Plan) -> tuple[Any, tuple[Any, ...]]:
    """The launcher of one plan, and null arguments to compile it with.

    The launcher takes, in order: lora, r2, rrms, norm_weight, w_up, x (device addresses), tokens, then the row
    strides of lora and r2 in elements, the number of row tiles, and the stream. rrms, w_up and x are
    contiguous.
    """
    arch = arch_table.get(arch_table.configured())
    problem = next(plan.problems(arch), None)
    if problem is not None:
        raise ValueError(f"{plan}: {problem}")
    hc, hs, rank, mfma_k = plan.hc, plan.hs, plan.rank, arch.mfma_k
    k_blocks, row_tiles = plan.padded_rank // RANK_BLOCK, plan.block_rows // TILE_ROWS
    waves, lanes, column_groups = plan.waves, plan.lanes, plan.column_groups
    column_waves, stream_waves, passes = plan.column_waves, plan.stream_waves, plan.passes
    full_norm, activated, block_rows, block_columns = (
        plan.full_norm,
        plan.activated,
        plan.block_rows,
        plan.block_columns,
    )
    fragments = row_tiles * k_blocks
    single = passes == 1 and stream_waves == hc
    sums = column_waves * row_tiles * FRAGMENT
    norm_type = fx.Float32 if plan.norm_f32 else fx.BFloat16

    arrays = {"h": fx.Array[fx.BFloat16, fragments * FRAGMENT, 16]}
    if stream_waves > 1:
        arrays["exchange"] = fx.Array[fx.Float32, (stream_waves - 1) * sums, 16]
    layout = lds_layout(**arrays)

    name = (
        f"hcgr_k2_hc{hc}_hs{hs}_r{rank}_rows{block_rows}_cols{block_columns}_sw{stream_waves}_p{passes}"
        f"{'_full' if full_norm else ''}{'_f32' if plan.norm_f32 else ''}{'_act' if activated else ''}"
    )

    @flyc.kernel(name=name, known_block_size=[lanes, 1, 1])
    def up_gate_mix(
        lora: fx.Pointer,
        r2: fx.Pointer,
        rrms: fx.Pointer,
        norm_weight: fx.Pointer,
        w_up: fx.Pointer,
        x: fx.Pointer,
        tokens: fx.Int32,
        lora_stride: fx.Int64,
        r2_stride: fx.Int64,
    ) -> None:
        lane = fx.thread_idx.x % WAVE_LANES
        wave = uniform(fx.thread_idx.x // WAVE_LANES)
        token = lane % TILE_ROWS
        group = lane // TILE_ROWS
        shared = fx.SharedAllocator().allocate(layout).peek()
        h = shared.h.ptr
        if const_expr(stream_waves > 1):
            exchange = shared.exchange.ptr
        lane_k = group * LANE_COLUMNS
        # Row i of weight tile t is column 8 * (i // 4) + 4 * t + i % 4: a lane's results of both tiles are
        # then the columns 8 * group .. 8 * group + 7.
        weight_row = LANE_COLUMNS * (token // 4) + token % 4
        stream_group = wave // column_waves
        column_wave = wave % column_waves

        def row_of(tile: Any) -> Any:
            """This lane's row of a row tile, 64-bit; the last row for those beyond it."""
            row = fx.block_idx.x * block_rows + tile * TILE_ROWS + token
            return fx.Int64((row < tokens).select(row, tokens - 1))

        def read_k(source: Any, offset: Any, k: Any, padded: bool) -> Any:
            """Eight of r, from k on; zeros beyond r, which are not read."""
            if not padded:
                return read8(source, offset + k)
            values = read8(source, offset + (k < rank).select(k, 0))
            return (k < rank).select(values, fx.full(LANE_COLUMNS, 0.0, fx.BFloat16))

        def weights_of(stream: Any, column: Any) -> Any:
            """The wave's fragments of w_up for 32 columns of a stream: for each k block, both tiles'."""
            source = w_up + fx.Int64(stream * hs + column) * rank
            return [
                read_k(source, (weight_row + 4 * t) * rank, kb * RANK_BLOCK + lane_k, (kb + 1) * RANK_BLOCK > rank)
                for kb in range(k_blocks)
                for t in range(2)
            ]

        def residual_of(tile: Any, stream: Any, column: Any) -> Any:
            """R2 of the lane's row and eight columns, and the row's rrms."""
            row = row_of(tile)
            return read8(r2 + row * r2_stride, stream * hs + column), fx.generic_load(rrms + row * hc + stream)

        def norm_of(stream: Any, column: Any) -> Any:
            """norm_weight of the lane's eight columns, of one stream or of all."""
            return read8(norm_weight, (stream * hs if full_norm else 0) + column)

        # h of the block, wave by wave a fragment of 16 rows by 32 k. All loads first: they overlap.
        own = [wave + i * waves for i in range_constexpr(-(-fragments // waves))]
        loaded = []
        for i in range_constexpr(len(own)):
            index = own[i]
            if const_expr((i + 1) * waves > fragments):
                index = (index < fragments).select(index, fragments - 1)
            source = lora + row_of(index // k_blocks) * lora_stride
            values = read_k(source, 0, (index % k_blocks) * RANK_BLOCK + lane_k, rank % RANK_BLOCK != 0)
            loaded.append(values)
        if const_expr(single):
            # The wave's only weights are on their way while h is computed.
            only_column = fx.block_idx.y * block_columns + column_wave * WAVE_CHUNK
            only_weights = weights_of(stream_group, only_column)
            only_residuals = [
                residual_of(tile, stream_group, only_column + lane_k) for tile in range_constexpr(row_tiles)
            ]
            only_norm = norm_of(stream_group, only_column + lane_k)
            rocdl.sched_barrier(0)
        for i in range_constexpr(len(own)):
            values = loaded[i]
            if const_expr(not activated):
                values = silu_of_quotient(values, hc)
            if const_expr((i + 1) * waves <= fragments):
                write8(h + own[i] * FRAGMENT, lane * LANE_COLUMNS, values)
            else:
                if own[i] < fragments:
                    write8(h + own[i] * FRAGMENT, lane * LANE_COLUMNS, values)
        gpu.barrier()

        for step in range(0, passes, 1, unroll=1):
            block = fx.block_idx.y * passes + fx.Int32(step)
            column = block * block_columns + column_wave * WAVE_CHUNK
            lane_column = column + lane_k
            totals = [fx.full(LANE_COLUMNS, 0.0, fx.Float32) for _ in range_constexpr(row_tiles)]

            for turn in range(0, hc // stream_waves, 1, unroll=1):
                stream = fx.Int32(turn) * stream_waves + stream_group
                if const_expr(single):
                    weights = only_weights
                    norm = only_norm
                else:
                    weights = weights_of(stream, column)
                    if const_expr(full_norm):
                        norm = norm_of(stream, lane_column)
                if const_expr(full_norm):
                    scale = norm.to(fx.Float32) + 1.0

                # Row tile `tile` is multiplied while tile - 1 has its epilogue. The scheduling barriers keep it
                # at two: registers for more would spill.
                added, products, residuals = [], [], []
                for tile in range_constexpr(row_tiles + 1):
                    if const_expr(tile < row_tiles):
                        if const_expr(single):
                            residuals.append(only_residuals[tile])
                        else:
                            residuals.append(residual_of(tile, stream, lane_column))
                        product = [fx.full(4, 0.0, fx.Float32) for _ in range_constexpr(2)]
                        for kb in range_constexpr(k_blocks):
                            values = read8(h + (tile * k_blocks + kb) * FRAGMENT, lane * LANE_COLUMNS)
                            product = [
                                mfma_step(weights[2 * kb + t], values, product[t], mfma_k) for t in range_constexpr(2)
                            ]
                        products.append(product)
                    if const_expr(tile > 0):
                        z = products[tile - 1]
                        gates = [sigmoid_of_quotient(z[i // 4][i % 4], 1) for i in range_constexpr(LANE_COLUMNS)]
                        residual, row_scale = residuals[tile - 1]
                        xn = residual.to(fx.Float32) * fx.full(LANE_COLUMNS, row_scale, fx.Float32)
                        if const_expr(full_norm):
                            xn = xn * scale
                        gate = fx.Vector.from_elements(gates, fx.Float32)
                        added.append(fmath.fma(gate, xn, totals[tile - 1]))
                    rocdl.sched_barrier(0)
                totals = added

            if const_expr(stream_waves > 1):
                place = column_wave * (row_tiles * FRAGMENT) + lane * 4
                if stream_group > 0:
                    mine = exchange + (stream_group - 1) * sums + place
                    for tile in range_constexpr(row_tiles):
                        for half in range_constexpr(2):
                            part = [totals[tile][4 * half + i] for i in range_constexpr(4)]
                            at = mine + (2 * tile + half) * (WAVE_LANES * 4)
                            fx.generic_store(at, fx.Vector.from_elements(part, fx.Float32))
                gpu.barrier()

            if stream_group == 0:
                if const_expr(single):
                    norm = only_norm
                elif const_expr(not full_norm):
                    norm = norm_of(0, lane_column)
                if const_expr(not full_norm):
                    scale = norm.to(fx.Float32) + 1.0
                for tile in range_constexpr(row_tiles):
                    total = totals[tile]
                    if const_expr(stream_waves > 1):
                        for other in range_constexpr(stream_waves - 1):
                            theirs = exchange + other * sums + place
                            halves = [
                                fx.generic_load(theirs + (2 * tile + half) * (WAVE_LANES * 4), count=4)
                                for half in range_constexpr(2)
                            ]
                            total = total + fx.Vector.from_elements(
                                [halves[i // 4][i % 4] for i in range_constexpr(LANE_COLUMNS)], fx.Float32
                            )
                    if const_expr(not full_norm):
                        total = total * scale
                    row = fx.block_idx.x * block_rows + tile * TILE_ROWS + token
                    if row < tokens:
                        mixed = (total * (1.0 / hc)).to(fx.BFloat16)
                        write8(x + fx.Int64(row) * hs, lane_column, mixed)

    @flyc.jit
    def launch_up_gate_mix(
        lora: fx.Pointer,
        r2: fx.Pointer,
        rrms: fx.Pointer,
        norm_weight: fx.Pointer,
        w_up: fx.Pointer,
        x: fx.Pointer,
        tokens: fx.Int32,
        lora_stride: fx.Int64,
        r2_stride: fx.Int64,
        row_blocks: fx.Int32,
        stream: fx.Stream = fx.Stream(None),  # noqa: B008 - FlyDSL reads the default as the parameter's kind
    ) -> None:
        up_gate_mix(lora, r2, rrms, norm_weight, w_up, x, tokens, lora_stride, r2_stride).launch(
            grid=(row_blocks, column_groups, 1), block=(lanes, 1, 1), stream=stream
        )

    vector = flyc.from_c_void_p(fx.BFloat16, None, assumed_align=16)
    norm_pointer = flyc.from_c_void_p(norm_type, None, assumed_align=16)
    scalar = flyc.from_c_void_p(fx.Float32, None, assumed_align=4)
    pointers = (vector, vector, scalar, norm_pointer, vector, vector)
    return launch_up_gate_mix, (*pointers, 1, 1, 1, 1, fx.Stream(None))
