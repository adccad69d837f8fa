"""The stages under test as a table: how to produce an output and check it, and which faults apply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

import oracle
from oracle.inputs import Inputs, make
from tests.oracle import twin
from tests.oracle.twin import NONE, Fault, Variant

EPS = 1e-6
SMALL = (6, 4, 96, 20, 32)
PRODUCTION = (4, 4, 2560, 320, 336)


@dataclass(frozen=True)
class Case:
    """Inputs and intermediates that a correct run produced, for each stage to start from."""

    inp: Inputs
    splits: int
    r2: Tensor
    rrms: Tensor
    packed: Tensor
    live: int


@lru_cache(maxsize=32)
def case(shape: tuple[int, int, int, int, int], seed: int, kind: str = "normal") -> Case:
    """A correct run over these inputs; cached, so its tensors must not be written to."""
    m, hc, hs, r, n_pad = shape
    inp = make(m, hc, hs, r, n_pad, kind=kind, seed=seed, full_width_norm=seed % 2 == 1)
    v = Variant(seed)
    r2 = twin.combine(inp.residual, inp.block_output, inp.injection, hc, v)
    rrms = twin.rrms(r2, EPS, v)
    return Case(inp, v.splits, r2, rrms, twin.down_folded(r2, rrms, inp.folded, v), r + hc)


def lora(c: Case) -> Tensor:
    return c.packed[:, : c.inp.w_up.shape[1]]


Produce = Callable[[Case, Variant, Fault], Tensor]
Check = Callable[[Tensor, Case, Variant], oracle.Comparison]


@dataclass(frozen=True)
class Stage:
    """`faults` lists which of rtz, drop_last and bf16_partials mean anything for the stage."""

    produce: Produce
    check: Check
    faults: tuple[str, ...]

    def run(self, c: Case, v: Variant, fault: Fault = NONE) -> oracle.Comparison:
        return self.check(self.produce(c, v, fault), c, v)


STAGES: dict[str, Stage] = {
    "combine": Stage(
        lambda c, v, f: twin.combine(c.inp.residual, c.inp.block_output, c.inp.injection, c.inp.hc, v, f),
        lambda o, c, v: oracle.check_combine(o, c.inp.residual, c.inp.block_output, c.inp.injection, c.inp.hc),
        ("rtz", "drop_last"),
    ),
    "rrms": Stage(
        lambda c, v, f: twin.rrms(c.r2, EPS, v, f),
        lambda o, c, v: oracle.check_rrms(o, c.r2, EPS),
        ("drop_last", "bf16_partials"),
    ),
    "xn": Stage(
        lambda c, v, f: twin.norm(c.r2, c.rrms, c.inp.norm_weight, v, f),
        lambda o, c, v: oracle.check_xn(o, c.r2, c.rrms, c.inp.norm_weight),
        ("rtz",),
    ),
    "packed_folded": Stage(
        lambda c, v, f: twin.down_folded(c.r2, c.rrms, c.inp.folded, v, f),
        lambda o, c, v: oracle.check_packed(
            o, c.r2, c.rrms, c.inp.norm_weight, c.inp.folded, hc=c.inp.hc, fold_w=True, splits=v.splits
        ),
        ("rtz", "drop_last", "bf16_partials"),
    ),
    "packed_unfolded": Stage(
        lambda c, v, f: twin.down(c.r2, c.rrms, c.inp.norm_weight, c.inp.merged, v, f),
        lambda o, c, v: oracle.check_packed(
            o, c.r2, c.rrms, c.inp.norm_weight, c.inp.merged, hc=c.inp.hc, fold_w=False, splits=v.splits
        ),
        ("rtz", "drop_last", "bf16_partials"),
    ),
    "h": Stage(
        lambda c, v, f: twin.silu(lora(c), c.inp.hc, v, f),
        lambda o, c, v: oracle.check_h(o, lora(c), c.inp.hc),
        ("rtz",),
    ),
    "x": Stage(
        lambda c, v, f: twin.gate_mix(lora(c), c.r2, c.rrms, c.inp.norm_weight, c.inp.w_up, v, f),
        lambda o, c, v: oracle.check_k2(o, lora(c), c.r2, c.rrms, c.inp.norm_weight, c.inp.w_up, hc=c.inp.hc),
        ("rtz", "drop_last", "bf16_partials"),
    ),
}


def step(value: Tensor, steps: int) -> Tensor:
    """The storage number `steps` away in magnitude (bf16 or float32), for one finite nonzero element."""
    kind = {torch.bfloat16: torch.int16, torch.float32: torch.int32}[value.dtype]
    return (value.view(kind) + steps).view(value.dtype)
