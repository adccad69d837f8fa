"""The weight of K1's GEMM: merged from the down and the inject projection, padded, folded with the norm weight.

Both are done once, when a model is loaded, and in plain torch: they run on any device.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from hcgr import requirements as must
from hcgr.contract import HC_COUNTS, NORM_WEIGHT_DTYPES, present, raise_first
from hcgr.requirements import Problem

WEIGHT_DTYPES = (torch.bfloat16,)
#: What the row count is rounded up to when the caller gives no n_pad: r = 320 with HC = 4 gives 384.
DEFAULT_ROW_UNIT = 64


def _weight_problems(name: str, weight: torch.Tensor) -> Iterator[Problem]:
    yield from present([must.dtype_in(name, weight, WEIGHT_DTYPES), must.rank_is(name, weight, 2, "[rows, HC*HS]")])


def _merge_problems(w_down: Any, w_inject: Any, hc_count: Any, n_pad: Any) -> Iterator[Problem]:
    """What is wrong with a call of :func:`merge_gr_two_stage_weight`, the first group of it."""
    tensors = {"w_down": w_down} if w_inject is None else {"w_down": w_down, "w_inject": w_inject}
    broken = present(must.is_tensor(name, value) for name, value in tensors.items())
    broken += present([must.one_of("hc_count", hc_count, HC_COUNTS)])
    if not broken:
        broken = [problem for name, tensor in tensors.items() for problem in _weight_problems(name, tensor)]
    if not broken:
        if w_down.shape[0] == 0 or w_down.shape[1] == 0 or w_down.shape[1] % hc_count:
            accepted = f"of shape [r, K] with r > 0 and K a positive multiple of hc_count={hc_count}"
            broken.append(Problem("w_down", accepted, str(list(w_down.shape))))
        elif w_inject is not None:
            shape = (hc_count, w_down.shape[1])
            broken += present(
                [
                    must.shape_in("w_inject", w_inject, shape, meaning="[HC, K]"),
                    must.same_device("w_inject", w_inject, "w_down", w_down.device),
                ]
            )
    if not broken and n_pad is not None:
        used = sum(tensor.shape[0] for tensor in tensors.values())
        if not isinstance(n_pad, int) or isinstance(n_pad, bool) or n_pad < used:
            accepted = f"an integer of at least {used}, the rows of w_down and w_inject"
            broken.append(Problem("n_pad", accepted, repr(n_pad)))
    yield from broken


@torch.no_grad()
def merge_gr_two_stage_weight(
    w_down: torch.Tensor,
    w_inject: torch.Tensor | None,
    hc_count: int,
    n_pad: int | None = None,
) -> torch.Tensor:
    """The merged weight of K1: the rows of `w_down`, then those of `w_inject`, then zeros.

    Args:
        w_down: [r, K] bf16, K = HC*HS.
        w_inject: [HC, K] bf16, or ``None`` for the final mixer, which has no inject rows.
        hc_count: HC, one of 2, 4, 8.
        n_pad: Rows of the result; ``None`` rounds up to a multiple of :data:`DEFAULT_ROW_UNIT`.

    Returns:
        [n_pad, K] bf16, contiguous, on the device of `w_down`; a new tensor, without gradient.

    Raises:
        TypeError: if an argument is no tensor.
        ValueError: naming the argument, what was given and what is accepted.
    """
    raise_first(_merge_problems(w_down, w_inject, hc_count, n_pad))
    parts = [w_down] if w_inject is None else [w_down, w_inject]
    used = sum(part.shape[0] for part in parts)
    rows = -(-used // DEFAULT_ROW_UNIT) * DEFAULT_ROW_UNIT if n_pad is None else n_pad
    merged = w_down.new_zeros(rows, w_down.shape[1])
    torch.cat(parts, out=merged[:used])
    return merged


def _fold_problems(w_down_merged: Any, norm_weight: Any, hc_count: Any) -> Iterator[Problem]:
    """What is wrong with a call of :func:`fold_norm_weight`, the first group of it."""
    broken = present(
        [
            must.is_tensor("w_down_merged", w_down_merged),
            must.is_tensor("norm_weight", norm_weight),
            must.one_of("hc_count", hc_count, HC_COUNTS),
        ]
    )
    if not broken:
        broken = list(_weight_problems("w_down_merged", w_down_merged))
    if not broken and (w_down_merged.shape[1] == 0 or w_down_merged.shape[1] % hc_count):
        accepted = f"of shape [n_pad, K] with K a positive multiple of hc_count={hc_count}"
        broken.append(Problem("w_down_merged", accepted, str(list(w_down_merged.shape))))
    if not broken:
        k = w_down_merged.shape[1]
        shapes = ([k // hc_count], [k])
        broken = present(
            [
                must.dtype_in("norm_weight", norm_weight, NORM_WEIGHT_DTYPES),
                must.shape_in("norm_weight", norm_weight, *shapes, meaning="[HS] or [HC*HS]"),
                must.same_device("norm_weight", norm_weight, "w_down_merged", w_down_merged.device),
            ]
        )
    yield from broken


@torch.no_grad()
def fold_norm_weight(w_down_merged: torch.Tensor, norm_weight: torch.Tensor, hc_count: int) -> torch.Tensor:
    """``W' = bf16((1 + Wnorm) * W)``, every row, inject rows too: what ``fold_w=True`` expects.

    ``1 + Wnorm`` and the product are float32; the result is rounded once to bf16, to nearest even.

    Args:
        w_down_merged: [n_pad, K] bf16, from :func:`merge_gr_two_stage_weight` or laid out like it.
        norm_weight: [HS], shared by all streams, or [HC*HS]; bf16 or float32.
        hc_count: HC, one of 2, 4, 8.

    Returns:
        [n_pad, K] bf16, contiguous; a new tensor, without gradient.

    Raises:
        TypeError: if an argument is no tensor.
        ValueError: naming the argument, what was given and what is accepted.
    """
    raise_first(_fold_problems(w_down_merged, norm_weight, hc_count))
    k = w_down_merged.shape[1]
    scale = norm_weight.float() + 1.0
    scale = scale.repeat(k // scale.numel())
    return (w_down_merged.float() * scale).to(torch.bfloat16).contiguous()
