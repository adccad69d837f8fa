"""c = a + b with a ragged tail: four floats a lane, then predicated single floats."""

# ruff: noqa: B008 - FlyDSL reads a default stream as the parameter's kind

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch

from . import compare

THREADS = 128
WIDTH = 4
BLOCK = THREADS * WIDTH


@flyc.kernel
def vector_add_kernel(a: fx.Pointer, b: fx.Pointer, c: fx.Pointer, n: fx.Int32):
    first = fx.block_idx.x * BLOCK + fx.thread_idx.x * WIDTH
    if first + WIDTH <= n:
        total = fx.generic_load(a + first, count=WIDTH) + fx.generic_load(b + first, count=WIDTH)
        fx.generic_store(c + first, total)
    else:
        for i in fx.range_constexpr(WIDTH):
            if first + i < n:
                fx.generic_store(c + (first + i), fx.generic_load(a + (first + i)) + fx.generic_load(b + (first + i)))


@flyc.jit
def vector_add(a: fx.Pointer, b: fx.Pointer, c: fx.Pointer, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    vector_add_kernel(a, b, c, n).launch(grid=((n + BLOCK - 1) // BLOCK, 1, 1), block=(THREADS, 1, 1), stream=stream)


@flyc.kernel
def matrix_add_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, copy: fx.TiledCopy):
    tile = copy.tile_mn
    rows, columns = a.shape.unpack()
    here = (None, None, fx.block_idx.x, fx.block_idx.y)
    mine = copy.get_slice(fx.thread_idx.x)
    coordinates = fx.make_view((0, 0), fx.make_identity_layout((rows, columns)))

    from_a = mine.partition_S(fx.flat_divide(a, tile)[here])
    from_b = mine.partition_S(fx.flat_divide(b, tile)[here])
    to_c = mine.partition_D(fx.flat_divide(c, tile)[here])
    at = mine.partition_S(fx.flat_divide(coordinates, tile)[here])[(0, None), None, None]

    inside = fx.make_fragment_like(at, dtype=fx.Boolean)
    for i in fx.range_constexpr(fx.size(inside.shape).unpack()):
        inside[i] = fx.elem_less(at[i], (rows, columns))

    atom = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float32)
    register_a, register_b = fx.make_fragment_like(from_a), fx.make_fragment_like(from_b)
    fx.copy(atom, from_a, register_a, pred=inside)
    fx.copy(atom, from_b, register_b, pred=inside)
    register_a.store(register_a.load() + register_b.load())
    fx.copy(atom, register_a, to_c, pred=inside)


@flyc.jit
def matrix_add(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    copy = fx.make_tiled_copy_tv(
        fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float32),
        fx.make_ordered_layout((4, 16), order=(1, 0)),
        fx.make_ordered_layout((1, 2), order=(0, 1)),
    )
    tile_m, tile_n = copy.tile_mn.unpack()
    rows, columns = a.shape.unpack()
    grid = ((rows + tile_m - 1) // tile_m, (columns + tile_n - 1) // tile_n, 1)
    matrix_add_kernel(a, b, c, copy).launch(grid=grid, block=(64, 1, 1), stream=stream)


def run(generator: torch.Generator) -> list[compare.Case]:
    """One addition is one rounding, so the result must equal PyTorch's bit for bit."""
    cases = []
    pointer = flyc.from_c_void_p(fx.Float32, None, assumed_align=16)
    add = flyc.compile(vector_add, pointer, pointer, pointer, 1, fx.Stream(None))
    for n in (1, 511, 512, 1027):
        a, b = torch.randn(n, generator=generator), torch.randn(n, generator=generator)
        c = compare.poisoned((n,), torch.float32)
        add(a.data_ptr(), b.data_ptr(), c.data_ptr(), n, None)
        cases.append(compare.exact(f"vector_add n={n}", c, a + b))
    a, b = torch.randn(7, 70, generator=generator), torch.randn(7, 70, generator=generator)
    c = compare.poisoned((7, 70), torch.float32)
    matrix_add(a, b, c)
    cases.append(compare.exact("matrix_add 7x70", c, a + b))
    return cases
