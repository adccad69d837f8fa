"""Sorting and top-k of rows: bitonic networks of lane exchanges."""

import numpy as np
import torch
import triton
import triton.language as tl

from tests.flydsl_programs import compare

from .driver import Device


@triton.jit
def sort_kernel(x, out, DESCENDING: tl.constexpr, K: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    rows = tl.arange(0, M)[:, None]
    a = tl.load(x + rows * N + tl.arange(0, N)[None, :])
    if K == 0:
        tl.store(out + rows * N + tl.arange(0, N)[None, :], tl.sort(a, 1, descending=DESCENDING))
    else:
        tl.store(out + rows * K + tl.arange(0, K)[None, :], tl.topk(a, K, 1))


PLAN = (
    ("float32", 4, 64, False, 0), ("float16", 1, 256, True, 0), ("int64", 2, 64, True, 0), ("uint8", 4, 64, False, 0),
    ("float32", 4, 128, True, 8), ("int32", 2, 128, True, 16), ("float16", 4, 64, True, 4),
)  # fmt: skip
"""Type, rows, columns, descending, k (0 for a whole sort)."""


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    cases = []
    for name, rows, columns, descending, k in device.turn(PLAN):
        values = torch.randn(rows, columns, generator=generator, dtype=torch.float64) * 50
        x = torch.from_numpy(values.numpy().clip(0 if name == "uint8" else None).astype(name))
        out = compare.poisoned((rows, k or columns), x.dtype)
        device.launch(sort_kernel, (1,), x=x, out=out, DESCENDING=descending, K=k, M=rows, N=columns)
        want = np.sort(x.numpy(), axis=1)
        want = want[:, ::-1].copy() if descending else want
        want = torch.from_numpy(want[:, : k or columns].copy())
        cases.append(compare.exact(f"{'top ' + str(k) if k else 'sort'} {name} {rows}x{columns}", out, want))
    return cases
