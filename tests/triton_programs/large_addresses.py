"""Pointer arithmetic beyond 2**31 elements and 2**32 bytes, on tensors of which only touched pages exist."""

import torch
import triton
import triton.language as tl

from tests.flydsl_programs import compare
from validation.emulator import AddressSpace

from .driver import Device


@triton.jit
def strided_kernel(x, out, row_stride, n, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, B)
    a = tl.load(x + row * row_stride + i, mask=i < n)
    tl.store(out + row * row_stride + i, a * 2 + tl.program_id(1), mask=i < n)


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    """Rows 1.5 * 2**30 elements apart: the third starts past 2**31 elements, hence past 2**32 bytes."""
    cases = []
    for dtype, stride in ((torch.bfloat16, 3 * 2**29 + 8), (torch.int32, 2**31 + 4)):
        space = AddressSpace()
        rows, n = 4, 100
        size = (rows - 1) * stride + n
        x, out = (space.empty((size,), dtype, name, initialised=True) for name in ("x", "out"))
        values = compare.small_integers(generator, (rows, n), -50, 50).to(dtype)
        starts = [row * stride for row in range(rows)]
        for start, row in zip(starts, values, strict=True):
            x[start : start + n] = row
        device.launch(strided_kernel, (rows,), space=space, x=x, out=out, row_stride=stride, n=n, B=128)
        got = torch.stack([out[start : start + n] for start in starts])
        cases.append(compare.exact(f"row stride {stride} {dtype}", got, values * 2))
    return cases
