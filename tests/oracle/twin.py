"""A second float32 evaluation of every stage, written apart from the oracle, as kernels do it.

A `Variant` draws summation order, group size, split count, fused or separate multiply-add, and results of
exp2, rcp and rsq anywhere within 1 ulp.  A `Fault` plants one of the mistakes that the oracle must catch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

F32, F64, BF16 = torch.float32, torch.float64, torch.bfloat16
LOG2E = torch.tensor(1.4426950408889634, dtype=F32)


@dataclass(frozen=True)
class Fault:
    """Planted mistakes: truncating bf16 store, last term of the contraction lost, bf16 partial sums."""

    rtz: bool = False
    drop_last: bool = False
    bf16_partials: bool = False


NONE = Fault()


class Variant:
    """One legal way to evaluate, drawn from a seed."""

    def __init__(self, seed: int, splits: int | None = None) -> None:
        self.rng = torch.Generator().manual_seed(seed)
        self.group = (4, 8, 16, 32)[self.draw(4)]
        self.splits = (1, 2, 3, 4, 8)[self.draw(5)] if splits is None else splits
        self.fused = bool(self.draw(2))
        self.shuffled = bool(self.draw(2))
        self.scale_first = bool(self.draw(2))

    def draw(self, n: int) -> int:
        return int(torch.randint(0, n, (), generator=self.rng))

    def faithful(self, exact: Tensor) -> Tensor:
        """float32 on a random side of the float64 value: an error below 1 ulp."""
        near = exact.to(F32)
        far = torch.nextafter(near, torch.where(exact > near.to(F64), torch.inf, -torch.inf).to(F32))
        other = (near.to(F64) != exact) & near.isfinite() & (torch.rand(near.shape, generator=self.rng) < 0.5)
        return torch.where(other, far, near)

    def sigmoid(self, value: Tensor) -> Tensor:
        e = self.faithful(torch.exp2((-value * LOG2E).to(F64)))
        return self.faithful(1.0 / (1.0 + e).to(F64))

    def total(self, terms: Tensor, fault: Fault) -> Tensor:
        """Sum over the last axis in float32: groups one after another, split, the partials joined."""
        k = terms.shape[-1]
        if self.shuffled:
            terms = terms[..., torch.randperm(k, generator=self.rng)]
        partials = []
        for part in terms.tensor_split(4 if fault.bf16_partials else self.splits, -1):
            acc = torch.zeros(terms.shape[:-1])
            for group in part.split(self.group, -1):
                acc = acc + group.to(F64).sum(-1).to(F32)
            partials.append(acc.to(BF16).to(F32) if fault.bf16_partials else acc)
        out = partials[0]
        for partial in partials[1:]:
            out = out + partial
        return out

    def dot(self, a: Tensor, w: Tensor, fault: Fault) -> Tensor:
        """a [M,K] . w [N,K]^T with float32 accumulation between groups of K."""
        k = a.shape[1] - (1 if fault.drop_last else 0)
        order = torch.randperm(k, generator=self.rng) if self.shuffled else torch.arange(k)
        partials = []
        for part in order.tensor_split(4 if fault.bf16_partials else self.splits):
            acc = torch.zeros(a.shape[0], w.shape[0])
            for group in part.split(self.group):
                acc = acc + (a[:, group].to(F64) @ w[:, group].to(F64).T).to(F32)
            partials.append(acc.to(BF16).to(F32) if fault.bf16_partials else acc)
        out = partials[0]
        for partial in partials[1:]:
            out = out + partial
        return out


def store(value: Tensor, fault: Fault) -> Tensor:
    if not fault.rtz:
        return value.to(BF16)
    bits = value.contiguous().view(torch.int32) & -65536
    return torch.where(value.isfinite(), bits.view(F32), value).to(BF16)


def combine(residual: Tensor, y: Tensor, injection: Tensor, hc: int, v: Variant, fault: Fault = NONE) -> Tensor:
    m, hs = y.shape
    iw = 2.0 * v.sigmoid(injection.to(F32) / hc).unsqueeze(2)
    r, y32 = residual.to(F32).reshape(m, hc, hs), y.to(F32).unsqueeze(1).clone()
    if fault.drop_last:
        y32[..., -1] = 0.0
    out = torch.addcmul(r.to(F64), y32.to(F64), iw.to(F64)).to(F32) if v.fused else r + y32 * iw
    return store(out, fault)


def rrms(r2: Tensor, eps: float, v: Variant, fault: Fault = NONE) -> Tensor:
    n = r2.shape[-1]
    terms = r2.to(F32).square()
    total = v.total(terms[..., :-1] if fault.drop_last else terms, fault)
    mean = total * torch.tensor(1.0 / n, dtype=F32) if v.fused else total / n
    return v.faithful((mean + torch.tensor(eps, dtype=F32)).to(F64).rsqrt())


def xn32(r2: Tensor, scale: Tensor, wn: Tensor, v: Variant) -> Tensor:
    gain = (1.0 + wn.to(F32)).reshape(-1, r2.shape[2])
    if v.scale_first:
        return r2.to(F32) * (scale.unsqueeze(2) * gain)
    return r2.to(F32) * scale.unsqueeze(2) * gain


def norm(r2: Tensor, scale: Tensor, wn: Tensor, v: Variant, fault: Fault = NONE) -> Tensor:
    return store(xn32(r2, scale, wn, v), fault)


def down(r2: Tensor, scale: Tensor, wn: Tensor, w: Tensor, v: Variant, fault: Fault = NONE) -> Tensor:
    return store(v.dot(norm(r2, scale, wn, v).flatten(1), w, fault), fault)


def down_folded(r2: Tensor, scale: Tensor, w: Tensor, v: Variant, fault: Fault = NONE) -> Tensor:
    hc, hs = r2.shape[1:]
    out = torch.zeros(r2.shape[0], w.shape[0])
    for s in range(hc):
        lost = Fault(drop_last=fault.drop_last and s == hc - 1, bf16_partials=fault.bf16_partials)
        out = out + v.dot(r2[:, s], w[:, s * hs : (s + 1) * hs], lost) * scale[:, s : s + 1]
    return store(out, fault)


def silu(lora: Tensor, hc: int, v: Variant, fault: Fault = NONE) -> Tensor:
    value = lora.to(F32) / hc
    return store(value * v.sigmoid(value), fault)


def gate_mix(
    lora: Tensor, r2: Tensor, scale: Tensor, wn: Tensor, w_up: Tensor, v: Variant, fault: Fault = NONE
) -> Tensor:
    m, hc, hs = r2.shape
    h = silu(lora, hc, v)
    gate = v.sigmoid(v.dot(h, w_up, Fault(drop_last=fault.drop_last))).reshape(m, hc, hs)
    terms = gate * xn32(r2, scale, wn, v)
    total = torch.zeros(m, hs)
    for s in range(hc):
        total = total + terms[:, s]
        if fault.bf16_partials:
            total = total.to(BF16).to(F32)
    return store(total * (1.0 / hc), fault)
