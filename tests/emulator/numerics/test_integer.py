"""Integer operations against Python's unbounded integers and the ISA manual's examples."""

from __future__ import annotations

import numpy as np
import pytest

from validation.emulator.numerics import integer as it

M32 = 0xFFFFFFFF
EDGES = [0, 1, 2, 7, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0xFF00FF00, 0x7FFFFFFF, 0x80000000, 0x80000001, M32 - 1, M32]


def words(seed, count=300):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.integers(0, 1 << 32, count, dtype=np.uint32), rng.permutation(EDGES * 4)]).astype(
        np.uint32
    )


def signed(x, bits=32):
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def clip(x, low, high):
    return max(low, min(high, x))


def byte(x, n):
    return x >> (8 * n) & 0xFF


def sad(a, b, masked=False):
    return sum(abs(byte(a, n) - byte(b, n)) for n in range(4) if not masked or byte(b, n))


def perm_byte(pair, choice):
    if choice > 12:
        return 0xFF
    if choice == 12:
        return 0
    if choice > 7:
        return 0xFF if pair >> (16 * (choice - 8) + 15) & 1 else 0
    return pair >> (8 * choice) & 0xFF


def bfe_signed(a, b, c):
    width = c & 31
    return signed(signed(a) >> (b & 31), width) if width else 0


# name: (function, model of three Python ints), results compared modulo 2**32
MODELS = {
    "mul_hi_u32": (lambda a, b, c: it.mul_hi_u32(a, b), lambda a, b, c: a * b >> 32),
    "mul_hi_i32": (lambda a, b, c: it.mul_hi_i32(a, b), lambda a, b, c: signed(a) * signed(b) >> 32),
    "mul_hi_u24": (lambda a, b, c: it.mul_hi_u24(a, b), lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32),
    "mul_hi_i24": (lambda a, b, c: it.mul_hi_i24(a, b), lambda a, b, c: signed(a, 24) * signed(b, 24) >> 32),
    "mad_u24": (it.mad_u24, lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
    "mad_i24": (it.mad_i24, lambda a, b, c: signed(a, 24) * signed(b, 24) + c),
    "bfe_u32": (it.bfe_u32, lambda a, b, c: a >> (b & 31) & ((1 << (c & 31)) - 1)),
    "bfe_i32": (it.bfe_i32, bfe_signed),
    "bfi": (it.bfi, lambda a, b, c: (a & b) | (~a & c)),
    "bfm": (lambda a, b, c: it.bfm(a, b), lambda a, b, c: ((1 << (a & 31)) - 1) << (b & 31)),
    "bfrev": (lambda a, b, c: it.bfrev(a), lambda a, b, c: int(f"{a:032b}"[::-1], 2)),
    "ffbh_u32": (lambda a, b, c: it.ffbh_u32(a), lambda a, b, c: 32 - a.bit_length() if a else M32),
    "ffbl": (lambda a, b, c: it.ffbl(a), lambda a, b, c: (a & -a).bit_length() - 1),
    "bcnt": (lambda a, b, c: it.bcnt(a, b), lambda a, b, c: a.bit_count() + b),
    "alignbit": (it.alignbit, lambda a, b, c: (a << 32 | b) >> (c & 31)),
    "alignbyte": (it.alignbyte, lambda a, b, c: (a << 32 | b) >> 8 * (c & 3)),
    "perm": (it.perm, lambda a, b, c: sum(perm_byte(a << 32 | b, byte(c, n)) << 8 * n for n in range(4))),
    "perm_low": (
        lambda a, b, c: it.perm(a, b, c & np.uint32(0x0F0F0F0F)),
        lambda a, b, c: sum(perm_byte(a << 32 | b, byte(c, n) & 15) << 8 * n for n in range(4)),
    ),
    "sad_u8": (it.sad_u8, lambda a, b, c: sad(a, b) + c),
    "sad_hi_u8": (it.sad_hi_u8, lambda a, b, c: (sad(a, b) << 16) + c),
    "msad_u8": (it.msad_u8, lambda a, b, c: sad(a, b, masked=True) + c),
    "sad_u16": (it.sad_u16, lambda a, b, c: abs((a & 0xFFFF) - (b & 0xFFFF)) + abs((a >> 16) - (b >> 16)) + c),
    "sad_u32": (it.sad_u32, lambda a, b, c: abs(a - b) + c),
    "lerp_u8": (
        it.lerp_u8,
        lambda a, b, c: sum(((byte(a, n) + byte(b, n) + (byte(c, n) & 1)) >> 1) << 8 * n for n in range(4)),
    ),
}


@pytest.mark.parametrize("name", list(MODELS))
def test_against_python_integers(name):
    function, model = MODELS[name]
    a, b, c = words(1), words(2), words(3)
    got = function(a, b, c)
    assert got.dtype == np.uint32
    want = [model(x, y, z) & M32 for x, y, z in zip(a.tolist(), b.tolist(), c.tolist())]
    assert got.tolist() == want


@pytest.mark.parametrize(
    ("function", "examples"),
    [  # functional examples of the CDNA4 ISA manual
        (it.ffbh_u32, [(0, M32), (0x800000FF, 0), (0x100000FF, 3), (0x0000FFFF, 16), (1, 31)]),
        (it.ffbl, [(0, M32), (0xFF000001, 0), (0xFF000008, 3), (0xFFFF0000, 16), (0x80000000, 31)]),
        (
            it.ffbh_i32,
            [
                (0, M32),
                (0x40000000, 1),
                (0x80000000, 1),
                (0x0FFFFFFF, 4),
                (0xFFFF0000, 16),
                (0xFFFFFFFE, 31),
                (M32, M32),
            ],
        ),
    ],
)
def test_manual_examples(function, examples):
    x, want = (np.array(column, np.uint32) for column in zip(*examples))
    assert function(x).tolist() == want.tolist()


@pytest.mark.parametrize("table", range(256))
def test_bitop3_follows_its_table(table):
    a, b, c = np.uint32(0xF0), np.uint32(0xCC), np.uint32(0xAA)
    want = sum((table >> (4 * (a >> i & 1) + 2 * (b >> i & 1) + (c >> i & 1)) & 1) << i for i in range(8))
    got = int(it.bitop3(a, b, c, table))
    assert got & 0xFF == want == table
    assert got >> 8 == (0xFFFFFF if table & 1 else 0)


def test_bitop3_refuses_a_wide_table():
    with pytest.raises(ValueError, match=r"0\.\.255"):
        it.bitop3(np.uint32(0), np.uint32(0), np.uint32(0), 256)


def test_wide_mads():
    a, b = words(4), words(5)
    c = (words(6).astype(np.uint64) << np.uint64(32)) | words(7).astype(np.uint64)
    total, carry = it.mad_u64_u32(a, b, c)
    exact = [x * y + z for x, y, z in zip(a.tolist(), b.tolist(), c.tolist())]
    assert total.tolist() == [v & (2**64 - 1) for v in exact]
    assert carry.tolist() == [v >> 64 != 0 for v in exact]
    total, carry = it.mad_i64_i32(a, b, c)
    exact = [signed(x) * signed(y) + signed(z, 64) for x, y, z in zip(a.tolist(), b.tolist(), c.tolist())]
    assert total.tolist() == [v & (2**64 - 1) for v in exact]
    assert carry.tolist() == [v >> 64 & 1 == 1 for v in exact]


@pytest.mark.parametrize("is_signed", [False, True])
@pytest.mark.parametrize("bits", [16, 32])
def test_saturating_sums(bits, is_signed):
    a, b, c = words(8), words(9), words(10)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    mask = (1 << bits) - 1

    def read(x):
        return signed(x, bits) if is_signed else x & mask

    pairs = list(zip(a.tolist(), b.tolist(), c.tolist()))
    assert it.add_saturating(a, b, bits, is_signed).tolist() == [
        clip(read(x) + read(y), low, high) & mask for x, y, _ in pairs
    ]
    assert it.sub_saturating(a, b, bits, is_signed).tolist() == [
        clip(read(x) - read(y), low, high) & mask for x, y, _ in pairs
    ]
    if bits == 16:
        want = [clip(read(x) * read(y) + read(z), low, high) & mask for x, y, z in pairs]
        assert it.mad_saturating(a, b, c, bits, is_signed).tolist() == want


def test_mad_saturating_refuses_what_would_overflow():
    with pytest.raises(ValueError, match="at most 24"):
        it.mad_saturating(np.uint32(1), np.uint32(1), np.uint32(1), 32)


@pytest.mark.parametrize("is_signed", [False, True])
def test_ashr_pk(is_signed):
    a, b, s = words(11), words(12), words(13)
    low, high = (-128, 127) if is_signed else (0, 255)
    want = [
        clip(signed(x) >> (n & 31), low, high) & 0xFF | (clip(signed(y) >> (n & 31), low, high) & 0xFF) << 8
        for x, y, n in zip(a.tolist(), b.tolist(), s.tolist())
    ]
    assert it.ashr_pk(a, b, s, is_signed).tolist() == want


def test_broadcasting_and_scalars():
    a = np.arange(128, dtype=np.uint32).reshape(2, 64)
    assert it.perm(a, np.uint32(0), np.uint32(0x0C0C0C04)).shape == (2, 64)
    assert int(it.mul_hi_u32(np.uint32(M32), np.uint32(M32))) == M32 - 1


@pytest.mark.parametrize("selector", [0x07060302, 0x05040100, 0x0C0C0302, 0x0D080B0A, 0x09FF0C07, 0x01020304])
def test_perm_with_one_selector_for_all_lanes(selector):
    a, b = words(14), words(15)
    pairs = zip(a.tolist(), b.tolist())
    want = [sum(perm_byte(x << 32 | y, byte(selector, n)) << 8 * n for n in range(4)) for x, y in pairs]
    assert it.perm(a, b, np.uint32(selector)).tolist() == want
    assert it.perm(a, b, np.full(len(a), selector, np.uint32)).tolist() == want


def test_quad_sums_of_absolute_differences():
    rng = np.random.default_rng(16)
    a, c = (rng.integers(0, 1 << 64, 100, dtype=np.uint64) for _ in range(2))
    b, wide = words(17)[:100] & np.uint32(0xFFFF00FF), rng.integers(0, 1 << 32, (100, 4), dtype=np.uint32)

    def sums(x, y, masked):
        return [sad(x >> 8 * start & M32, y, masked) for start in range(4)]

    for masked in (False, True):
        want = [
            sum(((total + (z >> 16 * n)) & 0xFFFF) << 16 * n for n, total in enumerate(sums(x, y, masked)))
            for x, y, z in zip(a.tolist(), b.tolist(), c.tolist())
        ]
        assert it.qsad_pk_u16_u8(a, b, c, masked).tolist() == want
    want_wide = [
        [(total + z) & M32 for total, z in zip(sums(x, y, True), row)]
        for x, y, row in zip(a.tolist(), b.tolist(), wide.tolist())
    ]
    assert it.mqsad_u32_u8(a, b, wide).tolist() == want_wide
