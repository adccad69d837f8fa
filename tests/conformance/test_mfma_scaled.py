"""gfx950 f8f6f4 MFMA with and without block scales, and 4:2 sparse SMFMAC, against exact arithmetic.

Register maps are written out here from their sources, independently of the emulator: composable_kernel's
``mx_mfma_op.hpp`` for f8f6f4 and its scales, AMD's matrix instruction calculator for SMFMAC.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from validation.emulator.errors import AsmError, EmulatorError, UnsupportedError
from validation.emulator.isa import TABLE

from .harness import ARCHS, run

FORMATS = ("fp8", "bf8", "fp6", "bf6", "fp4")
BITS = {"fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4, "f16": 16, "bf16": 16, "i8": 8}
#: exponent bits, mantissa bits, bias (OCP)
FIELDS = {"fp8": (4, 3, 7), "bf8": (5, 2, 15), "fp6": (2, 3, 1), "bf6": (3, 2, 3), "fp4": (2, 1, 1)}
SHAPES = [(16, 128), (32, 64)]


def value(name: str, code: int) -> Fraction:
    exponent_bits, mantissa_bits, bias = FIELDS[name]
    sign = -1 if code >> (BITS[name] - 1) else 1
    e, m = (code >> mantissa_bits) & ((1 << exponent_bits) - 1), code & ((1 << mantissa_bits) - 1)
    fraction = Fraction(m, 1 << mantissa_bits)
    return sign * (fraction + (e > 0)) * Fraction(2) ** (max(e, 1) - bias)


VALUES = {n: np.array([float(value(n, c)) for c in range(1 << BITS[n])]) for n in FORMATS}


def f8f6f4_place(name: str, size: int, k: int) -> tuple[int, int]:
    """(lane group, slot) of k: 8-bit formats deal chunks of 16 k to the groups, the others hold 32 k each."""
    groups = 64 // size
    if BITS[name] == 8:
        return k // 16 % groups, k % 16 + 16 * (k // (16 * groups))
    return k // 32, k % 32


def put(registers: np.ndarray, lane: int, bit: int, width: int, code: int) -> None:
    for i in range(width):
        if code >> i & 1:
            registers[(bit + i) // 32, lane] |= np.uint32(1 << ((bit + i) % 32))


def place_f8f6f4(name: str, codes: np.ndarray) -> np.ndarray:
    """Codes [size, depth] -> registers [count, 64]."""
    size, depth = codes.shape
    registers = np.zeros((BITS[name], 64), np.uint32)
    for i in range(size):
        for k in range(depth):
            group, slot = f8f6f4_place(name, size, k)
            put(registers, size * group + i, slot * BITS[name], BITS[name], int(codes[i, k]))
    return registers


def d_place(i: int, j: int, size: int) -> tuple[int, int]:
    if size == 16:
        return i % 4, 16 * (i // 4) + j
    return 4 * (i // 8) + i % 4, 32 * (i // 4 % 2) + j


def read_d(registers: np.ndarray, size: int, dtype: Any = np.float32) -> np.ndarray:
    out = np.zeros((size, size), dtype)
    for i in range(size):
        for j in range(size):
            r, lane = d_place(i, j, size)
            out[i, j] = registers[r].view(dtype)[lane]
    return out


def span(first: int, count: int) -> str:
    return f"v[{first}:{first + count - 1}]"


def modest_codes(name: str, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Codes whose values lie within 1/8 to 4: sums of their products are exact in float32."""
    usable = [c for c, v in enumerate(VALUES[name]) if v == 0 or 0.5 <= abs(v) <= 4]
    return np.array(usable)[rng.integers(0, len(usable), shape)]


@pytest.mark.parametrize("b_name", FORMATS)
@pytest.mark.parametrize("a_name", FORMATS)
@pytest.mark.parametrize(("size", "depth"), SHAPES)
def test_formats_mix(size: int, depth: int, a_name: str, b_name: str) -> None:
    rng = np.random.default_rng(depth)
    a, b = modest_codes(a_name, rng, (size, depth)), modest_codes(b_name, rng, (size, depth))
    ra, rb = place_f8f6f4(a_name, a), place_f8f6f4(b_name, b)
    expected = VALUES[a_name][a] @ VALUES[b_name][b].T + 1.0
    v = dict(enumerate(ra)) | {8 + r: row for r, row in enumerate(rb)}
    count = size * size // 64
    text = (
        f"v_mfma_f32_{size}x{size}x{depth}_f8f6f4 {span(16, count)}, {span(0, len(ra))}, {span(8, len(rb))}, 1.0 "
        f"cbsz:{FORMATS.index(a_name)} blgp:{FORMATS.index(b_name)}"
    )
    state = run(text, arch="gfx950", v=v, exec_=0)
    assert (read_d(state.v[16 : 16 + count], size) == expected).all()


@pytest.mark.parametrize("names", [("fp8", "fp8"), ("fp4", "fp4"), ("bf8", "fp4"), ("fp6", "fp8"), ("fp4", "bf6")])
@pytest.mark.parametrize(("size", "depth"), SHAPES)
def test_block_scales(size: int, depth: int, names: tuple[str, str]) -> None:
    """One E8M0 scale for each row and 32 k, from the byte that op_sel (low bit) and op_sel_hi (high bit) pick."""
    rng = np.random.default_rng(size)
    codes = [modest_codes(n, rng, (size, depth)) for n in names]
    scales = rng.integers(124, 131, (2, size, depth // 32))
    placed = [place_f8f6f4(n, c) for n, c in zip(names, codes, strict=True)]
    scaled = [
        VALUES[n][c] * np.repeat(2.0 ** (s - 127), 32, axis=1) for n, c, s in zip(names, codes, scales, strict=True)
    ]
    c = rng.integers(-8, 9, (size, size))
    expected = scaled[0] @ scaled[1].T + c
    assert (expected == expected.astype(np.float32)).all()
    count = size * size // 64
    accumulator = np.zeros((count, 64), np.float32)
    for i in range(size):
        for j in range(size):
            r, lane = d_place(i, j, size)
            accumulator[r, lane] = c[i, j]
    v: dict[int, Any] = dict(enumerate(placed[0])) | {8 + r: row for r, row in enumerate(placed[1])}
    v |= {16 + r: row.view(np.uint32) for r, row in enumerate(accumulator)}
    for byte_a, byte_b in ((0, 0), (1, 2), (3, 1), (2, 3)):
        for operand, byte in ((0, byte_a), (1, byte_b)):
            lane_codes = np.array([scales[operand, lane % size, lane // size] for lane in range(64)], np.uint32)
            junk = np.uint32(0x41424344) & np.uint32(0xFFFFFFFF ^ (0xFF << (8 * byte)))
            v[40 + operand] = lane_codes << np.uint32(8 * byte) | junk
        text = (
            f"v_mfma_scale_f32_{size}x{size}x{depth}_f8f6f4 {span(16, count)}, {span(0, len(placed[0]))}, "
            f"{span(8, len(placed[1]))}, {span(16, count)}, v40, v41 op_sel:[{byte_a & 1},{byte_b & 1},0] "
            f"op_sel_hi:[{byte_a >> 1},{byte_b >> 1},0] cbsz:{FORMATS.index(names[0])} blgp:{FORMATS.index(names[1])}"
        )
        state = run(text, arch="gfx950", v=v)
        assert (read_d(state.v[16 : 16 + count], size) == expected).all(), (byte_a, byte_b)


def test_scales_from_scalar_registers_and_constants() -> None:
    """One scale for all rows and blocks (LLVM's assembler takes SGPRs and inline constants, no literals)."""
    v: dict[int, Any] = dict(enumerate(place_f8f6f4("fp8", np.full((16, 128), 0x38))))
    text = (
        "v_mfma_scale_f32_16x16x128_f8f6f4 {d}, v[0:7], v[0:7], 0, {a}, {b} op_sel:[{low},0,0] op_sel_hi:[{high},0,0]"
    )
    cases = {
        ("s4", "v41", 0, 0): 2.0**3,
        ("s4", "v41", 1, 0): 2.0**-2,
        ("s4", "s4", 0, 0): 2.0**6,
        ("s5", "v41", 1, 1): 2.0**1,
        ("64", "v41", 0, 0): 2.0 ** (64 - 127),
        ("-1", "v41", 0, 0): np.nan,
        ("0.5", "v41", 1, 1): 2.0 ** (63 - 127),
    }
    for (a, b, low, high), scale in cases.items():
        line = text.format(d="v[16:19]", a=a, b=b, low=low, high=high)
        state = run(line, arch="gfx950", v=v | {41: 127}, s={4: 0x7D82, 5: 0x80000000})
        np.testing.assert_array_equal(read_d(state.v[16:20], 16), np.full((16, 16), np.float32(128 * scale)))
    # an SGPR that changes between two products of the same fragments
    again = [text.format(d=d, a="s4", b="v41", low=0, high=0) for d in ("v[16:19]", "v[20:23]")]
    state = run([again[0], "s_mov_b32 s4, 0x80", again[1]], arch="gfx950", v=v | {41: 127}, s={4: 0x82})
    assert (state.v[16:20].view(np.float32) == 128 * 8).all()
    assert (state.v[20:24].view(np.float32) == 128 * 2).all()


def test_scale_of_nan_reaches_its_row_only() -> None:
    ones = np.full((16, 128), 0x38)
    v: dict[int, Any] = dict(enumerate(place_f8f6f4("fp8", ones)))
    v |= {40: [127] * 16 + [255 if i == 5 else 127 for i in range(16)] + [127] * 32, 41: 127}
    text = "v_mfma_scale_f32_16x16x128_f8f6f4 v[16:19], v[0:7], v[0:7], 0, v40, v41 op_sel_hi:[0,0,0]"
    got = read_d(run(text, arch="gfx950", v=v).v[16:20], 16)
    assert np.isnan(got[5]).all()
    assert (np.delete(got, 5, axis=0) == 128.0).all()


def test_scales_far_apart_are_summed_in_order() -> None:
    """2**60 - 2**60 + 1 over blocks of k gives 1."""
    a = np.zeros((16, 128), int)
    a[:, 0], a[:, 32], a[:, 64] = 0x38, 0xB8, 0x38
    b = np.full((16, 128), 0x38)
    v: dict[int, Any] = dict(enumerate(place_f8f6f4("fp8", a)))
    v |= {8 + r: row for r, row in enumerate(place_f8f6f4("fp8", b))}
    v |= {40: [187] * 32 + [127] * 32, 41: 127}
    text = "v_mfma_scale_f32_16x16x128_f8f6f4 v[16:19], v[0:7], v[8:15], 0, v40, v41 op_sel_hi:[0,0,0]"
    assert (read_d(run(text, arch="gfx950", v=v).v[16:20], 16) == 1.0).all()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("v_mfma_f32_16x16x128_f8f6f4 v[16:19], v[0:7], v[8:15], 0 cbsz:5", UnsupportedError),
        ("v_mfma_f32_16x16x128_f8f6f4 v[16:19], v[0:7], v[8:15], 0 cbsz:4", AsmError),
        ("v_mfma_f32_16x16x128_f8f6f4 v[16:19], v[0:7], v[8:15], 0 blgp:2", AsmError),
        ("v_mfma_f32_16x16x128_f8f6f4 v[16:19], v[0:7], v[8:15], 0 abid:1", UnsupportedError),
        ("v_mfma_scale_f32_16x16x128_f8f6f4 v[16:19], v[0:7], v[8:15], 0, 65, v41", AsmError),
        ("v_mfma_scale_f32_16x16x128_f8f6f4 v[16:19], v[0:7], v[8:15], 0, a4, v41", AsmError),
        ("v_mfma_scale_f32_16x16x128_f8f6f4 v[16:19], v[0:7], v[8:15], 0, s[4:5], v41", AsmError),
        ("v_mfma_scale_f32_16x16x128_f8f6f4 v[16:19], v[0:7], v[8:15], 0, v40, v41 op_sel:[0,0,1]", UnsupportedError),
        ("v_mfma_scale_f32_16x16x128_f8f6f4 v[16:19], v[0:7], v[8:15], 0", AsmError),
        ("v_mfma_ld_scale_b32 v40, v41", UnsupportedError),
        ("v_mfma_f32_16x16x16_bf16 v[16:19], v[0:1], v[8:9], 0 cbsz:1", UnsupportedError),
        ("v_smfmac_f32_16x16x32_f16 v[16:19], v[0:1], v[8:11], v40 abid:4", AsmError),
        ("v_smfmac_f32_16x16x32_f16 v[16:19], v[0:3], v[8:11], v40", AsmError),
        ("v_smfmac_f32_16x16x32_f16 v[16:19], v[0:1], v[8:11], s4", AsmError),
    ],
)
def test_refused(text: str, error: type[EmulatorError]) -> None:
    with pytest.raises(error):
        run(text, arch="gfx950")


def test_f8f6f4_is_gfx950_only() -> None:
    with pytest.raises(UnsupportedError, match="only on gfx950"):
        run("v_mfma_f32_16x16x128_f8f6f4 v[16:19], v[0:7], v[8:15], 0", arch="gfx942")


# -- 4:2 sparse --------------------------------------------------------------------------------------------------------
SPARSE = sorted((m, a) for (a, m), e in TABLE.items() if e.form == "smfmac")


def test_sparse_instructions_per_architecture() -> None:
    """16-bit, i8 and four byte-float pairs in two shapes each, on gfx950 twice as many."""
    assert [sum(a == arch for _, a in SPARSE) for arch in ARCHS] == [14, 28]


def element_codes(kind: str, values: np.ndarray, arch: str) -> np.ndarray:
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
    if kind == "bf16":
        return values.astype(np.float32).view(np.uint32) >> 16
    if kind == "i8":
        return values.astype(np.int8).view(np.uint8).astype(np.uint32)
    dtype = {
        ("fp8", "gfx942"): torch.float8_e4m3fnuz, ("bf8", "gfx942"): torch.float8_e5m2fnuz,
        ("fp8", "gfx950"): torch.float8_e4m3fn, ("bf8", "gfx950"): torch.float8_e5m2,
    }[kind, arch]  # fmt: skip
    return torch.tensor(values.astype(np.float32)).to(dtype).view(torch.uint8).numpy().astype(np.uint32)


def place_rows(kind: str, codes: np.ndarray) -> np.ndarray:
    """Codes [size, depth] -> registers; a lane holds depth * size / 64 consecutive k of a row."""
    size, depth = codes.shape
    slots = depth * size // 64
    registers = np.zeros((slots * BITS[kind] // 32, 64), np.uint32)
    for i in range(size):
        for k in range(depth):
            put(registers, size * (k // slots) + i, (k % slots) * BITS[kind], BITS[kind], int(codes[i, k]))
    return registers


def sparse_case(mnemonic: str, arch: str, abid: int, seed: int) -> tuple[dict[int, Any], np.ndarray, str]:
    """Registers, expected D and instruction text."""
    o = TABLE[arch, mnemonic].options
    size, depth, result = o["size"], o["depth"], o["result"]
    rng = np.random.default_rng(seed)
    stored = rng.integers(-4, 5, (size, depth // 2))
    b = rng.integers(-4, 5, (size, depth))
    positions = np.array([rng.permutation(4)[:2] for _ in range(size * depth // 4)]).reshape(size, depth // 2)
    dense = np.zeros((size, depth), int)
    slots = depth // 2 * size // 64
    index = np.zeros((1, 64), np.uint32)
    for i in range(size):
        for s in range(depth // 2):
            dense[i, 4 * (s // 2) + positions[i, s]] += stored[i, s]
            put(index, size * (s // slots) + i, 2 * slots * abid + 2 * (s % slots), 2, int(positions[i, s]))
    ra, rb = place_rows(o["a"], element_codes(o["a"], stored, arch)), place_rows(o["b"], element_codes(o["b"], b, arch))
    c = rng.integers(-50, 51, (size, size))
    count = size * size // 64
    accumulator = np.zeros((count, 64), np.int32 if result == "i32" else np.float32)
    for i in range(size):
        for j in range(size):
            r, lane = d_place(i, j, size)
            accumulator[r, lane] = c[i, j]
    v: dict[int, Any] = dict(enumerate(ra)) | {8 + r: row for r, row in enumerate(rb)}
    v |= {16 + r: row.view(np.uint32) for r, row in enumerate(accumulator)} | {40: index[0]}
    return v, dense @ b.T + c, f"{mnemonic} {span(16, count)}, {span(0, len(ra))}, {span(8, len(rb))}, v40"


@pytest.mark.parametrize(("mnemonic", "arch"), SPARSE)
def test_sparse_products(mnemonic: str, arch: str) -> None:
    o = TABLE[arch, mnemonic].options
    sets = 32 // (o["depth"] * o["size"] // 64)
    for abid in range(sets):
        v, expected, text = sparse_case(mnemonic, arch, abid, abid)
        state = run(text + (f" abid:{abid}" if abid else ""), arch=arch, v=v, exec_=0)
        dtype = np.int32 if o["result"] == "i32" else np.float32
        got = read_d(state.v[16 : 16 + len(expected) ** 2 // 64], len(expected), dtype)
        assert (got == expected).all(), abid


@pytest.mark.parametrize("arch", ARCHS)
def test_cbsz_uses_the_first_set_of_indices(arch: str) -> None:
    v, expected, text = sparse_case("v_smfmac_f32_16x16x32_f16", arch, 0, 7)
    state = run(f"{text} cbsz:1 abid:2", arch=arch, v=v)
    assert (read_d(state.v[16:20], 16) == expected).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_elements_of_b_that_no_index_names_do_not_count(arch: str) -> None:
    """All indices are 0 and 1: NaN in rows 2 and 3 of each four of B stays out."""
    a, b = np.ones((16, 16)), np.ones((16, 32))
    b[:, 2::4] = b[:, 3::4] = np.nan
    ra, rb = place_rows("f16", element_codes("f16", a, arch)), place_rows("f16", element_codes("f16", b, arch))
    v: dict[int, Any] = dict(enumerate(ra)) | {8 + r: row for r, row in enumerate(rb)} | {40: 0x44}
    state = run("v_smfmac_f32_16x16x32_f16 v[16:19], v[0:1], v[8:11], v40", arch=arch, v=v)
    assert (read_d(state.v[16:20], 16) == 16.0).all()


def test_every_new_matrix_instruction_is_covered() -> None:
    scaled = {m for (_, m), e in TABLE.items() if e.form == "mfma_f8f6f4"}
    assert scaled == {f"v_mfma_{s}f32_{m}x{m}x{k}_f8f6f4" for m, k in SHAPES for s in ("", "scale_")}
