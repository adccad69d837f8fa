"""Elementary functions, within what OpenCL allows them.

Triton takes them from ROCm's device library, whose functions keep the bounds of the OpenCL C specification, table "ULP
values for single precision built-in math functions" (and double precision). Its double-double arithmetic needs every
product and sum rounded on its own, so fusion is off here: with it the compiler contracts sums of a product's two
halves, and the sine of a large float64 loses half of its digits.
"""

from collections.abc import Callable

import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from tests.flydsl_programs import compare

from .driver import Device

BLOCK = 256
SIZE = 700
ULP = {torch.float32: 2.0**-23, torch.float64: 2.0**-52}
"""Largest unit in the last place relative to the value."""


@triton.jit
def math_kernel(x, out, n, OP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    a = tl.load(x + i, mask=inside, other=1)
    if OP == "exp":
        r = tl.exp(a)
    elif OP == "exp2":
        r = tl.exp2(a)
    elif OP == "log":
        r = tl.log(a)
    elif OP == "log2":
        r = tl.log2(a)
    elif OP == "sin":
        r = tl.sin(a)
    elif OP == "cos":
        r = tl.cos(a)
    elif OP == "erf":
        r = tl.erf(a)
    elif OP == "rsqrt":
        r = tl.rsqrt(a)
    elif OP == "sqrt":
        r = tl.sqrt_rn(a) if a.dtype == tl.float32 else tl.sqrt(a)
    elif OP == "floor":
        r = tl.floor(a)
    elif OP == "ceil":
        r = tl.ceil(a)
    elif OP == "rint":
        r = libdevice.rint(a)
    elif OP == "trunc":
        r = libdevice.trunc(a)
    elif OP == "tanh":
        r = libdevice.tanh(a)
    elif OP == "pow":
        r = libdevice.pow(a, 1.7)
    elif OP == "fmod":
        r = libdevice.fmod(a, 0.75)
    elif OP == "atan":
        r = libdevice.atan(a)
    elif OP == "tan":
        r = libdevice.tan(a)
    elif OP == "sinh":
        r = libdevice.sinh(a)
    elif OP == "expm1":
        r = libdevice.expm1(a)
    elif OP == "log1p":
        r = libdevice.log1p(a)
    tl.store(out + i, r, mask=inside)


Maker = Callable[[torch.Generator], torch.Tensor]


def _normal(scale: float) -> Maker:
    return lambda generator: torch.randn(SIZE, generator=generator, dtype=torch.float64) * scale


def _decades(low: float, high: float, signed: bool = False) -> Maker:
    def make(generator: torch.Generator) -> torch.Tensor:
        values = 10.0 ** (low + (high - low) * torch.rand(SIZE, generator=generator, dtype=torch.float64))
        return torch.where(torch.arange(SIZE) % 2 == 0, -values, values) if signed else values

    return make


F32, F64 = torch.float32, torch.float64
PLAN: tuple[tuple[str, torch.dtype, Callable[[torch.Tensor], torch.Tensor], float, Maker], ...] = (
    ("exp2", F32, torch.exp2, 3, _normal(30)),
    ("log", F32, torch.log, 3, _decades(-37, 38)),
    ("log2", F32, torch.log2, 3, _decades(-37, 38)),
    ("sin", F32, torch.sin, 4, _decades(-3, 12, signed=True)),
    ("cos", F32, torch.cos, 4, _decades(-3, 12, signed=True)),
    ("erf", F32, torch.erf, 16, _normal(1)),
    ("rsqrt", F32, torch.rsqrt, 2, _decades(-37, 38)),
    ("sqrt", F32, torch.sqrt, 0.5, _decades(-44, 38)),
    ("floor", F32, torch.floor, 0, _normal(5)),
    ("ceil", F32, torch.ceil, 0, _normal(5)),
    ("rint", F32, torch.round, 0, _normal(5)),
    ("trunc", F32, torch.trunc, 0, _normal(5)),
    ("tanh", F32, torch.tanh, 5, _normal(2)),
    ("pow", F32, lambda a: a ** float(torch.tensor(1.7)), 16, _decades(-20, 20)),
    ("fmod", F32, lambda a: torch.fmod(a, torch.tensor(0.75, dtype=F64)), 0, _normal(100)),
    ("atan", F32, torch.atan, 5, _normal(3)),
    ("tan", F32, torch.tan, 5, _decades(-3, 6, signed=True)),
    ("sinh", F32, torch.sinh, 4, _normal(3)),
    ("expm1", F32, torch.expm1, 3, _normal(2)),
    ("log1p", F32, torch.log1p, 2, _decades(-6, 6)),
    ("exp", F64, torch.exp, 3, _normal(100)),
    ("log", F64, torch.log, 3, _decades(-300, 300)),
    ("sin", F64, torch.sin, 4, _decades(-3, 14, signed=True)),
    ("erf", F64, torch.erf, 16, _normal(1)),
    ("sqrt", F64, lambda a: torch.from_numpy(np.sqrt(a.numpy())), 0.5, _decades(-300, 300)),
    ("rsqrt", F64, torch.rsqrt, 2, _decades(-300, 300)),
    ("floor", F64, torch.floor, 0, _normal(5)),
    ("tanh", F64, torch.tanh, 5, _normal(2)),
)
"""Function, type, reference, allowed units in the last place, arguments.

PyTorch's float64 square root of a tensor is a unit off now and then; NumPy's is IEEE's.
"""


def _exp_bound(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """tl.exp of float32 is the hardware's exp2 (1 ulp) of x times log2(e): constant and product are rounded.

    A relative error of the exponent e is an absolute one of |x| * log2(e) * e, of which exp2 makes ln 2 times as much.
    """
    return y * (x.abs() * 2 * compare.U32 + ULP[F32])


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    cases = []
    for op, dtype, reference, ulps, make in device.turn(PLAN):
        x = make(generator).to(dtype)
        out = compare.poisoned((SIZE,), dtype)
        options = {"enable_fp_fusion": False}
        device.launch(math_kernel, (-(-SIZE // BLOCK),), x=x, out=out, n=SIZE, OP=op, B=BLOCK, options=options)
        want = reference(x.double())
        # PyTorch's own float64 function may be off by one unit, which matters where the result is float64 too.
        slack = ULP[F64] if dtype is F64 and ulps > 0.5 else 0.0
        cases.append(compare.within(f"{op} {dtype}", out, want, want.abs() * (ulps * ULP[dtype] + slack)))
    x = (torch.randn(SIZE, generator=generator) * 20).clamp(-80, 80)
    out = compare.poisoned((SIZE,), F32)
    device.launch(math_kernel, (-(-SIZE // BLOCK),), x=x, out=out, n=SIZE, OP="exp", B=BLOCK)
    want = torch.exp(x.double())
    cases.append(compare.within("exp torch.float32", out, want, _exp_bound(x.double(), want)))
    return cases
