"""The five-stage path's GEMM: ``C = bf16(A . B^T)``, A [M, K] and B [N, K] bf16, no LDS.

A wave takes 16 rows and the workgroup's columns. The second operand is A, so a lane holds four consecutive
columns of one row of C. Rows past the last one are read as the last, and stored nowhere.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import range_constexpr

from hcgr.kernels.mfma import mfma_step
from hcgr.plan.five_stage import GEMM_WAVES, GemmPlan
from hcgr.plan.k1 import STEP, TILE


def build(plan: GemmPlan) -> tuple[Any, tuple[Any, ...]]:
    """The launcher of one plan, and null arguments to compile it with.

    The launcher takes, in order: a, b, c (device addresses), tokens, the row stride of a in elements, the number
    of workgroups, and the stream. b and c are contiguous.
    """
    n_all, k_all, tiles, groups = plan.n, plan.k, plan.tiles, plan.column_groups
    lanes = GEMM_WAVES * 64

    @flyc.kernel(name=f"hcgr_five_gemm_n{n_all}_k{k_all}_t{tiles}", known_block_size=[lanes, 1, 1])
    def five_gemm(a: fx.Pointer, b: fx.Pointer, c: fx.Pointer, tokens: fx.Int32, a_stride: fx.Int64) -> None:
        lane = fx.thread_idx.x % 64
        row = fx.block_idx.x // groups * plan.rows + fx.thread_idx.x // 64 * TILE + lane % TILE
        read_row = fx.Int64((row < tokens).select(row, tokens - 1))
        first = fx.block_idx.x % groups * (tiles * TILE)
        lane_k = lane // TILE * 8
        rows = a + (read_row * a_stride + lane_k)
        weights = b + (fx.Int64(first + lane % TILE) * k_all + lane_k)
        total = [fx.full(4, 0.0, fx.Float32) for _ in range_constexpr(tiles)]
        for step in range(0, k_all // STEP, 1, unroll=1):
            k = fx.Int32(step) * STEP
            x = fx.generic_load(rows + k, count=8)
            total = [
                mfma_step(
                    fx.generic_load(weights + (k + n * (TILE * k_all)), count=8), x, total[n], plan.mfma_k
                )
                for n in range_constexpr(tiles)
            ]
        if row < tokens:
            place = c + (fx.Int64(row) * n_all + first + lane // TILE * 4)
            for n in range_constexpr(tiles):
                fx.generic_store(place + n * TILE, total[n].to(fx.BFloat16))

    @flyc.jit
    def launch_five_gemm(
        a: fx.Pointer,
        b: fx.Pointer,
        c: fx.Pointer,
        tokens: fx.Int32,
        a_stride: fx.Int64,
        workgroups: fx.Int32,
        stream: fx.Stream = fx.Stream(None),  # noqa: B008 - FlyDSL reads the default as the parameter's kind
    ) -> None:
        five_gemm(a, b, c, tokens, a_stride).launch(
            grid=(workgroups, 1, 1), block=(lanes, 1, 1), stream=stream
        )

    vector = flyc.from_c_void_p(fx.BFloat16, None, assumed_align=16)
    return launch_five_gemm, (vector, vector, vector, 1, 1, 1, fx.Stream(None))
