"""Device functions that are really called: a stack in scratch memory, saved registers, calls from divergent loops."""

import torch
import triton
import triton.language as tl

from tests.flydsl_programs import compare

from .driver import Device


@triton.jit(noinline=True)
def collatz_step(value):
    return tl.where(value % 2 == 0, value // 2, value * 3 + 1)


@triton.jit(noinline=True)
def polynomial(a, b):
    return a * a * 3 - b * 2 + 1


@triton.jit(noinline=True)
def twice(a, b):
    return polynomial(a, b) + polynomial(b, a)


@triton.jit
def calls_kernel(x, y, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n, other=0)
    b = tl.load(y + i, mask=i < n, other=0)
    tl.store(out + i, twice(a, b) - a, mask=i < n)


@triton.jit
def collatz_kernel(start, steps):
    value = tl.load(start + tl.program_id(0))
    count = 0
    while value != 1:
        value = collatz_step(value)
        count += 1
    tl.store(steps + tl.program_id(0), count)


def _collatz(value: int) -> int:
    count = 0
    while value != 1:
        value = value // 2 if value % 2 == 0 else value * 3 + 1
        count += 1
    return count


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    n = 900
    x, y = (compare.small_integers(generator, (n,), -1000, 1000).int() for _ in range(2))
    out = compare.poisoned((n,), torch.int32)
    device.launch(calls_kernel, (1,), x=x, y=y, out=out, n=n, B=1024)
    want = (x * x * 3 - y * 2 + 1) + (y * y * 3 - x * 2 + 1) - x
    cases = [compare.exact("nested calls", out, want)]
    start = torch.arange(1, 21, dtype=torch.int32)
    steps = compare.poisoned((20,), torch.int32)
    device.launch(collatz_kernel, (20,), start=start, steps=steps)
    cases.append(compare.exact("calls in a while loop", steps, torch.tensor([_collatz(int(v)) for v in start]).int()))
    return cases
