"""Inputs, and what is right: the sum within one float32 rounding, then the norm of the sum that was stored."""

from __future__ import annotations

import torch

from examples.add_rms_norm.kernel import ROWS, add_rms_norm
from examples.add_rms_norm.operation import GRID
from oracle import bounds, compare, inputs
from oracle.bounds import SLACK, Bounded
from oracle.rounding import SUBNORMAL32, U32
from validation.grid import Case
from validation.kit import Call, CallDriver, Placer, check_written, comparison_of, contiguous_spans, edge_rows, neighbours
from validation.operation import Bench, JsonDict

BF16, EPS = torch.bfloat16, 1e-6


def oracle(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, summed: torch.Tensor) -> list[Bounded]:
    """``summed`` from the inputs, and ``out`` from the ``summed`` that the kernel stored; all [M,N] but weight."""
    added = x.double() + residual.double()
    scale = bounds.rrms(summed.unsqueeze(1), EPS)  # [M,1]
    out = summed.double() * scale.want * weight.double()
    delta = (out.abs() * ((bounds.relative(scale) + 2 * U32) * SLACK) + SUBNORMAL32 * (1 + weight.double().abs())
    return [Bounded(added, added.abs() * U32 + SUBNORMAL32, BF16), Bounded(out, delta, BF16)]


class Driver(CallDriver):
    function = add_rms_norm
