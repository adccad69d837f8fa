"""Inputs of a case, on its bench: weights by shape, activations by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from oracle import exact, inputs, reference
from validation.ops.axes import Shape

BF16 = torch.bfloat16
EPS = 1e-6
#: The eps of exact cases: mean squares are then 1 + 3, and rrms is one half to the bit.
EXACT_EPS = 3.0
#: Weights depend on the shape alone, so that a worker makes each once.
_WEIGHT_SEED = 20240919
#: Row stride of an injection whose rows start on odd elements.
ODD_STRIDE = 13


@dataclass(frozen=True)
class Weights:
    """norm_weight, w_down [r,K], w_inject [HC,K] or None, w_up [K,r], and K1's weight [n_pad,K]."""

    norm_weight: torch.Tensor
    w_down: torch.Tensor
    w_inject: torch.Tensor | None
    w_up: torch.Tensor
    weight: torch.Tensor
    live: int


@dataclass(frozen=True)
class Rows:
    """Activations of the rows that run, contiguous, and the exact answers where there are some."""

    residual: torch.Tensor
    block_output: torch.Tensor
    injection: torch.Tensor
    r2: torch.Tensor | None = None
    rrms: torch.Tensor | None = None
    packed: torch.Tensor | None = None


def eps_option(eps: float) -> dict[str, float]:
    """The ``eps`` argument of a call, left out where it is the documented default."""
    return {} if eps == EPS else {"eps": eps}


def norm_form(weight: torch.Tensor, norm: Sequence[str], hc: int) -> torch.Tensor:
    """A [HS] bf16 norm weight in the dtype and width of the case."""
    dtype, width = norm
    return (weight.repeat(hc) if width == "full" else weight).to(getattr(torch, dtype))


@lru_cache(maxsize=3)
def _made(shape: Shape, norm: tuple[str, str]) -> inputs.Inputs:
    hc, hs, r, _ = shape
    dtype, width = norm
    return inputs.make(
        1,
        hc,
        hs,
        r,
        r + hc,
        seed=_WEIGHT_SEED,
        full_width_norm=width == "full",
        norm_dtype=getattr(torch, dtype),
    )


def weights(shape: Shape, norm: tuple[str, str], fold: bool, inject: bool = True, n_pad: int | None = None) -> Weights:
    """Random weights of a shape, scaled so that lora and gates are of order one."""
    made = _made(shape, norm)
    w_inject = made.w_inject if inject else None
    rows = shape.n_pad if n_pad is None else n_pad
    merged = reference.merge_weight(made.w_down, w_inject, rows)
    weight = reference.fold_weight(merged, made.norm_weight, shape.hc) if fold else merged
    live = shape.r + (shape.hc if inject else 0)
    return Weights(made.norm_weight, made.w_down, w_inject, made.w_up, weight, live)


def exact_weights(case: exact.K1Case, shape: Shape, norm: tuple[str, str], inject: bool = True) -> Weights:
    """The weights of an exact K1 case; w_up is random, for K2 is not exact there."""
    r = shape.r
    live = r + (shape.hc if inject else 0)
    w_inject = case.weight[r:live] if inject else None
    norm_weight = norm_form(case.norm_weight, norm, shape.hc)
    return Weights(norm_weight, case.weight[:r], w_inject, _made(shape, norm).w_up, case.weight, live)


def activations(count: int, shape: Shape, values: str, seed: int) -> Rows:
    """``count`` rows of residual, block_output and injection, of one of the kinds of :mod:`oracle.inputs`."""
    rng = exact.generator(seed)
    draw = inputs.KINDS[values if count else "normal"]
    residual = draw((count, shape.width), rng).to(BF16)
    block_output = draw((count, shape.hs), rng).to(BF16)
    injection = (torch.randn((count, shape.hc), generator=rng) * shape.hc).to(BF16)
    return Rows(residual, block_output, injection)


def exact_rows(count: int, shape: Shape, fold: bool, seed: int, n_pad: int, live: int) -> tuple[Rows, exact.K1Case]:
    """Rows whose r2, rrms and packed have one right answer, and the case that holds the weights."""
    case = exact.k1_case(count, shape.hc, shape.hs, live, n_pad, fold_w=fold, eps=EXACT_EPS, seed=seed)
    c = case.combine
    r2 = c.r2.reshape(count, shape.width)
    return Rows(c.residual, c.block_output, c.injection, r2, case.rrms, case.packed), case


def injection_place(kind: str, shape: Shape, n_pad: int) -> Mapping[str, Any]:
    """``stride`` and ``first`` of :meth:`Placer.rows` for an injection."""
    places = {
        "view": {"stride": max(n_pad, shape.r + shape.hc), "first": shape.r},
        "dense": {"stride": shape.hc, "first": 0},
        "odd": {"stride": ODD_STRIDE, "first": ODD_STRIDE - shape.hc},
    }
    return places[kind]
