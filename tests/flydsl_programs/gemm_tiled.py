"""C = A @ B.T in bf16 and f16 by the layout API: tiled copies, swizzled LDS, a tiled MMA, ragged M and N.

The permutation of the tiled MMA lets a lane take 16 contiguous bytes of K at once. On a K=16 atom that
makes one fragment slot of two MMA steps, so the number of MMAs is asserted by `run` through exactness:
with small integers a dropped step cannot go unnoticed.
"""

# ruff: noqa: B008 - FlyDSL reads a default stream as the parameter's kind

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from flydsl.expr import gpu, rocdl
from flydsl.runtime.device import get_rocm_arch

from . import compare

RELIES_ON_CLAMP = True  # reads past the end return zeros, stores past it vanish, on purpose

TILE = 64
TILE_K = 64
THREADS = 256
VECTOR = 8

ELEMENTS = {torch.bfloat16: fx.BFloat16, torch.float16: fx.Float16}
PERMUTATIONS = {  # (M of the atom, K of the atom) -> how K spreads over lanes and values, 8 to a lane
    (16, 16): ((4, 4, 2), (1, 8, 4)),
    (16, 32): ((8, 4), (1, 8)),
    (32, 8): ((4, 2, 2), (1, 8, 4)),
    (32, 16): ((8, 2), (1, 8)),
}


def atoms() -> list[tuple[int, int]]:
    """(M, K) of the 16-bit atoms of this architecture."""
    return [(16, 16), (32, 8)] + ([(16, 32), (32, 16)] if get_rocm_arch() == "gfx950" else [])


def make(dtype: torch.dtype, atom_m: int, atom_k: int):
    """Launcher for one element type and one MMA atom; K must be a multiple of 64."""
    element = ELEMENTS[dtype]

    @fx.struct
    class Tiles:
        a: fx.Array[element, TILE * TILE_K, 16]
        b: fx.Array[element, TILE * TILE_K, 16]

    @flyc.kernel
    def gemm_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, mma: fx.TiledMma, copy: fx.TiledCopy):
        tid = fx.thread_idx.x
        block_m, block_n = fx.block_idx.x, fx.block_idx.y
        # A row past the end of A or B lies past its descriptor too, so it reads as zeros.
        a = rocdl.make_buffer_tensor(a, max_size=False)
        b = rocdl.make_buffer_tensor(b, max_size=False)
        rows, columns = c.shape.unpack()
        _, depth = a.shape.unpack()
        tiles_a = fx.flat_divide(a, (TILE, TILE_K))[None, None, block_m, None]
        tiles_b = fx.flat_divide(b, (TILE, TILE_K))[None, None, block_n, None]

        swizzled = fx.make_composed_layout(
            fx.static(fx.SwizzleType.get(3, 3, 3)), fx.make_ordered_layout((TILE, TILE_K), (1, 0))
        )
        lds = fx.SharedAllocator().allocate(Tiles).peek()
        lds_a, lds_b = fx.make_view(lds.a.ptr, swizzled), fx.make_view(lds.b.ptr, swizzled)

        wide = fx.make_copy_atom(rocdl.BufferCopy128b(), element)
        local = fx.make_copy_atom(fx.UniversalCopy128b(), element)
        loader = copy.get_slice(tid)
        from_a, from_b = loader.partition_S(tiles_a), loader.partition_S(tiles_b)
        to_a, to_b = loader.partition_D(lds_a), loader.partition_D(lds_b)
        staged_a = fx.make_fragment_like(from_a[None, None, None, 0])
        staged_b = fx.make_fragment_like(from_b[None, None, None, 0])

        mine = mma.thr_slice(tid)
        reader_a = fx.make_tiled_copy_A(local, mma).get_slice(tid)
        reader_b = fx.make_tiled_copy_B(local, mma).get_slice(tid)
        fragment_a, fragment_b = mine.make_fragment_A(lds_a), mine.make_fragment_B(lds_b)
        into_a, into_b = reader_a.retile(fragment_a), reader_b.retile(fragment_b)
        local_a, local_b = reader_a.partition_S(lds_a), reader_b.partition_S(lds_b)
        total = mine.make_fragment_C(fx.make_view(fx.get_iter(lds_a), fx.make_ordered_layout((TILE, TILE), (1, 0))))
        total.fill(0.0)

        for k in range(0, depth // TILE_K, 1, unroll=1):
            fx.copy(wide, from_a[None, None, None, k], staged_a)
            fx.copy(wide, from_b[None, None, None, k], staged_b)
            gpu.barrier()
            fx.copy(local, staged_a, to_a)
            fx.copy(local, staged_b, to_b)
            gpu.barrier()
            fx.copy(local, local_a, into_a)
            fx.copy(local, local_b, into_b)
            fx.gemm(mma, total, fragment_a, fragment_b, total)

        # Row and column of each accumulator element, from two "tensors" whose values are coordinates.
        row_of = mine.partition_C(fx.make_view(0, fx.make_layout((TILE, TILE), (1, 0))))
        column_of = mine.partition_C(fx.make_view(0, fx.make_layout((TILE, TILE), (0, 1))))
        values = total.load().to(element)
        for i in fx.range_constexpr(fx.size(total.shape).unpack()):
            row = block_m * TILE + fx.get_scalar(row_of[i])
            column = block_n * TILE + fx.get_scalar(column_of[i])
            if (row < rows) & (column < columns):
                c[row, column] = values[i]

    @flyc.jit
    def gemm(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        rows, columns = c.shape.unpack()
        threads_k = TILE_K // VECTOR
        copy = fx.make_tiled_copy_tv(
            fx.make_copy_atom(fx.UniversalCopy128b(), element),
            fx.make_ordered_layout((THREADS // threads_k, threads_k), order=(1, 0)),
            fx.make_ordered_layout((1, VECTOR), order=(1, 0)),
        )
        mma = fx.make_tiled_mma(
            fx.make_mma_atom(rocdl.MFMA(atom_m, atom_m, atom_k, element)),
            fx.make_layout((2, 2, 1), (1, 2, 0)),
            fx.make_tile(None, None, fx.make_layout(*PERMUTATIONS[atom_m, atom_k])),
        )
        grid = ((rows + TILE - 1) // TILE, (columns + TILE - 1) // TILE, 1)
        gemm_kernel(a, b, c, mma, copy).launch(grid=grid, block=(THREADS, 1, 1), stream=stream)

    return gemm


def arguments(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> tuple[Any, ...]:
    """The launcher's arguments."""
    a, b = (flyc.from_torch_tensor(t, assumed_align=16).mark_layout_dynamic(1, 8) for t in (a, b))
    return a, b, flyc.from_torch_tensor(c).mark_layout_dynamic(1, 2)


def call(program, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    program(*arguments(a, b, c))


def run(generator: torch.Generator) -> list[compare.Case]:
    """Small integers bit for bit, then normal values within the bound of a K-term sum and one store."""
    cases = []
    m, n, k = 100, 80, 192
    for dtype in ELEMENTS:
        for atom_m, atom_k in atoms():
            program = make(dtype, atom_m, atom_k)
            name = f"gemm {dtype} {atom_m}x{atom_m}x{atom_k}"
            a, b = (compare.small_integers(generator, (rows, k), -1, 1).to(dtype) for rows in (m, n))
            c = compare.poisoned((m, n), dtype)
            call(program, a, b, c)
            cases.append(compare.exact(f"{name} integers", c, (a.double() @ b.double().t()).to(dtype)))
            a, b = (torch.randn(rows, k, generator=generator).to(dtype) for rows in (m, n))
            c = compare.poisoned((m, n), dtype)
            call(program, a, b, c)
            want = a.double() @ b.double().t()
            bound = compare.dot_bound(a.double().abs() @ b.double().abs().t(), k)
            cases.append(compare.within(f"{name} normal", c, want, compare.stored(want, bound, dtype)))
    return cases
