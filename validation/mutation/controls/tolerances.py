"""The oracle's bounds, held against caps and planted faults that do not come from the oracle.

The caps are the formulas of an error analysis written out once more, with a tenth of room: an accumulation over K
products errs by 8 sqrt(K) 2^-24 S (S the sum of magnitudes), a chain of n operations by n 2^-24 of its value, a unit
that is good to one ulp by 2^-23.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from oracle import bounds, check_k1, check_k2, compare_exact, reference
from oracle.checks import check_combine, check_packed, check_rrms
from oracle.compare import Comparison

ROOM = 1.1
U, ULP = 2.0**-24, 2.0**-23
LAMBDA = 8.0
M, HC, HS, R, N_PAD = 6, 4, 512, 32, 48
K, LIVE, EPS = HC * HS, R + HC, 1e-6
BF16, F64 = torch.bfloat16, torch.float64


class _Call:
    """One call, computed by the float32 reference: it must pass, and each fault planted in it must not."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(20240931)

        def normal(*shape: int, scale: float = 1.0) -> Tensor:
            return (torch.randn(shape, generator=generator) * scale).to(BF16)

        self.residual, self.y, self.injection = normal(M, K), normal(M, HS), normal(M, HC, scale=4.0)
        self.norm_weight = normal(HS, scale=0.1)
        merged = reference.merge_weight(normal(R, K, scale=K**-0.5), normal(HC, K, scale=K**-0.5), N_PAD)
        self.weight = reference.fold_weight(merged, self.norm_weight, HC)
        self.w_up = normal(K, R, scale=R**-0.5)
        self.r2 = reference.combine(self.residual, self.y, self.injection, HC).reshape(M, K)
        wide = self.r2.reshape(M, HC, HS)
        self.rrms = reference.rrms(wide, EPS).to(torch.float32)
        self.packed = reference.down_folded(wide, self.rrms, self.weight)
        h = reference.silu(self.packed[:, :R], HC)
        gate = reference.up_gate(h, self.w_up, HC)
        self.x = reference.mix(gate, reference.norm(wide, self.rrms, self.norm_weight, store=False)).reshape(M, HS)

    def combine(self, r2: Tensor) -> Comparison:
        return check_combine(r2, self.residual, self.y, self.injection, HC)

    def scale(self, rrms: Tensor) -> Comparison:
        return check_rrms(rrms, self.r2, EPS)

    def down(self, packed: Tensor) -> Comparison:
        return check_packed(
            packed, self.r2, self.rrms, self.norm_weight, self.weight, hc=HC, fold_w=True, live=LIVE
        )  # fmt: skip

    def mix(self, x: Tensor) -> Comparison:
        return check_k2(x, self.packed[:, :R], self.r2, self.rrms, self.norm_weight, self.w_up, hc=HC)


def bounds_within_caps(arch: str) -> list[str]:
    """Every stage's radius is at most its cap."""
    return [problem for problem in _caps(_Call()) if problem]


def _over(stage: str, delta: Tensor, cap: Tensor) -> str:
    excess = float((delta / (cap * ROOM + 2.0**-140)).amax())
    return f"{stage}: the bound is {excess * ROOM:.3g} times its cap" if excess > 1 else ""


def _caps(call: _Call) -> Iterator[str]:
    r2, rrms = call.r2.reshape(M, HC, HS), call.rrms
    value = call.injection.to(F64) / HC
    sigma = torch.sigmoid(value)
    # exp2 of a rounded argument (2 roundings of |value|), 1 ulp; the sum; the reciprocal, 1 ulp
    d_sigma = sigma * ((1 - sigma) * (2 * U * value.abs() + ULP) + U + ULP)
    got = bounds.combine(call.residual, call.y, call.injection, HC)
    y = call.y.to(F64).abs().unsqueeze(1)
    yield _over("combine", got.delta, y * (2 * d_sigma + 2 * U * sigma).unsqueeze(2) + got.want.abs() * U)
    got = bounds.rrms(r2, EPS)
    yield _over("rrms", got.delta, got.want * (0.5 * (LAMBDA * math.sqrt(HS) + 4) * U + ULP))
    got = bounds.down_folded(r2, rrms, bounds.Weight(call.weight))
    weight = call.weight.to(F64).abs().reshape(-1, HC, HS)
    total = torch.einsum("msk,nsk,ms->mn", r2.to(F64).abs(), weight, rrms.to(F64))
    yield _over("packed", got.delta, total * (LAMBDA * math.sqrt(K) + 1) * U)
    h = bounds.silu(call.packed[:, :R], HC)
    lora = call.packed[:, :R].to(F64) / HC
    s = torch.sigmoid(lora)
    d_s = s * ((1 - s) * (2 * U * lora.abs() + ULP) + U + ULP)
    yield _over("h", h.delta, lora.abs() * d_s + (lora * s).abs() * U)
    got = bounds.gate_mix(h.stored(), r2, rrms, call.norm_weight, bounds.Weight(call.w_up))
    z = h.stored().to(F64) @ call.w_up.to(F64).T
    sizes = h.stored().to(F64).abs() @ call.w_up.to(F64).abs().T
    g = torch.sigmoid(z)
    d_g = g * (1 - g) * LAMBDA * math.sqrt(R) * U * sizes + g * ((1 - g) * (2 * U * z.abs() + ULP) + U + ULP)
    xn = reference.norm(r2, rrms, call.norm_weight, dtype=F64, store=False).abs()
    g, d_g = g.reshape(M, HC, HS), d_g.reshape(M, HC, HS)
    yield _over("x", got.delta, ((d_g + 3 * U * g) * xn + HC * U * g * xn).sum(1) / HC)


def planted_faults(arch: str) -> list[str]:
    """The reference's own outputs pass; each planted fault is refused by the stage that it is planted in."""
    call, wrong = _Call(), []
    for name, check, good in (
        ("r2", call.combine, call.r2),
        ("rrms", call.scale, call.rrms),
        ("packed", call.down, call.packed),
        ("x", call.mix, call.x),
    ):
        result = check(good)
        if not result.passed:
            wrong.append(f"{name}: the reference's own output is refused: {result}")
        wrong += [f"{name}: {fault} passes" for fault, bad in _faults(good) if check(bad).passed]
    wrong += [f"packed: {fault} passes" for fault, bad in _down_faults(call) if call.down(bad).passed]
    wrong += ["r2: a truncating store passes"] if call.combine(_truncated(call)).passed else []
    return [*wrong, *_special_faults(call), *_exact_faults(call)]


def _truncated(call: _Call) -> Tensor:
    """R2 in float64, its float32 words cut off behind the bits of a bf16: up to one unit, where half of one may be."""
    iw = 2 * torch.sigmoid(call.injection.to(F64) / HC)
    r2 = call.residual.to(F64).reshape(M, HC, HS) + call.y.to(F64).unsqueeze(1) * iw.unsqueeze(2)
    words = r2.reshape(M, K).to(torch.float32).view(torch.int32)
    return (words & ~0xFFFF).view(torch.float32).to(BF16)


def _exact_faults(call: _Call) -> list[str]:
    """The exact tier takes nothing but the very bits that are due."""
    wrong = [] if compare_exact("r2", call.r2, call.r2.clone()).passed else ["r2: equal bits are refused"]
    for name, good in (("r2", call.r2), ("rrms", call.rrms)):
        bits = good.view(torch.int16 if good.dtype is BF16 else torch.int32)
        bad = bits.clone()
        bad[0, 0] += 1
        if compare_exact(name, bad.view(good.dtype), good).passed:
            wrong.append(f"{name}: one bit off passes as exact")
    return wrong


def _faults(good: Tensor) -> Iterator[tuple[str, Tensor]]:
    def changed(row: int, column: int, value: float) -> Tensor:
        bad = good.clone()
        bad[row, column] = value
        return bad

    row, column = 1, int(good[1].abs().argmax())
    largest = float(good[row, column])
    yield "an output of zeros", torch.zeros_like(good)
    yield "a shuffled output", good.roll(1, 0)
    yield "one zeroed element", changed(row, column, 0.0)
    yield "one NaN", changed(row, column, math.nan)
    yield "one infinity", changed(row, column, math.inf)
    step = 2.0**-7 if good.dtype is BF16 else 2.0**-14
    yield "one element off by two units in the last place", changed(row, column, largest * (1 + 2 * step))
    if good.dtype is BF16:
        bits = good.view(torch.int16)
        yield "every third element a unit in the last place short", (bits - (bits % 3 == 0).to(torch.int16)).view(BF16)


def _down_faults(call: _Call) -> Iterator[tuple[str, Tensor]]:
    wide, rrms = call.r2.reshape(M, HC, HS), call.rrms
    last = call.r2.clone()
    last[:, -1] = 0
    yield "the last k dropped", reference.down_folded(last.reshape(M, HC, HS), rrms, call.weight)
    parts = [
        (wide[:, s].float() * rrms[:, s : s + 1]) @ call.weight.float()[:, s * HS : (s + 1) * HS].T for s in range(HC)
    ]
    total = torch.zeros_like(parts[0])
    for part in parts:
        total = (total + part.to(BF16).float()).to(BF16).float()
    total[:, LIVE:] = 0
    yield "partial sums in bf16", total.to(BF16)
    padding = call.packed.clone()
    padding[0, -1] = 2.0**-100
    yield "a padding column that is not zero", padding


def _special_faults(call: _Call) -> list[str]:
    """NaN and infinities must be where they are due; an empty comparison is no pass."""
    wrong = []
    residual = call.residual.clone()
    residual[0, 0], residual[1, 1] = math.nan, math.inf
    due = reference.combine(residual, call.y, call.injection, HC).reshape(M, K)
    if not check_combine(due, residual, call.y, call.injection, HC).passed:
        wrong.append("r2: NaN and infinity in their places are refused")
    for name, (row, column), value in (("NaN", (0, 0), 0.0), ("infinity", (1, 1), -math.inf)):
        bad = due.clone()
        bad[row, column] = value
        if check_combine(bad, residual, call.y, call.injection, HC).passed:
            wrong.append(f"r2: a missing {name} passes")
    if check_combine(call.r2[:0], call.residual[:0], call.y[:0], call.injection[:0], HC).passed:
        wrong.append("a comparison of nothing passes")
    stages = check_k1(
        call.r2.roll(1, 1), call.rrms, call.packed, call.residual, call.y, call.injection, call.norm_weight,
        call.weight, hc=HC, eps=EPS, fold_w=True, live=LIVE,
    )  # fmt: skip
    if stages.passed or stages["combine"].passed:
        wrong.append("check_k1 passes with a wrong r2")
    return wrong
