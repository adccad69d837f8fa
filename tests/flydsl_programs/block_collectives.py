"""Workgroup collectives: scan, radix sort and top-k over a tile, all through LDS."""

# ruff: noqa: B008 - FlyDSL reads a default stream as the parameter's kind

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch

from . import compare

THREADS = 128
ITEMS = 2
TILE = THREADS * ITEMS
TOP = 9


@flyc.kernel
def scan_kernel(x: fx.Pointer, out: fx.Pointer):
    first = fx.block_idx.x * TILE + fx.thread_idx.x * ITEMS
    scan = fx.coop.BlockScan[fx.Int32, THREADS]
    storage = fx.SharedAllocator().allocate(scan.SharedStorage).peek()
    items = fx.generic_load(x + first, count=ITEMS)
    result = scan.inclusive([items[0], items[1]], fx.ReductionOp.ADD, storage=storage)
    for i in fx.range_constexpr(ITEMS):
        fx.generic_store(out + (first + i), result[i])


@flyc.kernel
def sort_kernel(x: fx.Pointer, out: fx.Pointer):
    first = fx.block_idx.x * TILE + fx.thread_idx.x * ITEMS
    sort = fx.coop.BlockRadixSort[fx.Int32, THREADS, ITEMS]
    storage = fx.SharedAllocator().allocate(sort.SharedStorage).peek()
    items = fx.generic_load(x + first, count=ITEMS)
    result = sort([items[0], items[1]], storage=storage)
    for i in fx.range_constexpr(ITEMS):
        fx.generic_store(out + (first + i), result[i])


@flyc.kernel
def top_k_kernel(x: fx.Pointer, out: fx.Pointer):
    first = fx.block_idx.x * TILE + fx.thread_idx.x * ITEMS
    top = fx.coop.BlockTopK[fx.Int32, THREADS, ITEMS, fx.coop.BlockTopKAlgorithm.MERGE]
    storage = fx.SharedAllocator().allocate(top.SharedStorage).peek()
    items = fx.generic_load(x + first, count=ITEMS)
    result, valid = top([items[0], items[1]], TOP, storage=storage, largest=True)
    place = fx.block_idx.x * TOP + fx.thread_idx.x * ITEMS
    for i in fx.range_constexpr(ITEMS):
        if valid[i]:
            fx.generic_store(out + (place + i), result[i])


@flyc.jit
def collectives(
    x: fx.Pointer,
    scanned: fx.Pointer,
    ordered: fx.Pointer,
    top: fx.Pointer,
    tiles: fx.Int32,
    stream: fx.Stream = fx.Stream(None),
):
    grid, block = (tiles, 1, 1), (THREADS, 1, 1)
    scan_kernel(x, scanned).launch(grid=grid, block=block, stream=stream)
    sort_kernel(x, ordered).launch(grid=grid, block=block, stream=stream)
    top_k_kernel(x, top).launch(grid=grid, block=block, stream=stream)


def run(generator: torch.Generator) -> list[compare.Case]:
    tiles = 2
    x = torch.randint(-5000, 5000, (tiles, TILE), generator=generator, dtype=torch.int32)
    scanned, ordered = (compare.poisoned((tiles, TILE), torch.int32) for _ in range(2))
    top = compare.poisoned((tiles, TOP), torch.int32)
    wide, i32 = (flyc.from_c_void_p(fx.Int32, None, assumed_align=a) for a in (8, 4))
    program = flyc.compile(collectives, wide, i32, i32, i32, 1, fx.Stream(None))
    program(*(t.data_ptr() for t in (x, scanned, ordered, top)), tiles, None)
    return [
        compare.exact("block scan", scanned, x.cumsum(1, dtype=torch.int32)),
        compare.exact("block radix sort", ordered, x.sort(1).values),
        compare.exact("block top-k", top, x.topk(TOP, 1).values),
    ]
