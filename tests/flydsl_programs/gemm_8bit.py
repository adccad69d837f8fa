"""C = A @ B.T in fp8 and int8 by MFMA builtins: hand-laid LDS tiles, four waves of 32x32, ragged M and N."""

# ruff: noqa: B008 - FlyDSL reads a default stream as the parameter's kind

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from flydsl.expr import gpu, range_constexpr, rocdl
from flydsl.runtime.device import get_rocm_arch

from . import compare

RELIES_ON_CLAMP = True  # reads past the end return zeros, stores past it vanish, on purpose

TILE = 64
TILE_K = 64
THREADS = 256
PITCH = TILE_K + 16  # bytes of an LDS row; the padding keeps 16 rows off each other's banks
STEP = 32  # K of one MFMA


@fx.struct
class Tiles:
    a: fx.Array[fx.Int8, TILE * PITCH, 16]
    b: fx.Array[fx.Int8, TILE * PITCH, 16]


MFMA = {"fp8": rocdl.mfma_f32_16x16x32_fp8_fp8, "int8": rocdl.mfma_i32_16x16x32_i8}
ACCUMULATOR = {"fp8": fx.Float32, "int8": fx.Int32}


def make(kind: str):
    """Launcher for `kind` in MFMA; inputs are raw bytes, C is float32 or int32; K must be a multiple of 64."""
    mfma, accumulator = MFMA[kind], ACCUMULATOR[kind]

    @flyc.kernel
    def gemm_kernel(a: fx.Pointer, b: fx.Pointer, c: fx.Pointer, m: fx.Int32, n: fx.Int32, k: fx.Int32):
        tid = fx.thread_idx.x
        lane, wave = tid % 64, tid // 64
        row0, column0 = fx.block_idx.y * TILE, fx.block_idx.x * TILE
        lds = fx.SharedAllocator().allocate(Tiles).peek()
        lds_a, lds_b = lds.a.ptr, lds.b.ptr
        # Each descriptor ends with the matrix, so rows past the end read as zeros.
        global_a = rocdl.make_buffer_ptr(a + fx.Int64(row0) * k, num_records_bytes=fx.Int64(m - row0) * k)
        global_b = rocdl.make_buffer_ptr(b + fx.Int64(column0) * k, num_records_bytes=fx.Int64(n - column0) * k)
        wide = fx.make_copy_atom(rocdl.BufferCopy128b(), fx.Int8)
        sixteen = fx.make_layout(16, 1)
        load_row, load_k = tid // 4, (tid % 4) * 16
        sub_m, sub_n = (wave // 2) * 32, (wave % 2) * 32
        fragment = (lane % 16) * PITCH + (lane // 16) * 8

        zero = fx.full(4, 0, accumulator)
        c00, c01, c10, c11 = zero, zero, zero, zero
        for k0 in range(0, k, TILE_K, unroll=1):
            staged_a = fx.make_rmem_tensor(16, fx.Int8)
            staged_b = fx.make_rmem_tensor(16, fx.Int8)
            offset = load_row * k + k0 + load_k
            fx.copy_atom_call(wide, fx.make_view(global_a + offset, sixteen), staged_a)
            fx.copy_atom_call(wide, fx.make_view(global_b + offset, sixteen), staged_b)
            gpu.barrier()
            fx.generic_store(lds_a + (load_row * PITCH + load_k), staged_a.load())
            fx.generic_store(lds_b + (load_row * PITCH + load_k), staged_b.load())
            gpu.barrier()
            for s in range_constexpr(0, TILE_K, STEP):
                at_a, at_b = sub_m * PITCH + fragment + s, sub_n * PITCH + fragment + s
                a0, a1 = (fx.generic_load(lds_a + (at_a + i * PITCH), count=8) for i in (0, 16))
                b0, b1 = (fx.generic_load(lds_b + (at_b + i * PITCH), count=8) for i in (0, 16))

                def multiply(x, y, total):
                    x, y = (v.bitcast(fx.Int64)[0].ir_value() for v in (x, y))
                    operands = [x, y, total.ir_value(), 0, 0, 0]
                    return fx.Vector(mfma(fx.Vector.make_type(4, accumulator), operands), (4,), accumulator)

                c00, c01 = multiply(a0, b0, c00), multiply(a0, b1, c01)
                c10, c11 = multiply(a1, b0, c10), multiply(a1, b1, c11)

        for i, j, tile in ((0, 0, c00), (0, 16, c01), (16, 0, c10), (16, 16, c11)):
            row = row0 + sub_m + i + (lane // 16) * 4
            column = column0 + sub_n + j + lane % 16
            for r in range_constexpr(4):
                if (row + r < m) & (column < n):
                    fx.generic_store(c + (fx.Int64(row + r) * n + column), tile[r])

    @flyc.jit
    def gemm(
        a: fx.Pointer,
        b: fx.Pointer,
        c: fx.Pointer,
        m: fx.Int32,
        n: fx.Int32,
        k: fx.Int32,
        stream: fx.Stream = fx.Stream(None),
    ):
        grid = ((n + TILE - 1) // TILE, (m + TILE - 1) // TILE, 1)
        gemm_kernel(a, b, c, m, n, k).launch(grid=grid, block=(THREADS, 1, 1), stream=stream)

    return gemm


def fp8_dtype() -> torch.dtype:
    """The E4M3 flavour that this architecture's MFMA reads: gfx942 has no infinities and no -0 (FNUZ)."""
    return torch.float8_e4m3fnuz if get_rocm_arch() == "gfx942" else torch.float8_e4m3fn


def _call(kind: str, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (m, k), n = a.shape, b.shape[0]
    result = torch.float32 if kind == "fp8" else torch.int32
    c = compare.poisoned((m, n), result)
    byte = flyc.from_c_void_p(fx.Int8, None, assumed_align=16)
    out = flyc.from_c_void_p(ACCUMULATOR[kind], None)
    program = flyc.compile(make(kind), byte, byte, out, 1, 1, 64, fx.Stream(None))
    program(a.data_ptr(), b.data_ptr(), c.data_ptr(), m, n, k, None)
    return c


def run(generator: torch.Generator) -> list[compare.Case]:
    m, n, k = 90, 70, 192
    a, b = (torch.randint(-128, 128, (rows, k), generator=generator, dtype=torch.int8) for rows in (m, n))
    want = (a.double() @ b.double().t()).to(torch.int32)
    cases = [compare.exact("gemm int8", _call("int8", a, b), want)]

    dtype = fp8_dtype()
    a, b = (compare.small_integers(generator, (rows, k), -4, 4).float().to(dtype) for rows in (m, n))
    want = (a.double() @ b.double().t()).float()
    cases.append(compare.exact(f"gemm {dtype} integers", _call("fp8", a, b), want))
    a, b = (torch.randn(rows, k, generator=generator).to(dtype) for rows in (m, n))
    want = a.double() @ b.double().t()
    bound = compare.dot_bound(a.double().abs() @ b.double().abs().t(), k)
    cases.append(compare.within(f"gemm {dtype} normal", _call("fp8", a, b), want, bound))
    return cases
