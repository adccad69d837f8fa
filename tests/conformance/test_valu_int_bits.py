"""Vectors of the bit instructions (run by test_valu_int.py) and what is special about some of them."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from validation.emulator.isa.boolean3 import boolean3

from .harness import ARCHS, run
from .integer_vectors import GFX950, Vector, check, edge_values, signed, vector

M32, M64 = 0xFFFFFFFF, (1 << 64) - 1


def field_u(x: int, offset: int, width: int) -> int:
    return (x >> (offset & 31)) & ((1 << (width & 31)) - 1)


def field_i(x: int, offset: int, width: int) -> int:
    width &= 31
    raw = (signed(x, 32) >> (offset & 31)) & ((1 << width) - 1)
    return signed(raw, width) if width else 0


def leading_zeros(x: int) -> int:
    return 32 - x.bit_length() if x else M32


def sign_run(x: int) -> int:
    """Position of the first bit, from the top, that differs from the sign; all ones when none does."""
    return next((i for i in range(1, 32) if x >> (31 - i) & 1 != x >> 31), M32)


def permuted(high: int, low: int, selector: int) -> int:
    data = high << 32 | low
    result = 0
    for i in range(4):
        pick = selector >> (8 * i) & 0xFF
        if pick < 8:
            byte = data >> (8 * pick) & 0xFF
        elif pick < 12:
            byte = 0xFF * (data >> (16 * (pick - 8) + 15) & 1)
        else:
            byte = 0 if pick == 12 else 0xFF
        result |= byte << (8 * i)
    return result


def shifts(bits: int, fn: Callable[[int, int], int]) -> Callable[[int, int], int]:
    return lambda n, a: fn(a, n & (bits - 1))


def truth(table: int, bits: int) -> Callable[[int, int, int], int]:
    def fn(a: int, b: int, c: int) -> int:
        rows = ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1 for i in range(bits))
        return sum((table >> row & 1) << i for i, row in enumerate(rows))

    return fn


BIT_VECTORS: dict[str, Vector] = {
    "v_and_b32": vector("32 32", "32", lambda a, b: a & b),
    "v_or_b32": vector("32 32", "32", lambda a, b: a | b),
    "v_xor_b32": vector("32 32", "32", lambda a, b: a ^ b),
    "v_xnor_b32": vector("32 32", "32", lambda a, b: ~(a ^ b)),
    "v_not_b32": vector("32", "32", lambda a: ~a),
    "v_and_or_b32": vector("32 32 32", "32", lambda a, b, c: a & b | c),
    "v_or3_b32": vector("32 32 32", "32", lambda a, b, c: a | b | c),
    "v_bfi_b32": vector("32 32 32", "32", lambda m, a, b: m & a | ~m & b),
    "v_lshlrev_b32": vector("32 32", "32", shifts(32, lambda a, n: a << n)),
    "v_lshrrev_b32": vector("32 32", "32", shifts(32, lambda a, n: a >> n)),
    "v_ashrrev_i32": vector("32 32", "32", shifts(32, lambda a, n: signed(a, 32) >> n)),
    "v_lshlrev_b64": vector("32 64", "64", shifts(64, lambda a, n: a << n)),
    "v_lshrrev_b64": vector("32 64", "64", shifts(64, lambda a, n: a >> n)),
    "v_ashrrev_i64": vector("32 64", "64", shifts(64, lambda a, n: signed(a, 64) >> n)),
    "v_lshlrev_b16": vector("16 16", "16", shifts(16, lambda a, n: a << n)),
    "v_lshrrev_b16": vector("16 16", "16", shifts(16, lambda a, n: a >> n)),
    "v_ashrrev_i16": vector("16 16", "16", shifts(16, lambda a, n: signed(a, 16) >> n)),
    "v_lshl_add_u32": vector("32 32 32", "32", lambda a, n, c: (a << (n & 31)) + c),
    "v_lshl_or_b32": vector("32 32 32", "32", lambda a, n, c: (a << (n & 31)) | c),
    "v_add_lshl_u32": vector("32 32 32", "32", lambda a, b, n: ((a + b) & M32) << (n & 31)),
    "v_lshl_add_u64": vector("64 32 64", "64", lambda a, n, c: (a << (n & 7)) + c),
    "v_bfe_u32": vector("32 32 32", "32", field_u),
    "v_bfe_i32": vector("32 32 32", "32", field_i),
    "v_bfm_b32": vector("32 32", "32", lambda w, o: ((1 << (w & 31)) - 1) << (o & 31)),
    "v_bfrev_b32": vector("32", "32", lambda a: int(f"{a:032b}"[::-1], 2)),
    "v_bcnt_u32_b32": vector("32 32", "32", lambda a, b: a.bit_count() + b),
    "v_ffbh_u32": vector("32", "32", leading_zeros),
    "v_ffbh_i32": vector("32", "32", sign_run),
    "v_ffbl_b32": vector("32", "32", lambda a: (a & -a).bit_length() - 1),
    "v_alignbit_b32": vector("32 32 32", "32", lambda a, b, n: (a << 32 | b) >> (n & 31)),
    "v_alignbyte_b32": vector("32 32 32", "32", lambda a, b, n: (a << 32 | b) >> 8 * (n & 3)),
    "v_perm_b32": vector("32 32 32", "32", permuted),
    "v_bitop3_b32": vector("32 32 32", "32", truth(0xD2, 32), archs=GFX950, modifiers="bitop3:0xd2"),
    "v_bitop3_b16": vector("16 16 16", "16", truth(0x6C, 16), archs=GFX950, keep=True, modifiers="bitop3:0x6c"),
}


def _below(mask: int, lane: int, first: int) -> int:
    return sum(mask >> i & 1 for i in range(32) if first + i < lane)


@pytest.mark.parametrize("arch", ARCHS)
def test_mbcnt_counts_lanes_below(arch: str) -> None:
    low, high = 0xF000_0FF1, 0x8000_0013
    state = run(
        ["v_mbcnt_lo_u32_b32 v2, s4, 0", "v_mbcnt_hi_u32_b32 v3, s5, v2", "v_mbcnt_lo_u32_b32 v4, exec_lo, 5"],
        arch=arch, s={4: low, 5: high}, v={4: 99}, exec_=(1 << 63) | 0b1011,
    )  # fmt: skip
    for lane in (0, 1, 3, 63):
        count = _below(low, lane, 0)
        assert int(state.v[2][lane]) == count
        assert int(state.v[3][lane]) == count + _below(high, lane, 32)
        assert int(state.v[4][lane]) == 5 + _below(0b1011, lane, 0)
    assert int(state.v[4][2]) == 99
    state = run("v_mbcnt_lo_u32_b32 v2, v0, v1", arch=arch, v={0: range(1000, 1064), 1: range(64)})
    assert state.v[2].tolist() == [_below(1000 + i, i, 0) + i for i in range(64)]
    state = run("v_mbcnt_hi_u32_b32 v2, -1, 0", arch=arch)
    assert state.v[2].tolist() == [max(0, i - 32) for i in range(64)]


#: The functions that BIT_VECTORS leaves to tests of their own.
LANE_DEPENDENT = ("v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32")


SELECTORS = [0x07060302, 0x05040100, 0x00010203, 0x0C0C0C07, 0x0D080B0A, 0x04040404, 0xFF030201]


@pytest.mark.parametrize("selector", SELECTORS)
def test_perm_with_uniform_selector(selector: int) -> None:
    vec = BIT_VECTORS["v_perm_b32"]
    rng = random.Random(selector)
    check("v_perm_b32", vec, [edge_values(rng, 32), edge_values(rng, 32), ("s", selector)], "gfx942")
    check("v_perm_b32", vec, [("s", 0x89ABCDEF), edge_values(rng, 32), [selector] * 64], "gfx950", 0xFF00FF)


def test_bitop3_follows_its_table() -> None:
    """All 256 functions on all eight rows of the table."""
    a, b, c = (np.array(x, np.uint32) for x in ([0xF0], [0xCC], [0xAA]))
    for table in range(256):
        assert int(boolean3(table)(a, b, c)[0]) & 0xFF == table
        assert int(boolean3(table)(a, b, c)[0]) >> 8 == (0xFFFFFF if table & 1 else 0)


def test_bitop3_out_of_range() -> None:
    with pytest.raises(ValueError, match=r"0\.\.255"):
        boolean3(256)


def test_bitop3_defaults_to_zero() -> None:
    """LLVM's assembler encodes a missing table as 0."""
    state = run("v_bitop3_b32 v3, v0, v1, v2", arch="gfx950", v={0: 1, 1: 2, 2: 3, 3: 4})
    assert not state.v[3].any()


@pytest.mark.parametrize("arch", ARCHS)
def test_shift_amounts_wrap(arch: str) -> None:
    state = run(
        ["v_lshlrev_b32_e32 v2, 33, v0", "v_lshrrev_b64 v[4:5], 64, v[0:1]", "v_lshlrev_b16_e32 v3, 17, v0"],
        arch=arch, v={0: 0x8001, 1: 7},
    )  # fmt: skip
    assert int(state.v[2][0]) == 0x10002
    assert int(state.v64(4)[0]) == 0x7_0000_8001
    assert int(state.v[3][0]) == 2
