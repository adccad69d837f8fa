"""MFMA against matrix products in exact integer arithmetic, through the published lane layouts.

Layout rules (AMD matrix instruction calculator): A element (i, k) of block b sits in lane ``i + M * (b or k-group)``,
D element (i, j) in register and lane as ``_d_place`` says. They are written out here independently of the emulator.
"""

from __future__ import annotations

import numpy as np
import pytest

from validation.emulator.isa import TABLE

from .harness import ARCHS, run

CASES = sorted({(m, a) for (a, m), e in TABLE.items() if e.form == "mfma"})


def _encode(kind: str, values: np.ndarray, arch: str) -> np.ndarray:
    """Raw element codes of small integers."""
    if kind == "bf16":
        return values.astype(np.float32).view(np.uint32) >> 16
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
    if kind in ("f32", "xf32"):
        return values.astype(np.float32).view(np.uint32)
    if kind == "f64":
        return values.astype(np.float64).view(np.uint64)
    if kind == "i8":
        return values.astype(np.int8).view(np.uint8).astype(np.uint32)
    import torch

    name = {
        ("fp8", "gfx942"): torch.float8_e4m3fnuz, ("bf8", "gfx942"): torch.float8_e5m2fnuz,
        ("fp8", "gfx950"): torch.float8_e4m3fn, ("bf8", "gfx950"): torch.float8_e5m2,
    }[kind, arch]  # fmt: skip
    return torch.tensor(values.astype(np.float32)).to(name).view(torch.uint8).numpy().astype(np.uint32)


_WIDTH = {"bf16": 16, "f16": 16, "f32": 32, "xf32": 32, "f64": 64, "i8": 8, "fp8": 8, "bf8": 8}


def _place(matrix: np.ndarray, kind: str, arch: str) -> np.ndarray:
    """[blocks, size, depth] -> registers [count, 64]."""
    blocks, size, depth = matrix.shape
    codes = _encode(kind, matrix.reshape(-1), arch).reshape(matrix.shape)
    per_lane = size * depth * blocks // 64
    width = _WIDTH[kind]
    registers = np.zeros((max(1, per_lane * width // 32), 64), np.uint32)
    for b in range(blocks):
        for i in range(size):
            for k in range(depth):
                if kind == "f64" and size == 4:
                    lane, slot = 16 * k + 4 * b + i, 0
                else:
                    group, slot = divmod(k, per_lane)
                    lane = i + size * (b if blocks > 1 else group)
                code = int(codes[b, i, k])
                bit = slot * width
                if width == 64:
                    registers[0, lane], registers[1, lane] = code & 0xFFFFFFFF, code >> 32
                else:
                    registers[bit // 32, lane] |= np.uint32(code << (bit % 32))
    return registers


def _d_place(i: int, j: int, b: int, size: int, blocks: int, wide: bool) -> tuple[int, int]:
    """(accumulator element, lane) of D[i, j] in block b."""
    if wide:
        return (0, 16 * i + 4 * b + j) if size == 4 else (i // 4, 16 * (i % 4) + j)
    if size == 4:
        return i, 4 * b + j
    if size == 16:
        return 4 * b + i % 4, 16 * (i // 4) + j
    return 16 * b + 4 * (i // 8) + i % 4, 32 * (i // 4 % 2) + j


@pytest.mark.parametrize(("mnemonic", "arch"), CASES)
def test_small_integers_are_exact(mnemonic: str, arch: str) -> None:
    o = TABLE[arch, mnemonic].options
    size, depth, blocks, wide = o["size"], o["depth"], o["blocks"], o["result"] == "f64"
    rng = np.random.default_rng(size * 1000 + depth)
    high = 4 if o["a"] in ("fp8", "bf8") or o["b"] in ("fp8", "bf8") else 9
    a = rng.integers(-high, high + 1, (blocks, size, depth))
    b = rng.integers(-high, high + 1, (blocks, size, depth))
    c = rng.integers(-50, 50, (blocks, size, size))
    expected = np.einsum("bik,bjk->bij", a, b) + c
    ra, rb = _place(a, o["a"], arch), _place(b, o["b"], arch)
    count = size * size * blocks // 64
    acc = np.zeros((count, 64), np.float64)
    for block in range(blocks):
        for i in range(size):
            for j in range(size):
                r, lane = _d_place(i, j, block, size, blocks, wide)
                acc[r, lane] = c[block, i, j]
    words = 2 if wide else 1
    v = dict(enumerate(ra)) | {8 + r: row for r, row in enumerate(rb)}
    for r, row in enumerate(acc):
        if wide:
            bits = row.view(np.uint64)
            v[16 + 2 * r], v[17 + 2 * r] = (bits & 0xFFFFFFFF).astype(np.uint32), (bits >> 32).astype(np.uint32)
        elif o["result"] == "i32":
            v[16 + r] = row.astype(np.int32).view(np.uint32)
        else:
            v[16 + r] = row.astype(np.float32).view(np.uint32)

    def span(first: int, n: int) -> str:
        return f"v[{first}:{first + n - 1}]" if n > 1 else f"v{first}"

    text = f"{mnemonic} {span(16, count * words)}, {span(0, len(ra))}, {span(8, len(rb))}, {span(16, count * words)}"
    state = run(text, arch=arch, v=v, vgprs=64, exec_=0)
    for block in range(blocks):
        for i in range(size):
            for j in range(size):
                r, lane = _d_place(i, j, block, size, blocks, wide)
                if wide:
                    got = state.v64(16 + 2 * r)[lane : lane + 1].view(np.float64)[0]
                elif o["result"] == "i32":
                    got = state.v[16 + r].view(np.int32)[lane]
                else:
                    got = state.v[16 + r].view(np.float32)[lane]
                assert got == expected[block, i, j], (block, i, j)


@pytest.mark.parametrize("arch", ARCHS)
def test_order_does_not_matter_for_wide_exponents(arch: str) -> None:
    """2**60 - 2**60 + 1 in k order gives 1: float64 holds it, float32 accumulation would not."""
    a = np.zeros((1, 16, 16))
    a[0, :, 0], a[0, :, 1], a[0, :, 2] = 2.0**60, -(2.0**60), 1.0
    b = np.zeros((1, 16, 16))
    b[0, :, :3] = 1.0
    v = dict(enumerate(_place(a, "bf16", arch))) | {8 + r: row for r, row in enumerate(_place(b, "bf16", arch))}
    state = run("v_mfma_f32_16x16x16_bf16 v[16:19], v[0:1], v[8:9], 0", arch=arch, v=v)
    assert (state.v[16:20].view(np.float32) == 1.0).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_nan_reaches_its_row_only(arch: str) -> None:
    a = np.ones((1, 16, 16))
    a[0, 5, 3] = np.nan
    v = dict(enumerate(_place(a, "bf16", arch)))
    state = run("v_mfma_f32_16x16x16_bf16 v[16:19], v[0:1], v[0:1], 1.0", arch=arch, v=v)
    for i in range(16):
        for j in range(16):
            r, lane = _d_place(i, j, 0, 16, 1, False)
            got = state.v[16 + r].view(np.float32)[lane]
            assert np.isnan(got) if 5 in (i, j) else got == 17.0


@pytest.mark.parametrize("arch", ARCHS)
def test_block_broadcast(arch: str) -> None:
    """cbsz:4 abid:n makes all 16 blocks use block n of A."""
    a = np.arange(16).reshape(16, 1, 1) * np.ones((16, 4, 4))
    b = np.ones((16, 4, 4))
    v = dict(enumerate(_place(a, "f16", arch))) | {8 + r: row for r, row in enumerate(_place(b, "f16", arch))}
    state = run("v_mfma_f32_4x4x4_16b_f16 v[16:19], v[0:1], v[8:9], 0 cbsz:4 abid:5", arch=arch, v=v)
    assert (state.v[16:20].view(np.float32) == 20.0).all()


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("wide", [False, True])
def test_a_sum_of_negative_zeros_does_not_depend_on_other_elements(arch: str, wide: bool) -> None:
    """The sum begins at +0, whether the exponents of other rows ask for a sum in order or not."""
    a, b = np.zeros((1, 16, 16)), np.full((1, 16, 16), -0.0)
    a[0, 0, 1], b[0, 0, 0] = 0.5, -1.0
    if wide:
        a[0, 1, :2] = b[0, 1, :2] = 65504, 2.0**-24
    registers = {base + i: word for base, x in ((10, a), (14, b)) for i, word in enumerate(_place(x, "f16", arch))}
    c = {20 + i: 0x80000000 for i in range(4)}
    state = run("v_mfma_f32_16x16x16_f16 v[20:23], v[10:11], v[14:15], v[20:23]", arch=arch, v={**registers, **c})
    assert state.v[20, 0] == 0
