"""K1 on the host: from a plan to its launches.

Workspaces are allocated for each call, on the launch stream and on the tensors' device, so nothing of one call
is visible to another, and the allocator reuses the memory only behind the launches that still need it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hcgr import dispatch
from hcgr.counters import counters
from hcgr.plan import k1_limits
from hcgr.plan.choose import AnyK1Plan
from hcgr.plan.k1 import K1DecoupledPlan, K1FusedPlan, K1SplitKPlan
from hcgr.plan.k1_limits import K1Plan
from hcgr.plan.k1_resident import K1ResidentPlan
from hcgr.plan.skinny import SkinnyPlan
from hcgr.requirements import row_stride


@dataclass(frozen=True)
class K1Call:
    """Tensors of one K1 call, which the contract has accepted; at least one row.

    Attributes:
        residual: [M, HC*HS] bf16, any row stride.
        block_output: [M, HS] bf16, any row stride; ``None`` without COMBINE.
        injection: [M, HC] bf16, any row stride; ``None`` without COMBINE.
        norm_weight: [HS] or [HC*HS], bf16 or float32.
        weight: [n_pad, HC*HS] bf16.
        r2: [M, HC*HS] bf16 to write; without COMBINE the residual itself, which is then only read.
        rrms: [M, HC] float32 to write.
        packed: [M, n_pad] bf16 to write.
        eps: Added to the mean square.
        arch: LLVM target.
    """

    residual: torch.Tensor
    block_output: torch.Tensor | None
    injection: torch.Tensor | None
    norm_weight: torch.Tensor
    weight: torch.Tensor
    r2: torch.Tensor
    rrms: torch.Tensor
    packed: torch.Tensor
    eps: float
    arch: str

    @property
    def combine(self) -> bool:
        """Whether COMBINE comes first."""
        return self.block_output is not None

    @property
    def tokens(self) -> int:
        """M."""
        return self.residual.shape[0]

    def sources(self) -> dict[str, torch.Tensor]:
        """residual, block_output and injection; the residual stands in for those that are not read."""
        block_output = self.residual if self.block_output is None else self.block_output
        injection = self.residual if self.injection is None else self.injection
        return {"residual": self.residual, "block_output": block_output, "injection": injection}

    def strides(self) -> tuple[int, int, int]:
        """Their row strides."""
        residual, block_output, injection = (row_stride(tensor) for tensor in self.sources().values())
        return residual, block_output, injection


def run(call: K1Call, plan: AnyK1Plan) -> None:
    """Launch `plan` on the current stream."""
    if isinstance(plan, SkinnyPlan):
        _run_skinny(call, plan)
    else:
        _run_tiled(call, plan)


def _run_skinny(call: K1Call, plan: SkinnyPlan) -> None:
    tokens, device = call.tokens, call.residual.device
    partials = torch.empty(plan.partial_elements(tokens), dtype=torch.float32, device=device)
    groups = plan.token_groups(tokens)
    with counters.lease(device, plan.n_pad, groups, plan.hc) as arrivals:
        tensors = {
            **call.sources(),
            "weight": call.weight,
            "r2": call.r2,
            "rrms": call.rrms,
            "packed": call.packed,
            "partials": partials,
            "counters": arrivals,
        }
        scalars = (tokens, *call.strides(), call.eps, groups)
        dispatch.launch("hcgr.kernels.k1_skinny", plan, tensors, scalars, call.arch)


def _run_tiled(call: K1Call, plan: K1Plan) -> None:
    tokens, device, arch = call.tokens, call.residual.device, call.arch
    work = {
        name: torch.empty(shape, dtype=dtype, device=device)
        for name, (shape, dtype) in k1_limits.k1_workspace(plan, tokens).items()
    }
    out = work.get("partials", call.packed)
    squares = work.get("squares", call.rrms)
    if isinstance(plan, K1FusedPlan):
        tensors = {
            **call.sources(),
            "weight": call.weight,
            "r2": call.r2,
            "rrms": call.rrms,
            "out": out,
            "squares": squares,
        }
        scalars = (tokens, *call.strides(), call.eps, plan.workgroups(tokens))
        dispatch.launch("hcgr.kernels.k1_fused", plan, tensors, scalars, arch)
    elif isinstance(plan, K1ResidentPlan):
        tensors = {
            **call.sources(),
            "norm_weight": call.norm_weight,
            "weight": call.weight,
            "r2": call.r2,
            "rrms": call.rrms,
            "out": out,
        }
        scalars = (tokens, *call.strides(), call.eps, plan.workgroups(tokens))
        dispatch.launch("hcgr.kernels.k1_resident", plan, tensors, scalars, arch)
    else:
        _combine_norm(call, plan, work)
        if isinstance(plan, K1DecoupledPlan):
            rows = work.get("xn", call.r2)
            tensors = {"rows": rows, "rrms": call.rrms, "weight": call.weight, "packed": call.packed}
            kernel = "hcgr.kernels.k1_decoupled"
        else:
            rows = call.r2
            tensors = {
                "r2": rows,
                "rrms": call.rrms,
                "norm_weight": call.norm_weight,
                "weight": call.weight,
                "out": out,
            }
            kernel = "hcgr.kernels.k1_split_k"
        dispatch.launch(kernel, plan, tensors, (tokens, row_stride(rows), plan.workgroups(tokens)), arch)
    last = k1_limits.reduce_plan(plan)
    if last is not None:
        tensors = {"partials": out, "squares": squares, "rrms": call.rrms, "packed": call.packed}
        reduce_scalars = (tokens, call.eps, last.workgroups(tokens))
        dispatch.launch("hcgr.kernels.k1_reduce", last, tensors, reduce_scalars, arch)


def _combine_norm(call: K1Call, plan: K1SplitKPlan | K1DecoupledPlan, work: dict[str, torch.Tensor]) -> None:
    """The first kernel of the two-kernel paths."""
    norm_f32 = call.norm_weight.dtype is torch.float32
    norm_full = call.norm_weight.shape[0] == plan.hc * plan.hs
    first = k1_limits.norm_plan(plan, call.combine, norm_f32=norm_f32, norm_full=norm_full)
    tensors = {
        **call.sources(),
        "norm_weight": call.norm_weight,
        "r2": call.r2,
        "rrms": call.rrms,
        "xn": work.get("xn", call.r2),
    }
    scalars = (call.tokens, *call.strides(), call.eps, first.workgroups(call.tokens))
    dispatch.launch("hcgr.kernels.k1_combine_norm", first, tensors, scalars, call.arch)
