"""The op, stage by stage, in float32 (or in float64 for the self-check).

Maths and rounding points:

* COMBINE  ``iw = 2 sigmoid(inj / HC)``;  ``R2[s,c] = bf16(R[s,c] + y[c] iw[s])``
* N        ``rrms[s] = 1 / sqrt(mean_c R2[s,c]^2 + eps)``;  ``xn = R2 rrms (1 + Wnorm)``
* G1, INJ  ``packed = bf16(bf16(xn) . W^T)``, or folded ``bf16(sum_s rrms[s] (R2[s] . W'[s]^T))`` with
  ``W' = bf16((1 + Wnorm) W)``
* SiLU     ``h = bf16(silu(packed / HC))``
* G2       ``gate = sigmoid(h . Wu^T)``
* MIX      ``x[c] = bf16((1/HC) sum_s gate[s,c] xn[s,c])``, xn in float32, rebuilt from R2 and rrms

Each stage takes the tensors that the stage before it produced, so a kernel's own intermediates can be
given.  With ``store=True`` a stage returns what it writes (bf16); with ``store=False`` the value before that
rounding, in `dtype`.  iw, rrms, gate and MIX's xn are never rounded below `dtype`.

Sums and transcendental functions are evaluated in float64 and rounded once to `dtype`.  A float32 BLAS
sums in an order that depends on the CPU and its thread count, and so would the reference.  A product of two
bf16 numbers has 16 significant bits: summed in float64 it leaves 37 bits of head room, so every order
gives the same sum unless the terms span more than that, and then the orders differ by about 2**-53 of the
sum of magnitudes, 2**29 times less than the bounds resolve.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from oracle.rounding import round_bf16, round_to

F64 = torch.float64


class K1(NamedTuple):
    """What the first stage writes: r2 [M,HC,HS], rrms [M,HC] and packed [M,n_pad]."""

    r2: Tensor
    rrms: Tensor
    packed: Tensor


class Output(NamedTuple):
    """What the whole op returns: r2 [M,HC,HS], x [M,HS], and inj_next [M,HC] or None."""

    r2: Tensor
    x: Tensor
    inj_next: Tensor | None


def _store(value: Tensor, store: bool) -> Tensor:
    if not store:
        return value
    return round_bf16(value) if value.dtype == F64 else value.to(torch.bfloat16)


def sigmoid(value: Tensor, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """``1 / (1 + exp(-value))``, evaluated in float64 and rounded once to `dtype`."""
    return round_to(torch.sigmoid(value.to(F64)), dtype)


def dot(rows: Tensor, weight: Tensor, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """``rows [M,K] . weight [N,K]^T``, summed in float64 and rounded once to `dtype`."""
    return round_to(rows.to(F64) @ weight.to(F64).T, dtype)


def norm_scale(norm_weight: Tensor, hc: int, hs: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """``1 + Wnorm`` as [HC,HS] in `dtype`, from the shared [HS] or the full-width [HC*HS] weight."""
    if norm_weight.numel() not in (hs, hc * hs):
        raise ValueError(f"norm_weight: must have HS={hs} or HC*HS={hc * hs} elements (got {norm_weight.numel()})")
    return (norm_weight.to(dtype) + 1.0).reshape(-1, hs).expand(hc, hs)


def injection_weight(injection: Tensor, hc: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """``iw = 2 sigmoid(injection / HC)`` for injection [M,HC], any row stride."""
    return sigmoid(injection.to(F64) / hc, dtype=dtype) * 2.0


def combine(
    residual: Tensor,
    block_output: Tensor,
    injection: Tensor,
    hc: int,
    *,
    dtype: torch.dtype = torch.float32,
    store: bool = True,
) -> Tensor:
    """COMBINE: R2 [M,HC,HS] from residual [M,HC*HS], block_output [M,HS] and injection [M,HC]."""
    m, hs = block_output.shape
    iw = injection_weight(injection, hc, dtype=dtype)
    scaled = block_output.to(dtype).unsqueeze(1) * iw.unsqueeze(2)
    return _store(residual.to(dtype).reshape(m, hc, hs) + scaled, store)


def rrms(r2: Tensor, eps: float, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """N, first half: reciprocal RMS [M,HC] of r2 [M,HC,HS]; 0 where the sum of squares overflows `dtype`."""
    total = round_to(r2.to(F64).square().sum(-1), dtype).to(F64)
    return round_to((total / r2.shape[-1] + eps).rsqrt(), dtype)


def norm(
    r2: Tensor, rrms: Tensor, norm_weight: Tensor, *, dtype: torch.dtype = torch.float32, store: bool = True
) -> Tensor:
    """N, second half: xn [M,HC,HS] from r2 [M,HC,HS] and rrms [M,HC].  MIX takes it with ``store=False``."""
    _, hc, hs = r2.shape
    scale = norm_scale(norm_weight, hc, hs, dtype=dtype)
    return _store(r2.to(dtype) * rrms.to(dtype).unsqueeze(-1) * scale, store)


def merge_weight(w_down: Tensor, w_inject: Tensor | None, n_pad: int) -> Tensor:
    """Merged weight [n_pad,K]: rows of w_down [r,K], then of w_inject [HC,K] if given, then zeros."""
    parts = [w_down] if w_inject is None else [w_down, w_inject]
    used = sum(part.shape[0] for part in parts)
    if used > n_pad:
        raise ValueError(f"n_pad: must be at least the {used} rows of w_down and w_inject (got {n_pad})")
    merged = w_down.new_zeros(n_pad, w_down.shape[1])
    torch.cat(parts, out=merged[:used])
    return merged


def fold_weight(
    weight: Tensor, norm_weight: Tensor, hc: int, *, dtype: torch.dtype = torch.float32, store: bool = True
) -> Tensor:
    """``W' = bf16((1 + Wnorm) W)`` for weight [N,HC*HS]."""
    k = weight.shape[1]
    scale = norm_scale(norm_weight, hc, k // hc, dtype=dtype).reshape(1, k)
    return _store(weight.to(dtype) * scale, store)


def down(xn: Tensor, weight: Tensor, *, dtype: torch.dtype = torch.float32, store: bool = True) -> Tensor:
    """G1 and INJ, unfolded: packed [M,n_pad] from the stored xn [M,HC,HS] and the merged weight [n_pad,K]."""
    return _store(dot(xn.reshape(xn.shape[0], -1), weight, dtype=dtype), store)


def down_folded(
    r2: Tensor, rrms: Tensor, weight: Tensor, *, dtype: torch.dtype = torch.float32, store: bool = True
) -> Tensor:
    """G1 and INJ, folded: packed [M,n_pad] from r2 [M,HC,HS], rrms [M,HC] and W' [n_pad,K]."""
    m, hc, hs = r2.shape
    total = torch.zeros(m, weight.shape[0], dtype=dtype)
    for s in range(hc):
        partial = dot(r2[:, s], weight[:, s * hs : (s + 1) * hs], dtype=dtype)
        total = total + partial * rrms[:, s : s + 1].to(dtype)
    return _store(total, store)


def silu(packed: Tensor, hc: int, *, dtype: torch.dtype = torch.float32, store: bool = True) -> Tensor:
    """``h = silu(packed / HC)`` for the lora columns [M,r] of packed."""
    scaled = packed.to(dtype) / hc
    return _store(scaled * sigmoid(scaled, dtype=dtype), store)


def up_gate(h: Tensor, w_up: Tensor, hc: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """G2: gate [M,HC,HS] from h [M,r] and w_up [K,r]."""
    return sigmoid(dot(h, w_up, dtype=dtype), dtype=dtype).reshape(h.shape[0], hc, -1)


def mix(gate: Tensor, xn: Tensor, *, dtype: torch.dtype = torch.float32, store: bool = True) -> Tensor:
    """MIX: x [M,HS] from gate and the unrounded xn, both [M,HC,HS]."""
    hc = gate.shape[1]
    terms = gate.to(dtype) * xn.to(dtype)
    total = terms[:, 0]
    for s in range(1, hc):
        total = total + terms[:, s]
    return _store(total * (1.0 / hc), store)


def k1(
    residual: Tensor,
    block_output: Tensor | None,
    injection: Tensor | None,
    norm_weight: Tensor,
    weight: Tensor,
    hc: int,
    *,
    eps: float = 1e-6,
    fold_w: bool = False,
    dtype: torch.dtype = torch.float32,
    store: bool = True,
) -> K1:
    """K1: COMBINE + N + G1 + INJ.  Without block_output and injection, R2 is the residual (no COMBINE).

    `weight` is the merged [n_pad,K] weight, already folded when `fold_w`.
    """
    if (block_output is None) != (injection is None):
        raise ValueError("block_output and injection: give both (COMBINE) or neither (MIX only)")
    if block_output is None or injection is None:
        r2 = residual.reshape(residual.shape[0], hc, -1)
    else:
        r2 = combine(residual, block_output, injection, hc, dtype=dtype, store=store)
    scale = rrms(r2, eps, dtype=dtype)
    if fold_w:
        return K1(r2, scale, down_folded(r2, scale, weight, dtype=dtype, store=store))
    xn = norm(r2, scale, norm_weight, dtype=dtype, store=store)
    return K1(r2, scale, down(xn, weight, dtype=dtype, store=store))


def k2(
    lora: Tensor,
    r2: Tensor,
    rrms: Tensor,
    norm_weight: Tensor,
    w_up: Tensor,
    hc: int,
    *,
    dtype: torch.dtype = torch.float32,
    store: bool = True,
) -> Tensor:
    """K2: SiLU + G2 + MIX.  x [M,HS] from the lora columns [M,r] of packed, r2, rrms and w_up [K,r]."""
    h = silu(lora, hc, dtype=dtype, store=store)
    gate = up_gate(h, w_up, hc, dtype=dtype)
    return mix(gate, norm(r2, rrms, norm_weight, dtype=dtype, store=False), dtype=dtype, store=store)


def combine_and_mix(
    residual: Tensor,
    block_output: Tensor | None,
    injection: Tensor | None,
    norm_weight: Tensor,
    weight: Tensor,
    w_up: Tensor,
    hc: int,
    *,
    eps: float = 1e-6,
    fold_w: bool = False,
    has_inject: bool = True,
    dtype: torch.dtype = torch.float32,
    store: bool = True,
) -> Output:
    """The whole op: (r2, x, inj_next).  `weight` as for `k1`; r is w_up's width."""
    r = w_up.shape[1]
    first = k1(
        residual,
        block_output,
        injection,
        norm_weight,
        weight,
        hc,
        eps=eps,
        fold_w=fold_w,
        dtype=dtype,
        store=store,
    )
    x = k2(first.packed[:, :r], first.r2, first.rrms, norm_weight, w_up, hc, dtype=dtype, store=store)
    return Output(first.r2, x, first.packed[:, r : r + hc] if has_inject else None)


def mix_only(
    residual: Tensor,
    norm_weight: Tensor,
    weight: Tensor,
    w_up: Tensor,
    hc: int,
    *,
    eps: float = 1e-6,
    fold_w: bool = False,
    has_inject: bool = True,
    dtype: torch.dtype = torch.float32,
    store: bool = True,
) -> Output:
    """The op without COMBINE (first layer and final mixer): (residual as [M,HC,HS], x, inj_next or None)."""
    return combine_and_mix(
        residual,
        None,
        None,
        norm_weight,
        weight,
        w_up,
        hc,
        eps=eps,
        fold_w=fold_w,
        has_inject=has_inject,
        dtype=dtype,
        store=store,
    )
