"""A matrix product whose K is shared by workgroups: by a semaphore and partial sums, and by atomic additions."""

import torch
import triton
import triton.language as tl

from tests.flydsl_programs import compare

from .driver import Device

SPLIT = 4


@triton.jit
def semaphore_kernel(
    a, b, c, partial, arrived, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr
):
    """The workgroup that arrives last at a tile adds the partial sums of all."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.program_id(2) * BK + tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK * SPLIT):
        x = tl.load(a + rows[:, None] * k + depth[None, :] + start)
        y = tl.load(b + columns[None, :] * k + depth[:, None] + start)
        total = tl.dot(x, y, total)
    at = rows[:, None] * n + columns[None, :]
    tl.store(partial + tl.program_id(2) * m * n + at, total)
    tl.debug_barrier()
    tile = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    if tl.atomic_add(arrived + tile, 1, sem="acq_rel", scope="gpu") == SPLIT - 1:
        result = tl.zeros((BM, BN), tl.float32)
        for part in range(SPLIT):
            result += tl.load(partial + part * m * n + at, cache_modifier=".cv")
        tl.store(c + at, result.to(c.dtype.element_ty))


@triton.jit
def atomic_kernel(a, b, c, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.program_id(2) * BK + tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK * SPLIT):
        x = tl.load(a + rows[:, None] * k + depth[None, :] + start)
        y = tl.load(b + columns[None, :] * k + depth[:, None] + start)
        total = tl.dot(x, y, total)
    tl.atomic_add(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty), sem="relaxed")


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    cases = []
    m, n, k = 64, 64, 512
    for dtype in (torch.bfloat16, torch.float16):
        a, b = (torch.randn(m, k, generator=generator).to(dtype) for _ in range(2))
        c, partial = compare.poisoned((m, n), dtype), compare.poisoned((SPLIT, m, n), torch.float32)
        arrived = torch.zeros(4, dtype=torch.int32)
        device.launch(
            semaphore_kernel, (2, 2, SPLIT), a=a, b=b, c=c, partial=partial, arrived=arrived, m=m, n=n, k=k,
            BM=32, BN=32, BK=64, SPLIT=SPLIT,
        )  # fmt: skip
        want = a.double() @ b.double().t()
        bound = compare.dot_bound(a.double().abs() @ b.double().abs().t(), k)
        cases.append(compare.within(f"semaphore {dtype}", c, want, compare.stored(want, bound, dtype)))
        cases.append(compare.exact(f"arrivals {dtype}", arrived, torch.full_like(arrived, SPLIT)))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        # sums of +-1 over 64 terms stay within the integers that eight fraction bits hold
        a, b = (compare.small_integers(generator, (m, k), 0, 1).bfloat16() for _ in range(2))
        a[:, 64:] *= (torch.arange(k - 64) % 8 == 0).bfloat16()
        c = torch.zeros(m, n, dtype=dtype)
        grid = (1, 1, SPLIT)
        device.launch(atomic_kernel, grid, a=a, b=b, c=c, n=n, k=k, BM=64, BN=64, BK=64, SPLIT=SPLIT)
        cases.append(compare.exact(f"atomic sums {dtype}", c, (a.double() @ b.double().t()).to(dtype)))
    return cases
