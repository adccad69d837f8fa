"""How far a correct kernel may be from the exact value: one derived bound per stage and element.

A stage's bound is a centre ``want`` (float64) and a radius ``delta`` that holds every value which a correct
float32 evaluation can reach *before* the store; the store's own half ulp is added by the comparison.  Two
kinds of terms make up ``delta``:

* accumulations over many terms, probabilistic: ``LAMBDA sqrt(K) U32 S`` with S the sum of magnitudes.  A
  matrix unit that truncates between groups of 8 products (reported for CDNA3; not confirmed here) errs by up
  to 2 U32 of the running sum K/8 times.  Over terms of mixed sign the running sum is of the order S/sqrt(K)
  and LAMBDA covers that with room; over terms of one sign it would for K up to 4096 only;
* short chains, deterministic: every operation by name, first order, times `SLACK` for the products of terms.

``v_exp_f32``, ``v_rcp_f32`` and ``v_rsq_f32`` are good to 1 ulp (LLVM lowers afn exp2, rcp and rsq straight
to them; the CDNA3 ISA manual's VOP1 chapter gives 1 ulp), hence `ULP32` for each.

``delta = inf`` marks an element that float32 does not determine: an intermediate may overflow in one legal
order of evaluation and not in another.  The comparison counts these and compares nothing there.

The `*_spread` and `*_rel` arguments carry the uncertainty of a stage's inputs.  A staged check leaves them
out, for its inputs are what the kernel produced; the end-to-end check passes them on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from oracle import reference
from oracle.rounding import F32_OVERFLOW, LAMBDA, SUBNORMAL32, TINY32, U32, ULP32, round_to

F64 = torch.float64
SLACK = 1.0 + 2.0**-10
"""Second order: relative terms stay below 2**-11 each up to K = 327680 (HC=8, HS=40960)."""


@dataclass(frozen=True)
class Bounded:
    """A stage's value `want` and uncertainty `delta` (float64, same shape), and its storage format."""

    want: Tensor
    delta: Tensor
    store: torch.dtype

    def stored(self) -> Tensor:
        """`want` rounded once to the storage format."""
        return round_to(self.want, self.store)

    def spread(self) -> Tensor:
        """Largest distance (float64) from `stored` to any acceptable stored value; mostly 0."""
        centre = self.stored().to(F64)
        high = round_to(self.want + self.delta, self.store).to(F64)
        low = round_to(self.want - self.delta, self.store).to(F64)
        return torch.maximum(high - centre, centre - low).nan_to_num_(nan=0.0, posinf=torch.inf)


class Weight:
    """A weight [N,K] converted once: `f64` for the centre, `mag` (float32) for sums of magnitudes."""

    def __init__(self, weight: Tensor) -> None:
        self.f64 = weight.to(F64)
        self.mag = weight.abs().to(torch.float32)

    @property
    def rows(self) -> int:
        """Number of rows N, which are columns of the product."""
        return self.f64.shape[0]

    def magnitudes(self, rows: Tensor, first: int = 0) -> Tensor:
        """``|rows| . |W|^T`` [M,N] over the k range that starts at `first`, never too small.

        A float32 product is enough for a bound: its deterministic error K U32 is added back.  Where it
        overflows it is done again in float64, to tell a large sum from an infinite operand.
        """
        k = rows.shape[1]
        part = slice(first, first + k)
        total = (rows.abs().to(torch.float32) @ self.mag[:, part].T).to(F64).mul_(1.0 + 2.0 * k * U32)
        if not bool((total < F32_OVERFLOW).all()):
            total = rows.abs().to(F64) @ self.f64[:, part].abs().T
        return total

    def spread(self, spread: Tensor, first: int = 0) -> Tensor:
        """``spread . |W|^T`` in float64, over the columns of `spread` that are not all zero."""
        columns = (spread != 0).any(0).nonzero().flatten()
        return spread[:, columns] @ self.f64[:, columns + first].abs().T


def settle(want: Tensor, delta: Tensor, store: torch.dtype, undetermined: Tensor | None = None) -> Bounded:
    """A stage's bound: no radius where the value is NaN or Inf, an infinite one where float32 does not determine it.

    want, delta: float64, same shape. store: the format of the output. undetermined: a mask of that shape.
    """
    delta = torch.where(want.isfinite(), delta, 0.0)
    if undetermined is not None:
        delta = torch.where(undetermined & ~want.isnan(), torch.inf, delta)
    if bool(delta.isnan().any()):
        raise ArithmeticError("bound: a finite value got no bound (NaN); an input combination is not handled")
    return Bounded(want, delta, store)


def _overflows(magnitudes: Tensor) -> Tensor:
    return magnitudes.isfinite() & (magnitudes >= F32_OVERFLOW)


def sigmoid_error(value: Tensor, result: Tensor) -> Tensor:
    """Error of ``rcp(1 + exp2(-value log2e))`` in float32, for an exactly known value.

    exp: rounding of log2e and of the product move the exponent by 2 U32 |value| log2e, so the result by
    2 U32 |value| relative; v_exp adds 1 ulp.  In ``1/(1+e)`` a relative error of e counts ``1 - result``.
    The add rounds once, v_rcp adds 1 ulp.  Both units flush subnormal results (TINY32).
    """
    relative_exp = value.abs() * (2.0 * U32) + ULP32
    relative = torch.sigmoid(-value) * relative_exp + (U32 + ULP32)
    error = result * relative * SLACK + TINY32
    return torch.where(value.isfinite(), error, 0.0)


def combine(residual: Tensor, block_output: Tensor, injection: Tensor, hc: int) -> Bounded:
    """COMBINE, R2 [M,HC,HS]; covers fused and separate multiply-add."""
    m, hs = block_output.shape
    value = injection.to(F64) / hc  # exact in float32 too: HC is a power of two
    sig = torch.sigmoid(value)
    iw = 2.0 * torch.where(sig < SUBNORMAL32 / 2, 0.0, sig)
    d_iw = 2.0 * sigmoid_error(value, sig)  # the doubling is exact
    y = block_output.to(F64).unsqueeze(1)
    r = residual.to(F64).reshape(m, hc, hs)
    want = torch.addcmul(r, y, iw.unsqueeze(2))
    # error of iw, rounding of the product (none when fused), rounding of the sum
    magnitude = want.abs()
    delta = y.abs() * ((d_iw + U32 * iw) * SLACK).unsqueeze(2)
    delta.add_(magnitude, alpha=U32 * SLACK).add_(SUBNORMAL32)
    largest = torch.stack([magnitude.amax(), y.abs().amax() * 2.0]) if want.numel() else want.new_zeros(1)
    if bool((largest < F32_OVERFLOW).all()):
        return Bounded(want, delta, torch.bfloat16)
    scaled = y * iw.unsqueeze(2)
    # The product alone overflows: what a fused evaluation keeps finite (or adds to an Inf), a separate one
    # does not.  Inf times an iw that may be flushed to zero is NaN or Inf.
    alone = _overflows(scaled.abs() * (1.0 + 2.0**-20)) & ((want.abs() < F32_OVERFLOW) | r.isinf())
    vanishing = y.isinf() & (iw > 0).unsqueeze(2) & (iw <= d_iw).unsqueeze(2)
    return settle(want, delta, torch.bfloat16, alone | vanishing)


def rrms(r2: Tensor, eps: float, *, r2_spread: Tensor | None = None, exact_sum: bool = False) -> Bounded:
    """Reciprocal RMS [M,HC] of r2 [M,HC,HS].

    `exact_sum`: the squares sum exactly in any order (small integers), so only the last operations round.
    """
    n = r2.shape[-1]
    values = r2.to(F64)
    total = values.square().sum(-1)
    mean = total / n
    base = mean + eps
    accumulation = 0.0 if exact_sum else LAMBDA * math.sqrt(n) * U32
    # 1/N as a constant and its product, eps as float32, the sum with it; halved by the square root.
    relative = torch.full_like(base, 0.5 * (accumulation + 4 * U32) + ULP32)  # v_rsq: 1 ulp
    relative += 0.5 * SUBNORMAL32 / base  # squares that underflow
    if r2_spread is not None:
        moved = ((2.0 * values.abs() + r2_spread) * r2_spread).sum(-1) / (n * base)
        relative += 0.5 * moved / (1.0 - moved).clamp_min(0.5)
    # A mean past float32 gives rsqrt(Inf) = 0; a sum past it does too, unless 1/N is applied term by term.
    lost = mean >= F32_OVERFLOW * (1.0 + 2.0**-10)
    want = torch.where(lost, 0.0, base.rsqrt())
    unclear = _overflows(total * (1.0 + 2.0**-10)) & ~lost
    return settle(want, want * relative * SLACK, torch.float32, unclear)


def relative(bound: Bounded) -> Tensor:
    """Relative radius of a bound, 0 where the value is not finite: what `rrms_rel` arguments take."""
    return torch.where(bound.want.isfinite() & (bound.want != 0), bound.delta / bound.want.abs(), 0.0)


def _xn(
    r2: Tensor, rrms: Tensor, norm_weight: Tensor, r2_spread: Tensor | None, rrms_rel: Tensor | None
) -> tuple[Tensor, Tensor]:
    """xn before any store and its radius: 1 + Wnorm rounds once, two products round once each."""
    want = reference.norm(r2, rrms, norm_weight, dtype=F64, store=False)
    delta = want.abs().mul_(3 * U32 * SLACK)
    if rrms_rel is not None:
        delta.addcmul_(want.abs(), rrms_rel.unsqueeze(-1) * SLACK)
    if r2_spread is not None:
        gain = reference.norm_scale(norm_weight, r2.shape[1], r2.shape[2], dtype=F64).abs()
        delta.addcmul_(r2_spread * gain, rrms.to(F64).unsqueeze(-1) * SLACK)
    return want, torch.where(want.isfinite(), delta + SUBNORMAL32, 0.0)


def norm(
    r2: Tensor,
    rrms: Tensor,
    norm_weight: Tensor,
    *,
    r2_spread: Tensor | None = None,
    rrms_rel: Tensor | None = None,
) -> Bounded:
    """xn [M,HC,HS] as stored in bf16, or as fed to a matrix instruction."""
    want, delta = _xn(r2, rrms, norm_weight, r2_spread, rrms_rel)
    return settle(want, delta, torch.bfloat16)


def fold_weight(weight: Tensor, norm_weight: Tensor, hc: int) -> Bounded:
    """Folded weight [N,K]: 1 + Wnorm rounds once (float32 Wnorm), the product once."""
    want = reference.fold_weight(weight, norm_weight, hc, dtype=F64, store=False)
    return settle(want, want.abs() * (2 * U32 * SLACK) + SUBNORMAL32, torch.bfloat16)


def _accumulation(k: int, splits: int, exact_sum: bool) -> float:
    """Radius of a K-term sum per unit of S, with the adds that join `splits` float32 partials as a term."""
    joins = LAMBDA * math.sqrt(splits) if splits > 1 else 0.0
    return U32 * ((0.0 if exact_sum else LAMBDA * math.sqrt(k)) + joins)


def down(
    r2: Tensor,
    rrms: Tensor,
    norm_weight: Tensor,
    weight: Weight,
    *,
    splits: int = 1,
    exact_sum: bool = False,
    r2_spread: Tensor | None = None,
    rrms_rel: Tensor | None = None,
) -> Bounded:
    """packed [M,n_pad], unfolded: bf16(xn) . W^T.

    An xn next to a bf16 rounding boundary may fall on either side: `spread` counts exactly those.
    """
    operand = norm(r2, rrms, norm_weight, r2_spread=r2_spread, rrms_rel=rrms_rel)
    xn = operand.stored().flatten(1)
    k = xn.shape[1]
    magnitudes = weight.magnitudes(xn)
    want = xn.to(F64) @ weight.f64.T
    delta = magnitudes * (_accumulation(k, splits, exact_sum) * SLACK) + (magnitudes > 0) * (k * SUBNORMAL32)
    delta += weight.spread(operand.spread().flatten(1))
    return settle(want, delta, torch.bfloat16, _overflows(magnitudes))


def down_folded(
    r2: Tensor,
    rrms: Tensor,
    weight: Weight,
    *,
    splits: int = 1,
    exact_sum: bool = False,
    r2_spread: Tensor | None = None,
    rrms_rel: Tensor | None = None,
) -> Bounded:
    """packed [M,n_pad], folded: sum_s rrms[s] (R2[s] . W'[s]^T), rrms applied to each stream's sum."""
    m, hc, hs = r2.shape
    want = r2.new_zeros(m, weight.rows, dtype=F64)
    delta = want.clone()
    total = want.clone()
    undetermined = torch.zeros_like(want, dtype=torch.bool)
    for s in range(hc):
        scale = rrms[:, s : s + 1].to(F64)
        product = (r2[:, s].to(F64) @ weight.f64[:, s * hs : (s + 1) * hs].T) * scale
        magnitudes = weight.magnitudes(r2[:, s], s * hs)
        want += product
        total += magnitudes * scale
        undetermined |= _overflows(magnitudes)
        if rrms_rel is not None:
            delta.addcmul_(product.abs(), rrms_rel[:, s : s + 1] * SLACK)
        if r2_spread is not None:
            delta += weight.spread(r2_spread[:, s], s * hs) * scale * SLACK
    # accumulation; the product with rrms; the adds that join the streams, where K does not count them
    joins = U32 * (1 + (hc - 1 if exact_sum else 0))
    delta += total * ((_accumulation(hc * hs, splits, exact_sum) + joins) * SLACK) + (total > 0) * (
        hc * hs * SUBNORMAL32
    )
    return settle(want, delta, torch.bfloat16, undetermined | _overflows(total))


def silu(lora: Tensor, hc: int, *, lora_spread: Tensor | None = None) -> Bounded:
    """h [M,r] = silu(lora/HC), from the bf16 lora columns of packed."""
    value = lora.to(F64) / hc
    sig = torch.sigmoid(value)
    want = value * sig
    delta = value.abs() * sigmoid_error(value, sig) + want.abs() * (U32 * SLACK) + SUBNORMAL32
    if lora_spread is not None:
        delta += lora_spread * (1.1 / hc)  # |silu'| <= 1.0998...
    return settle(want, delta, torch.bfloat16)


def gate_mix(
    h: Tensor,
    r2: Tensor,
    rrms: Tensor,
    norm_weight: Tensor,
    w_up: Weight,
    *,
    h_spread: Tensor | None = None,
    independent_spread: bool = False,
    r2_spread: Tensor | None = None,
    rrms_rel: Tensor | None = None,
) -> Bounded:
    """x [M,HS] from bf16 h [M,r]: G2, sigmoid, and MIX over xn in float32.

    `h_spread` is added up in full, or with `independent_spread` as LAMBDA times its root sum of squares where
    that is less: rounding errors of many bf16 values do not all point the same way.
    """
    m, hc, hs = r2.shape
    r = h.shape[1]
    magnitudes = w_up.magnitudes(h)
    z = h.to(F64) @ w_up.f64.T
    d_z = (magnitudes * (LAMBDA * math.sqrt(r) * U32 * SLACK)).add_(r * SUBNORMAL32)
    if h_spread is not None:
        moved = w_up.spread(h_spread)
        if independent_spread:
            moved = torch.minimum(moved, LAMBDA * (h_spread.square() @ w_up.f64.square().T).sqrt())
        d_z += moved
    gate = torch.sigmoid(z)
    # sigmoid'(z+t) <= sigmoid'(z) exp(|t|), so d_z moves the gate by at most sigmoid' (exp(d_z) - 1)
    d_z.masked_fill_(~z.isfinite(), 0.0)
    d_gate = torch.sigmoid(-z).mul_(gate).mul_(d_z.expm1_()).clamp_max_(1.0).add_(sigmoid_error(z, gate))
    gate, d_gate = gate.view(m, hc, hs), d_gate.view(m, hc, hs)

    xn, d_xn = _xn(r2, rrms, norm_weight, r2_spread, rrms_rel)
    terms = gate * xn
    want = terms.sum(1) / hc
    sizes = terms.abs_()
    # errors of gate and xn, the product, and the HC-1 adds; 1/HC is a power of two
    errors = xn.abs().add_(d_xn).mul_(d_gate).add_(gate * d_xn)
    delta = errors.sum(1) + sizes.sum(1) * (hc * U32)
    delta = delta * (SLACK / hc) + SUBNORMAL32
    unknown = _overflows(magnitudes).view(m, hc, hs) | (xn.isinf() & (gate <= 2 * TINY32))
    return settle(want, delta, torch.bfloat16, unknown.any(1) | _overflows(sizes.sum(1)))
