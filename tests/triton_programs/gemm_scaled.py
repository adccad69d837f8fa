"""Microscaled products, OCP MX formats: native on gfx950, widened to bf16 on gfx942. Scales are powers of two."""

import torch
import triton
import triton.language as tl

from tests.flydsl_programs import compare

from .driver import Device

GROUP = 32
"""Elements along K that share a scale."""
E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], dtype=torch.float64)
"""Magnitudes of the 4-bit float, OCP Microscaling Formats specification 1.0."""
STORED = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "bf16": torch.bfloat16, "fp16": torch.float16}


@triton.jit
def scaled_kernel(
    a, scale_a, b, scale_b, c, n, k, FORMAT_A: tl.constexpr, FORMAT_B: tl.constexpr, SCALED_A: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """C = (A * scale_a) (B * scale_b)^T with A [m, k], B [n, k]; two 4-bit elements share a byte along K."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    PACK_A: tl.constexpr = 2 if FORMAT_A == "e2m1" else 1
    PACK_B: tl.constexpr = 2 if FORMAT_B == "e2m1" else 1
    depth_a, depth_b, groups = tl.arange(0, BK // PACK_A), tl.arange(0, BK // PACK_B), tl.arange(0, BK // 32)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        x = tl.load(a + rows[:, None] * (k // PACK_A) + start // PACK_A + depth_a[None, :])
        y = tl.load(b + columns[None, :] * (k // PACK_B) + start // PACK_B + depth_b[:, None])
        sb = tl.load(scale_b + columns[:, None] * (k // 32) + start // 32 + groups[None, :])
        if SCALED_A:
            sa = tl.load(scale_a + rows[:, None] * (k // 32) + start // 32 + groups[None, :])
            total = tl.dot_scaled(x, sa, FORMAT_A, y, sb, FORMAT_B, total)
        else:
            total = tl.dot_scaled(x, None, FORMAT_A, y, sb, FORMAT_B, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total)


def _operand(generator: torch.Generator, rows: int, k: int, kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The stored tensor and its float64 values."""
    if kind == "e2m1":
        codes = torch.randint(0, 16, (rows, k), generator=generator)
        values = E2M1[codes & 7] * torch.where(codes >= 8, -1.0, 1.0)
        return (codes[:, 0::2] | codes[:, 1::2] << 4).to(torch.uint8), values
    stored = torch.randn(rows, k, generator=generator).to(STORED[kind])
    return stored, stored.double()


def _scales(generator: torch.Generator, rows: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    codes = torch.randint(120, 135, (rows, k // GROUP), generator=generator)
    return codes.to(torch.uint8), torch.exp2(codes.double() - 127).repeat_interleave(GROUP, 1)


PLAN = (
    ("e2m1", "e2m1", 16),
    ("e4m3", "e4m3", 16),
    ("e5m2", "e4m3", 16),
    ("e5m2", "e2m1", 16),
    ("e2m1", "e2m1", 32),
    ("e4m3", "e5m2", 32),
    ("bf16", "e2m1", 0),
    ("fp16", "e2m1", 0),
)
"""Formats of A and B (without scales where 16 bits wide), side of the MFMA tile."""


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    cases = []
    m, n, k = 32, 32, 256
    depth = 128 if device.arch == "gfx950" else 64  # of one native product; widened ones take any
    for kind_a, kind_b, mfma in PLAN:
        scaled_a = kind_a not in ("bf16", "fp16")
        a, values_a = _operand(generator, m, k, kind_a)
        b, values_b = _operand(generator, n, k, kind_b)
        scale_a, factors_a = _scales(generator, m, k)
        scale_b, factors_b = _scales(generator, n, k)
        c = compare.poisoned((m, n), torch.float32)
        device.launch(
            scaled_kernel, (1, 1), a=a, scale_a=scale_a, b=b, scale_b=scale_b, c=c, n=n, k=k, FORMAT_A=kind_a,
            FORMAT_B=kind_b, SCALED_A=scaled_a, BM=32, BN=32, BK=depth,
            options={"num_stages": 2, **({"matrix_instr_nonkdim": mfma} if mfma else {})},
        )  # fmt: skip
        left = values_a * factors_a if scaled_a else values_a
        right = (values_b * factors_b).t()
        # scaling by a power of two is exact, also in bf16: only the float32 sum rounds
        bound = compare.dot_bound(left.abs() @ right.abs(), k)
        cases.append(compare.within(f"scaled {kind_a} x {kind_b} mfma {mfma}", c, left @ right, bound))
    return cases
