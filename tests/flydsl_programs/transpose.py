"""Matrix transpose through a padded LDS tile, ragged on both edges."""

# ruff: noqa: B008 - FlyDSL reads a default stream as the parameter's kind

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from flydsl.expr import gpu, range_constexpr

from . import compare

TILE = 32
LINES = 8
PITCH = TILE + 1  # one word of padding: a column of the tile then lies in 32 different banks

DTYPES = {torch.float32: fx.Float32, torch.bfloat16: fx.BFloat16, torch.int8: fx.Int8}


def make(dtype: torch.dtype):
    """Launcher of the transpose of one element type."""
    element = DTYPES[dtype]

    @fx.struct
    class Tile:
        data: fx.Array[element, TILE * PITCH, 16]

    @flyc.kernel
    def transpose_kernel(source: fx.Tensor, target: fx.Tensor):
        rows, columns = source.shape.unpack()
        x, line = fx.thread_idx.x, fx.thread_idx.y
        row0, column0 = fx.block_idx.y * TILE, fx.block_idx.x * TILE
        tile = fx.SharedAllocator().allocate(Tile).peek().data

        for i in range_constexpr(0, TILE, LINES):
            if (row0 + line + i < rows) & (column0 + x < columns):
                tile[(line + i) * PITCH + x] = source[row0 + line + i, column0 + x]
        gpu.barrier()
        for i in range_constexpr(0, TILE, LINES):
            if (column0 + line + i < columns) & (row0 + x < rows):
                target[column0 + line + i, row0 + x] = tile[x * PITCH + line + i]

    @flyc.jit
    def transpose(source: fx.Tensor, target: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        rows, columns = source.shape.unpack()
        grid = ((columns + TILE - 1) // TILE, (rows + TILE - 1) // TILE, 1)
        transpose_kernel(source, target).launch(grid=grid, block=(TILE, LINES, 1), stream=stream)

    return transpose


def run(generator: torch.Generator) -> list[compare.Case]:
    cases = []
    for dtype, rows, columns in ((torch.float32, 70, 45), (torch.bfloat16, 33, 64), (torch.int8, 31, 97)):
        source = torch.randint(-100, 100, (rows, columns), generator=generator).to(dtype)
        target = compare.poisoned((columns, rows), dtype)
        make(dtype)(source, target)
        cases.append(compare.exact(f"transpose {dtype} {rows}x{columns}", target, source.t().contiguous()))
    return cases
