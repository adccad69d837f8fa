"""Conversions among all float and integer types; every value of the 8-bit floats."""

import numpy as np
import torch
import triton
import triton.language as tl

from tests.flydsl_programs import compare

from .driver import TYPE_NAMES, Device

BLOCK = 512
SIZE = 1300
NAMES = {name: dtype for dtype, name in TYPE_NAMES.items()}
TRITON_TYPES = {
    "fp16": tl.float16, "bf16": tl.bfloat16, "fp32": tl.float32, "fp64": tl.float64,
    "i8": tl.int8, "i16": tl.int16, "i32": tl.int32, "i64": tl.int64,
    "u8": tl.uint8, "u32": tl.uint32, "u64": tl.uint64,
    "fp8e4nv": tl.float8e4nv, "fp8e5": tl.float8e5, "fp8e4b8": tl.float8e4b8, "fp8e5b16": tl.float8e5b16,
}  # fmt: skip
EIGHT_BIT = ("fp8e4nv", "fp8e5", "fp8e4b8", "fp8e5b16")


@triton.jit
def convert_kernel(x, out, n, TYPE: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n)
    tl.store(out + i, a.to(TYPE), mask=i < n)


def _floats(generator: torch.Generator, source: str, target: str) -> torch.Tensor:
    """Magnitudes over the range that both types hold, of both signs, and zeros."""
    ranges = [torch.finfo(NAMES[t]) for t in (source, target)]
    low, high = max(r.smallest_normal for r in ranges), min(r.max for r in ranges)
    exponent = torch.rand(SIZE, generator=generator, dtype=torch.float64)
    spread = torch.log2(torch.tensor([low, high], dtype=torch.float64))
    values = torch.exp2(spread[0] + exponent * (spread[1] - spread[0] - 1))
    values[:2] = 0.0
    return (values * (1 - 2 * (torch.arange(SIZE) % 2))).to(NAMES[source])


def _float_to_float(generator: torch.Generator, device: Device, source: str, target: str) -> compare.Case:
    if source in EIGHT_BIT:
        x = torch.arange(256, dtype=torch.uint8).view(NAMES[source])
        x = x[x.float().isfinite()]
    else:
        x = _floats(generator, source, target)
    out = compare.poisoned(x.shape, NAMES[target])
    device.launch(convert_kernel, (-(-len(x) // BLOCK),), x=x, out=out, n=len(x), TYPE=TRITON_TYPES[target], B=BLOCK)
    # PyTorch converts by way of float32, which rounds twice from float64: NumPy does not.
    twice = (source, target) == ("fp64", "fp16")
    want = torch.from_numpy(x.numpy().astype(np.float16)) if twice else x.to(NAMES[target])
    return compare.exact(f"{source} to {target}", out, want)


def _numpy_name(name: str) -> str:
    return str(NAMES[name]).removeprefix("torch.")


def _float_to_integer(generator: torch.Generator, device: Device, source: str, target: str) -> compare.Case:
    info = np.iinfo(_numpy_name(target))
    largest = min(float(info.max) / 2, float(torch.finfo(NAMES[source]).max) / 2)
    x = (torch.rand(SIZE, generator=generator, dtype=torch.float64) * largest).to(NAMES[source])
    x[: SIZE // 2] = (torch.rand(SIZE // 2, generator=generator, dtype=torch.float64) * 100).to(NAMES[source])
    if info.min:
        x = torch.where(torch.arange(SIZE) % 3 == 0, -x, x)
    out = torch.from_numpy(np.full(SIZE, 0x5A, _numpy_name(target)))
    device.launch(convert_kernel, (-(-SIZE // BLOCK),), x=x, out=out, n=SIZE, TYPE=TRITON_TYPES[target], B=BLOCK)
    want = np.trunc(x.double().numpy()).astype(_numpy_name(target))
    return compare.exact(f"{source} to {target}", out, torch.from_numpy(want))


def _integer_to_float(generator: torch.Generator, device: Device, source: str, target: str) -> compare.Case:
    info = np.iinfo(_numpy_name(source))
    rng = np.random.default_rng(int(torch.randint(2**31, (1,), generator=generator)))
    values = rng.integers(info.min, info.max, SIZE, dtype=_numpy_name(source), endpoint=True)
    values[: SIZE // 2] //= 1 << (info.bits // 2)
    values[:3] = [info.min, info.max, 1]
    x = torch.from_numpy(values)
    out = compare.poisoned((SIZE,), NAMES[target])
    device.launch(convert_kernel, (-(-SIZE // BLOCK),), x=x, out=out, n=SIZE, TYPE=TRITON_TYPES[target], B=BLOCK)
    return compare.exact(f"{source} to {target}", out, torch.from_numpy(values.astype(_numpy_name(target))))


FLOAT_PAIRS = (
    *((a, b) for a in ("fp16", "bf16", "fp32") for b in ("fp16", "bf16", "fp32", "fp64") if a != b),
    ("fp64", "fp32"),
    ("fp64", "fp16"),
    *((small, wide) for small in EIGHT_BIT for wide in ("fp16", "fp32", "bf16")),
    *((wide, small) for small in EIGHT_BIT for wide in ("fp16", "fp32", "bf16")),
)
TO_INTEGER = (("fp32", "i32"), ("fp32", "u8"), ("fp16", "i16"), ("bf16", "i8"), ("fp64", "i64"), ("fp32", "u64"))
FROM_INTEGER = (("i32", "fp32"), ("u32", "fp32"), ("i64", "fp32"), ("u64", "fp64"), ("i8", "fp16"), ("i16", "fp32"))


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    return [
        *(_float_to_float(generator, device, *pair) for pair in FLOAT_PAIRS),
        *(_float_to_integer(generator, device, *pair) for pair in device.turn(TO_INTEGER)),
        *(_integer_to_float(generator, device, *pair) for pair in device.turn(FROM_INTEGER)),
    ]
