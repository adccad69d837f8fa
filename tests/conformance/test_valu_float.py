"""Float VALU rows: exact points and IEEE edge cases, written by hand. ``numerics`` has its own, deeper tests; here the
question is whether each mnemonic reaches the right function with its operands in the right order, under MODE."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from validation.emulator.errors import UnsupportedError
from validation.emulator.isa import TABLE
from validation.emulator.machine.waves import FloatMode

from .harness import ARCHS, State, flushing, run
from .harness import f32 as f32_bits

INF, NAN = math.inf, math.nan
TINY32, MIN32, MAX32 = 2.0**-149, 2.0**-126, float(np.finfo(np.float32).max)
BITS = {"f16": np.uint16, "f32": np.uint32, "f64": np.uint64}
FLOAT = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def load(v: dict[int, Any], first: int, values: list[Any], kind: str) -> None:
    """Put values into the register (pair) at ``first``, cycled over the lanes."""
    if kind.startswith(("i", "u")) or kind == "b32":
        v[first] = np.resize(np.array([int(x) & 0xFFFFFFFF for x in values], np.uint32), 64)
        return
    bits = np.resize(np.array(values, FLOAT[kind]), 64).view(BITS[kind])
    if kind == "f64":
        v[first], v[first + 1] = (bits & 0xFFFFFFFF).astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)
    else:
        v[first] = bits.astype(np.uint32)


def read(state: State, first: int, kind: str, count: int) -> list[Any]:
    if kind == "f64":
        return state.v64(first)[:count].view(np.float64).tolist()
    if kind == "f32":
        return state.v[first][:count].view(np.float32).tolist()
    if kind == "f16":
        return state.v[first][:count].astype(np.uint16).view(np.float16).tolist()
    if kind == "i32":
        return state.v[first][:count].view(np.int32).tolist()
    if kind == "i16":
        return state.v[first][:count].astype(np.uint16).view(np.int16).tolist()
    return state.v[first][:count].tolist()


def same(got: Any, want: Any) -> bool:
    if isinstance(want, float) and math.isnan(want):
        return math.isnan(got)
    return got == want and math.copysign(1, got) == math.copysign(1, want)


def reg(first: int, kind: str) -> str:
    return f"v[{first}:{first + 1}]" if kind == "f64" else f"v{first}"


def check(
    text: str, dst: str, sources: list[tuple[str, list[Any]]], want: list[Any], arch: str, **options: Any
) -> None:
    """``text`` uses {d}, {0}, {1}, {2} for the registers."""
    v: dict[int, Any] = {}
    names = {}
    for i, (kind, values) in enumerate(sources):
        load(v, 10 + 2 * i, values, kind)
        names[str(i)] = reg(10 + 2 * i, kind)
    line = text.format(*[names[str(i)] for i in range(len(sources))], d=reg(20, dst))
    state = run(line, arch=arch, v=v, **options)
    got = read(state, 20, dst, len(want))
    assert all(same(g, w) for g, w in zip(got, want, strict=True)), f"{line}: got {got}, want {want}"


def ulp_up(x: float, kind: str = "f32") -> float:
    return float(np.nextafter(FLOAT[kind](x), FLOAT[kind](INF)))


#: per type: one ulp above 1, largest finite, smallest denormal
LIMITS = {
    "f16": (1 + 2.0**-10, 65504.0, 2.0**-24),
    "f32": (1 + 2.0**-23, MAX32, TINY32),
    "f64": (1 + 2.0**-52, float(np.finfo(np.float64).max), 2.0**-1074),
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_add_mul_fma(kind: str, arch: str) -> None:
    above, top, tiny = LIMITS[kind]
    a = [1.5, -0.0, INF, top, tiny, NAN, 3.0]
    b = [2.25, -0.0, -INF, top, tiny, 1.0, -3.0]
    check(
        f"v_add_{kind} {{d}}, {{0}}, {{1}}",
        kind,
        [(kind, a), (kind, b)],
        [3.75, -0.0, NAN, INF, 2 * tiny, NAN, 0.0],
        arch,
    )
    check(
        f"v_mul_{kind} {{d}}, {{0}}, {{1}}", kind, [(kind, a), (kind, b)], [3.375, 0.0, -INF, INF, 0.0, NAN, -9.0], arch
    )
    # (1 + u)^2 - (1 + 2u) = u^2: only a fused operation keeps it (f16: 2**-20 is a denormal)
    u = above - 1
    x, c = [above, 2.0, INF], [-(1 + 2 * u), 0.5, NAN]
    check(f"v_fma_{kind} {{d}}, {{0}}, {{0}}, {{1}}", kind, [(kind, x), (kind, c)], [u * u, 4.5, NAN], arch)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_sub_and_subrev(kind: str, arch: str) -> None:
    a, b = [5.0, INF, 0.0], [7.5, INF, 0.0]
    check(f"v_sub_{kind} {{d}}, {{0}}, {{1}}", kind, [(kind, a), (kind, b)], [-2.5, NAN, 0.0], arch)
    check(f"v_subrev_{kind} {{d}}, {{0}}, {{1}}", kind, [(kind, a), (kind, b)], [2.5, NAN, 0.0], arch)


@pytest.mark.parametrize("arch", ARCHS)
def test_forms_that_read_the_destination_or_a_literal(arch: str) -> None:
    body = ["v_mov_b32_e32 v20, 1.0", "v_fmac_f32_e32 v20, v10, v11"]
    state = run(body, arch=arch, v={10: np.float32(3).view(np.uint32), 11: np.float32(0.5).view(np.uint32)})
    assert state.v[20].view(np.float32)[0] == 2.5
    three, two = np.float64(3).view(np.uint64), np.float64(2).view(np.uint64)
    registers = {10: 0, 11: int(three >> np.uint64(32)), 12: 0, 13: int(two >> np.uint64(32)), 20: 0, 21: 0x3FF00000}
    assert run("v_fmac_f64_e32 v[20:21], v[10:11], v[12:13]", arch=arch, v=registers).v64(20).view(np.float64)[0] == 7.0
    f = [("f32", [3.0]), ("f32", [10.0])]
    check("v_fmaak_f32 {d}, {0}, {1}, 0x3f000000", "f32", f, [30.5], arch)
    check("v_fmamk_f32 {d}, {0}, 0x3f000000, {1}", "f32", f, [11.5], arch)
    h = [("f16", [3.0]), ("f16", [10.0])]
    check("v_madak_f16 {d}, {0}, {1}, 0x3800", "f16", h, [30.5], arch)
    check("v_madmk_f16 {d}, {0}, 0x3800, {1}", "f16", h, [11.5], arch)
    check("v_mad_f16 {d}, {0}, {1}, {0}", "f16", h, [33.0], arch)
    state = run("v_mac_f16_e32 v20, v10, v11", arch=arch, v={10: 0x4200, 11: 0x4900, 20: 0x3C00})
    assert int(state.v[20][0]) == 0x4FC0  # 31
    check("v_mul_legacy_f32 {d}, {0}, {1}", "f32", [("f32", [0.0, 2.0]), ("f32", [INF, 4.0])], [0.0, 8.0], arch)


@pytest.mark.parametrize("arch", ARCHS)
def test_a_double_literal_keeps_its_high_half_only(arch: str) -> None:
    """0.1 is 0x3FB999999999999A; a literal has 32 bits. 1 / (2 pi) is an inline constant and keeps all of its bits."""
    assert run("v_rndne_f64_e32 v[20:21], 4.5", arch=arch).v64(20)[0] == 0x4010000000000000
    assert run("v_fract_f64_e32 v[20:21], 0.1", arch=arch).v64(20)[0] == 0x3FB9999900000000
    assert run("v_fract_f64_e32 v[20:21], 0.15915494309189532", arch=arch).v64(20)[0] == 0x3FC45F306DC9C882


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("modifier", ["clamp", "mul:2"])
def test_a_modifier_without_a_meaning_is_named(modifier: str, arch: str) -> None:
    with pytest.raises(UnsupportedError, match="on v_div_scale_f32"):
        run(f"v_div_scale_f32 v20, s[30:31], v8, v12, v16 {modifier}", arch=arch)


UNARY = {
    "rcp": ([4.0, 0.0, -0.0, INF, NAN, -2.0], [0.25, INF, -INF, 0.0, NAN, -0.5]),
    "rsq": ([4.0, 0.0, 16.0, INF, -1.0, NAN], [0.5, INF, 0.25, 0.0, NAN, NAN]),
    "sqrt": ([9.0, 0.0, -0.0, INF, -1.0, 0.25], [3.0, 0.0, -0.0, INF, NAN, 0.5]),
    "exp": ([3.0, 0.0, -2.0, INF, -INF, NAN], [8.0, 1.0, 0.25, INF, 0.0, NAN]),
    "log": ([8.0, 1.0, 0.25, INF, 0.0, -1.0], [3.0, 0.0, -2.0, INF, -INF, NAN]),
    "sin": ([0.25, 0.75, NAN, INF], [1.0, -1.0, NAN, NAN]),
    "cos": ([0.5, 1.0, NAN, INF], [-1.0, 1.0, NAN, NAN]),
    "trunc": ([2.75, -2.75, -0.5, INF, NAN], [2.0, -2.0, -0.0, INF, NAN]),
    "ceil": ([2.25, -2.75, -0.5, INF], [3.0, -2.0, -0.0, INF]),
    "floor": ([2.75, -2.25, -0.0, -INF], [2.0, -3.0, -0.0, -INF]),
    "rndne": ([2.5, 3.5, -0.5, -1.5], [2.0, 4.0, -0.0, -2.0]),
    "fract": ([2.75, -0.25, 3.0, NAN], [0.75, 0.75, 0.0, NAN]),
    "frexp_mant": ([12.0, -0.375, 0.0, NAN], [0.75, -0.75, 0.0, NAN]),
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("name", "kind"), [(n, k) for n in UNARY for k in ("f16", "f32", "f64") if ("gfx942", f"v_{n}_{k}") in TABLE]
)
def test_unary(name: str, kind: str, arch: str) -> None:
    values, want = UNARY[name]
    check(f"v_{name}_{kind} {{d}}, {{0}}", kind, [(kind, values)], want, arch)


@pytest.mark.parametrize("arch", ARCHS)
def test_unary_variants(arch: str) -> None:
    check("v_rcp_iflag_f32 {d}, {0}", "f32", [("f32", [8.0, 0.0])], [0.125, INF], arch)
    check("v_exp_legacy_f32 {d}, {0}", "f32", [("f32", [5.0])], [32.0], arch)
    check("v_log_legacy_f32 {d}, {0}", "f32", [("f32", [32.0])], [5.0], arch)
    check("v_frexp_exp_i32_f32 {d}, {0}", "i32", [("f32", [12.0, 0.25, 0.0, INF])], [4, -1, 0, 0], arch)
    check("v_frexp_exp_i32_f64 {d}, {0}", "i32", [("f64", [12.0, 2.0**-1074, NAN])], [4, -1073, 0], arch)
    check("v_frexp_exp_i16_f16 {d}, {0}", "i16", [("f16", [12.0, 0.25, 0.0])], [4, -1, 0], arch)
    x = [1.5, 1.0, -1.0, 3.0]
    e = [4, -149, 200, 0]
    check("v_ldexp_f32 {d}, {0}, {1}", "f32", [("f32", x), ("i32", e)], [24.0, TINY32, -INF, 3.0], arch)
    check(
        "v_ldexp_f64 {d}, {0}, {1}",
        "f64",
        [("f64", x), ("i32", [4, -1074, 2000, 0])],
        [24.0, 2.0**-1074, -INF, 3.0],
        arch,
    )
    check("v_ldexp_f16 {d}, {0}, {1}", "f16", [("f16", x), ("i32", [4, -24, 20, 0])], [24.0, 2.0**-24, -INF, 3.0], arch)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_min_max(kind: str, arch: str) -> None:
    a, b = [1.0, -0.0, NAN, 2.0, -INF, NAN], [2.0, 0.0, 3.0, NAN, 5.0, NAN]
    sources = [(kind, a), (kind, b)]
    check(f"v_min_{kind} {{d}}, {{0}}, {{1}}", kind, sources, [1.0, -0.0, 3.0, 2.0, -INF, NAN], arch)
    check(f"v_max_{kind} {{d}}, {{0}}, {{1}}", kind, sources, [2.0, 0.0, 3.0, 2.0, 5.0, NAN], arch)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_three_operands(kind: str, arch: str) -> None:
    sources = [(kind, [1.0, 5.0, NAN]), (kind, [3.0, -5.0, 2.0]), (kind, [2.0, 0.0, 1.0])]
    check(f"v_min3_{kind} {{d}}, {{0}}, {{1}}, {{2}}", kind, sources, [1.0, -5.0, 1.0], arch)
    check(f"v_max3_{kind} {{d}}, {{0}}, {{1}}, {{2}}", kind, sources, [3.0, 5.0, 2.0], arch)
    check(f"v_med3_{kind} {{d}}, {{0}}, {{1}}, {{2}}", kind, sources, [2.0, 0.0, 1.0], arch)


def test_propagating_min_max() -> None:
    sources = [("f32", [1.0, NAN]), ("f32", [3.0, 0.0]), ("f32", [2.0, 5.0])]
    check("v_minimum3_f32 {d}, {0}, {1}, {2}", "f32", sources, [1.0, NAN], "gfx950")
    check("v_maximum3_f32 {d}, {0}, {1}, {2}", "f32", sources, [3.0, NAN], "gfx950")


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_division_macro(kind: str, arch: str) -> None:
    """LLVM's division sequence gives the correctly rounded quotient, special cases included."""
    n = [1.0, 10.0, 7.0, -1.0, 0.0, INF, 5.0, 2.0**-100, NAN]
    d = [3.0, 4.0, 49.0, 0.0, 5.0, 2.0, INF, 2.0**20, 1.0]
    v: dict[int, Any] = {}
    load(v, 10, n, kind)
    load(v, 12, d, kind)
    load(v, 30, [1.0], kind)
    N, D, ONE = reg(10, kind), reg(12, kind), reg(30, kind)
    A, B, R, E, Q, F = (reg(i, kind) for i in (14, 16, 18, 20, 22, 24))
    fma = f"v_fma_{kind}"
    body = [
        f"v_div_scale_{kind} {A}, s[2:3], {D}, {D}, {N}",
        f"v_div_scale_{kind} {B}, vcc, {N}, {D}, {N}",
        f"v_rcp_{kind}_e32 {R}, {A}",
        f"{fma} {E}, -{A}, {R}, {ONE}",
        f"{fma} {R}, {E}, {R}, {R}",
        f"{fma} {E}, -{A}, {R}, {ONE}",
        f"{fma} {R}, {E}, {R}, {R}",
        f"v_mul_{kind} {Q}, {B}, {R}",
        f"{fma} {F}, -{A}, {Q}, {B}",
    ]
    if kind == "f32":
        body += [f"{fma} {Q}, {F}, {R}, {Q}", f"{fma} {F}, -{A}, {Q}, {B}"]
    body += [f"v_div_fmas_{kind} {Q}, {F}, {R}, {Q}", f"v_div_fixup_{kind} {Q}, {Q}, {D}, {N}"]
    state = run(body, arch=arch, v=v)
    dtype = FLOAT[kind]
    with np.errstate(all="ignore"):
        want = (np.array(n, dtype) / np.array(d, dtype)).tolist()
    got = read(state, 22, kind, len(n))
    assert all(same(g, w) for g, w in zip(got, want, strict=True)), (got, want)


@pytest.mark.parametrize("arch", ARCHS)
def test_division_fixup_f16_and_preop(arch: str) -> None:
    sources = [("f16", [0.3333, 9.0, 1.0]), ("f16", [3.0, 0.0, INF]), ("f16", [1.0, -1.0, 2.0])]
    check("v_div_fixup_f16 {d}, {0}, {1}, {2}", "f16", sources, [float(np.float16(0.3333)), -INF, 0.0], arch)
    state = run("v_trig_preop_f64 v[20:21], v[10:11], 0", arch=arch, v={10: 0, 11: 0x3FF00000})
    # the leading 53 bits of 2/pi, which is 0.636...
    assert abs(state.v64(20).view(np.float64)[0] - 2 / math.pi) <= 2.0**-53


@pytest.mark.parametrize("arch", ARCHS)
def test_mode_rounding(arch: str) -> None:
    up, down, zero = FloatMode(round_32=1), FloatMode(round_32=2), FloatMode(round_32=3)
    a, b = [("f32", [1.0, -1.0]), ("f32", [2.0**-40, -(2.0**-40)])], "v_add_f32 {d}, {0}, {1}"
    one_up = ulp_up(1.0)
    check(b, "f32", a, [1.0, -1.0], arch)
    check(b, "f32", a, [one_up, -1.0], arch, mode=up)
    check(b, "f32", a, [1.0, -one_up], arch, mode=down)
    check(b, "f32", a, [1.0, -1.0], arch, mode=zero)
    third = [("f64", [1 + 2.0**-30])]
    check("v_cvt_f32_f64 {d}, {0}", "f32", third, [1.0], arch)
    check("v_cvt_f32_f64 {d}, {0}", "f32", third, [one_up], arch, mode=FloatMode(round_32=1))


@pytest.mark.parametrize("arch", ARCHS)
def test_mode_denormals(arch: str) -> None:
    a = [("f32", [MIN32, -MIN32, TINY32]), ("f32", [0.5, 0.5, 4.0])]
    check("v_mul_f32 {d}, {0}, {1}", "f32", a, [MIN32 / 2, -MIN32 / 2, 4 * TINY32], arch)
    check("v_mul_f32 {d}, {0}, {1}", "f32", a, [0.0, -0.0, 0.0], arch, mode=flushing())
    # inputs kept, outputs flushed, and the other way round
    check(
        "v_mul_f32 {d}, {0}, {1}",
        "f32",
        [("f32", [TINY32]), ("f32", [2.0**100])],
        [2.0**-49],
        arch,
        mode=flushing(denorm_32=1),
    )
    check("v_mul_f32 {d}, {0}, {1}", "f32", [("f32", [MIN32]), ("f32", [0.5])], [0.0], arch, mode=flushing(denorm_32=1))
    check(
        "v_mul_f32 {d}, {0}, {1}",
        "f32",
        [("f32", [MIN32]), ("f32", [0.5])],
        [MIN32 / 2],
        arch,
        mode=flushing(denorm_32=2),
    )


@pytest.mark.parametrize("arch", ARCHS)
def test_modifiers(arch: str) -> None:
    pair = [("f32", [3.0, -3.0, NAN]), ("f32", [-5.0, 0.25, 1.0])]
    check("v_add_f32_e64 {d}, |{0}|, -{1}", "f32", pair, [8.0, 2.75, NAN], arch)
    check("v_add_f32_e64 {d}, -|{0}|, {1}", "f32", pair, [-8.0, -2.75, NAN], arch)
    check("v_add_f32_e64 {d}, {0}, {1} clamp", "f32", pair, [0.0, 0.0, 0.0], arch)
    check("v_mul_f32_e64 {d}, {0}, {1} clamp", "f32", [("f32", [3.0]), ("f32", [0.125])], [0.375], arch)
    check("v_mul_f32_e64 {d}, {0}, {1} clamp", "f32", [("f32", [3.0]), ("f32", [5.0])], [1.0], arch)


CONVERSIONS: list[tuple[str, str, str, list[Any], list[Any]]] = [
    ("v_cvt_f32_i32", "f32", "i32", [-3, 1 << 24, (1 << 24) + 1, -(1 << 31)], [-3.0, 2.0**24, 2.0**24, -(2.0**31)]),
    ("v_cvt_f32_u32", "f32", "u32", [3, 0xFFFFFFFF], [3.0, 2.0**32]),
    ("v_cvt_f64_i32", "f64", "i32", [-3, -(1 << 31)], [-3.0, -(2.0**31)]),
    ("v_cvt_f64_u32", "f64", "u32", [0xFFFFFFFF], [2.0**32 - 1]),
    ("v_cvt_i32_f32", "i32", "f32", [2.9, -2.9, 3e9, -3e9, NAN], [2, -2, 2**31 - 1, -(2**31), 0]),
    ("v_cvt_u32_f32", "u32", "f32", [2.9, -2.9, 5e9, NAN], [2, 0, 2**32 - 1, 0]),
    ("v_cvt_i32_f64", "i32", "f64", [2.9, -2.9, 3e9, NAN], [2, -2, 2**31 - 1, 0]),
    ("v_cvt_u32_f64", "u32", "f64", [2.9, -1.0, 5e9, NAN], [2, 0, 2**32 - 1, 0]),
    ("v_cvt_f16_f32", "f16", "f32", [1.0 + 2.0**-11, 1.0 + 3 * 2.0**-11, 65520.0, NAN], [1.0, 1.0 + 2.0**-9, INF, NAN]),
    ("v_cvt_f32_f16", "f32", "f16", [1.5, 2.0**-24, -INF, NAN], [1.5, 2.0**-24, -INF, NAN]),
    ("v_cvt_f32_f64", "f32", "f64", [1.5, 1e300, 1e-300], [1.5, INF, 0.0]),
    ("v_cvt_f64_f32", "f64", "f32", [1.5, TINY32, NAN], [1.5, TINY32, NAN]),
    ("v_cvt_f16_u16", "f16", "u32", [3, 2049], [3.0, 2048.0]),
    ("v_cvt_f16_i16", "f16", "u32", [0xFFFD, 5], [-3.0, 5.0]),
    ("v_cvt_i16_f16", "i16", "f16", [2.5, -2.5, INF], [2, -2, 32767]),
    ("v_cvt_u16_f16", "u32", "f16", [2.5, -2.5, INF], [2, 0, 65535]),
    ("v_cvt_rpi_i32_f32", "i32", "f32", [2.5, -2.5], [3, -2]),
    ("v_cvt_flr_i32_f32", "i32", "f32", [2.5, -2.5], [2, -3]),
    ("v_cvt_off_f32_i4", "f32", "u32", [0, 1, 8, 15], [0.0, 0.0625, -0.5, -0.0625]),
    ("v_cvt_norm_i16_f16", "i16", "f16", [1.0, -1.0, 0.0, 2.0], [32767, -32767, 0, 32767]),
    ("v_cvt_norm_u16_f16", "u32", "f16", [1.0, -1.0, 0.0], [65535, 0, 0]),
    *((f"v_cvt_f32_ubyte{i}", "f32", "u32", [0x04030201], [float(i + 1)]) for i in range(4)),
]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("mnemonic", "dst", "src", "values", "want"), CONVERSIONS, ids=[c[0] for c in CONVERSIONS])
def test_conversion(mnemonic: str, dst: str, src: str, values: list[Any], want: list[Any], arch: str) -> None:
    check(f"{mnemonic} {{d}}, {{0}}", dst, [(src, values)], want, arch)


@pytest.mark.parametrize("arch", ARCHS)
def test_packed_conversions(arch: str) -> None:
    pair = [("f32", [1.0 + 2.0**-11, -1.0]), ("f32", [0.5, 2.0])]
    check("v_cvt_pkrtz_f16_f32 {d}, {0}, {1}", "u32", pair, [0x38003C00, 0x4000BC00], arch)
    check("v_cvt_pknorm_i16_f32 {d}, {0}, {1}", "u32", [("f32", [1.0]), ("f32", [-1.0])], [0x80017FFF], arch)
    check("v_cvt_pknorm_u16_f32 {d}, {0}, {1}", "u32", [("f32", [1.0]), ("f32", [-1.0])], [0x0000FFFF], arch)
    check("v_cvt_pknorm_i16_f16 {d}, {0}, {1}", "u32", [("f16", [1.0]), ("f16", [-1.0])], [0x80017FFF], arch)
    check("v_cvt_pknorm_u16_f16 {d}, {0}, {1}", "u32", [("f16", [1.0]), ("f16", [-1.0])], [0x0000FFFF], arch)
    bytes_ = [("f32", [200.7, -3.0]), ("u32", [2, 0]), ("u32", [0x11223344, 0x11223344])]
    check("v_cvt_pk_u8_f32 {d}, {0}, {1}, {2}", "u32", bytes_, [0x11C83344, 0x11223300], arch)
    check("v_pack_b32_f16 {d}, {0}, {1}", "u32", [("u32", [0xAAAA1234]), ("u32", [0xBBBB5678])], [0x56781234], arch)
    check(
        "v_pack_b32_f16 {d}, {0}, {1} op_sel:[1,0,0]",
        "u32",
        [("u32", [0xAAAA1234]), ("u32", [0xBBBB5678])],
        [0x5678AAAA],
        arch,
    )


@pytest.mark.parametrize("arch", ARCHS)
def test_byte_conversion_into_the_destination(arch: str) -> None:
    """The byte that source 1 names is replaced; saturation and NaN are those of v_cvt_u32_f32."""
    v = {1: f32_bits([200.7, -3.0, 300.0, NAN]), 2: [2, 0, 7, 1], 3: 0x11223344}
    state = run("v_cvt_pkaccum_u8_f32 v3, v1, v2", arch=arch, v=v, exec_=0x0F)
    assert [hex(x) for x in state.v[3][:5]] == ["0x11c83344", "0x11223300", "0xff223344", "0x11220044", "0x11223344"]
    state = run("v_cvt_pkaccum_u8_f32 v1, 1.0, v1", arch=arch, v={1: [3, 0]})
    assert state.v[1][:2].tolist() == [0x01000003, 1]


def test_gfx950_conversions() -> None:
    pair = [("f32", [1.0 + 2.0**-8, NAN]), ("f32", [-2.0, INF])]
    check("v_cvt_pk_bf16_f32 {d}, {0}, {1}", "u32", [*pair[:1], ("f32", [-2.0])], [0xC0003F80], "gfx950")
    check("v_cvt_pk_f16_f32 {d}, {0}, {1}", "u32", [("f32", [1.0 + 2.0**-11]), ("f32", [0.5])], [0x38003C00], "gfx950")
    check("v_cvt_f32_bf16 {d}, {0}", "f32", [("u32", [0x3FC0, 0x7F80])], [1.5, INF], "gfx950")


@pytest.mark.parametrize("arch", ARCHS)
def test_inactive_lanes_keep_their_value(arch: str) -> None:
    state = run("v_add_f64 v[20:21], v[10:11], v[10:11]", arch=arch, v={10: 0, 11: 0x3FF00000, 20: 5, 21: 6}, exec_=2)
    assert state.v64(20)[:3].tolist() == [5 | 6 << 32, 0x40000000 << 32, 5 | 6 << 32]
