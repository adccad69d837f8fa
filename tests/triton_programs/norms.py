"""Row softmax, RMSNorm, LayerNorm with its backward pass, and cross entropy."""

import torch
import triton
import triton.language as tl

from tests.flydsl_programs import compare

from .driver import Device


@triton.jit
def softmax_kernel(x, out, stride, n, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    a = tl.load(x + row * stride + i, mask=i < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(a - tl.max(a, 0))
    tl.store(out + row * stride + i, (e / tl.sum(e, 0)).to(out.dtype.element_ty), mask=i < n)


@triton.jit
def norm_kernel(x, w, b, out, mean, rstd, n, eps, CENTRE: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0)
    x += row * n
    out += row * n
    sums = tl.zeros([B], tl.float32)
    for k in range(0, n, B):
        i = k + tl.arange(0, B)
        sums += tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
    centre = tl.sum(sums, 0) / n if CENTRE else 0.0
    squares = tl.zeros([B], tl.float32)
    for k in range(0, n, B):
        i = k + tl.arange(0, B)
        a = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
        a = tl.where(i < n, a - centre, 0.0)
        squares += a * a
    r = tl.rsqrt(tl.sum(squares, 0) / n + eps)
    tl.store(mean + row, centre)
    tl.store(rstd + row, r)
    for k in range(0, n, B):
        i = k + tl.arange(0, B)
        a = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
        y = (a - centre) * r * tl.load(w + i, mask=i < n).to(tl.float32)
        if CENTRE:
            y += tl.load(b + i, mask=i < n).to(tl.float32)
        tl.store(out + i, y.to(out.dtype.element_ty), mask=i < n)


@triton.jit
def norm_backward_kernel(dy, x, w, mean, rstd, dx, dw, n, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    inside = i < n
    a = tl.load(x + row * n + i, mask=inside, other=0.0)
    g = tl.load(dy + row * n + i, mask=inside, other=0.0)
    r = tl.load(rstd + row)
    hat = tl.where(inside, (a - tl.load(mean + row)) * r, 0.0)
    wg = g * tl.load(w + i, mask=inside, other=0.0)
    c1, c2 = tl.sum(hat * wg, 0) / n, tl.sum(wg, 0) / n
    tl.store(dx + row * n + i, (wg - (hat * c1 + c2)) * r, mask=inside)
    tl.atomic_add(dw + i, g * hat, mask=inside)


@triton.jit
def cross_entropy_kernel(x, label, loss, n, B: tl.constexpr):
    row = tl.program_id(0)
    top = -float("inf")
    total = 0.0
    for k in range(0, n, B):
        i = k + tl.arange(0, B)
        a = tl.load(x + row * n + i, mask=i < n, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(top, tl.max(a, 0))
        total = total * tl.exp(top - larger) + tl.sum(tl.exp(a - larger), 0)
        top = larger
    tl.store(loss + row, tl.log(total) + top - tl.load(x + row * n + tl.load(label + row)).to(tl.float32))


def _softmax(generator: torch.Generator, device: Device, dtype: torch.dtype, n: int, waves: int) -> compare.Case:
    rows = 3
    x = (torch.randn(rows, n, generator=generator) * 4).to(dtype)
    out = compare.poisoned((rows, n), dtype)
    block = triton.next_power_of_2(n)
    device.launch(softmax_kernel, (rows,), x=x, out=out, stride=n, n=n, B=block, options={"num_warps": waves})
    exact = x.double()
    want = torch.softmax(exact, 1)
    # exp: a rounded difference, scaled by a rounded log2(e), then 1 ulp; the sum; a division of OpenCL's 2.5 ulp
    distance = (exact - exact.amax(1, keepdim=True)).abs()
    relative = distance * 3 * compare.U32 + 2 * compare.U32 + compare.LAMBDA * n**0.5 * compare.U32 + 5 * compare.U32
    half_step = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps / 2  # of the denormals
    bound = compare.stored(want, want * relative, dtype) + half_step
    return compare.within(f"softmax {dtype} {n}", out, want, bound)


def _norm(generator: torch.Generator, device: Device, dtype: torch.dtype, centre: bool) -> list[compare.Case]:
    rows, n, eps = 3, 1500, 1e-5
    x, w, b = (torch.randn(shape, generator=generator).to(dtype) for shape in ((rows, n), (n,), (n,)))
    out, mean, rstd = compare.poisoned((rows, n), dtype), compare.poisoned((rows,), F32), compare.poisoned((rows,), F32)
    device.launch(
        norm_kernel, (rows,), x=x, w=w, b=b, out=out, mean=mean, rstd=rstd, n=n, eps=eps, CENTRE=centre, B=1024
    )
    exact = x.double()
    mu = exact.mean(1, keepdim=True) if centre else torch.zeros(rows, 1, dtype=torch.float64)
    r = ((exact - mu).square().mean(1, keepdim=True) + float(torch.tensor(eps))).rsqrt()
    want = (exact - mu) * r * w.double() + (b.double() if centre else 0)
    summed = compare.LAMBDA * n**0.5 * compare.U32
    # relative error of r: half that of the mean square, plus division and rsqrt; the mean's error moves (x - mean)
    r_error = summed / 2 + 8 * compare.U32
    mu_error = summed * exact.abs().mean(1, keepdim=True) + 2 * compare.U32 * mu.abs() if centre else 0.0
    scaled = (exact - mu).abs() * r * w.double().abs()
    bound = scaled * (r_error + 8 * compare.U32) + mu_error * r * w.double().abs() + 2 * compare.U32 * want.abs()
    name = f"{'layer' if centre else 'rms'} norm {dtype}"
    return [
        compare.within(f"{name} rstd", rstd, r[:, 0], r[:, 0] * r_error),
        compare.within(name, out, want, compare.stored(want, bound, dtype)),
    ]


F32 = torch.float32


def _norm_backward(generator: torch.Generator, device: Device) -> list[compare.Case]:
    rows, n = 4, 300
    x, dy = torch.randn(rows, n, generator=generator), torch.randn(rows, n, generator=generator)
    w = torch.randn(n, generator=generator)
    mean = x.mean(1)
    rstd = (x - mean[:, None]).square().mean(1).rsqrt()
    dx, dw = compare.poisoned((rows, n), F32), torch.zeros(n)
    device.launch(
        norm_backward_kernel, (rows,), dy=dy, x=x, w=w, mean=mean, rstd=rstd, dx=dx, dw=dw, n=n, B=512,
        options={"num_warps": 8},
    )  # fmt: skip
    exact, g, r = x.double(), dy.double(), rstd.double()[:, None]
    hat = (exact - mean.double()[:, None]) * r
    wg = g * w.double()
    want = (wg - hat * (hat * wg).mean(1, keepdim=True) - wg.mean(1, keepdim=True)) * r
    summed = compare.LAMBDA * n**0.5 * compare.U32
    sizes = wg.abs() + hat.abs() * (hat * wg).abs().mean(1, keepdim=True) + wg.abs().mean(1, keepdim=True)
    # x - mean loses relative accuracy where they are close: an absolute error of one rounding of x
    bound = (summed + 8 * compare.U32) * sizes * r
    terms = g * hat
    return [
        compare.within("layer norm backward dx", dx, want, bound),
        compare.within("layer norm backward dw", dw, terms.sum(0), (rows + 4) * compare.U32 * terms.abs().sum(0)),
    ]


def _cross_entropy(generator: torch.Generator, device: Device) -> compare.Case:
    rows, n, block = 2, 3000, 1024
    x = (torch.randn(rows, n, generator=generator) * 3).bfloat16()
    label = torch.tensor([17, n - 1])
    loss = compare.poisoned((rows,), F32)
    device.launch(cross_entropy_kernel, (rows,), x=x, label=label, loss=loss, n=n, B=block)
    exact = x.double()
    want = torch.nn.functional.cross_entropy(exact, label, reduction="none")
    # the logarithm turns the relative error of the sum into an absolute one; then log, addition and subtraction round
    distance = (exact - exact.amax(1, keepdim=True)).abs().amax(1)
    of_sum = distance * 3 * compare.U32 + compare.LAMBDA * n**0.5 * compare.U32
    sizes = exact.abs().amax(1) + torch.logsumexp(exact, 1).abs() + want.abs()
    return compare.within("cross entropy", loss, want, of_sum + 4 * compare.U32 * sizes)


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    return [
        _softmax(generator, device, torch.float32, 200, 1),
        _softmax(generator, device, torch.float16, 1000, 4),
        _softmax(generator, device, torch.bfloat16, 4096, 16),
        *_norm(generator, device, torch.bfloat16, centre=False),
        *_norm(generator, device, torch.float16, centre=True),
        *_norm_backward(generator, device),
        _cross_entropy(generator, device),
    ]
