"""Arithmetic on floats: one rounding each, so every result must equal PyTorch's or the exact value's rounding."""

import torch
import triton
import triton.language as tl

from tests.flydsl_programs import compare

from .driver import Device

BLOCK = 512
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@triton.jit
def binary_kernel(x, y, out, n, OP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    a = tl.load(x + i, mask=inside, other=0)
    b = tl.load(y + i, mask=inside, other=1)
    if OP == "add":
        r = a + b
    elif OP == "sub":
        r = a - b
    elif OP == "mul":
        r = a * b
    elif OP == "max":
        r = tl.maximum(a, b)
    elif OP == "select":
        r = tl.where((a <= b) & (a > 0.5), a, -b)
    elif OP == "div":
        r = tl.div_rn(a, b)
    elif OP == "fma":
        r = tl.fma(a, b, a)
    tl.store(out + i, r, mask=inside)


def _specials(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Every pair of zeros, infinities, NaN, the smallest denormal, the largest finite value and a few others."""
    tiny, largest = torch.finfo(dtype).smallest_normal, torch.finfo(dtype).max
    values = [0.0, -0.0, 1.0, -3.0, float("inf"), -float("inf"), float("nan"), tiny, -tiny / 4, largest]
    pairs = torch.cartesian_prod(*[torch.tensor(values, dtype=torch.float64)] * 2).to(dtype)
    return pairs[:, 0], pairs[:, 1]


def _equal(name: str, got: torch.Tensor, want: torch.Tensor) -> compare.Case:
    """Bit equality; the payload and sign of a computed NaN are nobody's promise."""
    both = got.isnan() & want.isnan()
    return compare.exact(name, got.masked_fill(both, 0), want.masked_fill(both, 0))


def _maximum(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """IEEE maxNum: the number where one side is NaN."""
    return torch.where(a.isnan(), b, torch.where(b.isnan(), a, torch.maximum(a, b)))


REFERENCES = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "max": _maximum,
    "select": lambda a, b: torch.where((a <= b) & (a > 0.5), a, -b),
    # the product of two 24-bit significands is exact in float64, and so is its sum with a value of like size
    "fma": lambda a, b: (a.double() * b.double() + a.double()).to(a.dtype),
}


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    plan = [(op, dtype) for dtype in FLOATS for op in ("add", "mul", "select")]
    plan += [("sub", torch.bfloat16), ("max", torch.float16), ("max", torch.float32), ("div", torch.float32)]
    plan += [("fma", torch.float16)]
    cases = []
    for op, dtype in plan:
        n = 3 * BLOCK - 11
        x = (torch.randn(n, generator=generator, dtype=torch.float64) * 4).to(dtype)
        y = torch.randn(n, generator=generator, dtype=torch.float64).to(dtype)
        a, b = _specials(dtype)
        if op == "max":  # which zero wins is not specified
            keep = ~((a == 0) & (b == 0))
            a, b = a[keep], b[keep]
        x[: len(a)], y[: len(b)] = a, b
        out = compare.poisoned((n,), dtype)
        device.launch(binary_kernel, (3,), x=x, y=y, out=out, n=n, OP=op, B=BLOCK)
        cases.append(_equal(f"{op} {dtype}", out, REFERENCES[op](x, y)))
    return cases
