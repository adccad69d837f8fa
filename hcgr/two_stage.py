"""``combine_and_mix`` and ``mix``: checks, plans, allocations and launches behind the operators.

Checks come first, then the plans, and only then allocations and launches.
"""

from __future__ import annotations

from typing import Any

import torch

from hcgr import arch as arch_table
from hcgr import contract, dispatch, k1, k2
from hcgr.plan import choose
from hcgr.weights import fold_norm_weight, merge_gr_two_stage_weight


def _merged_weight(
    w_down: torch.Tensor,
    w_inject: torch.Tensor | None,
    norm_weight: torch.Tensor,
    hc_count: int,
    w_down_merged: torch.Tensor | None,
    fold_w: bool,
) -> torch.Tensor:
    """The weight of K1; merged, and folded if asked for, where the caller has not done so. Not kept."""
    if w_down_merged is not None:
        return w_down_merged
    merged = merge_gr_two_stage_weight(w_down, w_inject, hc_count)
    return fold_norm_weight(merged, norm_weight, hc_count) if fold_w else merged


def _two_stage(
    residual: torch.Tensor,
    block_output: torch.Tensor | None,
    injection: torch.Tensor | None,
    norm_weight: torch.Tensor,
    w_down: torch.Tensor,
    w_up: torch.Tensor,
    w_inject: torch.Tensor | None,
    hc_count: int,
    eps: float,
    w_down_merged: torch.Tensor | None,
    fold_w: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(r2, x, packed) of a call that the contract has accepted; r2 is the residual without COMBINE."""
    tokens, width = residual.shape
    hs, rank, device = width // hc_count, w_down.shape[0], residual.device
    n_pad = choose.merged_rows(w_down, w_inject, w_down_merged)
    arch = arch_table.of_device(device)
    combine = block_output is not None
    if tokens > 0:
        dispatch.require_runnable(device)
        cus = arch_table.cus_of_device(device, arch)
        norm_f32, norm_full = norm_weight.dtype is torch.float32, norm_weight.shape[0] == width
        live = rank if w_inject is None else rank + hc_count
        try:
            first = choose.k1(tokens, hc_count, hs, n_pad, live, arch.name, cus, fold_w, combine, norm_f32, norm_full)
        except choose.NoPlanError as error:
            raise choose.by_argument(error.problem, "w_down_merged", n_pad).exception() from error
        second = choose.k2(tokens, hc_count, hs, rank, arch.name, cus, n_pad, norm_f32, norm_full)
    r2 = residual.new_empty(residual.shape) if combine else residual
    x = residual.new_empty((tokens, hs))
    packed = residual.new_empty((tokens, n_pad))
    if tokens > 0:
        weight = _merged_weight(w_down, w_inject, norm_weight, hc_count, w_down_merged, fold_w)
        rrms = residual.new_empty((tokens, hc_count), dtype=torch.float32)
        call = k1.K1Call(residual, block_output, injection, norm_weight, weight, r2, rrms, packed, eps, arch.name)
        k1.run(call, first)
        k2.run(packed.narrow(1, 0, rank), r2, rrms, norm_weight, w_up, x, second, arch.name)
    return r2, x, packed


_accept_combine_and_mix = contract.Accepted(contract.check_combine_and_mix)
_accept_mix = contract.Accepted(contract.check_mix)


def combine_and_mix(
    residual: torch.Tensor, block_output: torch.Tensor, injection: torch.Tensor, *weights: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    _accept_combine_and_mix(residual, block_output, injection, *weights)
    return _two_stage(residual, block_output, injection, *weights)


def mix(residual: torch.Tensor, *weights: Any) -> tuple[torch.Tensor, torch.Tensor]:
    _accept_mix(residual, *weights)
    return _two_stage(residual, None, None, *weights)[1:]


def _mixed_fake(
    residual: torch.Tensor,
    w_down: torch.Tensor,
    w_inject: torch.Tensor | None,
    hc_count: int,
    w_down_merged: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    tokens, width = residual.shape
    n_pad = choose.merged_rows(w_down, w_inject, w_down_merged)
    return residual.new_empty((tokens, width // hc_count)), residual.new_empty((tokens, n_pad))


def combine_and_mix_fake(
    residual: torch.Tensor,
    block_output: torch.Tensor,
    injection: torch.Tensor,
    norm_weight: torch.Tensor,
    w_down: torch.Tensor,
    w_up: torch.Tensor,
    w_inject: torch.Tensor | None,
    hc_count: int,
    eps: float,
    w_down_merged: torch.Tensor | None,
    fold_w: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    weights = (norm_weight, w_down, w_up, w_inject, hc_count, eps, w_down_merged, fold_w)
    contract.check_combine_and_mix(residual, block_output, injection, *weights, addresses=False)
    r2 = residual.new_empty(residual.shape)
    return r2, *_mixed_fake(residual, w_down, w_inject, hc_count, w_down_merged)


def mix_fake(
    residual: torch.Tensor,
    norm_weight: torch.Tensor,
    w_down: torch.Tensor,
    w_up: torch.Tensor,
    w_inject: torch.Tensor | None,
    hc_count: int,
    eps: float,
    w_down_merged: torch.Tensor | None,
    fold_w: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    weights = (norm_weight, w_down, w_up, w_inject, hc_count, eps, w_down_merged, fold_w)
    contract.check_mix(residual, *weights, addresses=False)
    return _mixed_fake(residual, w_down, w_inject, hc_count, w_down_merged)
