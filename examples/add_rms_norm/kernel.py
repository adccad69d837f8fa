"""``summed = bf16(x + residual)``, ``out = bf16(summed / sqrt(mean(summed^2) + eps) * weight)``: a wave a row."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from flydsl.expr import range_constexpr, rocdl
from flydsl.expr.typing import ReductionOp
from flydsl.runtime.device import get_rocm_arch

ROWS, LANES, WIDTH = 4, 64, 8  # rows of a workgroup, lanes of a row, columns that a lane loads at once


@functools.cache
def build(columns: int, arch: str) -> Any:
    """A compiled launch for rows of ``columns`` elements."""

    @flyc.kernel(name=f"add_rms_norm_{columns}", known_block_size=[ROWS * LANES, 1, 1])
    def kernel(
        x: fx.Pointer, residual: fx.Pointer, weight: fx.Pointer, summed: fx.Pointer, out: fx.Pointer, rows: fx.Int32,
        x_stride: fx.Int64, residual_stride: fx.Int64, summed_stride: fx.Int64, eps: fx.Float32,
    ) -> None:  # fmt: skip
        row = fx.block_idx.x * ROWS + fx.thread_idx.x // LANES
        first = fx.thread_idx.x % LANES * WIDTH
        chunks = [first + i * (LANES * WIDTH) for i in range_constexpr(-(-columns // (LANES * WIDTH)))]
        if row < rows:
            x_row, residual_row = x + fx.Int64(row) * x_stride, residual + fx.Int64(row) * residual_stride
            summed_row, out_row = summed + fx.Int64(row) * summed_stride, out + fx.Int64(row) * columns
            squares, values = fx.Float32(0.0), []
            for column in chunks:
                place = (column < columns).select(column, fx.Int32(0))  # lanes beyond the row load its start
                added = fx.generic_load(x_row + place, count=8).to(fx.Float32)
                added = (added + fx.generic_load(residual_row + place, count=8).to(fx.Float32)).to(fx.BFloat16)
                value = added.to(fx.Float32)
                squares = squares + (column < columns).select((value * value).reduce(ReductionOp.ADD), fx.Float32(0.0))
                values.append(added)
            mean = fx.coop.warp_reduce(squares, ReductionOp.ADD) * (1.0 / columns)
            scale = fx.full(WIDTH, fx.Float32(rocdl.rsq(fx.Float32.ir_type, (mean + eps).ir_value())), fx.Float32)
            for i in range_constexpr(len(chunks)):
                if chunks[i] < columns:
                    gain = fx.generic_load(weight + chunks[i], count=8).to(fx.Float32)
                    fx.generic_store(summed_row + chunks[i], values[i])
                    fx.generic_store(out_row + chunks[i], (values[i].to(fx.Float32) * scale * gain).to(fx.BFloat16))

    @flyc.jit
    def launch(
        x: fx.Pointer, residual: fx.Pointer, weight: fx.Pointer, summed: fx.Pointer, out: fx.Pointer, rows: fx.Int32,
        x_stride: fx.Int64, residual_stride: fx.Int64, summed_stride: fx.Int64, eps: fx.Float32, stream: fx.Stream,
    ) -> None:  # fmt: skip
        kernel(x, residual, weight, summed, out, rows, x_stride, residual_stride, summed_stride, eps).launch(
            grid=((rows + ROWS - 1) // ROWS, 1, 1), block=(ROWS * LANES, 1, 1), stream=stream
        )

    vector = flyc.from_c_void_p(fx.BFloat16, None, assumed_align=16)
    return flyc.compile(launch, *[vector] * 5, 1, 1, 1, 1, 1e-6, fx.Stream(None))


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the addresses from first to last element of two bf16 tensors overlap."""
    ends = [t.data_ptr() + 2 * sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) for t in (a, b)]
    return bool(a.numel() and b.numel()) and a.data_ptr() <= ends[1] and b.data_ptr() <= ends[0]


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, summed: torch.Tensor, out: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """bf16 [M,N], weight [N]; ``summed`` may be ``residual``, ``out`` is contiguous. ``ValueError`` for anything else.

    Returns ``(summed, out)``.
    """
    given, (m, n) = {"x": x, "residual": residual, "weight": weight, "summed": summed, "out": out}, x.shape
    for name, tensor in given.items():
        wanted = [n] if name == "weight" else [m, n]
        if n % WIDTH or list(tensor.shape) != wanted or tensor.dtype != torch.bfloat16:
            accepted = f"bfloat16 {wanted} with N a multiple of {WIDTH}"
            raise ValueError(f"{name} must be {accepted}, got {tensor.dtype} {list(tensor.shape)}")
        strides = [*tensor.stride()]
        if strides[-1] != 1 or strides[0] % WIDTH > (name == "weight") or tensor.data_ptr() % 16:
            raise ValueError(f"rows of {name} must be contiguous and 16-byte aligned, got strides {strides}")
    if not out.is_contiguous():
        raise ValueError(f"out must be contiguous, got strides {[*out.stride()]}")
    for written, other in itertools.product(("summed", "out"), given):
        a, b = given[written], given[other]
        in_place = (written, other) == ("summed", "residual") and (a.data_ptr(), a.stride()) == (b.data_ptr(), b.stride())
        if written != other and not in_place and _overlap(a, b):
            raise ValueError(f"{written} must be disjoint from {other}")
    if m:
        addresses = [tensor.data_ptr() for tensor in given.values()]
        strides = [tensor.stride(0) for tensor in (x, residual, summed)]
        stream = torch.cuda.current_stream() if x.is_cuda else None
        build(n, get_rocm_arch())(*addresses, m, *strides, eps, stream)
    return summed, out
