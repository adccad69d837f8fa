"""Matrix instructions on many waves: partial selections, order of adding, registers that change between products."""

from __future__ import annotations

import numpy as np

from .stepping import many_waves, step_of
from .test_mfma_scaled import d_place, read_d


def brain(x: np.ndarray) -> np.ndarray:
    """float32 values cut to bf16."""
    return (x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def in_ascending_order(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """round32(c + sum over k) as Python adds floats (binary64), for [16, 16] matrices by rows and by columns."""
    out = np.zeros((16, 16), np.float32)
    for i in range(16):
        for j in range(16):
            total = 0.0
            for k in range(16):
                total += float(a[i, k]) * float(b[j, k])
            out[i, j] = np.float32(float(c[i, j]) + total)
    return out


def test_waves_are_independent_and_wide_exponents_add_in_order() -> None:
    """150 waves (more than one part): unit-sized values, exponents far apart, NaN; some waves do not step."""
    rng = np.random.default_rng(1)
    count = 150
    w = many_waves(count)
    a, b = (brain(rng.normal(size=(count, 16, 16))) for _ in range(2))
    a[40:80] = brain(a[40:80] * 2.0 ** rng.integers(-40, 41, (40, 16, 16)))
    a[60, 3, 2] = np.nan
    b[75, 1, :] = 0
    c = rng.normal(size=(count, 16, 16)).astype(np.float32)
    for i in range(16):
        for k in range(16):
            for base, matrix in ((0, a), (2, b)):
                code = matrix[:, i, k].view(np.uint32) >> np.uint32(16)
                w.V[base + k % 4 // 2, :, 16 * (k // 4) + i] |= code << np.uint32(16 * (k % 2))
        for j in range(16):
            r, lane = d_place(i, j, 16)
            w.V[16 + r, :, lane] = c[:, i, j].view(np.uint32)
    step = step_of("v_mfma_f32_16x16x16_bf16 v[16:19], v[0:1], v[2:3], v[16:19]")
    before = w.V.copy()
    step(w)
    for wave in (0, 1, 41, 60, 75, 79, 127, 128, 149):
        got, expected = read_d(w.V[16:20, wave], 16), in_ascending_order(a[wave], b[wave], c[wave])
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        assert same.all(), wave
    all_stepped = w.V.copy()
    w.V[:] = before
    chosen = np.array([1, 60, 128, 149])
    w.select(chosen)
    step(w)
    others = np.setdiff1d(np.arange(count), chosen)
    assert (w.V[:, chosen] == all_stepped[:, chosen]).all()
    assert (w.V[:, others] == before[:, others]).all()


def test_changed_registers_are_unpacked_again() -> None:
    w = many_waves(2)
    step = step_of("v_mfma_f32_16x16x16_bf16 v[16:19], v[0:1], v[2:3], 0")
    w.V[0:4] = 0x3F803F80
    step(w)
    assert (w.V[16:20].view(np.float32) == 16.0).all()
    w.V[0:2, 1] = 0x40004000
    step(w)
    assert (w.V[16:20, 0].view(np.float32) == 16.0).all()
    assert (w.V[16:20, 1].view(np.float32) == 32.0).all()
    w.V[2:4] = w.V[0:2]
    step(w)
    assert (w.V[16:20, 1].view(np.float32) == 64.0).all()
