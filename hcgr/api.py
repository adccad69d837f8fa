"""The public entry points of the two-stage Hyper-Connection gated residual op.

Each is a ``torch.library`` operator of the namespace ``hcgr`` with a fake kernel, and a Python function that
keeps the call sites of earlier public revisions working. Operators never return one of their inputs.

Tensors of a ROCm device run there, on gfx942 or gfx950. CPU tensors run only with
``FLYDSL_COMPILE_BACKEND=emulator`` (see :mod:`hcgr.dispatch`).
"""

from __future__ import annotations

from typing import Any

import torch

from hcgr import arch as arch_table
from hcgr import contract, dispatch
from hcgr.plan import plan_combine
from hcgr.requirements import row_stride

_LIBRARY = torch.library.Library("hcgr", "DEF")
_COMBINE_INPUTS = (
    "Tensor residual, Tensor block_output, Tensor injection, Tensor norm_weight, int hc_count, float eps"
)
_TAGS = (torch.Tag.pt2_compliant_tag,)
_LIBRARY.define(f"combine({_COMBINE_INPUTS}) -> Tensor", tags=_TAGS)
_LIBRARY.define(f"combine_into({_COMBINE_INPUTS}, *, Tensor(a!) out) -> ()", tags=_TAGS)


def _launch_combine(
    residual: torch.Tensor,
    block_output: torch.Tensor,
    injection: torch.Tensor,
    hc_count: int,
    r2: torch.Tensor,
) -> None:
    tokens, width = residual.shape
    if tokens == 0:
        return
    plan = plan_combine(tokens, hc_count, width // hc_count, arch_table.cus_of_device(residual.device))
    dispatch.launch(
        "hcgr.kernels.combine",
        plan,
        {"residual": residual, "block_output": block_output, "injection": injection, "r2": r2},
        (
            tokens,
            row_stride(residual),
            row_stride(block_output),
            row_stride(injection),
            plan.workgroups(tokens),
        ),
    )


def _combine(
    residual: torch.Tensor,
    block_output: torch.Tensor,
    injection: torch.Tensor,
    norm_weight: torch.Tensor,
    hc_count: int,
    eps: float,
) -> torch.Tensor:
    contract.check_combine(residual, block_output, injection, norm_weight, hc_count, eps)
    arch_table.of_device(residual.device)
    r2 = residual.new_empty(residual.shape)
    _launch_combine(residual, block_output, injection, hc_count, r2)
    return r2


def _combine_into(
    residual: torch.Tensor,
    block_output: torch.Tensor,
    injection: torch.Tensor,
    norm_weight: torch.Tensor,
    hc_count: int,
    eps: float,
    *,
    out: torch.Tensor,
) -> None:
    contract.check_combine(residual, block_output, injection, norm_weight, hc_count, eps, out=out)
    arch_table.of_device(residual.device)
    _launch_combine(residual, block_output, injection, hc_count, out)


for _key in ("CPU", "CUDA"):
    _LIBRARY.impl("combine", _combine, _key)
    _LIBRARY.impl("combine_into", _combine_into, _key)


@torch.library.register_fake("hcgr::combine", lib=_LIBRARY)
def _combine_fake(
    residual: torch.Tensor,
    block_output: torch.Tensor,
    injection: torch.Tensor,
    norm_weight: torch.Tensor,
    hc_count: int,
    eps: float,
) -> torch.Tensor:
    contract.check_combine(residual, block_output, injection, norm_weight, hc_count, eps, addresses=False)
    return residual.new_empty(residual.shape)


@torch.library.register_fake("hcgr::combine_into", lib=_LIBRARY)
def _combine_into_fake(
    residual: torch.Tensor,
    block_output: torch.Tensor,
    injection: torch.Tensor,
    norm_weight: torch.Tensor,
    hc_count: int,
    eps: float,
    *,
    out: torch.Tensor,
) -> None:
    contract.check_combine(
        residual, block_output, injection, norm_weight, hc_count, eps, out=out, addresses=False
    )


def flydsl_gr_two_stage_combine(
    residual: torch.Tensor,
    block_output: torch.Tensor,
    injection: torch.Tensor,
    norm_weight: torch.Tensor,
    hc_count: int,
    eps: float = 1e-6,
    stream: torch.cuda.Stream | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Add a pending block output to every residual stream: the COMBINE of a delayed residual write.

    ``iw = 2 * sigmoid(injection / HC)`` in float32, then ``r2[m, s*HS + c] = residual[m, s*HS + c] +
    block_output[m, c] * iw[m, s]``, rounded once to bf16, to nearest even.

    Args:
        residual: [M, HC*HS] bf16, stream-major (HS inner). HS is a multiple of 512. Rows are contiguous and
            16-byte aligned; any row stride that is a multiple of 8 elements is honoured, 0 (expanded) too.
        block_output: [M, HS] bf16, rows as for `residual`.
        injection: [M, HC] bf16 logits. The inner dimension is contiguous; any row stride is honoured, so that
            the view ``packed[:, r:r+HC]`` of a K1 output, of row stride n_pad, needs no copy.
        norm_weight: [HS] or [HC*HS], bf16 or float32, contiguous. Not read: COMBINE does not normalise; it is
            checked all the same, so that a call valid here is valid for ``combine_and_mix``.
        hc_count: HC, one of 2, 4, 8.
        eps: Finite and positive. Not used here, checked like `norm_weight`.
        stream: Stream to launch on and allocate the result for; ``None`` is the current stream.
        out: Buffer for the result, contiguous [M, HC*HS] bf16, 16-byte aligned, on the device of `residual`
            and disjoint from every input: there is no in-place form. ``None`` allocates.

    Returns:
        r2, [M, HC*HS] bf16, contiguous; `out` itself if given. M = 0 gives an empty tensor, without a launch.

    Raises:
        NotImplementedError: if the device is neither gfx942 nor gfx950, or is the CPU without the emulator.
        ValueError: if an argument breaks the above, or tensors or stream are on different devices. The
            message names the argument, what was given and what is accepted; nothing was launched or written.
        TypeError: if `stream` is no stream.
    """
    contract.raise_first(contract.stream_problems(stream, residual))
    arguments: tuple[Any, ...] = (residual, block_output, injection, norm_weight, hc_count, eps)
    with dispatch.on_stream(stream):
        if out is None:
            return torch.ops.hcgr.combine(*arguments)
        torch.ops.hcgr.combine_into(*arguments, out=out)
        return out
