"""Buffer descriptors that clamp: a shifted read returns zeros past the end, a store past it is dropped."""

# ruff: noqa: B008 - FlyDSL reads a default stream as the parameter's kind

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from flydsl.expr import rocdl

from . import compare

RELIES_ON_CLAMP = True  # reads past the end return zeros, stores past it vanish, on purpose

THREADS = 64
WIDTH = 4
BLOCK = THREADS * WIDTH


@flyc.kernel
def shift_kernel(source: fx.Pointer, target: fx.Pointer, n: fx.Int32, shift: fx.Int32):
    first = fx.block_idx.x * BLOCK + fx.thread_idx.x * WIDTH
    size = fx.Int64(n) * 4
    reader = rocdl.make_buffer_ptr(source, num_records_bytes=size)
    writer = rocdl.make_buffer_ptr(target, num_records_bytes=size)
    one = fx.make_layout(1, 1)
    scalar = fx.make_copy_atom(rocdl.BufferCopy32b(), fx.Float32)
    wide = fx.make_copy_atom(rocdl.BufferCopy128b(), fx.Float32)
    values = []
    for i in fx.range_constexpr(WIDTH):
        register = fx.make_rmem_tensor(1, fx.Float32)
        # Not through the copy's `soffset`: the range check need not count that in.
        fx.copy_atom_call(scalar, fx.make_view(reader + (first + shift + i), one), register)
        values.append(register.load()[0])
    out = fx.make_rmem_tensor(WIDTH, fx.Float32)
    out.store(fx.Vector.from_elements(values, fx.Float32))
    fx.copy_atom_call(wide, out, fx.make_view(writer + first, fx.make_layout(WIDTH, 1)))


@flyc.jit
def shift_left(
    source: fx.Pointer, target: fx.Pointer, n: fx.Int32, shift: fx.Int32, stream: fx.Stream = fx.Stream(None)
):
    shift_kernel(source, target, n, shift).launch(
        grid=((n + BLOCK - 1) // BLOCK, 1, 1), block=(THREADS, 1, 1), stream=stream
    )


def run(generator: torch.Generator) -> list[compare.Case]:
    """``target[i] = source[i + shift]``, zero past the end; what follows the target stays as it was."""
    cases = []
    f32 = flyc.from_c_void_p(fx.Float32, None, assumed_align=16)
    program = flyc.compile(shift_left, f32, f32, 1, 0, fx.Stream(None))
    for n, shift in ((500, 0), (500, 7), (301, 400), (12, 3)):
        source = torch.randn(n + 64, generator=generator)
        target = torch.full((n + 64,), -7.0)
        program(source.data_ptr(), target.data_ptr(), n, shift, None)
        want = torch.full((n + 64,), -7.0)
        # A 16-byte store that crosses the end is dropped word by word, so every word inside is written.
        want[:n] = torch.cat((source[shift:n], torch.zeros(min(shift, n))))
        cases.append(compare.exact(f"shift n={n} by {shift}", target, want))
    return cases
