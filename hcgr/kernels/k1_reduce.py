"""K1's reduce: float32 partials of a split K into packed, and with a raw split also rrms.

* scaled or unfolded partials: ``packed = bf16(sum_p partial[p])``;
* raw partials of a folded weight, ``splits = HC * slices``, stream-major: ``rrms[s] = rsq(sum_j squares[s, j] /
  HS + eps)`` and ``packed = bf16(sum_s rrms[s] * sum_j partial[s, j])``.

One lane makes eight columns of one row, and every partial is read once. The lane of a row's first columns
writes its rrms. Lanes past the last row do nothing.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import const_expr, range_constexpr
from flydsl.expr import math as fmath

from hcgr.kernels.mfma import rsq
from hcgr.plan.k1 import REDUCE_LANES, K1ReducePlan

#: At most so many partials of a stream are loaded together. Unrolled as a whole, the compiler issues every load first,
#: and with many splits spills what it has loaded.
BATCH = 4


def build(plan: K1ReducePlan) -> tuple[Any, tuple[Any, ...]]:
    """The launcher of one plan, and null arguments to compile it with.

    The launcher takes, in order: partials [splits, M, plan.partial_columns] f32, squares [splits, M] f32, rrms
    [M, HC] f32, packed [M, n_pad] bf16 (device addresses), tokens, eps, the number of workgroups, and the stream.
    Without ``raw``, squares and rrms are not accessed.
    """
    hc, hs, n_pad, splits, raw = plan.hc, plan.hs, plan.n_pad, plan.splits, plan.raw
    vectors, columns = n_pad // 8, plan.partial_columns
    slices = splits // hc if raw else splits
    batch = max(n for n in range(1, BATCH + 1) if slices % n == 0)

    @flyc.kernel(
        name=f"hcgr_k1_reduce_hc{hc}_hs{hs}_n{n_pad}l{plan.live}_s{splits}{'_raw' if raw else ''}",
        known_block_size=[REDUCE_LANES, 1, 1],
    )
    def k1_reduce(
        partials: fx.Pointer,
        squares: fx.Pointer,
        rrms: fx.Pointer,
        packed: fx.Pointer,
        tokens: fx.Int32,
        eps: fx.Float32,
    ) -> None:
        index = fx.Int64(fx.block_idx.x) * REDUCE_LANES + fx.Int64(fx.thread_idx.x)
        if index < fx.Int64(tokens) * vectors:
            row = index // vectors
            column = fx.Int32(index % vectors) * 8
            rows = fx.Int64(tokens)
            # Dead columns have no partial; they load the last one that there is.
            held = (column < columns).select(column, fx.Int32(columns - 8))
            first = partials + (row * columns + fx.Int64(held))
            total = fx.full(8, 0.0, fx.Float32)
            for s in range_constexpr(hc if raw else 1):
                stream = fx.full(8, 0.0, fx.Float32)
                sum_of_squares = fx.Float32(0.0)
                for turn in range(0, slices // batch, 1, unroll=1):
                    for j in range_constexpr(batch):
                        p = fx.Int64(s * slices + turn * batch + j)
                        stream = stream + fx.generic_load(first + rows * (p * columns), count=8, nontemporal=True)
                        if const_expr(raw):
                            sum_of_squares = sum_of_squares + fx.generic_load(squares + (rows * p + row))
                if const_expr(raw):
                    scale = rsq(sum_of_squares * (1.0 / hs) + eps)
                    total = fmath.fma(stream, fx.full(8, scale, fx.Float32), total)
                    if column == 0:
                        fx.generic_store(rrms + (row * hc + s), scale)
                else:
                    total = stream
            kept = [(column + e < plan.live).select(total[e], fx.Float32(0.0)) for e in range_constexpr(8)]
            fx.generic_store(packed + index * 8, fx.Vector.from_elements(kept, fx.Float32).to(fx.BFloat16))

    @flyc.jit
    def launch_k1_reduce(
        partials: fx.Pointer,
        squares: fx.Pointer,
        rrms: fx.Pointer,
        packed: fx.Pointer,
        tokens: fx.Int32,
        eps: fx.Float32,
        workgroups: fx.Int32,
        stream: fx.Stream = fx.Stream(None),  # noqa: B008 - FlyDSL reads the default as the parameter's kind
    ) -> None:
        k1_reduce(partials, squares, rrms, packed, tokens, eps).launch(
            grid=(workgroups, 1, 1), block=(REDUCE_LANES, 1, 1), stream=stream
        )

    wide = flyc.from_c_void_p(fx.Float32, None, assumed_align=16)
    single = flyc.from_c_void_p(fx.Float32, None, assumed_align=4)
    vector = flyc.from_c_void_p(fx.BFloat16, None, assumed_align=16)
    return launch_k1_reduce, (wide, single, single, vector, 1, 1e-6, 1, fx.Stream(None))
