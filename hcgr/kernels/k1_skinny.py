"""K1 for decode: COMBINE, rrms and the merged down/inject product of a few tokens, in one launch.

A workgroup takes one stream, a few columns of packed and up to 8 tokens, over the stream's whole width. Its
lanes read 16 bytes of the folded weight for each column, straight from memory, and hold them while they go
through the tokens: ``R2 = bf16(R + y * iw)``, its sum of squares, and its products with the columns. So the
weight is read once, while every column tile rebuilds R2 from R and y (in L2 by then); column tile i stores
token i's.

A workgroup has all of a stream's row, hence its rrms: it publishes ``rrms[s] * (R2[s] . W'[s]^T)``. The HC
workgroups of a (token group, column tile) then meet: each publishes, waits until that has reached memory,
and bumps an arrival counter. The one whose arrival is the last of HC (``old mod HC == HC - 1``; the counter is
never reset) adds the streams, always in the same order, and writes packed. Nobody waits for anybody.

Publication, in order: every lane's stores past the caches; ``s_waitcnt vmcnt(0)`` in every wave; a barrier;
the arrival, by lane 0 alone; the ticket to all waves through LDS; loads past the caches.
(:mod:`hcgr.kernels.memory`.)

Columns from `live` on are written 0, whatever their weight rows and R2 hold. Tokens beyond the last are read
as the last and stored nowhere.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import const_expr, gpu, range_constexpr, rocdl
from flydsl.expr import math as fmath
from flydsl.expr.typing import ReductionOp

from hcgr import arch as arch_table
from hcgr.arch import WAVE_LANES
from hcgr.kernels.device import inject_weight, load8
from hcgr.kernels.memory import arrive, observe4, publish4, read8, write8
from hcgr.kernels.mfma import lds_layout, rsq, uniform
from hcgr.plan.combine import LANE_COLUMNS
from hcgr.plan.skinny import QUAD, SLOT_ELEMENTS, SkinnyPlan

#: Float32 pairs of a lane's eight elements: products are packed two to an instruction.
PAIRS = LANE_COLUMNS // 2


def _pairs(vector: Any) -> list[Any]:
    """Eight f32 as four vectors of two."""
    return [fx.Vector.from_elements([vector[2 * p], vector[2 * p + 1]], fx.Float32) for p in range(PAIRS)]


def _dot(a: list[Any], b: list[Any], total: Any) -> Any:
    """`total`, two f32, plus the products of two lists of pairs."""
    for left, right in zip(a, b, strict=True):
        total = fmath.fma(left, right, total)
    return total


def build(plan: SkinnyPlan) -> tuple[Any, tuple[Any, ...]]:
    """The launcher of one plan, and null arguments to compile it with.

    The launcher takes, in order: residual, block_output, injection, weight, r2, rrms, packed, partials,
    counters (device addresses), tokens, then the row strides of residual, block_output and injection in
    elements, eps, the number of token groups, and the stream.

    weight is the folded [n_pad, HC*HS]; r2, rrms [M, HC] and packed [M, n_pad] are contiguous. partials has
    ``plan.partial_elements(tokens)`` float32, 16-byte aligned, of any content. counters has at least
    ``plan.counter_slots(tokens)`` slots of 128 bytes, used by launches with this HC only, one at a time.
    Without ``combine``, block_output, injection and r2 are not accessed and may be any address.
    """
    arch = arch_table.get(arch_table.configured())
    problem = next(plan.problems(arch), None)
    if problem is not None:
        raise ValueError(f"{plan}: {problem}")
    hc, hs, n_pad, live, group, columns = (
        plan.hc,
        plan.hs,
        plan.n_pad,
        plan.live,
        plan.tokens,
        plan.columns,
    )
    combine, av, lanes, waves, steps, tiles = (
        plan.combine,
        plan.av,
        plan.lanes,
        plan.waves,
        plan.steps,
        plan.tiles,
    )
    record, width, quads = plan.record, plan.hc * plan.hs, columns // QUAD
    dead_first = tiles * columns
    dead_quads = (n_pad - dead_first) // QUAD
    layout = lds_layout(sums=fx.Array[fx.Float32, waves * record, 16], ticket=fx.Array[fx.Int32, 4, 16])

    name = (
        f"hcgr_k1_skinny_hc{hc}_hs{hs}_n{n_pad}_live{live}_m{group}_cols{columns}"
        f"{'' if combine else '_mix'}{'' if av else '_volatile'}"
    )

    @flyc.kernel(name=name, known_block_size=[lanes, 1, 1])
    def skinny(
        residual: fx.Pointer,
        block_output: fx.Pointer,
        injection: fx.Pointer,
        weight: fx.Pointer,
        r2: fx.Pointer,
        rrms: fx.Pointer,
        packed: fx.Pointer,
        partials: fx.Pointer,
        counters: fx.Pointer,
        tokens: fx.Int32,
        residual_stride: fx.Int64,
        block_output_stride: fx.Int64,
        injection_stride: fx.Int64,
        eps: fx.Float32,
        step_count: fx.Int32,
    ) -> None:
        lane = fx.thread_idx.x
        wave = uniform(lane // WAVE_LANES)
        tile, stream, token_group = fx.block_idx.x, fx.block_idx.y, fx.block_idx.z
        shared = fx.SharedAllocator().allocate(layout).peek()
        sums, ticket = shared.sums.ptr, shared.ticket.ptr
        first = token_group * group

        def row_of(i: Any) -> Any:
            """Row of the group's token i, 64-bit; the last row for those beyond it."""
            row = first + i
            return fx.Int64((row < tokens).select(row, tokens - 1))

        rows = [row_of(i) for i in range_constexpr(group)]
        if const_expr(combine):
            logits = [fx.generic_load(injection + rows[i] * injection_stride + stream) for i in range_constexpr(group)]
            weights_in = [inject_weight(logits[i], hc) for i in range_constexpr(group)]

        products = [fx.full(2, 0.0, fx.Float32) for _ in range_constexpr(group * columns)]
        squares = [fx.full(2, 0.0, fx.Float32) for _ in range_constexpr(group)]
        # A count that the compiler cannot see: for a known 2 it keeps two sets of addresses, and spills them.
        turns = step_count
        if const_expr(steps == 1):
            turns = fx.Int32(1)
        for step in range(0, turns, 1, unroll=1):
            column = (fx.Int32(step) * lanes + lane) * LANE_COLUMNS
            from_weight = weight + fx.Int64(tile * columns) * width + stream * hs
            w = [load8(from_weight + j * width, column) for j in range_constexpr(columns)]
            r = [read8(residual + rows[i] * residual_stride + stream * hs, column) for i in range_constexpr(group)]
            if const_expr(combine):
                y = [read8(block_output + rows[i] * block_output_stride, column) for i in range_constexpr(group)]
            w = [_pairs(w[j].to(fx.Float32)) for j in range_constexpr(columns)]
            new_products, new_squares, stored = [], [], []
            for i in range_constexpr(group):
                value = r[i]
                if const_expr(combine):
                    iw = fx.full(LANE_COLUMNS, weights_in[i], fx.Float32)
                    value = fmath.fma(y[i].to(fx.Float32), iw, value.to(fx.Float32)).to(fx.BFloat16)
                    # Column tile t stores tokens t, t + tiles, ...: keep those of this workgroup.
                    if const_expr(i < tiles * len(stored)):
                        stored[-1] = (tile == i % tiles).select(value, stored[-1])
                    else:
                        stored.append(value)
                x = _pairs(value.to(fx.Float32))
                new_squares.append(_dot(x, x, squares[i]))
                for j in range_constexpr(columns):
                    new_products.append(_dot(x, w[j], products[i * columns + j]))
                # Token after token: mixed by the scheduler, their temporaries would spill.
                rocdl.sched_barrier(0)
            products, squares = new_products, new_squares
            for turn in range_constexpr(len(stored)):
                token = turn * tiles + tile
                row = first + token
                if (token < group) & (row < tokens):
                    write8(r2 + fx.Int64(row) * width + stream * hs, column, stored[turn])

        # Each wave's sums to LDS: group x columns products, then the squares.
        mine = sums + wave * record
        for q in range_constexpr(record // QUAD):
            quad = []
            for e in range_constexpr(QUAD):
                index = q * QUAD + e
                if const_expr(index < group * columns):
                    quad.append(fx.coop.warp_reduce(products[index][0] + products[index][1], ReductionOp.ADD))
                elif const_expr(index - group * columns < group):
                    pair = squares[index - group * columns]
                    quad.append(fx.coop.warp_reduce(pair[0] + pair[1], ReductionOp.ADD))
                else:
                    quad.append(fx.Float32(0.0))
            total = fx.Vector.from_elements(quad, fx.Float32)
            if lane % WAVE_LANES == 0:
                fx.generic_store(mine + q * QUAD, total)
        gpu.barrier()

        # Lane q < group * quads: four columns of token q // quads.
        token, quad_column = lane // quads, lane % quads
        row = first + token
        meeting = token_group * tiles + tile
        place = partials + (fx.Int64(meeting) * (hc * group * columns) + lane * QUAD)
        if lane < group * quads:
            total = fx.full(QUAD, 0.0, fx.Float32)
            square = fx.Float32(0.0)
            for i in range_constexpr(waves):
                total = total + fx.generic_load(sums + i * record + lane * QUAD, count=QUAD)
                square = square + fx.generic_load(sums + i * record + group * columns + token)
            scale = rsq(square * (1.0 / hs) + eps)
            if row < tokens:
                publish4(place + stream * (group * columns), total * fx.full(QUAD, scale, fx.Float32), av)
                if (tile == 0) & (quad_column == 0):
                    fx.generic_store(rrms + fx.Int64(row) * hc + stream, scale)

        rocdl.s_waitcnt(vmcnt=0)
        gpu.barrier()
        if lane == 0:
            fx.generic_store(ticket, arrive(counters + meeting * SLOT_ELEMENTS))
        gpu.barrier()
        is_last = (fx.generic_load(ticket) & (hc - 1)) == hc - 1
        if is_last & (lane < group * quads) & (row < tokens):
            total = fx.full(QUAD, 0.0, fx.Float32)
            for s in range_constexpr(hc):
                total = total + observe4(place + s * (group * columns), av)
            column = tile * columns + quad_column * QUAD
            kept = [(column + e < live).select(total[e], fx.Float32(0.0)) for e in range_constexpr(QUAD)]
            out = fx.Vector.from_elements(kept, fx.Float32).to(fx.BFloat16)
            fx.generic_store(packed + fx.Int64(row) * n_pad + column, out)

        # Column tiles without a live column have no workgroup; the first one's writes their zeros.
        for i in range_constexpr(-(-group * dead_quads // lanes)):
            index = lane + i * lanes
            row = first + index // dead_quads
            if (tile == 0) & (stream == 0) & (index < group * dead_quads) & (row < tokens):
                column = dead_first + index % dead_quads * QUAD
                zero = fx.full(QUAD, 0.0, fx.BFloat16)
                fx.generic_store(packed + fx.Int64(row) * n_pad + column, zero)

    @flyc.jit
    def launch_skinny(
        residual: fx.Pointer,
        block_output: fx.Pointer,
        injection: fx.Pointer,
        weight: fx.Pointer,
        r2: fx.Pointer,
        rrms: fx.Pointer,
        packed: fx.Pointer,
        partials: fx.Pointer,
        counters: fx.Pointer,
        tokens: fx.Int32,
        residual_stride: fx.Int64,
        block_output_stride: fx.Int64,
        injection_stride: fx.Int64,
        eps: fx.Float32,
        token_groups: fx.Int32,
        stream: fx.Stream = fx.Stream(None),  # noqa: B008 - FlyDSL reads the default as the parameter's kind
    ) -> None:
        skinny(
            residual,
            block_output,
            injection,
            weight,
            r2,
            rrms,
            packed,
            partials,
            counters,
            tokens,
            residual_stride,
            block_output_stride,
            injection_stride,
            eps,
            fx.Int32(steps),
        ).launch(grid=(tiles, hc, token_groups), block=(lanes, 1, 1), stream=stream)

    def pointer(dtype: Any, align: int = 16) -> Any:
        return flyc.from_c_void_p(dtype, None, assumed_align=align)

    bf16, f32 = fx.BFloat16, fx.Float32
    inputs = (pointer(bf16), pointer(bf16), pointer(bf16, 2), pointer(bf16))
    outputs = (pointer(bf16), pointer(f32, 4), pointer(bf16), pointer(f32), pointer(fx.Int32, 128))
    return launch_skinny, (*inputs, *outputs, 1, 1, 1, 1, 1e-6, 1, fx.Stream(None))
