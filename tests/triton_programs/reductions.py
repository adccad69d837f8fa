"""Reductions along both axes, argmax and argmin with ties, Welford variance, histogram, a sum over the grid."""

import numpy as np
import torch
import triton
import triton.language as tl

from tests.flydsl_programs import compare

from .driver import Device

ROWS, COLUMNS = 64, 128


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def reduce_kernel(x, out, OP: tl.constexpr, AXIS: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    a = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    if OP == "sum":
        r = tl.sum(a, AXIS)
    elif OP == "max":
        r = tl.max(a, AXIS)
    elif OP == "min":
        r = tl.min(a, AXIS)
    elif OP == "argmax":
        r = tl.argmax(a, AXIS)
    elif OP == "argmin":
        r = tl.argmin(a, AXIS)
    elif OP == "xor":
        r = tl.xor_sum(a, AXIS)
    elif OP == "prod":
        r = tl.reduce(a, AXIS, multiply)
    tl.store(out + tl.arange(0, M if AXIS == 1 else N), r)


@triton.jit
def combine_moments(mean_a, square_a, count_a, mean_b, square_b, count_b):
    delta = mean_b - mean_a
    count = count_a + count_b
    share = tl.where(count == 0.0, 0.0, count_b / count)
    return mean_a + delta * share, square_a + square_b + delta * delta * count_a * share, count


@triton.jit
def welford_kernel(x, mean, variance, n, B: tl.constexpr):
    row = tl.program_id(0)
    a = tl.load(x + row * n + tl.arange(0, B))
    m, s, w = tl.reduce((a, tl.zeros_like(a), tl.zeros_like(a) + 1.0), 0, combine_moments)
    tl.store(mean + row, m)
    tl.store(variance + row, s / w)


@triton.jit
def grid_sum_kernel(x, out, n, B: tl.constexpr):
    total = tl.zeros([B], tl.float32)
    for start in range(tl.program_id(0) * B, n, B * tl.num_programs(0)):
        i = start + tl.arange(0, B)
        total += tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
    tl.atomic_add(out, tl.sum(total, 0))


@triton.jit
def histogram_kernel(x, out, n, B: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    counts = tl.histogram(tl.load(x + i, mask=i < n, other=0), BINS, mask=i < n)
    tl.atomic_add(out + tl.arange(0, BINS), counts)


PLAN = (
    ("sum", torch.float32, 1), ("sum", torch.float16, 0), ("sum", torch.float64, 0), ("sum", torch.int32, 1),
    ("sum", torch.int64, 0), ("max", torch.bfloat16, 1), ("max", torch.float32, 0), ("max", torch.int8, 1),
    ("max", torch.int64, 1), ("min", torch.float64, 1), ("min", torch.uint8, 0), ("argmax", torch.float32, 1),
    ("argmax", torch.bfloat16, 0), ("argmax", torch.int32, 1), ("argmin", torch.float16, 1), ("argmin", torch.int64, 0),
    ("xor", torch.int32, 0), ("xor", torch.int64, 1), ("prod", torch.float32, 1), ("prod", torch.int32, 0),
)  # fmt: skip


def _inputs(generator: torch.Generator, op: str, dtype: torch.dtype) -> torch.Tensor:
    shape = (ROWS, COLUMNS)
    if op == "prod":  # powers of two (exact) or small integers (which wrap)
        signs = torch.randint(0, 2, shape, generator=generator) * 2 - 1
        sizes = torch.randint(0, 3, shape, generator=generator)
        return (signs * (torch.exp2(sizes.double() - 1) if dtype.is_floating_point else sizes + 1)).to(dtype)
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        return torch.randint(info.min // 2, info.max // 2, shape, generator=generator).to(dtype)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    # few distinct values make ties, which go to the lowest index
    return (x * 4).round().to(dtype) if op.startswith("arg") else x.to(dtype)


def _reduced(x: torch.Tensor, op: str, axis: int) -> torch.Tensor:
    if op in ("argmax", "argmin"):  # NumPy promises the first one
        values = x.double().numpy() if x.dtype.is_floating_point else x.numpy()
        return torch.from_numpy(getattr(np, op)(values, axis)).int()
    if op == "xor":
        return torch.from_numpy(np.bitwise_xor.reduce(x.numpy(), axis))
    if op in ("max", "min"):
        return getattr(x, "a" + op)(axis)
    return getattr(x, op)(axis, dtype=x.dtype)


def _reduction(generator: torch.Generator, device: Device, op: str, dtype: torch.dtype, axis: int) -> compare.Case:
    x = _inputs(generator, op, dtype)
    count = (ROWS, COLUMNS)[axis]
    out = compare.poisoned(((ROWS, COLUMNS)[1 - axis],), torch.int32 if op.startswith("arg") else dtype)
    device.launch(reduce_kernel, (1,), x=x, out=out, OP=op, AXIS=axis, M=ROWS, N=COLUMNS)
    name = f"{op} {dtype} axis {axis}"
    if op == "sum" and dtype.is_floating_point:
        unit = {torch.float64: 2.0**-53, **compare.UNIT_ROUNDOFF}[dtype]  # Triton adds in the element type
        bound = compare.LAMBDA * count**0.5 * unit * x.double().abs().sum(axis)
        return compare.within(name, out, x.double().sum(axis), bound)
    return compare.exact(name, out, _reduced(x, op, axis))


def _welford(generator: torch.Generator, device: Device) -> list[compare.Case]:
    n = 1024
    x = torch.randn(3, n, generator=generator) * 2 + 5
    mean, variance = compare.poisoned((3,), torch.float32), compare.poisoned((3,), torch.float32)
    device.launch(welford_kernel, (3,), x=x, mean=mean, variance=variance, n=n, B=n)
    exact = x.double()
    # each of the log2(n) combinations adds a few roundings of values up to the largest |x|, or to its square
    roundings = 8 * compare.U32 * 10
    largest = exact.abs().amax(1)
    var = exact.var(1, unbiased=False)
    return [
        compare.within("welford mean", mean, exact.mean(1), roundings * largest),
        compare.within("welford variance", variance, var, roundings * (var + largest**2)),
    ]


def _grid_sum(generator: torch.Generator, device: Device, dtype: torch.dtype) -> compare.Case:
    n = 5000
    x = compare.small_integers(generator, (n,), -4, 4).to(dtype)
    out = torch.zeros(1)
    device.launch(grid_sum_kernel, (3,), x=x, out=out, n=n, B=512)
    return compare.exact(f"grid sum {dtype}", out, x.double().sum().float()[None])


def _histogram(generator: torch.Generator, device: Device) -> compare.Case:
    n, bins = 2500, 64
    x = torch.randint(0, bins, (n,), generator=generator, dtype=torch.int32)
    out = torch.zeros(bins, dtype=torch.int32)
    device.launch(histogram_kernel, (3,), x=x, out=out, n=n, B=1024, BINS=bins)
    return compare.exact("histogram", out, torch.bincount(x, minlength=bins).int())


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    return [
        *(_reduction(generator, device, *entry) for entry in device.turn(PLAN)),
        *_welford(generator, device),
        *(_grid_sum(generator, device, dtype) for dtype in (torch.bfloat16, torch.float8_e4m3fnuz)),
        _histogram(generator, device),
    ]
