"""Atomics: histograms in LDS and in memory, float add, max, exchange, and a compare-and-swap loop."""

# ruff: noqa: B008 - FlyDSL reads a default stream as the parameter's kind

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from flydsl.expr import gpu, rocdl

from . import compare

THREADS = 256
BINS = 32
AGENT = rocdl.SyncScope.Agent


@fx.struct
class Bins:
    counts: fx.Array[fx.Int32, BINS, 4]


@flyc.kernel
def histogram_kernel(values: fx.Pointer, counts: fx.Pointer, n: fx.Int32):
    tid = fx.thread_idx.x
    local = fx.SharedAllocator().allocate(Bins).peek().counts
    if tid < BINS:
        local[tid] = fx.Int32(0)
    gpu.barrier()
    i = fx.block_idx.x * THREADS + tid
    if i < n:
        fx.atomic_add(local.ptr + fx.generic_load(values + i), 1, syncscope=rocdl.SyncScope.Workgroup)
    gpu.barrier()
    if tid < BINS:
        fx.atomic_add(counts + tid, local[tid], syncscope=AGENT)


@flyc.jit
def histogram(values: fx.Pointer, counts: fx.Pointer, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    grid = ((n + THREADS - 1) // THREADS, 1, 1)
    histogram_kernel(values, counts, n).launch(grid=grid, block=(THREADS, 1, 1), stream=stream)


@flyc.kernel
def mixed_kernel(x: fx.Pointer, ints: fx.Pointer, floats: fx.Pointer, doubles: fx.Pointer, n: fx.Int32):
    """`ints`: [max, min, xor, or, and, last exchanged]; `floats`: [sum, max]; `doubles`: [sum]."""
    i = fx.block_idx.x * THREADS + fx.thread_idx.x
    if i < n:
        value = fx.generic_load(x + i)
        fx.atomic_max(ints, value, syncscope=AGENT)
        fx.atomic_min(ints + 1, value, syncscope=AGENT)
        fx.atomic_xor(ints + 2, value, syncscope=AGENT)
        fx.atomic_or(ints + 3, value, syncscope=AGENT)
        fx.atomic_and(ints + 4, value, syncscope=AGENT)
        fx.atomic_xchg(ints + 5, value, syncscope=AGENT)
        fx.atomic_add(floats, value.to(fx.Float32), syncscope=AGENT)
        fx.atomic_fmax(floats + 1, value.to(fx.Float32), syncscope=AGENT)
        fx.atomic_add(doubles, value.to(fx.Float64), syncscope=AGENT)


@flyc.jit
def mixed(
    x: fx.Pointer,
    ints: fx.Pointer,
    floats: fx.Pointer,
    doubles: fx.Pointer,
    n: fx.Int32,
    stream: fx.Stream = fx.Stream(None),
):
    grid = ((n + THREADS - 1) // THREADS, 1, 1)
    mixed_kernel(x, ints, floats, doubles, n).launch(grid=grid, block=(THREADS, 1, 1), stream=stream)


@flyc.kernel
def multiply_kernel(x: fx.Pointer, product: fx.Pointer, n: fx.Int32):
    """Product modulo 2^32 of odd numbers: no atomic does it, so every lane retries a compare-and-swap."""
    i = fx.block_idx.x * THREADS + fx.thread_idx.x
    if i < n:
        factor = fx.generic_load(x + i)
        seen = fx.generic_load(product, memory_order=fx.AtomicOrdering.Monotonic, syncscope=AGENT)
        pending = fx.Boolean(True)
        while pending:
            old, done = fx.atomic_cas(product, seen, seen * factor, syncscope=AGENT)
            seen = old
            pending = ~done


@flyc.jit
def multiply(x: fx.Pointer, product: fx.Pointer, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    grid = ((n + THREADS - 1) // THREADS, 1, 1)
    multiply_kernel(x, product, n).launch(grid=grid, block=(THREADS, 1, 1), stream=stream)


def run(generator: torch.Generator) -> list[compare.Case]:
    """All results are integers, exact in any order."""
    i32, f32, f64 = (flyc.from_c_void_p(t, None) for t in (fx.Int32, fx.Float32, fx.Float64))
    n = 1000
    values = torch.randint(0, BINS, (n,), generator=generator, dtype=torch.int32)
    counts = torch.zeros(BINS, dtype=torch.int32)
    flyc.compile(histogram, i32, i32, 1, fx.Stream(None))(values.data_ptr(), counts.data_ptr(), n, None)
    cases = [compare.exact("histogram", counts, torch.bincount(values, minlength=BINS).int())]

    x = torch.randint(-500, 500, (n,), generator=generator, dtype=torch.int32)
    ints = torch.tensor([-(2**31), 2**31 - 1, 0, 0, -1, 0], dtype=torch.int32)
    floats, doubles = torch.tensor([0.0, float("-inf")]), torch.zeros(1, dtype=torch.float64)
    program = flyc.compile(mixed, i32, i32, f32, f64, 1, fx.Stream(None))
    program(*(t.data_ptr() for t in (x, ints, floats, doubles)), n, None)
    bits = [0, 0, -1]
    for v in x.tolist():
        bits = [bits[0] ^ v, bits[1] | v, bits[2] & v]
    want = torch.tensor([int(x.max()), int(x.min()), *bits], dtype=torch.int32)
    cases.append(compare.exact("integer atomics", ints[:5], want))
    cases.append(compare.exact("exchange left an input", torch.isin(ints[5:], x), torch.tensor([True])))
    cases.append(compare.exact("float atomics", floats, torch.tensor([float(x.sum()), float(x.max())])))
    cases.append(compare.exact("double atomics", doubles, x.double().sum().reshape(1)))

    odd = torch.randint(-100, 100, (300,), generator=generator, dtype=torch.int32) * 2 + 1
    product = torch.ones(1, dtype=torch.int32)
    flyc.compile(multiply, i32, i32, 1, fx.Stream(None))(odd.data_ptr(), product.data_ptr(), 300, None)
    number = 1
    for v in odd.tolist():
        number = number * v % 2**32
    cases.append(compare.exact("compare-and-swap product", product, torch.tensor([number]).to(torch.int32)))
    return cases
