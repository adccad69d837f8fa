"""Split-K GEMM in bf16, two ways to join the splits of a tile.

``ticket``: every split writes its float32 partial; the last one to take a ticket adds all in split order.
``semaphore``: split s spins until the tile's semaphore reads s, adds its share to C and passes it on. The
second needs a workgroup of lower number to make progress while a later one spins.
"""

# ruff: noqa: B008 - FlyDSL reads a default stream as the parameter's kind

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from flydsl.expr import gpu, range_constexpr, rocdl

from . import compare

TILE = 16
STEP = 16  # K of one MFMA
AGENT = rocdl.SyncScope.Agent
ORDER = fx.AtomicOrdering


@fx.struct
class Ticket:
    value: fx.Array[fx.Int32, 1, 4]


@flyc.jit
def partial_tile(a: fx.Pointer, b: fx.Pointer, k: fx.Int32, first: fx.Int32, last: fx.Int32):
    """This wave's 16x16 tile of A @ B.T over [first, last) of K, four float32 a lane."""
    lane = fx.thread_idx.x
    total = fx.full(4, 0.0, fx.Float32)
    for k0 in range(first, last, STEP):
        offset = (lane % 16) * k + k0 + (lane // 16) * 4
        operands = [fx.generic_load(p + offset, count=4).bitcast(fx.Int16).ir_value() for p in (a, b)]
        product = rocdl.mfma_f32_16x16x16bf16_1k(
            fx.Vector.make_type(4, fx.Float32), [*operands, total.ir_value(), 0, 0, 0]
        )
        total = fx.Vector(product, (4,), fx.Float32)
    return total


def make(join: str, splits: int):
    """Launcher; M and N must be multiples of 16, K of ``16 * splits``."""

    @flyc.kernel
    def split_k_kernel(
        a: fx.Pointer, b: fx.Pointer, c: fx.Pointer, work: fx.Pointer, flags: fx.Pointer, n: fx.Int32, k: fx.Int32
    ):
        lane = fx.thread_idx.x
        tile_n, tile_m, split = fx.block_idx.x, fx.block_idx.y, fx.block_idx.z
        tile = tile_m * (n // TILE) + tile_n
        share = k // splits
        mine = partial_tile(a + tile_m * TILE * k, b + tile_n * TILE * k, k, split * share, (split + 1) * share)
        out = c + ((tile_m * TILE + (lane // 16) * 4) * n + tile_n * TILE + lane % 16)

        if fx.const_expr(join == "ticket"):
            ticket = fx.SharedAllocator().allocate(Ticket).peek().value
            slot = work + (tile * splits * 256 + lane * 4)
            fx.generic_store(slot + split * 256, mine)
            fx.memory_fence(syncscope=AGENT, ordering=ORDER.Release)
            gpu.barrier()
            if lane == 0:
                ticket[0] = fx.atomic_add(flags + tile, 1, syncscope=AGENT, ordering=ORDER.AcqRel)
            gpu.barrier()
            if ticket[0] == splits - 1:
                fx.memory_fence(syncscope=AGENT, ordering=ORDER.Acquire)
                total = fx.generic_load(slot, count=4)
                for s in range_constexpr(1, splits):
                    total = total + fx.generic_load(slot + s * 256, count=4)
                for r in range_constexpr(4):
                    fx.generic_store(out + r * n, total[r])
        else:
            seen = fx.Int32(-1)
            while seen != split:
                seen = fx.generic_load(flags + tile, memory_order=ORDER.Acquire, syncscope=AGENT)
            for r in range_constexpr(4):
                before = (split == 0).select(fx.Float32(0.0), fx.generic_load(out + r * n))
                fx.generic_store(out + r * n, before + mine[r])
            fx.memory_fence(syncscope=AGENT, ordering=ORDER.Release)
            gpu.barrier()
            if lane == 0:
                fx.generic_store(flags + tile, split + 1, memory_order=ORDER.Release, syncscope=AGENT)

    @flyc.jit
    def split_k(
        a: fx.Pointer,
        b: fx.Pointer,
        c: fx.Pointer,
        work: fx.Pointer,
        flags: fx.Pointer,
        m: fx.Int32,
        n: fx.Int32,
        k: fx.Int32,
        stream: fx.Stream = fx.Stream(None),
    ):
        grid = (n // TILE, m // TILE, splits)
        split_k_kernel(a, b, c, work, flags, n, k).launch(grid=grid, block=(64, 1, 1), stream=stream)

    return split_k


def run(generator: torch.Generator) -> list[compare.Case]:
    """Integers bit for bit; normal values within the bound of a K-term sum plus one rounding a split."""
    cases = []
    m, n, k, splits = 32, 48, 256, 4
    bf16 = flyc.from_c_void_p(fx.BFloat16, None, assumed_align=16)
    f32, i32 = (flyc.from_c_void_p(t, None, assumed_align=a) for t, a in ((fx.Float32, 16), (fx.Int32, 4)))
    f32_scalar = flyc.from_c_void_p(fx.Float32, None, assumed_align=4)
    for join in ("ticket", "semaphore"):
        program = flyc.compile(make(join, splits), bf16, bf16, f32_scalar, f32, i32, 16, 16, 64, fx.Stream(None))
        for exact in (True, False):
            if exact:
                a, b = (compare.small_integers(generator, (rows, k), -3, 3).bfloat16() for rows in (m, n))
            else:
                a, b = (torch.randn(rows, k, generator=generator).bfloat16() for rows in (m, n))
            c = compare.poisoned((m, n), torch.float32)
            if join == "semaphore":
                c.zero_()
            work = compare.poisoned((m * n * splits,), torch.float32)
            flags = torch.zeros(m * n // TILE**2, dtype=torch.int32)
            program(a.data_ptr(), b.data_ptr(), c.data_ptr(), work.data_ptr(), flags.data_ptr(), m, n, k, None)
            want = a.double() @ b.double().t()
            bound = compare.dot_bound(a.double().abs() @ b.double().abs().t(), k + splits)
            name = f"split_k {join}"
            if exact:
                cases.append(compare.exact(f"{name} integers", c, want.float()))
                cases.append(compare.exact(f"{name} flags", flags, torch.full_like(flags, splits)))
            else:
                cases.append(compare.within(f"{name} normal", c, want, bound))
    return cases
