"""The five-stage path's MIX: ``x = (1/HC) sum_s sigma(z[s]) * xn[s]``, eight columns a lane."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import math as fmath
from flydsl.expr import range_constexpr

from hcgr.kernels.device import load8, sigmoid_of_quotient, store8
from hcgr.plan.five_stage import ELEMENTWISE_LANES, MixPlan


def build(plan: MixPlan) -> tuple[Any, tuple[Any, ...]]:
    """The launcher of one plan, and null arguments to compile it with.

    The launcher takes, in order: z, xn [M, HC*HS] and x [M, HS] (device addresses), tokens, the number of
    workgroups, and the stream. All are contiguous bf16.
    """
    hc, hs = plan.hc, plan.hs
    vectors = hs // 8

    @flyc.kernel(name=f"hcgr_five_mix_hc{hc}_hs{hs}", known_block_size=[ELEMENTWISE_LANES, 1, 1])
    def five_mix(z: fx.Pointer, xn: fx.Pointer, x: fx.Pointer, tokens: fx.Int32) -> None:
        index = fx.Int64(fx.block_idx.x) * ELEMENTWISE_LANES + fx.Int64(fx.thread_idx.x)
        if index < fx.Int64(tokens) * vectors:
            place = index // vectors * (hc * hs) + index % vectors * 8
            total = fx.full(8, 0.0, fx.Float32)
            for s in range_constexpr(hc):
                logits = load8(z + place, s * hs).to(fx.Float32)
                gates = [sigmoid_of_quotient(logits[i], 1) for i in range_constexpr(8)]
                gate = fx.Vector.from_elements(gates, fx.Float32)
                total = fmath.fma(gate, load8(xn + place, s * hs).to(fx.Float32), total)
            store8(x, index * 8, (total * (1.0 / hc)).to(fx.BFloat16))

    @flyc.jit
    def launch_five_mix(
        z: fx.Pointer,
        xn: fx.Pointer,
        x: fx.Pointer,
        tokens: fx.Int32,
        workgroups: fx.Int32,
        stream: fx.Stream = fx.Stream(None),  # noqa: B008 - FlyDSL reads the default as the parameter's kind
    ) -> None:
        five_mix(z, xn, x, tokens).launch(
            grid=(workgroups, 1, 1), block=(ELEMENTWISE_LANES, 1, 1), stream=stream
        )

    vector = flyc.from_c_void_p(fx.BFloat16, None, assumed_align=16)
    return launch_five_mix, (vector, vector, vector, 1, 1, fx.Stream(None))
