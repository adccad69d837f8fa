"""Philox: Triton's counter-based generator, against the algorithm in NumPy (Salmon et al. 2011, Philox4x32-10)."""

import numpy as np
import torch
import triton
import triton.language as tl

from tests.flydsl_programs import compare

from .driver import Device

BLOCK = 512


@triton.jit
def random_kernel(out, seed, n, OP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    if OP == "randint":
        r = tl.randint(seed, i).to(tl.int32, bitcast=True)
    else:
        r = tl.rand(seed, i)
    tl.store(out + i, r, mask=i < n)


@triton.jit
def dropout_kernel(x, out, seed, p, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    a = tl.load(x + i, mask=inside)
    keep = tl.rand(seed, i) > p
    tl.store(out + i, tl.where(keep, a / (1 - p), 0.0), mask=inside)


def _philox(counter: np.ndarray, seed: int) -> np.ndarray:
    """First word of ten rounds on the counter (i, 0, 0, 0) with the key of ``seed``."""
    low32 = np.uint64(0xFFFFFFFF)
    words = [counter.astype(np.uint64)] + [np.zeros(len(counter), np.uint64)] * 3
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        even, odd = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        high_even, high_odd = even >> np.uint64(32), odd >> np.uint64(32)
        words = [high_odd ^ words[1] ^ np.uint64(keys[0]), odd & low32, high_even ^ words[3] ^ np.uint64(keys[1]),
                 even & low32]  # fmt: skip
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words[0].astype(np.uint32)


def _uniform(words: np.ndarray) -> torch.Tensor:
    """Triton's mapping to [0, 1): the magnitude of the signed word, in float32 steps, times a float32 constant."""
    signed = words.view(np.int32)
    magnitude = np.where(signed < 0, -signed - 1, signed).astype(np.float32)
    return torch.from_numpy(magnitude * np.float32(4.6566127342e-10))


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    n = 1000
    cases = []
    for seed in (0x1234567, 0x123456789ABCDEF):
        words = _philox(np.arange(n), seed)
        out = compare.poisoned((n,), torch.int32)
        device.launch(random_kernel, (2,), out=out, seed=seed, n=n, OP="randint", B=BLOCK)
        cases.append(compare.exact(f"randint seed={seed:#x}", out, torch.from_numpy(words.view(np.int32))))
        out = compare.poisoned((n,), torch.float32)
        device.launch(random_kernel, (2,), out=out, seed=seed, n=n, OP="rand", B=BLOCK)
        cases.append(compare.exact(f"rand seed={seed:#x}", out, _uniform(words)))
    x = compare.small_integers(generator, (n,), 1, 9).float()
    out = compare.poisoned((n,), torch.float32)
    device.launch(dropout_kernel, (2,), x=x, out=out, seed=77, p=0.5, n=n, B=BLOCK)
    cases.append(compare.exact("dropout", out, torch.where(_uniform(_philox(np.arange(n), 77)) > 0.5, x * 2, 0.0)))
    return cases
