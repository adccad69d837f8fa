"""The contracts of ``flydsl_gr_two_stage_combine_and_mix`` and ``flydsl_gr_two_stage_mix``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from hcgr import requirements as must
from hcgr.contract.common import (
    ACTIVATION_DTYPES,
    HC_COUNTS,
    arch_problems,
    device_problems,
    in_groups,
    memory_problems,
    norm_weight_problems,
    present,
    raise_first,
    residual_problems,
    row_matrix_problems,
    vector_read_problems,
)
from hcgr.plan import choose
from hcgr.plan.k1 import TILE
from hcgr.plan.k2 import MAX_RANK, RANK_UNIT
from hcgr.plan.skinny import COLUMN_CHOICES
from hcgr.plan.skinny import MAX_TOKENS as SKINNY_TOKENS
from hcgr.requirements import Problem

#: n_pad is a multiple of this on every path; all but the skinny one need multiples of TILE.
N_PAD_UNIT = max(COLUMN_CHOICES)


def combine_input_problems(
    residual: torch.Tensor, block_output: torch.Tensor, injection: torch.Tensor, hc_count: int
) -> Iterator[Problem]:
    """`block_output` and `injection` fit `residual`."""
    m, hs = residual.shape[0], residual.shape[1] // hc_count
    yield from present(
        [
            must.dtype_in("block_output", block_output, ACTIVATION_DTYPES),
            must.shape_in("block_output", block_output, [m, hs], meaning="[M, HS]"),
            must.dtype_in("injection", injection, ACTIVATION_DTYPES),
            must.shape_in("injection", injection, [m, hc_count], meaning="[M, HC]"),
        ]
    )


def merged_weight_problems(name: str, weight: torch.Tensor, k: int) -> Iterator[Problem]:
    """`weight` is a merged weight, [n_pad, K] bf16, whose row count some path tiles."""
    broken = present(
        [
            must.dtype_in(name, weight, ACTIVATION_DTYPES),
            must.rank_is(name, weight, 2, "[n_pad, HC*HS]"),
        ]
    )
    if not broken:
        n_pad = weight.shape[0]
        broken = present([must.shape_in(name, weight, [n_pad, k], meaning="[n_pad, HC*HS]")])
        if n_pad == 0 or n_pad % N_PAD_UNIT:
            accepted = f"of n_pad rows, a positive multiple of {TILE} (of {N_PAD_UNIT} on the skinny path)"
            broken.append(Problem(name, accepted, f"{n_pad} rows"))
    yield from broken


def path_problems(
    name: str, n_pad: int, tokens: int, fold_w: bool, skinny: bool = True, given: str = ""
) -> Iterator[Problem]:
    """`n_pad` rows of the weight `name` suit the path that the call takes.

    Args:
        skinny: Whether other arguments leave the choice of the skinny path open.
        given: What to add to the rows in the message.
    """
    if n_pad % TILE and not (skinny and fold_w and tokens <= SKINNY_TOKENS):
        accepted = (
            f"of n_pad rows, a multiple of {TILE} (of {N_PAD_UNIT} on the skinny path: folded weight, M of at most "
            f"{SKINNY_TOKENS})"
        )
        yield Problem(name, accepted, f"{n_pad} rows with M={tokens}, fold_w={fold_w}{given}")


def w_up_problems(w_up: torch.Tensor, k: int, rank: int) -> Iterator[Problem]:
    """`w_up` is bf16 [K, r]."""
    yield from present(
        [
            must.dtype_in("w_up", w_up, ACTIVATION_DTYPES),
            must.shape_in("w_up", w_up, [k, rank], meaning="[HC*HS, r]"),
        ]
    )


def rank_problems(name: str, rank: int, given: str) -> Iterator[Problem]:
    """`rank` is an r that K2 tiles."""
    if not 0 < rank <= MAX_RANK or rank % RANK_UNIT:
        yield Problem(name, f"of rank r, a positive multiple of {RANK_UNIT} up to {MAX_RANK}", given)


def _projection_problems(
    residual: torch.Tensor, w_down: Any, w_up: Any, w_inject: Any, hc_count: int
) -> Iterator[Problem]:
    """w_down, w_inject and w_up fit each other and `residual`."""
    k = residual.shape[1]
    broken = present(
        [
            must.dtype_in("w_down", w_down, ACTIVATION_DTYPES),
            must.rank_is("w_down", w_down, 2, "[r, HC*HS]"),
        ]
    )
    if not broken:
        rank = w_down.shape[0]
        broken = present([must.shape_in("w_down", w_down, [rank, k], meaning="[r, HC*HS]")])
        broken += rank_problems("w_down", rank, f"r={rank} (shape {list(w_down.shape)})")
    if not broken:
        broken = list(w_up_problems(w_up, k, w_down.shape[0]))
    if w_inject is not None:
        broken += present(
            [
                must.dtype_in("w_inject", w_inject, ACTIVATION_DTYPES),
                must.shape_in("w_inject", w_inject, [hc_count, k], meaning="[HC, HC*HS]"),
            ]
        )
    yield from broken


def _two_stage_problems(
    inputs: dict[str, Any],
    weights: dict[str, Any],
    hc_count: Any,
    eps: Any,
    fold_w: Any,
    arch: str | None,
    addresses: bool,
) -> Iterator[Problem]:
    """The contract of both entry points. `inputs` are residual, and block_output and injection if COMBINE is
    asked for; `weights` are norm_weight, w_down, w_up, w_inject and w_down_merged, the last two maybe ``None``.
    """
    residual, merged = inputs["residual"], weights["w_down_merged"]
    optional = ("w_inject", "w_down_merged")
    tensors = {n: t for n, t in {**inputs, **weights}.items() if n not in optional or t is not None}
    row_matrices = [name for name in ("residual", "block_output") if name in inputs]

    def arguments() -> Iterator[Problem]:
        yield from arch_problems(arch)
        yield from present(must.is_tensor(name, value) for name, value in tensors.items())
        yield from present([must.one_of("hc_count", hc_count, HC_COUNTS), must.normal_float32("eps", eps)])

    def shapes() -> Iterator[Problem]:
        k = residual.shape[1]
        if "injection" in inputs:
            yield from combine_input_problems(residual, inputs["block_output"], inputs["injection"], hc_count)
        yield from norm_weight_problems(weights["norm_weight"], hc_count, k // hc_count)
        yield from _projection_problems(residual, weights["w_down"], weights["w_up"], weights["w_inject"], hc_count)
        if merged is not None:
            yield from merged_weight_problems("w_down_merged", merged, k)

    def merged_rows() -> Iterator[Problem]:
        if merged is None:
            return
        n_pad, used = merged.shape[0], weights["w_down"].shape[0]
        used += 0 if weights["w_inject"] is None else hc_count
        if n_pad < used:
            yield Problem("w_down_merged", f"of at least {used} rows, those of w_down and w_inject", f"{n_pad} rows")
        yield from path_problems("w_down_merged", n_pad, residual.shape[0], fold_w)

    def layouts() -> Iterator[Problem]:
        for name in row_matrices:
            yield from row_matrix_problems(name, inputs[name])
        if "injection" in inputs:
            yield from present([must.inner_contiguous("injection", inputs["injection"])])
        names = ("norm_weight", "w_up", "w_down_merged")
        read: dict[str, torch.Tensor] = {name: tensors[name] for name in names if name in tensors}
        yield from vector_read_problems(read, addresses)
        if addresses:
            yield from present(must.vector_aligned(name, inputs[name]) for name in row_matrices)

    def plans() -> Iterator[Problem]:
        if arch is not None and residual.shape[0] > 0:
            yield from choose.two_stage_problems(
                residual.shape[0],
                hc_count,
                residual.shape[1] // hc_count,
                choose.merged_rows(weights["w_down"], weights["w_inject"], merged),
                weights["w_down"].shape[0],
                arch,
                folded=fold_w,
                combine="injection" in inputs,
            )

    yield from in_groups(
        arguments,
        lambda: device_problems(tensors),
        lambda: memory_problems(tensors, addresses),
        lambda: residual_problems(residual, hc_count),
        shapes,
        merged_rows,
        layouts,
        plans,
    )


def combine_and_mix_problems(
    residual: Any,
    block_output: Any,
    injection: Any,
    norm_weight: Any,
    w_down: Any,
    w_up: Any,
    w_inject: Any,
    hc_count: Any,
    eps: Any = 1e-6,
    w_down_merged: Any = None,
    fold_w: Any = False,
    *,
    arch: str | None = None,
    addresses: bool = True,
) -> Iterator[Problem]:
    """What is wrong with a call of ``flydsl_gr_two_stage_combine_and_mix``; nothing if it would be launched.

    Args:
        arch: LLVM target to check for; ``None`` leaves the architecture, and what depends on it, to the launch.
        addresses: Whether data addresses may be read; False for fake and meta tensors, which have none.

    Yields problems group by group and stops after the first group that has any.
    """
    inputs = {"residual": residual, "block_output": block_output, "injection": injection}
    weights = {"norm_weight": norm_weight, "w_down": w_down, "w_up": w_up, "w_inject": w_inject}
    weights["w_down_merged"] = w_down_merged
    yield from _two_stage_problems(inputs, weights, hc_count, eps, fold_w, arch, addresses)


def mix_problems(
    residual: Any,
    norm_weight: Any,
    w_down: Any,
    w_up: Any,
    w_inject: Any,
    hc_count: Any,
    eps: Any = 1e-6,
    w_down_merged: Any = None,
    fold_w: Any = False,
    *,
    arch: str | None = None,
    addresses: bool = True,
) -> Iterator[Problem]:
    """What is wrong with a call of ``flydsl_gr_two_stage_mix``; as :func:`combine_and_mix_problems`."""
    weights = {"norm_weight": norm_weight, "w_down": w_down, "w_up": w_up, "w_inject": w_inject}
    weights["w_down_merged"] = w_down_merged
    yield from _two_stage_problems({"residual": residual}, weights, hc_count, eps, fold_w, arch, addresses)


def check_combine_and_mix(*arguments: Any, **options: Any) -> None:
    """Raise the first problem of :func:`combine_and_mix_problems`; return ``None`` if there is none."""
    raise_first(combine_and_mix_problems(*arguments, **options))


def check_mix(*arguments: Any, **options: Any) -> None:
    """Raise the first problem of :func:`mix_problems`; return ``None`` if there is none."""
    raise_first(mix_problems(*arguments, **options))
