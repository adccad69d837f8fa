"""Data movement: transposes through LDS, gathers, scatters, joins, splits, tensor descriptors, cache modifiers."""

import torch
import triton
import triton.language as tl

from tests.flydsl_programs import compare

from .driver import Device


@triton.jit
def transpose_kernel(x, out, m, n, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tile = tl.load(x + rows[:, None] * n + columns[None, :], mask=inside)
    tl.store(out + columns[:, None] * m + rows[None, :], tl.trans(tile), mask=tl.trans(inside))


@triton.jit
def rows_kernel(x, index, out, n, width, SCATTER: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0)
    other = tl.load(index + row)
    i = tl.arange(0, B)
    inside = (i < width) & (other >= 0) & (other < n)
    if SCATTER:
        tl.store(out + other * width + i, tl.load(x + row * width + i, mask=i < width), mask=inside)
    else:
        tl.store(out + row * width + i, tl.load(x + other * width + i, mask=inside, other=0.0), mask=i < width)


@triton.jit
def elements_kernel(x, index, out, n, B: tl.constexpr, CACHE: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    at = tl.load(index + i, mask=i < n, other=0)
    tl.store(out + i, tl.load(x + at, mask=i < n, cache_modifier=CACHE), mask=i < n)


@triton.jit
def gather_kernel(x, index, out, AXIS: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(index + at), AXIS))


@triton.jit
def weave_kernel(x, woven, mixed, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(x + B + i)
    tl.store(woven + tl.arange(0, 2 * B), tl.interleave(a, b))
    left, right = tl.split(tl.join(a, b))
    tl.store(mixed + i, right + tl.flip(left, 0))


@triton.jit
def permute_kernel(x, out, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    i, j, k = tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
    cube = tl.load(x + i[:, None, None] * (B * C) + j[None, :, None] * C + k[None, None, :])
    turned = tl.permute(cube, (2, 0, 1))
    tl.store(out + k[:, None, None] * (A * B) + i[None, :, None] * B + j[None, None, :], turned)


@triton.jit
def descriptor_copy_kernel(x, out, m, n, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    target = tl.make_tensor_descriptor(out, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    row = tl.program_id(0) * BM
    for column in range(0, n, BN):
        target.store([row, column], source.load([row, column]))


@triton.jit
def copy_kernel(x, out, n, LOAD: tl.constexpr, STORE: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n, cache_modifier=LOAD), mask=i < n, cache_modifier=STORE)


@triton.jit
def shifted_kernel(x, out, first, B: tl.constexpr):
    """Its offsets are negative in a register and made positive by the instruction's own offset."""
    i = first + tl.arange(0, B)
    tl.store(out + i + 8, tl.load(x + i + 8) + 1)


@triton.jit
def rope_kernel(x, cosine, sine, out, D: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, D // 2)
    a = tl.load(x + row * D + i).to(tl.float32)
    b = tl.load(x + row * D + D // 2 + i).to(tl.float32)
    c, s = tl.load(cosine + row * D // 2 + i), tl.load(sine + row * D // 2 + i)
    tl.store(out + row * D + i, (a * c - b * s).to(out.dtype.element_ty))
    tl.store(out + row * D + D // 2 + i, (b * c + a * s).to(out.dtype.element_ty))


def _random(generator: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return (torch.randn(shape, generator=generator) * 30).to(dtype)


def _transposes(generator: torch.Generator, device: Device) -> list[compare.Case]:
    cases = []
    for dtype, block in ((torch.float32, 32), (torch.bfloat16, 64), (torch.int8, 64), (torch.float64, 32)):
        m, n = 2 * block - 5, block + 3
        x = _random(generator, (m, n), dtype)
        out = compare.poisoned((n, m), dtype)
        device.launch(transpose_kernel, (2, 2), x=x, out=out, m=m, n=n, BM=block, BN=block)
        cases.append(compare.exact(f"transpose {dtype}", out, x.t().contiguous()))
    return cases


def _rows(generator: torch.Generator, device: Device) -> list[compare.Case]:
    cases = []
    n, width = 9, 1000
    for scatter, index_type in ((False, torch.int32), (True, torch.int64)):
        x = _random(generator, (n, width), torch.bfloat16)
        order = [3, 8, 0, -1, 5, 1, 2, 7, 4]
        out = torch.zeros_like(x) if scatter else compare.poisoned((n, width), torch.bfloat16)
        index = torch.tensor(order, dtype=index_type)
        device.launch(rows_kernel, (n,), x=x, index=index, out=out, n=n, width=width, SCATTER=scatter, B=1024)
        want = torch.zeros_like(x)
        for row, other in enumerate(order):
            if other >= 0:
                want[other if scatter else row] = x[row if scatter else other]
        cases.append(compare.exact(f"{'scatter' if scatter else 'gather'} rows {index_type}", out, want))
    return cases


def _elements(generator: torch.Generator, device: Device) -> list[compare.Case]:
    cases = []
    n = 600
    for dtype, cache in ((torch.int8, ""), (torch.float16, ".cg"), (torch.int64, ".cv")):
        x = _random(generator, (999,), dtype)
        index = torch.randint(0, 999, (n,), generator=generator)
        out = compare.poisoned((n,), dtype)
        device.launch(elements_kernel, (3,), x=x, index=index, out=out, n=n, B=256, CACHE=cache)
        cases.append(compare.exact(f"gather elements {dtype} {cache}", out, x[index]))
    for axis in (0, 1):
        x = torch.randn(32, 64, generator=generator)
        index = torch.randint(0, x.shape[axis], (32, 64), generator=generator)
        out = compare.poisoned((32, 64), torch.float32)
        device.launch(gather_kernel, (1,), x=x, index=index.int(), out=out, AXIS=axis, M=32, N=64)
        cases.append(compare.exact(f"tl.gather axis {axis}", out, torch.gather(x, axis, index)))
    return cases


def _shapes(generator: torch.Generator, device: Device) -> list[compare.Case]:
    cases = []
    for dtype in (torch.float16, torch.int8):
        x = _random(generator, (512,), dtype)
        woven, mixed = compare.poisoned((512,), dtype), compare.poisoned((256,), dtype)
        device.launch(weave_kernel, (1,), x=x, woven=woven, mixed=mixed, B=256)
        a, b = x[:256], x[256:]
        cases.append(compare.exact(f"interleave {dtype}", woven, torch.stack([a, b], 1).reshape(-1)))
        cases.append(compare.exact(f"split, flip {dtype}", mixed, b + a.flip(0)))
    x = _random(generator, (8, 16, 32), torch.bfloat16)
    out = compare.poisoned((32, 8, 16), torch.bfloat16)
    device.launch(permute_kernel, (1,), x=x, out=out, A=8, B=16, C=32)
    cases.append(compare.exact("permute", out, x.permute(2, 0, 1).contiguous()))
    x = _random(generator, (50, 100), torch.float32)
    out = compare.poisoned((50, 100), torch.float32)
    device.launch(descriptor_copy_kernel, (4,), x=x, out=out, m=50, n=100, BM=16, BN=32)
    cases.append(compare.exact("tensor descriptors", out, x))
    for load, store in ((".ca", ".wb"), (".cv", ".wt"), (".cg", ".cs")):
        x = torch.randn(900, generator=generator)
        out = compare.poisoned((900,), torch.float32)
        device.launch(copy_kernel, (1,), x=x, out=out, n=900, LOAD=load, STORE=store, B=1024)
        cases.append(compare.exact(f"copy {load} {store}", out, x))
    return cases


def _shifted(generator: torch.Generator, device: Device) -> compare.Case:
    x = torch.randn(264, generator=generator)
    out = compare.poisoned((264,), torch.float32)
    want = torch.where(torch.arange(264) < 256, x + 1, out)
    device.launch(shifted_kernel, (1,), x=x, out=out, first=-8, B=256, within_2gb=True, options={"num_warps": 1})
    return compare.exact("offsets below zero", out, want)


def _rope(generator: torch.Generator, device: Device) -> compare.Case:
    rows, d = 5, 128
    x = torch.randn(rows, d, generator=generator).bfloat16()
    angle = torch.rand(rows, d // 2, generator=generator) * 6
    c, s = angle.cos(), angle.sin()
    out = compare.poisoned((rows, d), torch.bfloat16)
    device.launch(rope_kernel, (rows,), x=x, cosine=c, sine=s, out=out, D=d, options={"num_warps": 1})
    a, b, c, s = x[:, : d // 2].double(), x[:, d // 2 :].double(), c.double(), s.double()
    want = torch.cat([a * c - b * s, b * c + a * s], 1)
    sizes = torch.cat([(a * c).abs() + (b * s).abs(), (b * c).abs() + (a * s).abs()], 1)
    return compare.within("rope", out, want, compare.stored(want, 2 * compare.U32 * sizes, torch.bfloat16))


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    return [
        *_transposes(generator, device),
        *_rows(generator, device),
        *_elements(generator, device),
        *_shapes(generator, device),
        _shifted(generator, device),
        _rope(generator, device),
    ]
