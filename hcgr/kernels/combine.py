"""COMBINE: ``iw = 2 * sigma(inj / HC)``; ``R2[m, s, c] = bf16(R[m, s, c] + y[m, c] * iw[m, s])``.

A workgroup takes ``rows`` tokens and up to 512 lanes of one row; each lane owns eight columns. It reads y
once and uses it for all HC streams, so traffic is the compulsory (2 * HC + 1) * HS * 2 bytes a token.
Everything is read or written once, hence non-temporal.

Addresses are 64-bit: a row's base is a wave-uniform 64-bit product of row and row stride, and only the offset
inside a row (below HC * HS elements) is 32-bit. There is no buffer descriptor, and so no clamp that could
hide an overrun: the row guard is what keeps the last workgroup inside the tensors.

The multiply-add is fused (one rounding to f32), then one rounding to bf16, to nearest even. The conversion
stays outside any fast-math region: inside one, LLVM folds an extension of the rounded value back to the
unrounded one.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import math as fmath
from flydsl.expr import range_constexpr

from hcgr.kernels.device import inject_weight, load8, store8
from hcgr.plan import LANE_COLUMNS, CombinePlan


def build(plan: CombinePlan) -> tuple[Any, tuple[Any, ...]]:
    """The launcher of one plan, and null arguments to compile it with.

    The launcher takes, in order: residual, block_output, injection, r2 (device addresses), tokens, then the
    row strides of residual, block_output and injection in elements, the number of workgroups, and the stream.
    """
    hc, hs, rows, lanes, column_tiles = plan.hc, plan.hs, plan.rows, plan.lanes, plan.column_tiles

    @flyc.kernel(name=f"hcgr_combine_hc{hc}_hs{hs}_rows{rows}", known_block_size=[lanes, 1, 1])
    def combine(
        residual: fx.Pointer,
        block_output: fx.Pointer,
        injection: fx.Pointer,
        r2: fx.Pointer,
        tokens: fx.Int32,
        residual_stride: fx.Int64,
        block_output_stride: fx.Int64,
        injection_stride: fx.Int64,
    ) -> None:
        tile = fx.block_idx.x
        column = (tile % column_tiles) * (lanes * LANE_COLUMNS) + fx.thread_idx.x * LANE_COLUMNS
        first_row = (tile // column_tiles) * rows
        for i in range_constexpr(rows):
            row = first_row + i
            if row < tokens:
                wide_row = fx.Int64(row)
                residual_row = residual + wide_row * residual_stride
                logits = injection + wide_row * injection_stride
                r2_row = r2 + wide_row * (hc * hs)
                y = load8(block_output + wide_row * block_output_stride, column).to(fx.Float32)
                streams = [load8(residual_row + s * hs, column) for s in range_constexpr(hc)]
                # Every load before the first store: the compiler must assume that a store may alias a later
                # load.
                weights = [inject_weight(fx.generic_load(logits + s), hc) for s in range_constexpr(hc)]
                for s in range_constexpr(hc):
                    iw = fx.full(LANE_COLUMNS, weights[s], fx.Float32)
                    mixed = fmath.fma(y, iw, streams[s].to(fx.Float32))
                    store8(r2_row + s * hs, column, mixed.to(fx.BFloat16))

    @flyc.jit
    def launch_combine(
        residual: fx.Pointer,
        block_output: fx.Pointer,
        injection: fx.Pointer,
        r2: fx.Pointer,
        tokens: fx.Int32,
        residual_stride: fx.Int64,
        block_output_stride: fx.Int64,
        injection_stride: fx.Int64,
        workgroups: fx.Int32,
        stream: fx.Stream = fx.Stream(None),  # noqa: B008 - FlyDSL reads the default as the parameter's kind
    ) -> None:
        combine(
            residual,
            block_output,
            injection,
            r2,
            tokens,
            residual_stride,
            block_output_stride,
            injection_stride,
        ).launch(grid=(workgroups, 1, 1), block=(lanes, 1, 1), stream=stream)

    vector = flyc.from_c_void_p(fx.BFloat16, None, assumed_align=16)
    scalar = flyc.from_c_void_p(fx.BFloat16, None, assumed_align=2)
    return launch_combine, (vector, vector, scalar, vector, 1, 1, 1, 1, 1, fx.Stream(None))
