"""Matrix products: element types, tile shapes, MFMA sizes, operand orders, pipeline depths, batches and tiny tiles."""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from tests.flydsl_programs import compare

from .driver import Device

BF16, F16, F32, F64, I8, I32 = (
    torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int8, torch.int32,
)  # fmt: skip
E4, E5, E4Z, E5Z = torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz
ACCUMULATORS = {I8: tl.int32, F64: tl.float64}


@triton.jit
def gemm_kernel(
    a, b, c, m, n, k, stride_bk, stride_bn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TYPE: tl.constexpr, MASK: tl.constexpr, SILU: tl.constexpr,
):  # fmt: skip
    """C[m, n] = A[m, k] B[k, n]; workgroups go through C in bands of eight tiles for the cache."""
    group = tl.program_id(0)
    across, down = tl.cdiv(n, BN), tl.cdiv(m, BM)
    band = group // (8 * across) * 8
    height = min(down - band, 8)
    tile_m, tile_n = band + group % (8 * across) % height, group % (8 * across) // height
    rows = (tile_m * BM + tl.arange(0, BM)) % m
    columns = (tile_n * BN + tl.arange(0, BN)) % n
    depth = tl.arange(0, BK)
    at_a = a + rows[:, None] * k + depth[None, :]
    at_b = b + depth[:, None] * stride_bk + columns[None, :] * stride_bn
    total = tl.zeros((BM, BN), dtype=TYPE)
    for start in range(tl.cdiv(k, BK)):
        if MASK:
            x = tl.load(at_a, mask=depth[None, :] < k - start * BK, other=0)
            y = tl.load(at_b, mask=depth[:, None] < k - start * BK, other=0)
        else:
            x, y = tl.load(at_a), tl.load(at_b)
        total = tl.dot(x, y, total, out_dtype=TYPE)
        at_a += BK
        at_b += BK * stride_bk
    if SILU:
        total = total * tl.sigmoid(total)
    rows = tile_m * BM + tl.arange(0, BM)
    columns = tile_n * BN + tl.arange(0, BN)
    at_c = c + rows[:, None] * n + columns[None, :]
    tl.store(at_c, total.to(c.dtype.element_ty), mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def persistent_kernel(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tiles = tl.cdiv(m, BM) * tl.cdiv(n, BN)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        rows = tile // tl.cdiv(n, BN) * BM + tl.arange(0, BM)
        columns = tile % tl.cdiv(n, BN) * BN + tl.arange(0, BN)
        depth = tl.arange(0, BK)
        total = tl.zeros((BM, BN), tl.float32)
        for start in range(0, k, BK):
            x = tl.load(a + rows[:, None] * k + depth[None, :] + start, mask=rows[:, None] < m, other=0.0)
            y = tl.load(b + columns[None, :] * k + depth[:, None] + start)
            total = tl.dot(x, y, total)
        at = c + rows[:, None] * n + columns[None, :]
        tl.store(at, total.to(c.dtype.element_ty), mask=rows[:, None] < m)


@triton.jit
def one_tile_kernel(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, TYPE: tl.constexpr):
    x = tl.load(a + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :])
    y = tl.load(b + tl.arange(0, K)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(c + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], tl.dot(x, y, out_dtype=TYPE))


@triton.jit
def batch_kernel(a, b, c, BATCH: tl.constexpr, M: tl.constexpr):
    side = tl.arange(0, M)
    at = tl.arange(0, BATCH)[:, None, None] * M * M + side[None, :, None] * M + side[None, None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))


class Plan(NamedTuple):
    """A product: element types of A, B and C, tile, options, whether B is stored [n, k], ragged shape, epilogue."""

    a: torch.dtype
    b: torch.dtype
    c: torch.dtype
    tile: tuple[int, int, int]
    options: dict[str, Any]
    transposed: bool = True
    ragged: bool = False
    silu: bool = False


def _o(stages: int, mfma: int = 0, **more: Any) -> dict[str, Any]:
    return {"num_stages": stages, "matrix_instr_nonkdim": mfma, **more}


PLANS = (
    *(Plan(BF16, BF16, BF16, (64, 64, 64), options=_o(stages)) for stages in (1, 2, 3)),
    Plan(BF16, BF16, BF16, (128, 64, 32), ragged=True, options=_o(2)),
    Plan(BF16, BF16, BF16, (128, 64, 32), transposed=False, options=_o(2, 16)),
    Plan(BF16, BF16, F32, (64, 128, 32), transposed=False, options=_o(3, 32)),
    Plan(BF16, BF16, BF16, (64, 64, 64), silu=True, options=_o(2)),
    Plan(F16, F16, F16, (64, 64, 64), ragged=True, options=_o(2, 32)),
    Plan(F16, F16, F32, (64, 64, 32), transposed=False, options=_o(1, 16, num_warps=8)),
    Plan(F16, F16, F16, (16, 16, 64), ragged=True, options=_o(2, num_warps=1)),
    Plan(F32, F32, F32, (64, 64, 32), options=_o(2)),
    Plan(F32, F32, F32, (64, 64, 32), transposed=False, options=_o(1, 32)),
    Plan(F64, F64, F64, (32, 32, 16), options=_o(1)),
    Plan(I8, I8, I32, (64, 64, 64), options=_o(2, 16)),
    Plan(I8, I8, I32, (64, 64, 64), transposed=False, options=_o(2, 32)),
    Plan(E4Z, E4Z, BF16, (32, 32, 64), options=_o(2, 16)),
    Plan(E5Z, E4Z, F16, (32, 32, 64), transposed=False, options=_o(1, 32)),
    Plan(E4, E4, BF16, (32, 32, 128), transposed=False, options=_o(1, 16)),
    Plan(E5, E4, F32, (32, 32, 64), transposed=False, options=_o(1, 32)),
)


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.").removeprefix("float8_")


def _values(generator: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype, small: bool) -> torch.Tensor:
    if dtype == I8:
        return torch.randint(-128, 128, shape, generator=generator, dtype=torch.int8)
    if small:
        return compare.small_integers(generator, shape, -3, 3).float().to(dtype)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def _judge(
    name: str, plan: Plan, arch: str, got: torch.Tensor, a: torch.Tensor, b: torch.Tensor, small: bool
) -> compare.Case:
    """Integers must match bit for bit; random values within the bound of a float32 (float64) sum of exact products."""
    if plan.a == I8:
        return compare.exact(name, got, (a.long() @ b.long()).int())
    a, b = a.double(), b.double()
    want = a @ b
    if small and not plan.silu:
        return compare.exact(name, got, want.to(plan.c))
    k = a.shape[1]
    terms = a.abs() @ b.abs()
    bound = compare.dot_bound(terms, k)
    if plan.a == F64:
        return compare.within(name, got, want, compare.LAMBDA * k**0.5 * 2.0**-53 * terms)
    if plan.a == F32 and arch == "gfx942":  # XF32: both factors keep 10 of 23 fraction bits
        bound = bound + 2 * 2.0**-11 * terms
    if plan.silu:  # its slope is below 1.1; exp, addition, division and product round
        want = want * torch.sigmoid(want)
        bound = 1.1 * bound + want.abs() * compare.U32 * (8 + 3 * (a @ b).abs())
    return compare.within(name, got, want, compare.stored(want, bound, plan.c) if plan.c != F32 else bound)


def _product(generator: torch.Generator, device: Device, plan: Plan, small: bool) -> compare.Case:
    bm, bn, bk = plan.tile
    m, n, k = (bm + 5, bn + 9, 3 * bk - 7) if plan.ragged else (bm, 2 * bn, 3 * bk)
    a = _values(generator, (m, k), plan.a, small)
    b = _values(generator, (n, k) if plan.transposed else (k, n), plan.b, small)
    c = compare.poisoned((m, n), plan.c)
    strides = (1, k) if plan.transposed else (n, 1)
    device.launch(
        gemm_kernel, (-(-m // bm) * -(-n // bn),), a=a, b=b, c=c, m=m, n=n, k=k, stride_bk=strides[0],
        stride_bn=strides[1], BM=bm, BN=bn, BK=bk, TYPE=ACCUMULATORS.get(plan.a, tl.float32),
        MASK=plan.ragged, SILU=plan.silu, options=plan.options,
    )  # fmt: skip
    options = " ".join(f"{key}={value}" for key, value in plan.options.items() if value)
    types = "x".join(_dtype_name(t) for t in (plan.a, plan.b))
    order = "nt" if plan.transposed else "nn"
    name = f"gemm {types} to {_dtype_name(plan.c)} {order} {bm}x{bn}x{bk} {options}{' integers' * small}"
    return _judge(name, plan, device.arch, c, a, b.t() if plan.transposed else b, small)


def _persistent(generator: torch.Generator, device: Device) -> compare.Case:
    m, n, k = 150, 128, 96
    a, b = _values(generator, (m, k), BF16, True), _values(generator, (n, k), BF16, True)
    c = compare.poisoned((m, n), BF16)
    device.launch(persistent_kernel, (4,), a=a, b=b, c=c, m=m, n=n, k=k, BM=64, BN=64, BK=32, options=_o(2))
    return compare.exact("persistent gemm", c, (a.double() @ b.double().t()).bfloat16())


def _one_tiles(generator: torch.Generator, device: Device) -> list[compare.Case]:
    cases = []
    for dtype in (F16, BF16, I8, F32, E4Z):
        for m, n, k in ((4, 64, 64), (1, 64, 64), (8, 16, 8), (16, 16, 16)):
            a, b = _values(generator, (m, k), dtype, True), _values(generator, (k, n), dtype, True)
            kind = tl.int32 if dtype == I8 else tl.float32
            c = compare.poisoned((m, n), I32 if dtype == I8 else F32)
            device.launch(one_tile_kernel, (1,), a=a, b=b, c=c, M=m, N=n, K=k, TYPE=kind, options={"num_warps": 1})
            want = (a.double() @ b.double()).to(c.dtype)
            cases.append(compare.exact(f"tile {_dtype_name(dtype)} {m}x{n}x{k}", c, want))
    return cases


def _batch(generator: torch.Generator, device: Device) -> compare.Case:
    a, b = _values(generator, (4, 32, 32), F16, True), _values(generator, (4, 32, 32), F16, True)
    c = compare.poisoned((4, 32, 32), F32)
    device.launch(batch_kernel, (1,), a=a, b=b, c=c, BATCH=4, M=32)
    return compare.exact("batch of products", c, (a.double() @ b.double()).float())


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    return [
        *(_product(generator, device, plan, small) for plan in PLANS for small in (False, True)),
        _persistent(generator, device),
        *_one_tiles(generator, device),
        _batch(generator, device),
    ]
