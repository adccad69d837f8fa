"""VOP3P: packed 16-bit integers. Expected values come from integer arithmetic on single elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from validation.emulator.errors import UnsupportedError

from .harness import ARCHS, run

both = pytest.mark.parametrize("arch", ARCHS)
EDGES = [0, 1, 2, 7, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x1234, 0xFEDC, 15, 16]


def word(low: int, high: int) -> int:
    return (low & 0xFFFF) | (high & 0xFFFF) << 16


def signed(x: int) -> int:
    return x - 0x10000 if x & 0x8000 else x


INTEGER_OPS: dict[str, tuple[int, bool, Callable[..., int], bool]] = {
    "v_pk_add_i16": (2, True, lambda a, b: a + b, True),
    "v_pk_add_u16": (2, False, lambda a, b: a + b, True),
    "v_pk_sub_i16": (2, True, lambda a, b: a - b, True),
    "v_pk_sub_u16": (2, False, lambda a, b: a - b, True),
    "v_pk_mad_i16": (3, True, lambda a, b, c: a * b + c, True),
    "v_pk_mad_u16": (3, False, lambda a, b, c: a * b + c, True),
    "v_pk_min_i16": (2, True, min, False),
    "v_pk_min_u16": (2, False, min, False),
    "v_pk_max_i16": (2, True, max, False),
    "v_pk_max_u16": (2, False, max, False),
    "v_pk_mul_lo_u16": (2, False, lambda a, b: a * b, False),
    "v_pk_lshlrev_b16": (2, False, lambda n, x: x << (n & 15), False),
    "v_pk_lshrrev_b16": (2, False, lambda n, x: x >> (n & 15), False),
    "v_pk_ashrrev_i16": (2, True, lambda n, x: x >> (n & 15), False),
}


def _saturated(x: int, is_signed: bool) -> int:
    return min(max(x, -0x8000), 0x7FFF) if is_signed else min(max(x, 0), 0xFFFF)


@both
@pytest.mark.parametrize("clamp", [False, True])
@pytest.mark.parametrize("mnemonic", INTEGER_OPS)
def test_integer_pairs(mnemonic: str, clamp: bool, arch: str) -> None:
    count, is_signed, op, saturates = INTEGER_OPS[mnemonic]
    rng = np.random.default_rng(3)
    low = [[EDGES[k] for k in rng.integers(0, len(EDGES), 64)] for _ in range(count)]
    high = [[EDGES[k] for k in rng.integers(0, len(EDGES), 64)] for _ in range(count)]
    v = {i: [word(a, b) for a, b in zip(low[i], high[i], strict=True)] for i in range(count)}
    text = f"{mnemonic} v9, {', '.join(f'v{i}' for i in range(count))}" + (" clamp" if clamp else "")
    if clamp and not saturates:
        with pytest.raises(UnsupportedError):
            run(text, arch=arch, v=v)
        return
    got = run(text, arch=arch, v=v).v[9]
    read = signed if is_signed else int
    for lane in range(64):
        results = [op(*[read(x[i][lane]) for i in range(count)]) for x in (low, high)]
        if clamp:
            results = [_saturated(r, is_signed) for r in results]
        assert int(got[lane]) == word(*results), lane


@both
def test_integer_selection_and_constants(arch: str) -> None:
    v = {0: word(1, 2), 1: word(10, 20)}
    assert run("v_pk_sub_u16 v2, v0, v1 op_sel:[1,0] op_sel_hi:[0,1]", arch=arch, v=v).v[2][0] == word(2 - 10, 1 - 20)
    assert run("v_pk_add_u16 v2, v0, 5 op_sel_hi:[1,0]", arch=arch, v=v).v[2][0] == word(6, 7)
    assert run("v_pk_add_u16 v2, v0, 5", arch=arch, v=v).v[2][0] == word(6, 2)
    assert run("v_pk_add_u16 v2, v0, -1", arch=arch, v=v).v[2][0] == word(0, 1)
    assert run("v_pk_add_u16 v2, v0, s9 op_sel_hi:[1,0]", arch=arch, v=v, s={9: 0x50064}).v[2][0] == word(101, 102)
    assert run("v_pk_lshlrev_b16 v2, 8, v1 op_sel_hi:[0,1]", arch=arch, v=v).v[2][0] == word(10 << 8, 20 << 8)
