"""Warp collectives: reductions, scans, broadcast, shuffles, votes and a sort, at several widths."""

# ruff: noqa: B008 - FlyDSL reads a default stream as the parameter's kind

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from flydsl.expr import gpu, rocdl

from . import compare

WAVE = 64
ADD, MAX, MIN = fx.ReductionOp.ADD, fx.ReductionOp.MAX, fx.ReductionOp.MIN


def _within(first: int, last: int, moved, kept):
    """`moved` in lanes [first, last], `kept` in the others: a shuffle past the wave's ends gives anything."""
    lane = fx.thread_idx.x
    return ((lane >= first) & (lane <= last)).select(moved, kept)


def _moved(groups: torch.Tensor, distance: int) -> torch.Tensor:
    """Each lane's value from `distance` lanes above; its own where there is no such lane."""
    source = torch.arange(WAVE) + distance
    return groups[:, torch.where((source >= 0) & (source < WAVE), source, torch.arange(WAVE))]


def _sort(x, width: int):
    return fx.coop.warp_bitonic_sort([x], width=width, compare_op=lambda a, b: a < b)[0]


# One output row a collective: (name, device code, reference over groups of `width` lanes).
INTEGER = (
    ("sum64", lambda x: fx.coop.warp_reduce(x, ADD), lambda g: g(64).sum(1, keepdim=True)),
    ("max64", lambda x: fx.coop.warp_reduce(x, MAX), lambda g: g(64).amax(1, keepdim=True)),
    ("sum16", lambda x: fx.coop.warp_reduce(x, ADD, width=16), lambda g: g(16).sum(1, keepdim=True)),
    ("min32", lambda x: fx.coop.warp_reduce(x, MIN, width=32), lambda g: g(32).amin(1, keepdim=True)),
    ("inclusive64", lambda x: fx.coop.warp_inclusive_scan(x, ADD), lambda g: g(64).cumsum(1)),
    ("exclusive64", lambda x: fx.coop.warp_exclusive_scan(x, ADD), lambda g: g(64).cumsum(1) - g(64)),
    ("inclusive8", lambda x: fx.coop.warp_inclusive_scan(x, ADD, width=8), lambda g: g(8).cumsum(1)),
    ("broadcast", lambda x: fx.coop.warp_broadcast(x, 5, width=16), lambda g: g(16)[:, 5:6]),
    ("shuffle_xor", lambda x: gpu.shuffle_xor(x, 9, WAVE), lambda g: g(64)[:, torch.arange(64) ^ 9]),
    ("shuffle_up", lambda x: _within(3, 63, gpu.shuffle_up(x, 3, WAVE), x), lambda g: _moved(g(64), -3)),
    ("shuffle_down", lambda x: _within(0, 60, gpu.shuffle_down(x, 3, WAVE), x), lambda g: _moved(g(64), 3)),
    ("sort16", lambda x: _sort(x, 16), lambda g: g(16).sort(1).values),
)


def _any(mask):
    return (mask != 0).select(fx.Int32(1), fx.Int32(0))


def _all(mask):
    return (mask == -1).select(fx.Int32(1), fx.Int32(0))


@flyc.kernel
def integer_kernel(x: fx.Pointer, out: fx.Pointer, n: fx.Int32):
    tid = fx.block_idx.x * WAVE + fx.thread_idx.x
    value = fx.generic_load(x + tid)
    for row, (_, collective, _) in enumerate(INTEGER):
        fx.generic_store(out + (row * n + tid), collective(value))


@flyc.kernel
def vote_kernel(x: fx.Pointer, limit: fx.Pointer, votes: fx.Pointer):
    """A wave's `votes`: [any, all, mask of lanes under its limit]."""
    wave = fx.block_idx.x
    value = fx.generic_load(x + (wave * WAVE + fx.thread_idx.x))
    mask = fx.Int64(rocdl.ballot(fx.Int64.ir_type, (value < fx.generic_load(limit + wave)).ir_value()))
    if fx.thread_idx.x == 0:
        fx.generic_store(votes + wave * 3, fx.Int64(_any(mask)))
        fx.generic_store(votes + (wave * 3 + 1), fx.Int64(_all(mask)))
        fx.generic_store(votes + (wave * 3 + 2), mask)


@flyc.kernel
def float_kernel(x: fx.Pointer, out: fx.Pointer, n: fx.Int32):
    """Rows of `out`: sum over 64 lanes, maximum over 32, half-precision sum over 64."""
    tid = fx.block_idx.x * WAVE + fx.thread_idx.x
    value = fx.generic_load(x + tid)
    fx.generic_store(out + tid, fx.coop.warp_reduce(value, ADD))
    fx.generic_store(out + (n + tid), fx.coop.warp_reduce(value, MAX, width=32))
    half = fx.coop.warp_reduce(value.to(fx.Float16), ADD)
    fx.generic_store(out + (2 * n + tid), half.to(fx.Float32))


@flyc.jit
def collectives(
    x: fx.Pointer,
    out: fx.Pointer,
    limit: fx.Pointer,
    votes: fx.Pointer,
    floats: fx.Pointer,
    sums: fx.Pointer,
    waves: fx.Int32,
    stream: fx.Stream = fx.Stream(None),
):
    grid, block = (waves, 1, 1), (WAVE, 1, 1)
    integer_kernel(x, out, waves * WAVE).launch(grid=grid, block=block, stream=stream)
    vote_kernel(x, limit, votes).launch(grid=grid, block=block, stream=stream)
    float_kernel(floats, sums, waves * WAVE).launch(grid=grid, block=block, stream=stream)


def run(generator: torch.Generator) -> list[compare.Case]:
    """Integers, and floats that hold small integers, so every fold is exact in any order."""
    waves = 3
    n = waves * WAVE
    x = torch.randint(-1000, 1000, (n,), generator=generator, dtype=torch.int32)
    out = compare.poisoned((len(INTEGER), n), torch.int32)
    limit = torch.tensor([-2000, 0, 2000], dtype=torch.int32)
    votes = compare.poisoned((waves, 3), torch.int64)
    floats = torch.randint(-10, 10, (n,), generator=generator).float()
    sums = compare.poisoned((3, n), torch.float32)
    i32, i64, f32 = (flyc.from_c_void_p(t, None) for t in (fx.Int32, fx.Int64, fx.Float32))
    program = flyc.compile(collectives, i32, i32, i32, i64, f32, f32, 1, fx.Stream(None))
    program(*(t.data_ptr() for t in (x, out, limit, votes, floats, sums)), waves, None)

    cases = []
    for row, (name, _, reference) in enumerate(INTEGER):
        widths: list[int] = []

        def grouped(width: int, widths: list[int] = widths) -> torch.Tensor:
            widths.append(width)
            return x.view(-1, width)

        want = reference(grouped)
        want = want.expand(-1, widths[0]).reshape(n).int()
        cases.append(compare.exact(name, out[row], want))
    under = x.view(waves, WAVE) < limit[:, None]
    masks = [sum(int(bit) << lane for lane, bit in enumerate(wave)) for wave in under.tolist()]
    masks = [m - 2**64 if m >= 2**63 else m for m in masks]
    want = torch.stack((under.any(1).long(), under.all(1).long(), torch.tensor(masks)), 1)
    cases.append(compare.exact("votes", votes, want))
    wave_sum = floats.view(-1, 64).sum(1, keepdim=True).expand(-1, 64).reshape(n)
    half_max = floats.view(-1, 32).amax(1, keepdim=True).expand(-1, 32).reshape(n)
    cases.append(compare.exact("float folds", sums, torch.stack((wave_sum, half_max, wave_sum))))
    return cases
