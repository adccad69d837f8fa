"""Seeded inputs for the whole op, by kind.

normal       unit normal activations, weights scaled so that lora and z are of order 1
wide         activations over 2**-20 .. 2**20, by row, stream and element
special      normal, with NaN, +-Inf, -0, subnormals and the largest bf16 scattered over some rows
zero_rows    every third token row of residual and block_output is zero
large_mean   a mean of 64 under a unit spread: cancellation in sums, none in the mean square
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from oracle.exact import generator
from oracle.reference import fold_weight, merge_weight
from oracle.rounding import BF16_MAX

SPECIALS = (float("nan"), float("inf"), float("-inf"), -0.0, 2.0**-133, -(2.0**-127), BF16_MAX, -BF16_MAX)


@dataclass(frozen=True)
class Inputs:
    """Inputs of the op; bf16 but for a float32 norm_weight on request.

    residual [M,HC*HS], block_output [M,HS], injection [M,HC] (row stride n_pad, as a view of packed has),
    norm_weight [HS] or [HC*HS], w_down [r,K], w_inject [HC,K], w_up [K,r], merged and folded [n_pad,K].
    """

    residual: Tensor
    block_output: Tensor
    injection: Tensor
    norm_weight: Tensor
    w_down: Tensor
    w_inject: Tensor
    w_up: Tensor
    merged: Tensor
    folded: Tensor
    hc: int


def _spread(shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
    exponent = torch.randint(-20, 21, shape[:1] + (1,) * (len(shape) - 1), generator=rng)
    jitter = torch.randint(-4, 5, shape, generator=rng)
    return torch.randn(shape, generator=rng) * torch.exp2((exponent + jitter).float())


def _special(shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
    """Unit normal; every second row holds a few specials, each row its own, so that some rows stay clean."""
    values = torch.randn(shape, generator=rng)
    table = torch.tensor(SPECIALS)
    flat = values.view(shape[0], -1)
    for row in range(0, shape[0], 2):
        columns = torch.randint(0, flat.shape[1], (3,), generator=rng)
        flat[row, columns] = table[(row // 2) % len(SPECIALS)]
    return values


def _zero_rows(shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
    values = torch.randn(shape, generator=rng)
    values[::3] = 0.0
    return values


KINDS: dict[str, Callable[[tuple[int, ...], torch.Generator], Tensor]] = {
    "normal": lambda shape, rng: torch.randn(shape, generator=rng),
    "wide": _spread,
    "special": _special,
    "zero_rows": _zero_rows,
    "large_mean": lambda shape, rng: torch.randn(shape, generator=rng) + 64.0,
}


def make(
    m: int,
    hc: int,
    hs: int,
    r: int,
    n_pad: int,
    *,
    kind: str = "normal",
    seed: int = 0,
    full_width_norm: bool = False,
    norm_dtype: torch.dtype = torch.bfloat16,
) -> Inputs:
    """Inputs of one kind.  Raises ValueError for an unknown kind or an n_pad below r + HC."""
    if kind not in KINDS:
        raise ValueError(f"kind: must be one of {', '.join(KINDS)} (got {kind!r})")
    if n_pad < r + hc:
        raise ValueError(f"n_pad: must be at least r + HC = {r + hc} (got {n_pad})")
    rng = generator(seed)
    k = hc * hs
    draw = KINDS[kind]

    def normal(*shape: int, scale: float) -> Tensor:
        return (torch.randn(shape, generator=rng) * scale).to(torch.bfloat16)

    residual = draw((m, k), rng).to(torch.bfloat16)
    block_output = draw((m, hs), rng).to(torch.bfloat16)
    wide = torch.zeros(m, n_pad, dtype=torch.bfloat16)
    wide[:, r : r + hc] = normal(m, hc, scale=float(hc))
    norm_weight = (torch.randn(k if full_width_norm else hs, generator=rng) * 0.1).to(norm_dtype)
    w_down, w_inject = normal(r, k, scale=k**-0.5 * hc), normal(hc, k, scale=k**-0.5 * hc)
    w_up = normal(k, r, scale=2.0 * r**-0.5)
    merged = merge_weight(w_down, w_inject, n_pad)
    return Inputs(
        residual,
        block_output,
        wide[:, r : r + hc],
        norm_weight,
        w_down,
        w_inject,
        w_up,
        merged,
        fold_weight(merged, norm_weight, hc),
        hc,
    )
