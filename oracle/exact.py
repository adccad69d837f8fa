"""The exact tier: inputs on which a stage has one right answer, bit for bit, in any order of evaluation.

Values are small integers and powers of two, so that every product and every partial sum is representable.
Where a transcendental function is in the way it is driven to a point where its float32 value is exact:

* ``2 sigmoid(0) = 1``; ``2 sigmoid(+-large)`` = 2 and 0 (exp2 reaches 0 or Inf, rcp(1) = 1, rcp(Inf) = 0)
* ``rsqrt`` of a power of four
* ``silu(v) = v`` for v >= 128 and ``sigmoid(+-128 or beyond)`` = 1 and 0, ``sigmoid(0) = 1/2``

That rcp, exp2 and rsq are exact at powers of two is inferred for the hardware (its tables give 1 ulp).
`combine_case` and `k2_case` allow for 1 ulp there: the stores absorb it, for no result is a tie or a
cancelled zero.  `combine_ties` and `k1_case` rely on it; a device that is off by an ulp still passes
`check_k1` with ``exact_sum=True``, where only a few ulps are left of the bound.

These cases catch indexing, tails, strides, dropped or repeated terms.  Every operand that can be dropped
differs from its neighbours, and the last k always contributes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from oracle import reference

SATURATED = 256.0
"""|inj / HC| that makes iw exactly 0 or 2 in float32 and is itself exact in bf16."""
STEP = 128.0
"""h and z of the exact K2 case are multiples of this."""
BF16_EXACT = 256
"""Integers up to this magnitude are exact in bf16."""


@dataclass(frozen=True)
class CombineCase:
    """COMBINE: residual [M,HC*HS], block_output [M,HS], injection [M,HC] and the r2 that is due, bf16."""

    residual: Tensor
    block_output: Tensor
    injection: Tensor
    r2: Tensor


@dataclass(frozen=True)
class K1Case:
    """Inputs of K1, and the r2, rrms and packed that are due.  `weight` [n_pad,K] is folded if `fold_w`."""

    combine: CombineCase
    norm_weight: Tensor
    weight: Tensor
    eps: float
    fold_w: bool
    rrms: Tensor
    packed: Tensor


@dataclass(frozen=True)
class K2Case:
    """Inputs of K2 and the x that is due: lora [M,r] (view of packed), r2 [M,HC,HS], w_up [K,r]."""

    lora: Tensor
    r2: Tensor
    rrms: Tensor
    norm_weight: Tensor
    w_up: Tensor
    x: Tensor


def generator(seed: int) -> torch.Generator:
    """A CPU generator with this seed."""
    return torch.Generator().manual_seed(seed)


def _integers(low: int, high: int, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
    """Float64 integers in low..high, both included."""
    return torch.randint(low, high + 1, shape, generator=rng).to(torch.float64)


def _bf16(value: Tensor) -> Tensor:
    """To bf16, refusing anything that is not exact there."""
    stored = value.to(torch.bfloat16)
    if not torch.equal(stored.to(torch.float64), value.to(torch.float64)):
        raise ArithmeticError("exact case: a value is not representable in bf16; the shape is too large")
    return stored


def combine_case(m: int, hc: int, hs: int, *, seed: int = 0) -> CombineCase:
    """COMBINE with iw in {0, 1, 2} by row and stream, integer R and y; R2 is an integer other than 0."""
    rng = generator(seed)
    iw = _integers(0, 2, (m, hc), rng)
    y = _integers(-60, 60, (m, hs), rng)
    r = _integers(-120, 120, (m, hc, hs), rng)
    r2 = r + y.unsqueeze(1) * iw.unsqueeze(2)
    r = torch.where(r2 == 0, r + 1, r)
    r2 = torch.where(r2 == 0, 1.0, r2)
    injection = (iw - 1.0) * SATURATED * hc
    return CombineCase(_bf16(r.flatten(1)), _bf16(y), _bf16(injection), _bf16(r2))


def combine_ties(m: int, hc: int, hs: int, *, seed: int = 0) -> CombineCase:
    """COMBINE with iw = 1 whose sums are half-way between two bf16 numbers, or zero: rounds to nearest even.

    Relies on rcp(2) = 1/2 exactly.
    """
    rng = generator(seed)
    # 257, 259, ... 511 are ties of spacing 2; a zero comes of R = -y.
    total = 257.0 + 2.0 * _integers(0, 127, (m, hc, hs), rng)
    total = total * (1.0 - 2.0 * _integers(0, 1, (m, hc, hs), rng)) * (_integers(0, 7, (m, hc, hs), rng) != 0)
    # An even R of the size of the sum and a small odd y.
    y = 2.0 * _integers(-20, 19, (m, hs), rng) + 1.0
    r = total - y.unsqueeze(1)
    total = torch.where((total != 0) & (r.abs() > BF16_EXACT) & (r % 2 != 0), 0.0, total)
    r = torch.where(r.abs() > 2 * BF16_EXACT, -y.unsqueeze(1), r)
    total = r + y.unsqueeze(1)
    return CombineCase(
        _bf16(r.flatten(1)),
        _bf16(y),
        torch.zeros(m, hc, dtype=torch.bfloat16),
        total.to(torch.float32).to(torch.bfloat16),
    )


def k1_case(m: int, hc: int, hs: int, n: int, n_pad: int, *, fold_w: bool, eps: float = 0.0, seed: int = 0) -> K1Case:
    """K1 on R2 = +-2**a, a by row and stream: rrms = 2**-a, and packed is a multiple of 1/4, rounded once.

    `n` is the number of rows of the merged weight in use (r + HC).  eps 3.0 instead of 0 makes the mean
    square 1 + 3 = 4 and rrms 1/2, with a = 0 throughout; other values are refused.  So is an HS for which
    HS times its float32 reciprocal is not 1.
    """
    if eps not in (0.0, 3.0):
        raise ValueError(f"eps: must be 0.0 or 3.0 for an exact rsqrt (got {eps})")
    if float(torch.tensor(1.0) / hs * hs) != 1.0:
        raise ValueError(f"hs: HS times its float32 reciprocal must be 1 (got {hs})")
    rng = generator(seed)
    signs = 1.0 - 2.0 * _integers(0, 1, (m, hc, hs), rng)
    exponent = _integers(-2, 3, (m, hc), rng) if eps == 0.0 else torch.zeros(m, hc, dtype=torch.float64)
    r2 = signs * torch.exp2(exponent).unsqueeze(2)
    iw = _integers(0, 2, (m, hc), rng)
    y = _integers(-3, 3, (m, hs), rng)
    combine = CombineCase(
        _bf16((r2 - y.unsqueeze(1) * iw.unsqueeze(2)).flatten(1)),
        _bf16(y),
        _bf16((iw - 1.0) * SATURATED * hc),
        _bf16(r2),
    )
    rrms = torch.exp2(-exponent) if eps == 0.0 else torch.full_like(exponent, 0.5)
    k = hc * hs
    # About 400 terms of +-1, so that |sum| stays far from 256; the last k of every stream is always one.
    keep = torch.rand(n, k, generator=rng) < min(1.0, 400.0 / k)
    keep[:, hs - 1 :: hs] = True
    weight = torch.zeros(n_pad, k, dtype=torch.float64)
    weight[:n] = (1.0 - 2.0 * _integers(0, 1, (n, k), rng)) * keep
    # 1 + Wnorm in {1/2, 1, 2}
    pick = torch.randint(0, 3, (hs,), generator=rng)
    norm_weight = torch.tensor([-0.5, 0.0, 1.0], dtype=torch.float64)[pick]
    # The folded weight holds the scale already; the unfolded product meets it in xn.
    operand = weight if fold_w else weight * (1.0 + norm_weight).repeat(hc)
    packed = (r2 * rrms.unsqueeze(2)).flatten(1) @ operand.T  # multiples of 1/4 below 2**9: exact in float64
    return K1Case(
        combine,
        _bf16(norm_weight),
        _bf16(weight),
        eps,
        fold_w,
        rrms.to(torch.float32),
        packed.to(torch.float32).to(torch.bfloat16),
    )


def k2_case(m: int, hc: int, hs: int, r: int, *, n_pad: int | None = None, seed: int = 0) -> K2Case:
    """K2 with gates of exactly 0, 1/2 and 1, R2 * rrms * (1 + Wnorm) a small power of two.

    lora is a view of a [M,n_pad] tensor (row stride n_pad, r by default).  h's last column is never 0.
    """
    rng = generator(seed)
    k = hc * hs
    h = STEP * _integers(0, 3, (m, r), rng)
    h[:, -1] = STEP
    # One to three entries of +-1 a row, so that z is a multiple of 128; a third use the last column.
    w_up = torch.zeros(k, r, dtype=torch.float64)
    for _ in range(2):
        column = torch.randint(0, r, (k, 1), generator=rng)
        w_up.scatter_(1, column, 1.0 - 2.0 * _integers(0, 1, (k, 1), rng))
    last = torch.rand(k, generator=rng) < 1.0 / 3.0
    w_up[last, -1] = 1.0
    z = h @ w_up.T
    gate = ((torch.sign(z) + 1.0) / 2.0).reshape(m, hc, hs)
    exponent = _integers(-1, 1, (m, hc), rng)
    # Odd multiples from a positive range keep the sum over streams away from zero.
    r2 = (2.0 * _integers(0, 3, (m, hc, hs), rng) + 1.0) * torch.exp2(exponent).unsqueeze(2)
    norm_weight = torch.tensor([0.0, 1.0], dtype=torch.float64)[torch.randint(0, 2, (hs,), generator=rng)]
    xn = r2 * torch.exp2(-exponent).unsqueeze(2) * (1.0 + norm_weight)
    x = (gate * xn).sum(1) / hc
    wide = torch.zeros(m, r if n_pad is None else n_pad, dtype=torch.bfloat16)
    wide[:, :r] = _bf16(h * hc)
    return K2Case(
        wide[:, :r],
        _bf16(r2),
        torch.exp2(-exponent).to(torch.float32),
        _bf16(norm_weight),
        _bf16(w_up),
        _bf16(x),
    )


def accumulation_is_exact(rows: Tensor, weight: Tensor) -> bool:
    """Whether every partial sum of ``rows . weight^T``, in any order, is exact in float32.

    True when all products are multiples of one power of two and sums of magnitudes stay below 2**24 of it.
    """
    a, b = rows.to(torch.float64), weight.to(torch.float64)
    if not bool(a.isfinite().all() and b.isfinite().all()):
        return False
    largest = float((a.abs() @ b.abs().T).max()) if a.numel() and b.numel() else 0.0
    return largest <= 2.0**24 * _granule(a) * _granule(b)


def _granule(values: Tensor) -> float:
    """Largest power of two that divides every element."""
    mantissa, exponent = torch.frexp(values[values != 0])
    if mantissa.numel() == 0:
        return 1.0
    scaled = (mantissa * 2.0**53).to(torch.int64)
    lowest = torch.log2((scaled & -scaled).to(torch.float64)) - 53.0
    return float(torch.exp2((lowest + exponent).min()))


def reference_agrees(case: K1Case) -> bool:
    """Whether the float32 reference gives this case's outputs, bit for bit: a check of the generator."""
    hc = case.rrms.shape[1]
    c = case.combine
    out = reference.k1(
        c.residual,
        c.block_output,
        c.injection,
        case.norm_weight,
        case.weight,
        hc,
        eps=case.eps,
        fold_w=case.fold_w,
    )
    return torch.equal(out.r2, c.r2) and torch.equal(out.rrms, case.rrms) and torch.equal(out.packed, case.packed)
