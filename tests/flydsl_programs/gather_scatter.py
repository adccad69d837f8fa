"""Row gather and scatter by index: the layout API's gather, and a scatter-add that resolves conflicts."""

# ruff: noqa: B008 - FlyDSL reads a default stream as the parameter's kind

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from flydsl.expr import rocdl

from . import compare

ROWS, COLUMNS = 16, 64
WIDTH = 4


@flyc.kernel
def gather_kernel(source: fx.Tensor, index: fx.Tensor, target: fx.Tensor, copy: fx.TiledCopy):
    rows, columns = target.shape.unpack()
    here = (None, None, fx.block_idx.x, fx.block_idx.y)
    mine = copy.get_slice(fx.thread_idx.x)
    row_index = fx.make_view(fx.get_iter(index), fx.make_layout((rows, columns), (1, 0)))
    column = fx.make_view(fx.make_int_tuple(0), fx.make_layout((rows, columns), (0, 1)))

    from_index = mine.partition_S(fx.flat_divide(row_index, (ROWS, COLUMNS))[here])[(0, None), None, None]
    at_column = mine.partition_S(fx.flat_divide(column, (ROWS, COLUMNS))[here])[(0, None), None, None]
    to_target = mine.partition_D(fx.flat_divide(target, (ROWS, COLUMNS))[here])

    offset = fx.make_fragment_like(from_index)
    fx.copy(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Int32), from_index, offset)
    offset.store(offset.load() * columns + at_column.load())
    data = fx.make_fragment_like(to_target)
    atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    fx.gather(atom, fx.get_iter(source), offset, data)
    fx.copy(atom, data, to_target)


@flyc.jit
def gather(source: fx.Tensor, index: fx.Tensor, target: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    rows, columns = target.shape.unpack()
    copy = fx.make_tiled_copy_tv(
        fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32),
        fx.make_layout((ROWS, COLUMNS // WIDTH), (COLUMNS // WIDTH, 1)),
        fx.make_layout((1, WIDTH), (1, 1)),
    )
    gather_kernel(source, index, target, copy).launch(
        grid=(rows // ROWS, columns // COLUMNS, 1), block=(ROWS * COLUMNS // WIDTH, 1, 1), stream=stream
    )


@flyc.kernel
def scatter_add_kernel(source: fx.Pointer, index: fx.Pointer, target: fx.Pointer, columns: fx.Int32):
    row, column = fx.block_idx.x, fx.block_idx.y * COLUMNS + fx.thread_idx.x
    if column < columns:
        value = fx.generic_load(source + (row * columns + column))
        place = fx.generic_load(index + row) * columns + column
        fx.atomic_add(target + place, value, syncscope=rocdl.SyncScope.Agent)


@flyc.jit
def scatter_add(
    source: fx.Pointer,
    index: fx.Pointer,
    target: fx.Pointer,
    rows: fx.Int32,
    columns: fx.Int32,
    stream: fx.Stream = fx.Stream(None),
):
    scatter_add_kernel(source, index, target, columns).launch(
        grid=(rows, (columns + COLUMNS - 1) // COLUMNS, 1), block=(COLUMNS, 1, 1), stream=stream
    )


def run(generator: torch.Generator) -> list[compare.Case]:
    source = torch.randn(50, 128, generator=generator)
    index = torch.randint(0, 50, (32,), generator=generator, dtype=torch.int32)
    target = compare.poisoned((32, 128), torch.float32)
    gather(source, index, target)
    cases = [compare.exact("gather", target, source[index.long()])]

    # Small integers: the sum of a conflicting row is exact in any order.
    rows, columns = 20, 100
    source = compare.small_integers(generator, (rows, columns), -9, 9).float()
    index = torch.randint(0, 6, (rows,), generator=generator, dtype=torch.int32)
    target = torch.zeros(6, columns)
    f32, i32 = (flyc.from_c_void_p(t, None) for t in (fx.Float32, fx.Int32))
    program = flyc.compile(scatter_add, f32, i32, f32, 1, 1, fx.Stream(None))
    program(source.data_ptr(), index.data_ptr(), target.data_ptr(), rows, columns, None)
    want = torch.zeros(6, columns).index_add_(0, index, source)
    cases.append(compare.exact("scatter_add", target, want))
    return cases
