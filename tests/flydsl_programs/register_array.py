"""An array in registers that is read and written at positions known only at run time: a queue of work a lane."""

# ruff: noqa: B008 - FlyDSL reads a default stream as the parameter's kind

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch

from . import compare

LANES = 64
LENGTH = 32


@flyc.kernel
def queue_kernel(x: fx.Tensor, y: fx.Tensor, steps: fx.Int32):
    lane = fx.thread_idx.x
    queue = fx.make_rmem_tensor(LENGTH, fx.Float32)
    for i in fx.range_constexpr(LENGTH):
        queue[i] = x[lane, i]
    last = fx.Float32(0.0)
    for i in range(0, steps, 1):
        queue[(i * 7) % LENGTH] = queue[(i * 5 + 1) % LENGTH] + last
        last = queue[i % LENGTH] * 0.5
    y[lane] = last


@flyc.jit
def queue(x: fx.Tensor, y: fx.Tensor, steps: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    queue_kernel(x, y, steps).launch(grid=(1, 1, 1), block=(LANES, 1, 1), stream=stream)


def run(generator: torch.Generator) -> list[compare.Case]:
    """Each step adds once and halves, which is exact: bits must be equal."""
    cases = []
    for steps in (1, 20, 75):
        x = torch.randn(LANES, LENGTH, generator=generator)
        y = compare.poisoned((LANES,), torch.float32)
        queue(x, y, steps)
        want, last = x.clone(), torch.zeros(LANES)
        for i in range(steps):
            want[:, (i * 7) % LENGTH] = want[:, (i * 5 + 1) % LENGTH] + last
            last = want[:, i % LENGTH] * 0.5
        cases.append(compare.exact(f"queue of {steps} steps", y, last))
    return cases
