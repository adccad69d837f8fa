"""Cumulative sums, products and maxima in both directions, and a segmented sum of pairs."""

import torch
import triton
import triton.language as tl

from tests.flydsl_programs import compare

from .driver import Device

ROWS, COLUMNS = 16, 256


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def segment(a, starts_a, b, starts_b):
    return tl.where(starts_b != 0, b, a + b), starts_a | starts_b


@triton.jit
def scan_kernel(x, out, OP: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(x + at)
    if OP == "sum":
        r = tl.cumsum(a, AXIS, reverse=REVERSE)
    elif OP == "prod":
        r = tl.cumprod(a, AXIS, reverse=REVERSE)
    elif OP == "max":
        r = tl.associative_scan(a, AXIS, larger, reverse=REVERSE)
    elif OP == "segmented":
        r, _ = tl.associative_scan((a, (a > 2).to(tl.int32)), AXIS, segment, reverse=REVERSE)
    tl.store(out + at, r)


PLAN = (
    ("sum", torch.float32, 1, False), ("sum", torch.float32, 0, True), ("sum", torch.int32, 1, True),
    ("sum", torch.int64, 0, False), ("sum", torch.float64, 1, False), ("prod", torch.int32, 1, False),
    ("max", torch.bfloat16, 1, False), ("max", torch.float32, 0, False), ("segmented", torch.int32, 1, False),
    ("segmented", torch.int64, 0, False), ("segmented", torch.float32, 1, True),
)  # fmt: skip


def _segmented(x: torch.Tensor, axis: int) -> torch.Tensor:
    result = x.clone()
    for i in range(1, x.shape[axis]):
        value = x.select(axis, i)
        result.select(axis, i).copy_(torch.where(value > 2, value, result.select(axis, i - 1) + value))
    return result


REFERENCES = {
    "sum": lambda x, axis: x.cumsum(axis, dtype=x.dtype),
    "prod": lambda x, axis: x.cumprod(axis, dtype=x.dtype),
    "max": lambda x, axis: x.cummax(axis)[0],
    "segmented": _segmented,
}


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    cases = []
    for op, dtype, axis, reverse in device.turn(PLAN):
        shape = (ROWS, COLUMNS)
        x = compare.small_integers(generator, shape, -3, 3)  # sums of small integers are exact in every type here
        if op == "prod":
            x[x == 0] = 1
        if op == "max":
            x = torch.randn(shape, generator=generator, dtype=torch.float64)
        x = x.to(dtype)
        out = compare.poisoned(shape, dtype)
        device.launch(scan_kernel, (1,), x=x, out=out, OP=op, AXIS=axis, REVERSE=reverse, M=ROWS, N=COLUMNS)
        want = REFERENCES[op](x.flip(axis), axis).flip(axis) if reverse else REFERENCES[op](x, axis)
        cases.append(compare.exact(f"{op} {dtype} axis {axis}{' reversed' * reverse}", out, want))
    return cases
