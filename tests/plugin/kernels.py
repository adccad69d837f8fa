"""FlyDSL kernels of the plugin tests. Line numbers matter: `line_of` finds them by their text."""

# ruff: noqa: B008 - FlyDSL reads a default stream as the parameter's kind

import inspect
import sys

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import gpu, rocdl
from flydsl.expr import math as fmath

from .helpers import load_doubled

THREADS = 128
OVER_LDS = 50000  # float32 elements: more than either architecture's LDS


@flyc.kernel
def scale_kernel(source: fx.Tensor, target: fx.Pointer, n: fx.Int32, factor: fx.Float32):
    i = fx.block_idx.x * THREADS + fx.thread_idx.x
    if i < n:  # guard of scale
        fx.generic_store(target + i, source[i] * factor)


@flyc.jit
def scale(source: fx.Tensor, target: fx.Pointer, n: fx.Int32, factor: fx.Float32, stream: fx.Stream = fx.Stream(None)):
    grid = ((n + THREADS - 1) // THREADS, 1, 1)
    scale_kernel(source, target, n, factor).launch(grid=grid, block=(THREADS, 1, 1), smem=512, stream=stream)


@flyc.kernel
def bump_kernel(data: fx.Pointer):
    i = fx.thread_idx.x
    fx.generic_store(data + i, fx.generic_load(data + i) + 1)


@flyc.jit
def bump_twice(data: fx.Pointer, stream: fx.Stream = fx.Stream(None)):
    bump_kernel(data).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)
    bump_kernel(data).launch(grid=(2, 1, 1), block=(64, 1, 1), stream=stream)


@flyc.kernel
def sum_kernel(data: fx.Pointer):
    value = fx.generic_load(data + fx.thread_idx.x)
    fx.generic_store(data + fx.thread_idx.x, fx.coop.warp_reduce(value, fx.ReductionOp.ADD))


@flyc.jit
def wave_sum(data: fx.Pointer, stream: fx.Stream = fx.Stream(None)):
    sum_kernel(data).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)


@flyc.kernel
def nested_kernel(data: fx.Pointer, n: fx.Int32):
    i = fx.thread_idx.x

    def inner(index):
        return fx.generic_load(data + index) + 3.0  # in the inner function

    if i < n:
        first = load_doubled(data, i)  # call of the shared helper
        if i + 64 < n:
            second = inner(i + 64)  # call of the inner function
            fx.generic_store(data + i, first + second)  # direct


@flyc.jit
def nested(data: fx.Pointer, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    nested_kernel(data, n).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)


@fx.struct
class Oversized:
    data: fx.Array[fx.Float32, OVER_LDS, 16]


@flyc.kernel
def lds_kernel(data: fx.Pointer):
    i = fx.thread_idx.x
    lds = fx.SharedAllocator().allocate(Oversized).peek().data
    lds[i] = fx.generic_load(data + i)
    gpu.barrier()
    fx.generic_store(data + i, lds[i ^ 1])


@flyc.jit
def too_much_lds(data: fx.Pointer, stream: fx.Stream = fx.Stream(None)):
    lds_kernel(data).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)


@flyc.kernel
def tanh_kernel(data: fx.Pointer):
    i = fx.thread_idx.x
    fx.generic_store(data + i, fmath.tanh(fx.generic_load(data + i)))


@flyc.jit
def no_lowering(data: fx.Pointer, stream: fx.Stream = fx.Stream(None)):
    tanh_kernel(data).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)


@flyc.kernel
def library_kernel(x: fx.Tensor, y: fx.Tensor):
    i = fx.thread_idx.x
    y[0, i] = fx.floor(x[i])
    y[1, i] = fx.ceil(x[i])
    y[2, i] = fx.exp2(x[i])
    y[3, i] = fx.log2(x[i])
    y[4, i] = fx.log10(x[i])
    y[5, i] = fx.floor(x[i].to(fx.Float64)).to(fx.Float32)
    y[6, i] = fx.ceil(x[i].to(fx.Float16)).to(fx.Float32)


@flyc.jit
def library_functions(x: fx.Tensor, y: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    library_kernel(x, y).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)


@flyc.kernel
def sine_kernel(data: fx.Pointer):
    i = fx.thread_idx.x
    fx.generic_store(data + i, fx.sin(fx.generic_load(data + i)))


@flyc.jit
def needs_rocm(data: fx.Pointer, stream: fx.Stream = fx.Stream(None)):
    sine_kernel(data).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)


@flyc.kernel
def wide_dma_kernel(data: fx.Pointer):
    lds = fx.SharedAllocator().allocate(Staged).peek().data.ptr
    unit = fx.make_layout(1, 1)
    atom = fx.make_copy_atom(rocdl.cdna4.GlobalLoadAsyncLDS(128), 128)
    fx.copy(atom, fx.make_view(data + fx.thread_idx.x * 4, unit), fx.make_view(lds, unit))
    rocdl.wait_asyncmark(0)
    fx.generic_store(data + fx.thread_idx.x, fx.generic_load(lds + fx.thread_idx.x))


@fx.struct
class Staged:
    data: fx.Array[fx.Float32, 256, 16]


@flyc.jit
def aborts_on_gfx942(data: fx.Pointer, stream: fx.Stream = fx.Stream(None)):
    wide_dma_kernel(data).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)


def pointer(dtype: type = fx.Float32, align: int = 4) -> object:
    """Null pointer to compile with."""
    return flyc.from_c_void_p(dtype, None, assumed_align=align)


def line_of(text: str) -> int:
    """Line of this file on which `text` stands, which must be unique."""
    lines = inspect.getsource(sys.modules[__name__]).splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if text in line and "line_of" not in line]
    return number
