"""Integer arithmetic of every width against Python's integers, wrapped to the type."""

from collections.abc import Callable

import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from tests.flydsl_programs import compare

from .driver import Device

BLOCK = 256
SIZE = 600


@triton.jit
def integer_kernel(x, y, out, n, OP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    a = tl.load(x + i, mask=inside, other=0)
    b = tl.load(y + i, mask=inside, other=1)
    if OP == "mad":
        r = a * b + a - 3
    elif OP == "floordiv":
        r = a // b
    elif OP == "mod":
        r = a % b
    elif OP == "logic":
        r = (a & b) | (a ^ b) ^ (~a)
    elif OP == "shifts":
        r = (a << (b & 7)) ^ (a >> (b & 3))
    elif OP == "clamp":
        r = tl.minimum(tl.maximum(a, b), 100)
    elif OP == "umulhi":
        r = tl.umulhi(a, b)
    elif OP == "div7":
        r = a // 7 + a % 7
    elif OP == "clz":
        r = libdevice.clz(a)
    elif OP == "popc":
        r = libdevice.popc(a)
    elif OP == "bswap":
        r = ((a & 0xFF) << 24) | ((a >> 8) & 0xFF) << 16 | ((a >> 16) & 0xFF) << 8 | ((a >> 24) & 0xFF)
    tl.store(out + i, r, mask=inside)


def _divide(a: int, b: int) -> int:
    """Triton's // of integers rounds toward zero, as C does."""
    magnitude = abs(a) // abs(b)
    return magnitude if (a < 0) == (b < 0) else -magnitude


REFERENCES: dict[str, Callable[[int, int, int], int]] = {
    "mad": lambda a, b, bits: a * b + a - 3,
    "floordiv": lambda a, b, bits: _divide(a, b),
    "mod": lambda a, b, bits: a - b * _divide(a, b),
    "logic": lambda a, b, bits: (a & b) | ((a ^ b) ^ ~a),
    "shifts": lambda a, b, bits: (a << (b & 7)) ^ (a >> (b & 3)),
    "clamp": lambda a, b, bits: min(max(a, b), 100),
    "umulhi": lambda a, b, bits: (a % (1 << bits)) * (b % (1 << bits)) >> bits,
    "div7": lambda a, b, bits: _divide(a, 7) + a - 7 * _divide(a, 7),
    "clz": lambda a, b, bits: bits - (a % (1 << bits)).bit_length(),
    "popc": lambda a, b, bits: (a % (1 << bits)).bit_count(),
    "bswap": lambda a, b, bits: int.from_bytes((a % (1 << 32)).to_bytes(4, "little"), "big"),
}

PLAN = (
    *((op, name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint32", "uint64") for op in ("mad", "mod")),
    *(("floordiv", name) for name in ("int16", "int32", "int64", "uint16", "uint64")),
    *(("logic", name) for name in ("int8", "uint64")),
    *(("shifts", name) for name in ("int8", "int16", "int64", "uint32")),
    *(("clamp", name) for name in ("int8", "int32", "uint16")),
    *(("umulhi", name) for name in ("uint32", "uint64")),
    *(("div7", name) for name in ("int32", "int64")),
    *(("popc", name) for name in ("int32", "int64")),  # popc of 64 bits is a call of a device function
    *((op, "int32") for op in ("clz", "bswap")),
)


def _operands(rng: np.random.Generator, name: str, op: str) -> tuple[np.ndarray, np.ndarray]:
    limits = np.iinfo(name)
    a, b = (rng.integers(limits.min, limits.max, SIZE, dtype=name, endpoint=True) for _ in range(2))
    edges = [limits.min, limits.max, limits.max - 1, 0, 1, 2, 7]
    pairs = np.array([(p, q) for p in edges for q in edges], dtype=name)
    a[: len(pairs)], b[: len(pairs)] = pairs.T
    b[200:400] &= 15  # small divisors and shift counts
    if op in ("floordiv", "mod"):  # undefined in C
        b[b == 0] = 3
        if limits.min:
            b[(a == limits.min) & (b == -1)] = 5
    return a, b


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    rng = np.random.default_rng(int(torch.randint(2**31, (1,), generator=generator)))
    cases = []
    for op, name in device.turn(PLAN):
        a, b = _operands(rng, name, op)
        bits = a.dtype.itemsize * 8
        low = int(np.iinfo(name).min)
        values = [REFERENCES[op](int(p), int(q), bits) for p, q in zip(a, b, strict=True)]
        want = np.array([(v - low) % (1 << bits) + low for v in values], dtype=name)
        x, y = torch.from_numpy(a), torch.from_numpy(b)
        out = torch.from_numpy(np.full(SIZE, 0x5A, name))
        device.launch(integer_kernel, (3,), x=x, y=y, out=out, n=SIZE, OP=op, B=BLOCK)
        cases.append(compare.exact(f"{op} {name}", out, torch.from_numpy(want)))
    return cases
