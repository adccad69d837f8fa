"""The end-to-end check: final outputs against the inputs of the whole op, with propagated uncertainty.

Every intermediate is recomputed in float64 and rounded where the op rounds.  A kernel's intermediate may sit
one bf16 step away from the recomputed one wherever the exact value lies near a rounding boundary; each stage
passes on how far (`Bounded.spread`), so these bounds are wider than the staged ones.  They catch stages that
are each right but wired wrongly; fine faults are the staged checks' business.
"""

from __future__ import annotations

import torch
from torch import Tensor

from oracle import bounds
from oracle.bounds import Bounded, Weight
from oracle.checks import GEMM_BLOCK, Rows, blocks, require
from oracle.compare import Comparisons, Tally


def _propagate(
    residual: Tensor,
    block_output: Tensor | None,
    injection: Tensor | None,
    norm_weight: Tensor,
    weight: Weight,
    w_up: Weight,
    hc: int,
    eps: float,
    fold_w: bool,
    splits: int,
) -> tuple[Bounded | None, Bounded, Bounded]:
    """(R2 or None, packed, x) with bounds, for one block of rows."""
    first: Bounded | None = None
    r2_spread: Tensor | None = None
    r2 = residual.reshape(residual.shape[0], hc, -1)
    if block_output is not None and injection is not None:
        first = bounds.combine(residual, block_output, injection, hc)
        r2, r2_spread = first.stored(), first.spread()
    scale = bounds.rrms(r2, eps, r2_spread=r2_spread)
    rrms, rrms_rel = scale.want, bounds.relative(scale)
    if fold_w:
        packed = bounds.down_folded(r2, rrms, weight, splits=splits, r2_spread=r2_spread, rrms_rel=rrms_rel)
    else:
        packed = bounds.down(r2, rrms, norm_weight, weight, splits=splits, r2_spread=r2_spread, rrms_rel=rrms_rel)
    r = w_up.f64.shape[1]
    silu = bounds.silu(packed.stored()[:, :r], hc, lora_spread=packed.spread()[:, :r])
    x = bounds.gate_mix(
        silu.stored(),
        r2,
        rrms,
        norm_weight,
        w_up,
        h_spread=silu.spread(),
        independent_spread=True,
        r2_spread=r2_spread,
        rrms_rel=rrms_rel,
    )
    return first, packed, x


def check_combine_and_mix(
    r2: Tensor | None,
    x: Tensor,
    inj_next: Tensor | None,
    residual: Tensor,
    block_output: Tensor | None,
    injection: Tensor | None,
    norm_weight: Tensor,
    weight: Tensor,
    w_up: Tensor,
    *,
    hc: int,
    eps: float = 1e-6,
    fold_w: bool = False,
    splits: int = 1,
    rows: Rows = None,
) -> Comparisons:
    """The op's results (r2, x, inj_next) against its inputs; stages "r2", "inj_next" and "x".

    Without block_output and injection the op is MIX: r2 must be None, for MIX returns the residual itself.
    `weight` is the merged [n_pad,K] weight, folded when `fold_w`; inj_next None leaves it unchecked.
    """
    m, hs = x.shape
    r = w_up.shape[1]
    require("residual", residual, (m, hc * hs), (m, hc, hs))
    require("w_up", w_up, (hc * hs, r))
    require("weight", weight, (weight.shape[0], hc * hs))
    if (block_output is None) != (injection is None):
        raise ValueError("block_output and injection: give both (COMBINE) or neither (MIX only)")
    if (r2 is None) != (block_output is None):
        raise ValueError("r2: must be given with block_output, and be None without it")
    outputs = {"r2": r2, "inj_next": inj_next, "x": x}
    shapes = {"r2": ((m, hc, hs), (m, hc * hs)), "inj_next": ((m, hc),), "x": ((m, hs),)}
    given = {name: out for name, out in outputs.items() if out is not None}
    count = m if rows is None else len(rows)
    tallies = {}
    for name, out in given.items():
        require(name, out, *shapes[name])
        tallies[name] = Tally(name, count * (out.numel() // m) if m else 0)
    down, up = Weight(weight), Weight(w_up)
    for ids, take in blocks(m, rows, hc * hs, GEMM_BLOCK):
        first, packed, mixed = _propagate(
            take(residual),
            None if block_output is None else take(block_output),
            None if injection is None else take(injection),
            norm_weight,
            down,
            up,
            hc,
            eps,
            fold_w,
            splits,
        )
        inject = Bounded(packed.want[:, r : r + hc], packed.delta[:, r : r + hc], torch.bfloat16)
        for name, expected in (("r2", first), ("inj_next", inject), ("x", mixed)):
            if name in given and expected is not None:
                tallies[name].add(take(given[name]).reshape(expected.want.shape), expected, ids)
    return Comparisons({name: tally.result() for name, tally in tallies.items()})


def check_mix(
    x: Tensor,
    inj_next: Tensor | None,
    residual: Tensor,
    norm_weight: Tensor,
    weight: Tensor,
    w_up: Tensor,
    *,
    hc: int,
    eps: float = 1e-6,
    fold_w: bool = False,
    splits: int = 1,
    rows: Rows = None,
) -> Comparisons:
    """MIX (no COMBINE) against its inputs; stages "inj_next" and "x"."""
    return check_combine_and_mix(
        None,
        x,
        inj_next,
        residual,
        None,
        None,
        norm_weight,
        weight,
        w_up,
        hc=hc,
        eps=eps,
        fold_w=fold_w,
        splits=splits,
        rows=rows,
    )
