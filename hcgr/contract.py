"""The error contract: what each entry point accepts, checked before anything is allocated or launched.

A contract is a generator of :class:`~hcgr.requirements.Problem`, ordered so that a later requirement may rely
on the earlier ones. It can be asked without launching anything: ``combine_problems`` yields what is wrong,
``check_combine`` raises the first of it. Exceptions: ``NotImplementedError`` for an architecture without
kernels, ``TypeError`` for an argument that is no tensor or stream, ``ValueError`` for everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from hcgr import arch as arch_table
from hcgr import requirements as must
from hcgr.plan import WAVE_COLUMNS, max_combine_tokens
from hcgr.requirements import Problem

HC_COUNTS = (2, 4, 8)
ACTIVATION_DTYPES = (torch.bfloat16,)
NORM_WEIGHT_DTYPES = (torch.bfloat16, torch.float32)


def present(problems: Iterable[Problem | None]) -> list[Problem]:
    """The requirements of a group that are broken."""
    return [problem for problem in problems if problem is not None]


def raise_first(problems: Iterable[Problem]) -> None:
    """Raise the first problem, if there is one."""
    for problem in problems:
        raise problem.exception()


def arch_problems(arch: str | None) -> Iterator[Problem]:
    """`arch` has kernels; ``None`` leaves that to the launch."""
    if arch is not None and arch.split(":", 1)[0].lower() not in arch_table.ARCHS:
        accepted = f"one of {', '.join(arch_table.ARCHS)} ({arch_table.CPU_ONLY_HINT})"
        yield Problem("arch", accepted, repr(arch), NotImplementedError)


def device_problems(tensors: dict[str, torch.Tensor]) -> Iterator[Problem]:
    """Every tensor is on the device of the first."""
    reference = next(iter(tensors))
    device = tensors[reference].device
    yield from present(must.same_device(name, tensor, reference, device) for name, tensor in tensors.items())


def stream_problems(stream: Any, residual: Any) -> Iterator[Problem]:
    """`stream` belongs to the device of `residual`."""
    if isinstance(residual, torch.Tensor):
        yield from present([must.on_device("stream", stream, residual.device)])


def residual_problems(residual: torch.Tensor, hc_count: int) -> Iterator[Problem]:
    """`residual` is bf16 [M, HC*HS] with a stream width HS that the kernels tile."""
    broken = present(
        [
            must.dtype_in("residual", residual, ACTIVATION_DTYPES),
            must.rank_is("residual", residual, 2, "[M, HC*HS]"),
        ]
    )
    yield from broken
    if broken:
        return
    unit = hc_count * WAVE_COLUMNS
    width = residual.shape[1]
    if width == 0 or width % unit:
        accepted = f"of a width HC*HS where HS is a positive multiple of {WAVE_COLUMNS} (HC*HS of {unit})"
        given = f"width {width} with hc_count={hc_count}, HS={width / hc_count:g}"
        yield Problem("residual", accepted, given)


def norm_weight_problems(norm_weight: torch.Tensor, hc_count: int, hs: int) -> Iterator[Problem]:
    """`norm_weight` is bf16 or float32, [HS] shared by all streams or [HC*HS], contiguous."""
    yield from present(
        [
            must.dtype_in("norm_weight", norm_weight, NORM_WEIGHT_DTYPES),
            must.shape_in("norm_weight", norm_weight, [hs], [hc_count * hs], meaning="[HS] or [HC*HS]"),
            must.contiguous("norm_weight", norm_weight),
        ]
    )


def row_matrix_problems(name: str, tensor: torch.Tensor) -> Iterator[Problem]:
    """A matrix read in 16-byte vectors: contiguous rows, at any row stride that keeps them aligned."""
    yield from present([must.inner_contiguous(name, tensor), must.vector_row_stride(name, tensor)])


def output_problems(
    name: str,
    out: torch.Tensor,
    shape: Iterable[int],
    meaning: str,
    dtype: torch.dtype,
    others: dict[str, torch.Tensor],
    addresses: bool,
) -> Iterator[Problem]:
    """A caller's output buffer: shape, dtype and layout, and disjoint from inputs and from other outputs."""
    broken = present(
        [
            must.dtype_in(name, out, [dtype]),
            must.shape_in(name, out, tuple(shape), meaning=meaning),
            must.contiguous(name, out),
        ]
    )
    yield from broken
    if addresses and not broken:
        yield from present([must.vector_aligned(name, out)])
        yield from present(must.disjoint(name, out, other, tensor) for other, tensor in others.items())


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
        yield from present([must.one_of("hc_count", hc_count, HC_COUNTS), must.finite_positive("eps", eps)])

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
        yield from present([must.inner_contiguous("injection", injection)])

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

    groups = (
        arguments,
        lambda: device_problems(tensors),
        lambda: residual_problems(residual, hc_count),
        shapes,
        layouts,
        sizes,
        output,
    )
    for group in groups:
        broken = False
        for problem in group():
            broken = True
            yield problem
        if broken:
            return


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
