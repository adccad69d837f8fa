"""Tiled copy through a swizzled LDS tile: rows go in, and come out rotated by half a tile.

The swizzle permutes addresses inside the tile, so a wrong XOR on either side shows as misplaced data.
"""

# ruff: noqa: B008 - FlyDSL reads a default stream as the parameter's kind

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from flydsl.expr import gpu, rocdl

from . import compare

TILE_M, TILE_N = 32, 64
THREADS = 256
VECTOR = 8
COLUMN_THREADS = TILE_N // VECTOR


@flyc.kernel
def copy_kernel(source: fx.Tensor, target: fx.Tensor, copy: fx.TiledCopy):
    buffer_in = rocdl.make_buffer_tensor(source, max_size=False)
    buffer_out = rocdl.make_buffer_tensor(target, max_size=False)
    here = (None, None, fx.block_idx.x, fx.block_idx.y)
    tile_in = fx.flat_divide(buffer_in, (TILE_M, TILE_N))[here]
    tile_out = fx.flat_divide(buffer_out, (TILE_M, TILE_N))[here]

    swizzled = fx.make_composed_layout(
        fx.static(fx.SwizzleType.get(3, 3, 3)), fx.make_ordered_layout((TILE_M, TILE_N), (1, 0))
    )
    lds = fx.make_view(fx.get_dyn_shared(fx.Float16), swizzled)

    tid = fx.thread_idx.x
    mine, other = copy.get_slice(tid), copy.get_slice((tid + THREADS // 2) % THREADS)
    wide = fx.make_copy_atom(rocdl.BufferCopy128b(), fx.Float16)
    local = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16)

    arriving = mine.partition_S(tile_in)
    register = fx.make_fragment_like(arriving)
    fx.copy(wide, arriving, register)
    fx.copy(local, register, mine.partition_D(lds))
    gpu.barrier()
    leaving = fx.make_fragment_like(arriving)
    fx.copy(local, other.partition_S(lds), leaving)
    fx.copy(wide, leaving, mine.partition_D(tile_out))


@flyc.jit
def rotate_copy(source: fx.Tensor, target: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    rows, columns = source.shape.unpack()
    copy = fx.make_tiled_copy_tv(
        fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float16),
        fx.make_ordered_layout((THREADS // COLUMN_THREADS, COLUMN_THREADS), order=(1, 0)),
        fx.make_ordered_layout((1, VECTOR), order=(1, 0)),
    )
    copy_kernel(source, target, copy).launch(
        grid=(rows // TILE_M, columns // TILE_N, 1), block=(THREADS, 1, 1), smem=TILE_M * TILE_N * 2, stream=stream
    )


def run(generator: torch.Generator) -> list[compare.Case]:
    rows, columns = 2 * TILE_M, 3 * TILE_N
    source = torch.randn(rows, columns, generator=generator).half()
    target = compare.poisoned((rows, columns), torch.float16)
    wrap = flyc.from_torch_tensor
    rotate_copy(wrap(source).mark_layout_dynamic(1, 8), wrap(target).mark_layout_dynamic(1, 8))
    want = source.view(2, TILE_M, columns).roll(-TILE_M // 2, 1).reshape(rows, columns)
    return [compare.exact(f"rotate_copy {rows}x{columns}", target, want)]
