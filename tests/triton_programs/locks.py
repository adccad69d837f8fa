"""Waiting for other workgroups: a spin lock, and a chained scan in which each workgroup waits for the one before."""

import torch
import triton
import triton.language as tl

from tests.flydsl_programs import compare

from .driver import Device


@triton.jit
def lock_kernel(lock, x, total, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + tl.program_id(0) * B + i)
    while tl.atomic_cas(lock, 0, 1, sem="acquire") == 1:
        pass
    tl.store(total + i, tl.load(total + i) + a)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0, sem="release")


@triton.jit
def chained_scan_kernel(x, out, flags, carries, B: tl.constexpr):
    group = tl.program_id(0)
    i = group * B + tl.arange(0, B)
    a = tl.load(x + i)
    carry = 0
    if group > 0:
        while tl.atomic_add(flags + group - 1, 0, sem="acquire") == 0:
            pass
        carry = tl.load(carries + group - 1, volatile=True)
    tl.store(carries + group, carry + tl.sum(a, 0))
    tl.debug_barrier()
    tl.atomic_xchg(flags + group, 1, sem="release")
    tl.store(out + i, tl.cumsum(a, 0) + carry)


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    groups, block = 6, 256
    x = compare.small_integers(generator, (groups, block), -50, 50).float()
    total, lock = torch.zeros(block), torch.zeros(1, dtype=torch.int32)
    device.launch(lock_kernel, (groups,), lock=lock, x=x, total=total, B=block)
    cases = [compare.exact("spin lock", total, x.sum(0)), compare.exact("lock released", lock, torch.zeros_like(lock))]
    x = compare.small_integers(generator, (groups * block,), -50, 50).int()
    out = compare.poisoned((groups * block,), torch.int32)
    flags, carries = torch.zeros(groups, dtype=torch.int32), torch.zeros(groups, dtype=torch.int32)
    device.launch(chained_scan_kernel, (groups,), x=x, out=out, flags=flags, carries=carries, B=block)
    cases.append(compare.exact("chained scan", out, x.cumsum(0, dtype=torch.int32)))
    return cases
