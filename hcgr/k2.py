"""K2 on the host: from a plan to its launch."""

from __future__ import annotations

import torch

from hcgr import dispatch
from hcgr.plan.k2 import K2Plan
from hcgr.requirements import row_stride


def run(
    lora: torch.Tensor,
    r2: torch.Tensor,
    rrms: torch.Tensor,
    norm_weight: torch.Tensor,
    w_up: torch.Tensor,
    x: torch.Tensor,
    plan: K2Plan,
    arch: str,
) -> None:
    """Launch `plan` on the current stream; the contract has accepted the tensors, of at least one row.

    Args:
        lora: [M, r] bf16, any row stride.
        r2: [M, HC*HS] bf16, any row stride.
        rrms: [M, HC] float32.
        norm_weight: [HS] or [HC*HS], bf16 or float32.
        w_up: [HC*HS, r] bf16.
        x: [M, HS] bf16 to write.
        arch: LLVM target.
    """
    tokens = r2.shape[0]
    tensors = {"lora": lora, "r2": r2, "rrms": rrms, "norm_weight": norm_weight, "w_up": w_up, "x": x}
    scalars = (tokens, row_stride(lora), row_stride(r2), plan.row_tiles(tokens))
    dispatch.launch("hcgr.kernels.k2_up_gate_mix", plan, tensors, scalars, arch)
