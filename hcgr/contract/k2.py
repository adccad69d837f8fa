"""The contract of the direct K2, ``flydsl_up_gate_mix_norm``."""

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
    vector_read_problems,
)
from hcgr.contract.mix import rank_problems, w_up_problems
from hcgr.plan import choose
from hcgr.requirements import Problem


def _row_problems(tokens: int, block_m: int | None) -> Iterator[Problem]:
    heights = choose.K2_HEIGHTS if block_m is None else (block_m,)
    if tokens % min(heights):
        listed = ", ".join(map(str, heights))
        accepted = f"of a row count that a tile height divides (tile heights are {listed})"
        yield Problem("lora", accepted, f"{tokens} rows")


def k2_problems(
    lora: Any,
    r2: Any,
    rrms: Any,
    norm_weight: Any,
    w_up: Any,
    hc_count: Any,
    block_input: Any = None,
    *,
    block_m: Any = None,
    arch: str | None = None,
    addresses: bool = True,
) -> Iterator[Problem]:
    """What is wrong with a call of ``flydsl_up_gate_mix_norm``; nothing if it would be launched.

    Args:
        block_m: The tile height that the caller asks for, or ``None``.
        arch: LLVM target to check for; ``None`` leaves the architecture, and what depends on it, to the launch.
        addresses: Whether data addresses may be read; False for fake and meta tensors, which have none.
    """
    inputs = {"r2": r2, "lora": lora, "rrms": rrms, "norm_weight": norm_weight, "w_up": w_up}
    tensors = inputs if block_input is None else {**inputs, "block_input": block_input}

    def arguments() -> Iterator[Problem]:
        yield from arch_problems(arch)
        yield from present(must.is_tensor(name, value) for name, value in tensors.items())
        yield from present([must.one_of("hc_count", hc_count, HC_COUNTS)])
        if block_m is not None:
            yield from present([must.one_of("block_m", block_m, choose.K2_HEIGHTS)])

    def shapes() -> Iterator[Problem]:
        m, k = r2.shape
        broken = present(
            [
                must.dtype_in("lora", lora, ACTIVATION_DTYPES),
                must.rank_is("lora", lora, 2, "[M, r]"),
                must.dtype_in("rrms", rrms, [torch.float32]),
                must.shape_in("rrms", rrms, [m, hc_count], meaning="[M, HC]"),
                must.contiguous("rrms", rrms),
            ]
        )
        broken += norm_weight_problems(norm_weight, hc_count, k // hc_count)
        yield from broken
        if broken:
            return
        rank = lora.shape[1]
        yield from present([must.shape_in("lora", lora, [m, rank], meaning="[M, r]")])
        yield from rank_problems("lora", rank, f"r={rank} (shape {list(lora.shape)})")
        yield from w_up_problems(w_up, k, rank)

    def layouts() -> Iterator[Problem]:
        yield from row_matrix_problems("r2", r2)
        yield from row_matrix_problems("lora", lora)
        yield from vector_read_problems({"norm_weight": norm_weight, "w_up": w_up}, addresses)
        if addresses:
            yield from present(must.vector_aligned(name, inputs[name]) for name in ("lora", "r2"))

    def plans() -> Iterator[Problem]:
        if arch is not None and r2.shape[0] > 0:
            hs = r2.shape[1] // hc_count
            for problem in choose.k2_problems(r2.shape[0], hc_count, hs, lora.shape[1], arch, block_m=block_m):
                yield choose.by_k2_argument(problem)

    def output() -> Iterator[Problem]:
        if block_input is not None:
            shape = (r2.shape[0], r2.shape[1] // hc_count)
            yield from output_problems("block_input", block_input, shape, "[M, HS]", torch.bfloat16, inputs, addresses)

    yield from in_groups(
        arguments,
        lambda: device_problems(tensors),
        lambda: memory_problems(tensors, addresses),
        lambda: residual_problems(r2, hc_count, "r2"),
        shapes,
        lambda: _row_problems(r2.shape[0], block_m),
        layouts,
        output,
        plans,
    )


def check_k2(*arguments: Any, **options: Any) -> None:
    """Raise the first problem of :func:`k2_problems`; return ``None`` if there is none."""
    raise_first(k2_problems(*arguments, **options))
