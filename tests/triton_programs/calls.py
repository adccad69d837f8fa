"""Device functions that are really called: a stack in scratch memory, saved registers, barriers in a callee, loops."""

import torch
import triton
import triton.language as tl

from tests.flydsl_programs import compare

from .driver import Device


@triton.jit(noinline=True)
def collatz_step(value):
    if value % 2 == 0:
        value = value // 2
    else:
        value = value * 3 + 1
    return value


@triton.jit
def collatz_kernel(start, steps):
    value = tl.load(start + tl.program_id(0))
    count = 0
    while value != 1:
        value = collatz_step(value)
        count += 1
    tl.store(steps + tl.program_id(0), count)


@triton.jit(noinline=True)
def row_sum(x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    return tl.sum(tl.load(x + i, mask=i < n, other=0), 0)


@triton.jit(noinline=True)
def scale_row(x, out, n, factor, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n) * factor + row_sum(x, n, B), mask=i < n)


@triton.jit
def calls_kernel(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    kept = tl.load(x + i, mask=i < n, other=0)
    for row in range(tl.num_programs(0)):
        if row % 2 == tl.program_id(0) % 2:
            scale_row(x + row * n, out + (tl.program_id(0) * tl.num_programs(0) + row) * n, n, row + 2, B)
    tl.debug_barrier()
    at = out + (tl.program_id(0) * tl.num_programs(0) + tl.program_id(0)) * n + i
    tl.store(at, tl.load(at, mask=i < n) + kept, mask=i < n)


def _collatz(value: int) -> int:
    count = 0
    while value != 1:
        value = value // 2 if value % 2 == 0 else value * 3 + 1
        count += 1
    return count


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    rows, n = 4, 700
    x = compare.small_integers(generator, (rows, n), -1000, 1000).int()
    out = torch.zeros(rows, rows, n, dtype=torch.int32)
    compiled = device.launch(calls_kernel, (rows,), x=x, out=out, n=n, B=1024)
    assert "s_swappc_b64" in compiled.asm["amdgcn"], "the compiler inlined every call: this program tests calls"
    want = torch.zeros_like(out)
    for group in range(rows):
        for row in range(group % 2, rows, 2):
            want[group, row] = x[row] * (row + 2) + x[row].sum()
        want[group, group] += x[0]
    cases = [compare.exact("nested calls", out, want)]
    start = torch.arange(1, 21, dtype=torch.int32)
    steps = compare.poisoned((20,), torch.int32)
    device.launch(collatz_kernel, (20,), start=start, steps=steps)
    cases.append(compare.exact("calls in a while loop", steps, torch.tensor([_collatz(int(v)) for v in start]).int()))
    return cases
