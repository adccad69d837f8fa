"""The first half of the two-kernel K1 paths: COMBINE, rrms, and on request the normalised rows.

``R2 = bf16(R + y * iw)``; ``rrms[s] = rsq(mean R2[s]^2 + eps)`` over the stored values; ``xn = bf16(R2 * rrms *
(1 + Wnorm))``. A workgroup takes one token row and walks its streams; each lane owns eight columns of every
column tile, so R2 stays in registers between its sum of squares and xn. Sums cross the waves through LDS, a
slot a stream and wave, so one barrier a stream is enough.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import const_expr, gpu, range_constexpr
from flydsl.expr import math as fmath
from flydsl.expr.typing import ReductionOp

from hcgr.kernels.device import inject_weight, load8, store8
from hcgr.kernels.mfma import lds_layout, load_norm8, norm_gain8, rsq
from hcgr.plan.k1 import K1NormPlan


def build(plan: K1NormPlan) -> tuple[Any, tuple[Any, ...]]:
    """The launcher of one plan, and null arguments to compile it with.

    The launcher takes, in order: residual, block_output, injection, norm_weight, r2, rrms, xn (device
    addresses), tokens, then the row strides of residual, block_output and injection in elements, eps, the
    number of workgroups (one a token row), and the stream.

    r2 and xn are [M, HC*HS] bf16, rrms [M, HC] f32. Without ``combine``, block_output, injection and r2 are not
    accessed and the residual is normalised; without ``store_xn``, norm_weight and xn are not. Addresses that a
    plan does not access may be those of any tensor.
    """
    hc, hs, lanes, combine = plan.hc, plan.hs, plan.lanes, plan.combine
    waves, parts = lanes // 64, plan.column_tiles
    slots = lds_layout(sums=fx.Array[fx.Float32, hc * waves, 16])
    name = (
        f"hcgr_k1_{'combine_' if combine else ''}norm_hc{hc}_hs{hs}{'_xn' if plan.store_xn else ''}"
        f"_{'f32' if plan.norm_f32 else 'bf16'}{'_full' if plan.norm_full else ''}"
    )

    @flyc.kernel(name=name, known_block_size=[lanes, 1, 1])
    def k1_combine_norm(
        residual: fx.Pointer,
        block_output: fx.Pointer,
        injection: fx.Pointer,
        norm_weight: fx.Pointer,
        r2: fx.Pointer,
        rrms: fx.Pointer,
        xn: fx.Pointer,
        tokens: fx.Int32,
        residual_stride: fx.Int64,
        block_output_stride: fx.Int64,
        injection_stride: fx.Int64,
        eps: fx.Float32,
    ) -> None:
        thread = fx.thread_idx.x
        row = fx.block_idx.x
        wide_row = fx.Int64(row)
        sums = fx.SharedAllocator().allocate(slots).peek().sums.ptr
        columns = [thread * 8 + part * (lanes * 8) for part in range_constexpr(parts)]
        for s in range_constexpr(hc):
            source = residual + (wide_row * residual_stride + s * hs)
            stored = [load8(source, column) for column in columns]
            if const_expr(combine):
                y_row = block_output + wide_row * block_output_stride
                ys = [fx.generic_load(y_row + column, count=8) for column in columns]
                logit = fx.generic_load(injection + (wide_row * injection_stride + s))
                iw = fx.full(8, inject_weight(logit, hc), fx.Float32)
                target = r2 + (wide_row * (hc * hs) + s * hs)
                for part in range_constexpr(parts):
                    mixed = fmath.fma(ys[part].to(fx.Float32), iw, stored[part].to(fx.Float32))
                    stored[part] = mixed.to(fx.BFloat16)
                    store8(target, columns[part], stored[part])
            squares = fx.full(8, 0.0, fx.Float32)
            for part in range_constexpr(parts):
                value = stored[part].to(fx.Float32)
                squares = fmath.fma(value, value, squares)
            wave_sum = fx.coop.warp_reduce(squares.reduce(ReductionOp.ADD), ReductionOp.ADD)
            if thread % 64 == 0:
                fx.generic_store(sums + (s * waves + thread // 64), wave_sum)
            gpu.barrier()
            total = fx.generic_load(sums + s * waves)
            for wave in range_constexpr(1, waves):
                total = total + fx.generic_load(sums + (s * waves + wave))
            scale = rsq(total * (1.0 / hs) + eps)
            if thread == 0:
                fx.generic_store(rrms + (wide_row * hc + s), scale)
            if const_expr(plan.store_xn):
                scale8 = fx.full(8, scale, fx.Float32)
                gains = norm_weight + (s * hs if plan.norm_full else 0)
                for part in range_constexpr(parts):
                    gain = norm_gain8(load_norm8(gains + columns[part], plan.norm_f32))
                    value = stored[part].to(fx.Float32) * scale8 * gain
                    store8(xn + (wide_row * (hc * hs) + s * hs), columns[part], value.to(fx.BFloat16))

    @flyc.jit
    def launch_k1_combine_norm(
        residual: fx.Pointer,
        block_output: fx.Pointer,
        injection: fx.Pointer,
        norm_weight: fx.Pointer,
        r2: fx.Pointer,
        rrms: fx.Pointer,
        xn: fx.Pointer,
        tokens: fx.Int32,
        residual_stride: fx.Int64,
        block_output_stride: fx.Int64,
        injection_stride: fx.Int64,
        eps: fx.Float32,
        workgroups: fx.Int32,
        stream: fx.Stream = fx.Stream(None),  # noqa: B008 - FlyDSL reads the default as the parameter's kind
    ) -> None:
        k1_combine_norm(
            residual,
            block_output,
            injection,
            norm_weight,
            r2,
            rrms,
            xn,
            tokens,
            residual_stride,
            block_output_stride,
            injection_stride,
            eps,
        ).launch(grid=(workgroups, 1, 1), block=(lanes, 1, 1), stream=stream)

    vector = flyc.from_c_void_p(fx.BFloat16, None, assumed_align=16)
    scalar = flyc.from_c_void_p(fx.BFloat16, None, assumed_align=2)
    single = flyc.from_c_void_p(fx.Float32, None, assumed_align=4)
    norm = flyc.from_c_void_p(fx.Float32 if plan.norm_f32 else fx.BFloat16, None, assumed_align=16)
    addresses = (vector, vector, scalar, norm, vector, single, vector)
    return launch_k1_combine_norm, (*addresses, 1, 1, 1, 1, 1e-6, 1, fx.Stream(None))
