"""The contract of ``flydsl_gr_two_stage_combine``."""

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
    output_problems,
    present,
    raise_first,
    residual_problems,
    row_matrix_problems,
)
from hcgr.plan import max_combine_tokens
from hcgr.requirements import Problem


def combine_problems(
    residual: Any,
    block_output: Any,
    injection: Any,
    norm_weight: Any,
    hc_count: Any,
    eps: Any = 1e-6,
    *,
    out: Any = None,
    arch: str | None = None,
    addresses: bool = True,
) -> Iterator[Problem]:
    """What is wrong with a call of ``flydsl_gr_two_stage_combine``; nothing if it would be launched.

    Args:
        arch: LLVM target to check for; ``None`` leaves the architecture to the launch.
        addresses: Whether data addresses may be read; False for fake and meta tensors, which have none.
            Without them alignment, overlap and launch size stay unchecked.

    Yields problems group by group and stops after the first group that has any. A group sees only arguments
    that the groups before it accepted.
    """
    inputs = {
        "residual": residual,
        "block_output": block_output,
        "injection": injection,
        "norm_weight": norm_weight,
    }
    tensors = inputs if out is None else {**inputs, "out": out}

    def arguments() -> Iterator[Problem]:
        yield from arch_problems(arch)
        yield from present(must.is_tensor(name, value) for name, value in tensors.items())
        yield from present([must.one_of("hc_count", hc_count, HC_COUNTS), must.normal_float32("eps", eps)])

    def shapes() -> Iterator[Problem]:
        m, hs = residual.shape[0], residual.shape[1] // hc_count
        yield from present(
            [
                must.dtype_in("block_output", block_output, ACTIVATION_DTYPES),
                must.shape_in("block_output", block_output, [m, hs], meaning="[M, HS]"),
                must.dtype_in("injection", injection, ACTIVATION_DTYPES),
                must.shape_in("injection", injection, [m, hc_count], meaning="[M, HC]"),
            ]
        )
        yield from norm_weight_problems(norm_weight, hc_count, hs)

    def layouts() -> Iterator[Problem]:
        yield from row_matrix_problems("residual", residual)
        yield from row_matrix_problems("block_output", block_output)
        yield from present([must.inner_contiguous("injection", injection), must.contiguous("norm_weight", norm_weight)])

    def sizes() -> Iterator[Problem]:
        if not addresses:
            return
        yield from present(must.vector_aligned(name, inputs[name]) for name in ("residual", "block_output"))
        limit = max_combine_tokens(hc_count, residual.shape[1] // hc_count)
        if residual.shape[0] > limit:
            yield Problem("residual", f"of at most {limit} rows in one launch", f"{residual.shape[0]} rows")

    def output() -> Iterator[Problem]:
        if out is not None:
            meaning = "[M, HC*HS]"
            yield from output_problems("out", out, residual.shape, meaning, torch.bfloat16, inputs, addresses)

    yield from in_groups(
        arguments,
        lambda: device_problems(tensors),
        lambda: memory_problems(tensors, addresses),
        lambda: residual_problems(residual, hc_count),
        shapes,
        layouts,
        sizes,
        output,
    )


def check_combine(
    residual: Any,
    block_output: Any,
    injection: Any,
    norm_weight: Any,
    hc_count: Any,
    eps: Any = 1e-6,
    *,
    out: Any = None,
    arch: str | None = None,
    addresses: bool = True,
) -> None:
    """Raise the first problem of :func:`combine_problems`; return ``None`` if there is none."""
    raise_first(
        combine_problems(
            residual,
            block_output,
            injection,
            norm_weight,
            hc_count,
            eps,
            out=out,
            arch=arch,
            addresses=addresses,
        )
    )
