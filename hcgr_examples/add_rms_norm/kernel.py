"""``residual = bf16(residual + x)``, then ``x = bf16(residual / sqrt(mean(residual^2) + eps) * weight)``, in place."""

from __future__ import annotations

import functools
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from flydsl.expr import range_constexpr, rocdl
from flydsl.runtime.device import get_rocm_arch

ROWS, LANES, WIDTH = 4, 64, 8  # rows of a workgroup, lanes of a row, columns of a lane


@functools.cache
def build(columns: int, arch: str) -> Any:
    @flyc.kernel(name=f"add_rms_norm_{columns}", known_block_size=[ROWS * LANES, 1, 1])
    def kernel(
        x: fx.Pointer, residual: fx.Pointer, weight: fx.Pointer, rows: fx.Int32, x_stride: fx.Int64,
        residual_stride: fx.Int64, eps: fx.Float32,
    ) -> None:  # fmt: skip
        row = fx.block_idx.x * ROWS + fx.thread_idx.x // LANES
        if row < rows:
            x_row, residual_row = x + fx.Int64(row) * x_stride, residual + fx.Int64(row) * residual_stride
            places, sums, squares = [], [], fx.Float32(0.0)
            for i in range_constexpr(-(-columns // (LANES * WIDTH))):
                column = (i * LANES + fx.thread_idx.x % LANES) * WIDTH
                place = (column < columns).select(column, fx.Int32(0))  # lanes past the end load the start
                added = fx.generic_load(residual_row + place, count=WIDTH).to(fx.Float32)
                added = (added + fx.generic_load(x_row + place, count=WIDTH).to(fx.Float32)).to(fx.BFloat16)
                square = (added.to(fx.Float32) * added.to(fx.Float32)).reduce(fx.ReductionOp.ADD)
                squares = squares + (column < columns).select(square, fx.Float32(0.0))
                places, sums = [*places, column], [*sums, added]
            mean = fx.coop.warp_reduce(squares, fx.ReductionOp.ADD) * (1.0 / columns)
            scale = fx.Float32(rocdl.rsq(fx.Float32.ir_type, (mean + eps).ir_value()))
            for i in range_constexpr(len(places)):
                if places[i] < columns:
                    gain = fx.generic_load(weight + places[i], count=WIDTH).to(fx.Float32)
                    normed = sums[i].to(fx.Float32) * fx.full(WIDTH, scale, fx.Float32) * gain
                    fx.generic_store(residual_row + places[i], sums[i])
                    fx.generic_store(x_row + places[i], normed.to(fx.BFloat16))

    @flyc.jit
    def launch(
        x: fx.Pointer, residual: fx.Pointer, weight: fx.Pointer, rows: fx.Int32, x_stride: fx.Int64,
        residual_stride: fx.Int64, eps: fx.Float32, stream: fx.Stream,
    ) -> None:  # fmt: skip
        call = kernel(x, residual, weight, rows, x_stride, residual_stride, eps)
        call.launch(grid=((rows + ROWS - 1) // ROWS, 1, 1), block=(ROWS * LANES, 1, 1), stream=stream)

    vector = flyc.from_c_void_p(fx.BFloat16, None, assumed_align=2 * WIDTH)
    return flyc.compile(launch, vector, vector, vector, 1, 1, 1, 1e-6, fx.Stream(None))


def add_rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, ...]:
    """Overwrites and returns x and residual, bf16 [M,N] with rows of any 16-byte stride; ``ValueError`` otherwise."""
    m, n = x.shape
    for name, tensor, wanted in (("x", x, [m, n]), ("residual", residual, [m, n]), ("weight", weight, [n])):
        if list(tensor.shape) != wanted or tensor.dtype != torch.bfloat16 or n % WIDTH:
            accepted = f"bfloat16 {wanted}, N a multiple of {WIDTH}"
            raise ValueError(f"{name} must be {accepted}, got {tensor.dtype} {list(tensor.shape)}")
        if any(address % 16 for address in (tensor.data_ptr(), *(2 * s for s in tensor.stride()[:-1]))):
            raise ValueError(f"rows of {name} must start at multiples of 16 bytes, got strides {tensor.stride()}")
    ends = [t.data_ptr() + 2 * ((m - 1) * t.stride(0) + n) for t in (x, residual)]
    if m and x.data_ptr() < ends[1] and residual.data_ptr() < ends[0]:
        raise ValueError("x and residual must be disjoint, got overlapping tensors")
    if m:
        addresses, strides = [t.data_ptr() for t in (x, residual, weight)], (x.stride(0), residual.stride(0))
        build(n, get_rocm_arch())(*addresses, m, *strides, eps, torch.cuda.current_stream() if x.is_cuda else None)
    return x, residual
