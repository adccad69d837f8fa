"""Mixture of experts: routing by softmax and top-k, counting, a grouped product over sorted tokens, quantisation."""

import torch
import triton
import triton.language as tl

from tests.flydsl_programs import compare

from .driver import Device


@triton.jit
def route_kernel(logits, weights, experts, E: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, E)
    p = tl.softmax(tl.load(logits + row * E + i).to(tl.float32))
    total = 0.0
    for t in tl.static_range(K):
        best = tl.argmax(p, 0)
        weight = tl.max(p, 0)
        tl.store(experts + row * K + t, best)
        tl.store(weights + row * K + t, weight)
        p = tl.where(i == best, -1.0, p)
        total += weight
    tl.debug_barrier()
    for t in tl.static_range(K):
        tl.store(weights + row * K + t, tl.load(weights + row * K + t) / total)


@triton.jit
def count_kernel(experts, counts, places, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    e = tl.load(experts + i, mask=i < n, other=0)
    tl.store(places + i, tl.atomic_add(counts + e, 1, mask=i < n, sem="relaxed"), mask=i < n)


@triton.jit
def grouped_kernel(
    a, b, c, order, tile_expert, weights, padded, n, k, slots, TOP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """Tiles of ``BM`` slots (token, choice) that go to one expert; empty slots hold ``slots``."""
    tile = tl.program_id(0)
    if tile * BM >= tl.load(padded):
        return
    slot = tl.load(order + tile * BM + tl.arange(0, BM))
    used = slot < slots
    expert = tl.load(tile_expert + tile).to(tl.int64)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    at_a = a + (slot // TOP)[:, None] * k + depth[None, :]
    at_b = b + expert * n * k + columns[None, :] * k + depth[:, None]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, k, BK):
        total = tl.dot(tl.load(at_a, mask=used[:, None], other=0.0), tl.load(at_b), total)
        at_a += BK
        at_b += BK
    total *= tl.load(weights + slot, mask=used, other=0.0)[:, None]
    tl.store(c + slot[:, None] * n + columns[None, :], total.to(c.dtype.element_ty), mask=used[:, None])


@triton.jit
def quantise_kernel(x, q, scales, n, LIMIT: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    a = tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32)
    scale = tl.div_rn(tl.maximum(tl.max(tl.abs(a), 0), 1e-8), LIMIT)
    tl.store(scales + row, scale)
    tl.store(q + row * n + i, tl.div_rn(a, scale).to(q.dtype.element_ty), mask=i < n)


def _route(generator: torch.Generator, device: Device, experts: int, top: int) -> list[compare.Case]:
    rows = 5
    # distinct logits: the choice is unique
    logits = torch.stack([torch.randperm(experts, generator=generator) for _ in range(rows)]).bfloat16() / 16
    weights, chosen = compare.poisoned((rows, top), torch.float32), compare.poisoned((rows, top), torch.int32)
    device.launch(
        route_kernel, (rows,), logits=logits, weights=weights, experts=chosen, E=experts, K=top,
        options={"num_warps": 1},
    )  # fmt: skip
    p, index = torch.topk(torch.softmax(logits.double(), 1), top, 1)
    want = p / p.sum(1, keepdim=True)
    # numerator and sum: exp of a difference of at most experts / 16, the softmax's sum, top additions, divisions
    bound = want * compare.U32 * (2 * (3 * experts / 16 + 2) + 2 * compare.LAMBDA * experts**0.5 + top + 10)
    name = f"top {top} of {experts} experts"
    return [compare.exact(name, chosen, index.int()), compare.within(f"{name}: weights", weights, want, bound)]


def _count(generator: torch.Generator, device: Device) -> list[compare.Case]:
    n, experts = 600, 16
    chosen = torch.randint(0, experts, (n,), generator=generator, dtype=torch.int32)
    counts, places = torch.zeros(experts, dtype=torch.int32), compare.poisoned((n,), torch.int32)
    device.launch(count_kernel, (3,), experts=chosen, counts=counts, places=places, n=n, B=256)
    want = torch.bincount(chosen, minlength=experts).int()
    taken = torch.cat([places[chosen == e].sort()[0] for e in range(experts)])
    all_places = torch.cat([torch.arange(int(c), dtype=torch.int32) for c in want])
    return [compare.exact("tokens of an expert", counts, want), compare.exact("places", taken, all_places)]


def _grouped(generator: torch.Generator, device: Device, dtype: torch.dtype) -> compare.Case:
    tokens, top, experts, n, k, bm = 50, 2, 3, 64, 128, 64
    a = torch.randn(tokens, k, generator=generator).to(dtype)
    b = torch.randn(experts, n, k, generator=generator).to(dtype)
    chosen = torch.randint(0, experts, (tokens * top,), generator=generator)
    order, tile_expert = [], []
    for e in range(experts):
        mine = torch.nonzero(chosen == e)[:, 0].tolist()
        mine += [tokens * top] * (-len(mine) % bm)
        order += mine
        tile_expert += [e] * (len(mine) // bm)
    padded = torch.tensor([len(order)], dtype=torch.int32)
    weights = torch.rand(tokens * top, generator=generator)
    c = compare.poisoned((tokens * top, n), torch.bfloat16)
    device.launch(
        grouped_kernel, (len(tile_expert) + 1, 1), a=a, b=b, c=c, order=torch.tensor(order, dtype=torch.int32),
        tile_expert=torch.tensor(tile_expert, dtype=torch.int32), weights=weights, padded=padded, n=n, k=k,
        slots=tokens * top, TOP=top, BM=bm, BN=64, BK=64, options={"num_stages": 2},
    )  # fmt: skip
    rows = a.double().repeat_interleave(top, 0)
    factor = weights.double()[:, None]
    want = torch.einsum("sk,snk->sn", rows, b.double()[chosen]) * factor
    terms = torch.einsum("sk,snk->sn", rows.abs(), b.double().abs()[chosen]) * factor
    bound = compare.dot_bound(terms, k) + compare.U32 * terms
    return compare.within(f"grouped product {str(dtype)[6:]}", c, want, compare.stored(want, bound, torch.bfloat16))


def _quantise(generator: torch.Generator, device: Device, dtype: torch.dtype, limit: float) -> list[compare.Case]:
    rows, n = 3, 900
    x = (torch.randn(rows, n, generator=generator) * 3).bfloat16()
    q, scales = compare.poisoned((rows, n), dtype), compare.poisoned((rows,), torch.float32)
    device.launch(quantise_kernel, (rows,), x=x, q=q, scales=scales, n=n, LIMIT=limit, B=1024)
    # both divisions round once, as PyTorch's float32 divisions do
    scale = x.float().abs().amax(1) / torch.tensor(limit)
    name = f"quantise to {str(dtype)[6:]}"
    want = (x.float() / scale[:, None]).to(dtype)
    return [compare.exact(f"{name}: scales", scales, scale), compare.exact(name, q, want)]


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    return [
        *_route(generator, device, 8, 2),
        *_route(generator, device, 64, 4),
        *_count(generator, device),
        *(_grouped(generator, device, dtype) for dtype in (torch.bfloat16, torch.float8_e4m3fnuz, torch.float8_e4m3fn)),
        *_quantise(generator, device, torch.int8, 127.0),
        *_quantise(generator, device, torch.float8_e4m3fnuz, 240.0),
        *_quantise(generator, device, torch.float8_e4m3fn, 448.0),
    ]
