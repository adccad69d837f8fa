"""The five-stage path's SiLU: ``h = bf16(SiLU(lora / HC))``, eight columns a lane."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from hcgr.kernels.silu import silu_of_quotient
from hcgr.plan.five_stage import ELEMENTWISE_LANES, SiluPlan


def build(plan: SiluPlan) -> tuple[Any, tuple[Any, ...]]:
    """The launcher of one plan, and null arguments to compile it with.

    The launcher takes, in order: lora, h (device addresses), tokens, the row stride of lora in elements, the
    number of workgroups, and the stream. h is [M, r], contiguous.
    """
    hc, vectors = plan.hc, plan.rank // 8

    @flyc.kernel(name=f"hcgr_five_silu_hc{hc}_r{plan.rank}", known_block_size=[ELEMENTWISE_LANES, 1, 1])
    def five_silu(lora: fx.Pointer, h: fx.Pointer, tokens: fx.Int32, lora_stride: fx.Int64) -> None:
        index = fx.Int64(fx.block_idx.x) * ELEMENTWISE_LANES + fx.Int64(fx.thread_idx.x)
        if index < fx.Int64(tokens) * vectors:
            row = index // vectors
            values = fx.generic_load(lora + (row * lora_stride + index % vectors * 8), count=8)
            fx.generic_store(h + index * 8, silu_of_quotient(values, hc))

    @flyc.jit
    def launch_five_silu(
        lora: fx.Pointer,
        h: fx.Pointer,
        tokens: fx.Int32,
        lora_stride: fx.Int64,
        workgroups: fx.Int32,
        stream: fx.Stream = fx.Stream(None),  # noqa: B008 - FlyDSL reads the default as the parameter's kind
    ) -> None:
        five_silu(lora, h, tokens, lora_stride).launch(
            grid=(workgroups, 1, 1), block=(ELEMENTWISE_LANES, 1, 1), stream=stream
        )

    vector = flyc.from_c_void_p(fx.BFloat16, None, assumed_align=16)
    return launch_five_silu, (vector, vector, 1, 1, 1, fx.Stream(None))
