"""Flash attention, forward: full and causal, 16-bit and 8-bit; decoding from a paged cache."""

import math

import torch
import triton
import triton.language as tl

from tests.flydsl_programs import compare

from .driver import Device

F32, F64 = torch.float32, torch.float64


@triton.jit
def attention_kernel(
    q, k, v, out, lse, scale, length, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr
):
    """Online softmax in powers of two; ``scale`` holds log2(e)."""
    tile, head = tl.program_id(0), tl.program_id(1)
    base = head.to(tl.int64) * length * D
    rows, width = tile * BM + tl.arange(0, BM), tl.arange(0, D)
    query = tl.load(q + base + rows[:, None] * D + width[None, :])
    top = tl.full([BM], -float("inf"), tl.float32)
    weight = tl.zeros([BM], tl.float32)
    total = tl.zeros([BM, D], tl.float32)
    end = (tile + 1) * BM if CAUSAL else length
    for start in range(0, end, BN):
        columns = start + tl.arange(0, BN)
        keys = tl.load(k + base + columns[None, :] * D + width[:, None])
        score = tl.dot(query, keys) * scale
        if CAUSAL:
            score = tl.where(rows[:, None] >= columns[None, :], score, -float("inf"))
        larger = tl.maximum(top, tl.max(score, 1))
        p = tl.exp2(score - larger[:, None])
        shrink = tl.exp2(top - larger)
        weight = weight * shrink + tl.sum(p, 1)
        values = tl.load(v + base + columns[:, None] * D + width[None, :])
        total = tl.dot(p.to(values.dtype), values, total * shrink[:, None])
        top = larger
    tl.store(lse + head * length + rows, top + tl.log2(weight))
    at = out + base + rows[:, None] * D + width[None, :]
    tl.store(at, (total / weight[:, None]).to(out.dtype.element_ty))


@triton.jit
def decode_kernel(
    q, keys, values, pages, lengths, out, scale, most, D: tl.constexpr, PAGE: tl.constexpr, HEADS: tl.constexpr
):
    """One query token a sequence, ``HEADS`` query heads sharing one key head, K and V in pages."""
    sequence = tl.program_id(0)
    length = tl.load(lengths + sequence)
    width, heads, slots = tl.arange(0, D), tl.arange(0, HEADS), tl.arange(0, PAGE)
    query = tl.load(q + (sequence * HEADS + heads[:, None]) * D + width[None, :])
    top = tl.full([HEADS], -float("inf"), tl.float32)
    weight = tl.zeros([HEADS], tl.float32)
    total = tl.zeros([HEADS, D], tl.float32)
    for index in range(tl.cdiv(length, PAGE)):
        page = tl.load(pages + sequence * most + index).to(tl.int64) * PAGE
        score = tl.dot(query, tl.load(keys + (page + slots[None, :]) * D + width[:, None])) * scale
        score = tl.where(index * PAGE + slots[None, :] < length, score, -float("inf"))
        larger = tl.maximum(top, tl.max(score, 1))
        p = tl.exp2(score - larger[:, None])
        shrink = tl.exp2(top - larger)
        weight = weight * shrink + tl.sum(p, 1)
        v = tl.load(values + (page + slots[:, None]) * D + width[None, :])
        total = tl.dot(p.to(v.dtype), v, total * shrink[:, None])
        top = larger
    tl.store(out + (sequence * HEADS + heads[:, None]) * D + width[None, :], (total / weight[:, None]).to(tl.bfloat16))


def _reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, hidden: torch.Tensor | None, steps: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Float64 attention, its log2-sum-exp, and a bound for each; ``steps``: iterations of the online softmax.

    Scores: a float32 dot product and a product with ``scale``. An absolute error d of a score is a relative error
    d * ln 2 of its weight 2**score. Weights are rounded to the element type for the second product, relatively, or by
    half a step of its denormals (against the running maximum, which the final one bounds: rescaling only shrinks).
    Each step rescales sums with an exp2 of 1 ulp and a product.
    """
    q64, k64, v64 = q.double(), k.double(), v.double()
    scores = q64 @ k64.transpose(-1, -2) * scale
    terms = q64.abs() @ k64.abs().transpose(-1, -2) * scale
    error = compare.dot_bound(terms, q.shape[-1]) + 3 * compare.U32 * scores.abs()
    if hidden is not None:
        scores, error = scores.masked_fill(hidden, -math.inf), error.masked_fill(hidden, 0.0)
    natural = scores * math.log(2)
    lse = torch.logsumexp(natural, -1, keepdim=True) / math.log(2)
    p = torch.softmax(natural, -1)
    out = p @ v64
    finfo = torch.finfo(v.dtype)
    worst = error.amax(-1, keepdim=True)
    rescaling = 4 * steps * compare.U32 + compare.LAMBDA * k.shape[-2] ** 0.5 * compare.U32
    relative = 2 * math.log(2) * worst + rescaling
    # finfo.eps is twice the unit roundoff; the weights' sum is not rounded to the element type
    sizes = p @ v64.abs()
    of_weights = finfo.eps / 2 * sizes
    peak = torch.exp2(scores.amax(-1, keepdim=True) - lse)
    of_small = finfo.smallest_normal * finfo.eps / 2 * peak * v64.abs().sum(-2, keepdim=True)
    of_lse = worst + (rescaling + 4 * compare.U32 * lse.abs()) * 2
    return out, relative * sizes + of_weights + of_small, lse[..., 0], of_lse[..., 0]


PLAN = (
    (torch.bfloat16, torch.bfloat16, 64, False, 1),
    (torch.bfloat16, torch.bfloat16, 128, True, 2),
    (torch.float16, torch.float16, 64, True, 1),
    (torch.float8_e4m3fnuz, torch.bfloat16, 64, False, 1),
    (torch.float8_e4m3fn, torch.bfloat16, 64, True, 1),
    (torch.float8_e5m2, torch.float16, 64, False, 1),
)
"""Element type, output type, head size, causal, pipeline stages."""


def _attention(generator: torch.Generator, device: Device) -> list[compare.Case]:
    cases = []
    heads, length, bm, bn = 2, 128, 64, 32
    for dtype, out_type, d, causal, stages in PLAN:
        q, k, v = (torch.randn(heads, length, d, generator=generator).to(dtype) for _ in range(3))
        out, lse = compare.poisoned((heads, length, d), out_type), compare.poisoned((heads, length), F32)
        scale = float(torch.tensor(math.log2(math.e) / d**0.5))
        device.launch(
            attention_kernel, (length // bm, heads), q=q, k=k, v=v, out=out, lse=lse, scale=scale, length=length, D=d,
            BM=bm, BN=bn, CAUSAL=causal, options={"num_stages": stages},
        )  # fmt: skip
        hidden = torch.ones(length, length).triu(1).bool() if causal else None
        want, bound, want_lse, bound_lse = _reference(q, k, v, scale, hidden, length // bn)
        name = f"attention {str(dtype)[6:]} d={d}{' causal' * causal}"
        cases.append(compare.within(name, out, want, compare.stored(want, bound, out_type)))
        cases.append(compare.within(f"{name} lse", lse, want_lse, bound_lse))
    return cases


def _decode(generator: torch.Generator, device: Device) -> list[compare.Case]:
    d, page, heads, most = 128, 16, 16, 12
    lengths = torch.tensor([17, 160, 1], dtype=torch.int32)
    q = torch.randn(len(lengths), heads, d, generator=generator).bfloat16()
    keys, values = (torch.randn(40, page, d, generator=generator).bfloat16() for _ in range(2))
    pages = torch.stack([torch.randperm(40, generator=generator)[:most] for _ in lengths]).int()
    out = compare.poisoned(tuple(q.shape), torch.bfloat16)
    scale = float(torch.tensor(math.log2(math.e) / d**0.5))
    device.launch(
        decode_kernel, (len(lengths),), q=q, keys=keys, values=values, pages=pages, lengths=lengths, out=out,
        scale=scale, most=most, D=d, PAGE=page, HEADS=heads, options={"num_warps": 2},
    )  # fmt: skip
    cases = []
    for i, length in enumerate(lengths.tolist()):
        k, v = (cache[pages[i].long()].reshape(-1, d)[:length] for cache in (keys, values))
        want, bound, _, _ = _reference(q[i], k, v, scale, None, most)
        cases.append(
            compare.within(f"decode {length} tokens", out[i], want, compare.stored(want, bound, torch.bfloat16))
        )
    return cases


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    return [*_attention(generator, device), *_decode(generator, device)]
