"""The five-stage path that the two-stage one replaces, as plain kernels: a baseline to count costs against.

COMBINE and norm, the merged down and inject GEMM, SiLU, the up GEMM, sigmoid and MIX: one kernel each, with
xn, packed, h and the gate's logits through memory, all in bf16 as vLLM stores them. Not an operator: nothing
but cost comparisons should use it.
"""

from __future__ import annotations

import torch

from hcgr import arch as arch_table
from hcgr import contract, dispatch
from hcgr.plan.five_stage import MixPlan, SiluPlan, plan_gemm
from hcgr.plan.k1 import K1NormPlan
from hcgr.requirements import row_stride


def five_stage_combine_and_mix(
    residual: torch.Tensor,
    block_output: torch.Tensor,
    injection: torch.Tensor,
    norm_weight: torch.Tensor,
    w_down: torch.Tensor,
    w_up: torch.Tensor,
    w_inject: torch.Tensor | None,
    hc_count: int,
    eps: float,
    w_down_merged: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """combine_and_mix in five launches, with an unfolded merged weight.

    Args: as :func:`~hcgr.flydsl_gr_two_stage_combine_and_mix`; at least one row, and r a multiple of 32.

    Returns:
        r2, rrms, xn, packed, h, z (the gate's logits) and x, all bf16 but rrms.

    Raises:
        As :func:`~hcgr.flydsl_gr_two_stage_combine_and_mix`.
    """
    pending, weights = (residual, block_output, injection), (norm_weight, w_down, w_up, w_inject)
    contract.check_combine_and_mix(*pending, *weights, hc_count, eps, w_down_merged)
    tokens, width = residual.shape
    hs, rank, n_pad = width // hc_count, w_down.shape[0], w_down_merged.shape[0]
    arch = arch_table.of_device(residual.device)
    norm_f32, norm_full = norm_weight.dtype is torch.float32, norm_weight.shape[0] == width
    norm = K1NormPlan(hc_count, hs, True, True, norm_f32, norm_full)
    down, up = plan_gemm(n_pad, width, arch.mfma_k), plan_gemm(width, rank, arch.mfma_k)
    silu, mix = SiluPlan(hc_count, rank), MixPlan(hc_count, hs)

    def empty(columns: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return residual.new_empty((tokens, columns), dtype=dtype)

    r2, xn, packed, h, z, x = (empty(n) for n in (width, width, n_pad, rank, width, hs))
    rrms = empty(hc_count, torch.float32)
    lora = packed.narrow(1, 0, rank)
    names = ("residual", "block_output", "injection", "norm_weight", "r2", "rrms", "xn")
    tensors = dict(zip(names, (*pending, norm_weight, r2, rrms, xn), strict=True))
    strides = tuple(row_stride(tensor) for tensor in pending)
    kernels = "hcgr.kernels."
    dispatch.launch(f"{kernels}k1_combine_norm", norm, tensors, (tokens, *strides, eps, tokens), arch.name)
    for plan, a, b, c in ((down, xn, w_down_merged, packed), (up, h, w_up, z)):
        if plan is up:
            scalars = (tokens, n_pad, silu.workgroups(tokens))
            dispatch.launch(f"{kernels}five_silu", silu, {"lora": lora, "h": h}, scalars, arch.name)
        gemm = (tokens, a.shape[1], plan.workgroups(tokens))
        dispatch.launch(f"{kernels}five_gemm", plan, {"a": a, "b": b, "c": c}, gemm, arch.name)
    dispatch.launch(f"{kernels}five_mix", mix, {"z": z, "xn": xn, "x": x}, (tokens, mix.workgroups(tokens)), arch.name)
    return {"r2": r2, "rrms": rrms, "xn": xn, "packed": packed, "h": h, "z": z, "x": x}
