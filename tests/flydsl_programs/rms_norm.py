"""y = x / sqrt(mean(x^2) + eps) * w: a workgroup a row, bf16, block reduction through LDS."""

# ruff: noqa: B008 - FlyDSL reads a default stream as the parameter's kind

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from flydsl.expr import gpu, range_constexpr, rocdl

from . import compare

RELIES_ON_CLAMP = True  # reads past the end return zeros, stores past it vanish, on purpose

THREADS = 256
WAVES = THREADS // 64
WIDTH = 8


@fx.struct
class Partials:
    sums: fx.Array[fx.Float32, WAVES, 16]


def make(columns: int):
    """Launcher for rows of `columns` bf16 elements (a multiple of 8)."""
    chunks = (columns + THREADS * WIDTH - 1) // (THREADS * WIDTH)

    @flyc.kernel
    def rms_norm_kernel(x: fx.Pointer, w: fx.Pointer, y: fx.Pointer, eps: fx.Float32):
        lane, wave = fx.thread_idx.x % 64, fx.thread_idx.x // 64
        row = fx.Int64(fx.block_idx.x) * columns
        source = rocdl.make_buffer_ptr(x + row, num_records_bytes=columns * 2)
        target = rocdl.make_buffer_ptr(y + row, num_records_bytes=columns * 2)
        weight = rocdl.make_buffer_ptr(w, num_records_bytes=columns * 2)
        atom = fx.make_copy_atom(rocdl.BufferCopy128b(), fx.BFloat16)
        eight = fx.make_layout(WIDTH, 1)

        def load(pointer, column):
            register = fx.make_rmem_tensor(WIDTH, fx.BFloat16)
            fx.copy_atom_call(atom, fx.make_view(pointer + column, eight), register)
            return register.load().to(fx.Float32)

        # Past the row's end the descriptor returns zeros, which leave the sum alone.
        at = [(i * THREADS + fx.thread_idx.x) * WIDTH for i in range_constexpr(chunks)]
        values = [load(source, column) for column in at]
        total = fx.Float32(0.0)
        for v in values:
            total = total + (v * v).reduce(fx.ReductionOp.ADD)
        total = fx.coop.warp_reduce(total, fx.ReductionOp.ADD)

        partials = fx.SharedAllocator().allocate(Partials).peek().sums
        if lane == 0:
            partials[wave] = total
        gpu.barrier()
        row_sum = partials[0]
        for i in range_constexpr(1, WAVES):
            row_sum = row_sum + partials[i]
        scale = fx.Float32(rocdl.rsq(fx.Float32.ir_type, (row_sum / float(columns) + eps).ir_value()))

        for i in range_constexpr(chunks):
            register = fx.make_rmem_tensor(WIDTH, fx.BFloat16)
            register.store((values[i] * scale * load(weight, at[i])).to(fx.BFloat16))
            fx.copy_atom_call(atom, register, fx.make_view(target + at[i], eight))

    @flyc.jit
    def rms_norm(
        x: fx.Pointer,
        w: fx.Pointer,
        y: fx.Pointer,
        rows: fx.Int32,
        eps: fx.Float32,
        stream: fx.Stream = fx.Stream(None),
    ):
        rms_norm_kernel(x, w, y, eps).launch(grid=(rows, 1, 1), block=(THREADS, 1, 1), stream=stream)

    return rms_norm


def _reference(x: torch.Tensor, w: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Float64 result and its bound.

    The sum of N squares is off by a factor 1 + LAMBDA*sqrt(N)*u, whose root halves it; rsq and the
    division by N add 2 ulp (1 ulp each, an ulp being 2u), the two products one u each.
    """
    n = x.shape[1]
    rms = (x.double().square().mean(1, keepdim=True) + eps).sqrt()
    y = x.double() / rms * w.double()
    relative = (compare.LAMBDA * n**0.5 / 2 + 6) * compare.U32
    return y, compare.stored(y, relative * y.abs(), torch.bfloat16)


def run(generator: torch.Generator) -> list[compare.Case]:
    cases = []
    bf16 = flyc.from_c_void_p(fx.BFloat16, None, assumed_align=16)
    for rows, columns in ((3, 1000), (2, 4096)):
        program = flyc.compile(make(columns), bf16, bf16, bf16, 1, 1e-6, fx.Stream(None))
        x = torch.randn(rows, columns, generator=generator).bfloat16()
        w = torch.randn(columns, generator=generator).bfloat16()
        y = compare.poisoned((rows, columns), torch.bfloat16)
        program(x.data_ptr(), w.data_ptr(), y.data_ptr(), rows, 1e-6, None)
        cases.append(compare.within(f"rms_norm {rows}x{columns}", y, *_reference(x, w, 1e-6)))
    return cases
