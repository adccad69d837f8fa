"""LDS-DMA: asynchronous copies from memory to LDS, double buffered with asyncmark, summed by the wave."""

# ruff: noqa: B008 - FlyDSL reads a default stream as the parameter's kind

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from flydsl.expr import gpu, range_constexpr, rocdl
from flydsl.runtime.device import get_rocm_arch

from . import compare

LANES = 64
STAGES = 2


def make(words: int, through: str, stages: int):
    """Launcher that sums `stages` rows into one; a lane moves `words` floats at a time.

    `through` is ``global`` or ``buffer``, the two forms of the instruction.
    """
    row = LANES * words
    maker = {"global": rocdl.cdna4.GlobalLoadAsyncLDS, "buffer": rocdl.cdna4.BufferLoadAsyncLDS}[through]

    @fx.struct
    class Ring:
        data: fx.Array[fx.Float32, STAGES * row, 16]

    @flyc.kernel
    def column_sum_kernel(source: fx.Pointer, target: fx.Pointer, rows: fx.Int32):
        lane = fx.thread_idx.x
        ring = fx.SharedAllocator().allocate(Ring).peek().data.ptr
        atom = fx.make_copy_atom(maker(words * 32), words * 32)
        unit = fx.make_layout(1, 1)
        if fx.const_expr(through == "buffer"):
            origin = rocdl.make_buffer_ptr(source, num_records_bytes=fx.Int64(rows) * (row * 4))
        else:
            origin = source

        def fetch(index):
            place = ring + (index % STAGES) * row
            fx.copy(atom, fx.make_view(origin + (index * row + lane * words), unit), fx.make_view(place, unit))
            rocdl.asyncmark()

        fetch(0)
        total = fx.full(words, 0.0, fx.Float32)
        for i in range_constexpr(stages):
            if fx.const_expr(i + 1 < stages):
                fetch(i + 1)
                rocdl.wait_asyncmark(1)
            else:
                rocdl.wait_asyncmark(0)
            gpu.barrier()
            mine = ring + ((i % STAGES) * row + lane * words)
            total = total + fx.generic_load(mine, count=words)
            gpu.barrier()
        fx.generic_store(target + lane * words, total)

    @flyc.jit
    def column_sum(source: fx.Pointer, target: fx.Pointer, rows: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        column_sum_kernel(source, target, rows).launch(grid=(1, 1, 1), block=(LANES, 1, 1), stream=stream)

    return column_sum


def run(generator: torch.Generator) -> list[compare.Case]:
    """Small integers, exact in float32."""
    cases = []
    rows = 5
    widths = (1, 4) if get_rocm_arch() == "gfx950" else (1,)  # gfx942 moves 4 bytes a lane only
    for words in widths:
        for through in ("global", "buffer"):
            f32 = flyc.from_c_void_p(fx.Float32, None, assumed_align=4 * words)
            program = flyc.compile(make(words, through, rows), f32, f32, 1, fx.Stream(None))
            source = compare.small_integers(generator, (rows, LANES * words), -99, 99).float()
            target = compare.poisoned((LANES * words,), torch.float32)
            program(source.data_ptr(), target.data_ptr(), rows, None)
            cases.append(compare.exact(f"async {through} {words * 4}B", target, source.sum(0)))
    return cases
