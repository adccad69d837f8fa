"""Row softmax in float32: a wave a row, four rows a workgroup, any number of columns up to 1024."""

# ruff: noqa: B008 - FlyDSL reads a default stream as the parameter's kind

import math

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from flydsl.expr import arith, range_constexpr, rocdl

from . import compare

WAVE = 64
ROWS = 4
LOG2E = 1.4426950408889634


def make(columns: int):
    """Launcher for matrices of `columns` columns."""
    steps = (columns + WAVE - 1) // WAVE

    @flyc.kernel
    def softmax_kernel(x: fx.Tensor, y: fx.Tensor, rows: fx.Int32):
        lane = fx.thread_idx.x % WAVE
        row = fx.block_idx.x * ROWS + fx.thread_idx.x // WAVE
        if row < rows:
            values = []
            for i in range_constexpr(steps):
                column = i * WAVE + lane
                inside = column < columns
                value = x[row, inside.select(column, 0)]
                values.append(inside.select(value, fx.Float32(-math.inf)))
            peak = values[0]
            for v in values[1:]:
                peak = fx.max(peak, v)
            peak = fx.coop.warp_reduce(peak, fx.ReductionOp.MAX)
            powers = [fx.Float32(rocdl.exp2(fx.Float32.ir_type, ((v - peak) * LOG2E).ir_value())) for v in values]
            total = powers[0]
            for p in powers[1:]:
                total = total + p
            total = fx.coop.warp_reduce(total, fx.ReductionOp.ADD)
            with arith.fastmath("arcp,afn"):
                inverse = 1.0 / total
            for i in range_constexpr(steps):
                if i * WAVE + lane < columns:
                    y[row, i * WAVE + lane] = powers[i] * inverse

    @flyc.jit
    def softmax(x: fx.Tensor, y: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        rows, _ = x.shape.unpack()
        softmax_kernel(x, y, rows).launch(
            grid=((rows + ROWS - 1) // ROWS, 1, 1), block=(ROWS * WAVE, 1, 1), stream=stream
        )

    return softmax


def _reference(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Float64 softmax and its bound.

    With t = (x - max) log2 e: the difference, the product and log2 e itself round once each, so t is off
    by 3u|t| and its power by a factor 1 + 3 ln2 u|t|; v_exp_f32 is good to 1 ulp (2u). The sum of the
    powers carries the largest such error and LAMBDA*sqrt(N)*u; v_rcp_f32 is good to 1 ulp, the product to u.
    v_exp_f32 flushes results under 2^-126, hence the absolute term.
    """
    shifted = x.double() - x.double().max(1, keepdim=True).values
    y = torch.softmax(x.double(), 1)
    power = 3 * math.log(2) * (shifted * LOG2E).abs() + 2
    mean_power = (power * y).sum(1, keepdim=True)
    relative = (power + mean_power + compare.LAMBDA * x.shape[1] ** 0.5 + 3) * compare.U32
    return y, relative * y + 2.0**-126


def run(generator: torch.Generator) -> list[compare.Case]:
    cases = []
    for rows, columns in ((5, 200), (4, 64), (9, 333)):
        x = torch.randn(rows, columns, generator=generator) * 8
        y = compare.poisoned((rows, columns), torch.float32)
        make(columns)(x, y)
        cases.append(compare.within(f"softmax {rows}x{columns}", y, *_reference(x)))
    return cases
