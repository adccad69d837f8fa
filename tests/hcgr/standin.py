"""A launcher stand-in: the COMBINE launcher's calling convention, carried out by torch on the raw addresses.

It lets host-side behaviour (operators, strides, streams, caching) be tested where no kernel can run. It knows
the launcher only by its documented argument list, so it also catches a caller that passes those in another
order.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import torch

from hcgr.plan import CombinePlan


def at(address: int, shape: tuple[int, int], row_stride: int) -> torch.Tensor:
    """The bf16 matrix at a host address; it shares that memory."""
    elements = (shape[0] - 1) * row_stride + shape[1]
    flat = torch.frombuffer((ctypes.c_char * (2 * elements)).from_address(address), dtype=torch.bfloat16)
    return flat.as_strided(shape, (row_stride, 1))


def combine_reference(residual: torch.Tensor, y: torch.Tensor, injection: torch.Tensor, hc: int) -> torch.Tensor:
    """COMBINE in float64, rounded once to bf16."""
    m, k = residual.shape
    iw = 2 * torch.sigmoid(injection.double() / hc)
    mixed = residual.double().view(m, hc, k // hc) + y.double()[:, None, :] * iw[:, :, None]
    return mixed.view(m, k).to(torch.bfloat16)


def make_inputs(m: int, hc: int = 4, hs: int = 512, seed: int = 0) -> dict[str, Any]:
    """Random valid COMBINE inputs by argument name."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).to(torch.bfloat16)

    return {
        "residual": normal(m, hc * hs),
        "block_output": normal(m, hs),
        "injection": normal(m, hc) * 4,
        "norm_weight": normal(hs),
    }


@dataclass
class StandIn:
    """Replaces ``hcgr.dispatch._compile``; records what was compiled and every call of a handle."""

    compiled: list[tuple[str, CombinePlan, str]] = field(default_factory=list)
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def __call__(self, kernel: str, plan: CombinePlan, arch: str) -> Any:
        self.compiled.append((kernel, plan, arch))

        def handle(*arguments: Any) -> None:
            self.calls.append(arguments)
            residual, y, injection, r2, tokens, residual_stride, y_stride, injection_stride, workgroups, _ = arguments
            width = plan.hc * plan.hs
            assert workgroups == -(-tokens // plan.rows) * plan.column_tiles
            at(r2, (tokens, width), width)[:] = combine_reference(
                at(residual, (tokens, width), residual_stride).clone(),
                at(y, (tokens, plan.hs), y_stride).clone(),
                at(injection, (tokens, plan.hc), injection_stride).clone(),
                plan.hc,
            )

        return handle
