"""The direct K1 and K2: checks, plans, allocations and launches behind the operators."""

from __future__ import annotations

from typing import Any

import torch

from hcgr import arch as arch_table
from hcgr import contract, dispatch, k1, k2
from hcgr.plan import choose
from hcgr.requirements import row_stride


def request_of(split_k: int, stages: int | None, tile_rows: int | None, use_tuned: bool) -> choose.Request:
    """The request that an operator's arguments spell: ``split_k=0`` is "auto"."""
    return choose.Request("auto" if split_k == 0 else split_k, stages, tile_rows, use_tuned)


def _check_k1(*arguments: Any, addresses: bool = True, **buffers: torch.Tensor) -> None:
    """The contract on an operator's arguments."""
    *tensors, fold_w, gemm_pad, split_k, stages, tile_rows, use_tuned = arguments
    request = request_of(split_k, stages, tile_rows, use_tuned)
    contract.check_k1(*tensors, **buffers, request=request, fold_w=fold_w, gemm_pad=gemm_pad, addresses=addresses)


def _run_k1(
    residual: torch.Tensor,
    block_output: torch.Tensor,
    injection: torch.Tensor,
    norm_weight: torch.Tensor,
    w_dn_merged: torch.Tensor,
    lowrank: int,
    hc_count: int,
    eps: float,
    fold_w: bool,
    gemm_pad: int | None,
    split_k: int,
    stages: int | None,
    tile_rows: int | None,
    use_tuned: bool,
    *,
    buffers: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(r2, packed, rrms) of a call that the contract has accepted: `buffers`, or new ones."""
    tokens, width = residual.shape
    n_pad, device = w_dn_merged.shape[0], residual.device
    arch = arch_table.of_device(device)
    if tokens > 0:
        dispatch.require_runnable(device)
        try:
            plan = choose.k1(
                tokens,
                hc_count,
                width // hc_count,
                n_pad,
                choose.live_columns(lowrank, hc_count, n_pad),
                arch.name,
                arch_table.cus_of_device(device, arch),
                fold_w,
                True,
                norm_weight.dtype is torch.float32,
                norm_weight.shape[0] == width,
                gemm_pad,
                request_of(split_k, stages, tile_rows, use_tuned),
            )
        except choose.NoPlanError as error:
            raise choose.by_argument(error.problem, "w_dn_merged", n_pad).exception() from error
    r2, packed, rrms = buffers or _k1_outputs(residual, w_dn_merged, hc_count)
    if tokens > 0:
        call = k1.K1Call(
            residual,
            block_output,
            injection,
            norm_weight,
            w_dn_merged,
            r2,
            rrms,
            packed,
            eps,
            arch.name,
        )
        k1.run(call, plan)
    return r2, packed, rrms


def _k1_outputs(
    residual: torch.Tensor, w_dn_merged: torch.Tensor, hc_count: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    tokens = residual.shape[0]
    return (
        residual.new_empty(residual.shape),
        residual.new_empty((tokens, w_dn_merged.shape[0])),
        residual.new_empty((tokens, hc_count), dtype=torch.float32),
    )


def k1_op(*arguments: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    _check_k1(*arguments)
    return _run_k1(*arguments, buffers=None)


def k1_into_op(*arguments: Any, r2_out: torch.Tensor, out: torch.Tensor, rrms_out: torch.Tensor) -> None:
    _check_k1(*arguments, r2_out=r2_out, out=out, rrms_out=rrms_out)
    _run_k1(*arguments, buffers=(r2_out, out, rrms_out))


def k1_op_fake(*arguments: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    _check_k1(*arguments, addresses=False)
    residual, w_dn_merged, hc_count = arguments[0], arguments[4], arguments[6]
    return _k1_outputs(residual, w_dn_merged, hc_count)


def k1_into_op_fake(*arguments: Any, **buffers: torch.Tensor) -> None:
    _check_k1(*arguments, addresses=False, **buffers)


def _check_k2(*arguments: Any, addresses: bool = True, **buffers: torch.Tensor) -> None:
    """The contract on an operator's arguments."""
    *tensors, block_m, _use_tuned = arguments
    contract.check_k2(*tensors, **buffers, block_m=block_m, addresses=addresses)


def _run_k2(
    lora: torch.Tensor,
    r2: torch.Tensor,
    rrms: torch.Tensor,
    norm_weight: torch.Tensor,
    w_up: torch.Tensor,
    hc_count: int,
    block_m: int | None,
    use_tuned: bool,
    *,
    block_input: torch.Tensor | None,
) -> torch.Tensor:
    """x of a call that the contract has accepted: `block_input`, or a new tensor."""
    tokens, width = r2.shape
    hs, device = width // hc_count, r2.device
    arch = arch_table.of_device(device)
    if tokens > 0:
        dispatch.require_runnable(device)
        try:
            plan = choose.k2(
                tokens,
                hc_count,
                hs,
                lora.shape[1],
                arch.name,
                arch_table.cus_of_device(device, arch),
                row_stride(lora),
                norm_weight.dtype is torch.float32,
                norm_weight.shape[0] == width,
                True,
                block_m,
                use_tuned,
            )
        except choose.NoPlanError as error:
            raise choose.by_k2_argument(error.problem).exception() from error
    x = r2.new_empty((tokens, hs)) if block_input is None else block_input
    if tokens > 0:
        k2.run(lora, r2, rrms, norm_weight, w_up, x, plan, arch.name)
    return x


def k2_op(*arguments: Any) -> torch.Tensor:
    _check_k2(*arguments)
    return _run_k2(*arguments, block_input=None)


def k2_into_op(*arguments: Any, block_input: torch.Tensor) -> None:
    _check_k2(*arguments, block_input=block_input)
    _run_k2(*arguments, block_input=block_input)


def k2_op_fake(*arguments: Any) -> torch.Tensor:
    _check_k2(*arguments, addresses=False)
    r2, hc_count = arguments[1], arguments[5]
    return r2.new_empty((r2.shape[0], r2.shape[1] // hc_count))


def k2_into_op_fake(*arguments: Any, block_input: torch.Tensor) -> None:
    _check_k2(*arguments, addresses=False, block_input=block_input)
