"""The contract of the direct K1, ``flydsl_k1_combine_norm_down``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from hcgr import requirements as must
from hcgr.contract.common import (
    HC_COUNTS,
    arch_problems,
    device_problems,
    in_groups,
    memory_problems,
    norm_weight_problems,
    output_problems,
    present,
    raise_first,
    residual_problems,
    row_matrix_problems,
    vector_read_problems,
)
from hcgr.contract.mix import combine_input_problems, merged_weight_problems, path_problems
from hcgr.plan import choose
from hcgr.requirements import Problem


def _outputs(residual: torch.Tensor, weight: torch.Tensor, hc: int) -> dict[str, tuple[int, str, torch.dtype]]:
    """Columns, shape in symbols and dtype of each output buffer."""
    return {
        "r2_out": (residual.shape[1], "[M, HC*HS]", torch.bfloat16),
        "out": (weight.shape[0], "[M, n_pad]", torch.bfloat16),
        "rrms_out": (hc, "[M, HC]", torch.float32),
    }


def takes_skinny(tokens: int, folded: bool, request: choose.Request) -> bool:
    """Whether the direct K1 takes the skinny path, which needs no row tile."""
    return choose.is_skinny(tokens, folded, request)


def _row_problems(tokens: int, gemm_pad: Any, tile_rows: int | None) -> Iterator[Problem]:
    """The tiled paths' rows: a multiple of a tile height, by `gemm_pad` if not by themselves."""
    heights = choose.K1_HEIGHTS if tile_rows is None else (tile_rows,)
    unit = min(heights)
    accepted = f"a multiple of {unit} of at least M={tokens}, as the tile heights are {', '.join(map(str, heights))}"
    rows = tokens if gemm_pad is None else gemm_pad
    if rows < tokens or rows % unit:
        given = "None" if gemm_pad is None else str(gemm_pad)
        yield Problem("gemm_pad", accepted, f"{given} with M={tokens} rows")


def k1_problems(
    residual: Any,
    block_output: Any,
    injection: Any,
    norm_weight: Any,
    w_dn_merged: Any,
    lowrank: Any,
    hc_count: Any,
    eps: Any,
    r2_out: Any = None,
    out: Any = None,
    rrms_out: Any = None,
    *,
    request: choose.Request = choose.AUTO,
    fold_w: Any = False,
    gemm_pad: Any = None,
    arch: str | None = None,
    addresses: bool = True,
) -> Iterator[Problem]:
    """What is wrong with a call of ``flydsl_k1_combine_norm_down``; nothing if it would be launched.

    Args:
        request: split_k, stages and tile heights as the caller gave them.
        arch: LLVM target to check for; ``None`` leaves the architecture, and what depends on it, to the launch.
        addresses: Whether data addresses may be read; False for fake and meta tensors, which have none.
    """
    inputs = {
        "residual": residual,
        "block_output": block_output,
        "injection": injection,
        "norm_weight": norm_weight,
        "w_dn_merged": w_dn_merged,
    }
    given = {"r2_out": r2_out, "out": out, "rrms_out": rrms_out}
    buffers = {name: buffer for name, buffer in given.items() if buffer is not None}
    tensors = {**inputs, **buffers}

    def arguments() -> Iterator[Problem]:
        yield from arch_problems(arch)
        yield from present(must.is_tensor(name, value) for name, value in tensors.items())
        yield from present(
            [
                must.one_of("hc_count", hc_count, HC_COUNTS),
                must.normal_float32("eps", eps),
                must.positive_integer("lowrank", lowrank),
                None if gemm_pad is None else must.positive_integer("gemm_pad", gemm_pad),
            ]
        )
        yield from choose.request_problems(request)

    def shapes() -> Iterator[Problem]:
        k = residual.shape[1]
        yield from combine_input_problems(residual, block_output, injection, hc_count)
        yield from norm_weight_problems(norm_weight, hc_count, k // hc_count)
        yield from merged_weight_problems("w_dn_merged", w_dn_merged, k)

    def rows() -> Iterator[Problem]:
        n_pad, m = w_dn_merged.shape[0], residual.shape[0]
        if lowrank != n_pad and lowrank + hc_count > n_pad:
            accepted = f"at most n_pad - HC = {n_pad - hc_count} (or n_pad = {n_pad}, without inject rows)"
            yield Problem("lowrank", accepted, str(lowrank))
        skinny = takes_skinny(m, fold_w, request)
        yield from path_problems("w_dn_merged", n_pad, m, fold_w, skinny, f", split_k={request.split_k!r}")
        if m > 0 and not skinny:
            yield from _row_problems(m, gemm_pad, request.tile_rows)
        elif gemm_pad is not None and gemm_pad < m:
            yield Problem("gemm_pad", f"at least M={m}", str(gemm_pad))

    def layouts() -> Iterator[Problem]:
        yield from row_matrix_problems("residual", residual)
        yield from row_matrix_problems("block_output", block_output)
        yield from present([must.inner_contiguous("injection", injection)])
        yield from vector_read_problems({"norm_weight": norm_weight, "w_dn_merged": w_dn_merged}, addresses)
        if addresses:
            yield from present(must.vector_aligned(name, inputs[name]) for name in ("residual", "block_output"))

    def plans() -> Iterator[Problem]:
        if arch is not None and residual.shape[0] > 0:
            yield from choose.k1_problems(
                residual.shape[0] if gemm_pad is None else gemm_pad,
                hc_count,
                residual.shape[1] // hc_count,
                w_dn_merged.shape[0],
                choose.live_columns(lowrank, hc_count, w_dn_merged.shape[0]),
                arch,
                tokens=residual.shape[0],
                folded=fold_w,
                request=request,
            )

    def outputs() -> Iterator[Problem]:
        others = dict(inputs)
        for name, (columns, meaning, dtype) in _outputs(residual, w_dn_merged, hc_count).items():
            if name in buffers:
                shape = (residual.shape[0], columns)
                yield from output_problems(name, buffers[name], shape, meaning, dtype, others, addresses)
                others[name] = buffers[name]

    yield from in_groups(
        arguments,
        lambda: device_problems(tensors),
        lambda: memory_problems(tensors, addresses),
        lambda: residual_problems(residual, hc_count),
        shapes,
        rows,
        layouts,
        outputs,
        plans,
    )


def check_k1(*arguments: Any, **options: Any) -> None:
    """Raise the first problem of :func:`k1_problems`; return ``None`` if there is none."""
    raise_first(k1_problems(*arguments, **options))
