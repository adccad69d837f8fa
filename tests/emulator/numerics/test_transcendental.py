"""rcp, rsq, sqrt, exp2, log2, sin and cos: error in ulp by multiprecision, special values by the ISA manual."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from validation.emulator.numerics import transcendental as tr

mpmath.mp.prec = 140
TAU = 2 * mpmath.pi

EXACT = {
    "rcp": lambda x: 1 / x,
    "sqrt": mpmath.sqrt,
    "rsq": lambda x: 1 / mpmath.sqrt(x),
    "exp2": lambda x: mpmath.power(2, x),
    "log2": lambda x: mpmath.log(x, 2),
    "sin": lambda x: mpmath.sin(TAU * x),
    "cos": lambda x: mpmath.cos(TAU * x),
}
F32 = {"rcp": tr.rcp32, "sqrt": tr.sqrt32, "rsq": tr.rsq32, "exp2": tr.exp2_32, "log2": tr.log2_32}
F32 |= {"sin": tr.sin32, "cos": tr.cos32}
F16 = {"rcp": tr.rcp16, "sqrt": tr.sqrt16, "rsq": tr.rsq16, "exp2": tr.exp2_16, "log2": tr.log2_16}
F16 |= {"sin": tr.sin16, "cos": tr.cos16}
F64 = {"rcp": tr.rcp64, "sqrt": tr.sqrt64, "rsq": tr.rsq64}


def ulps(value, exact, dtype):
    """|value - exact| in units of the spacing of `dtype` at the exact value."""
    info = np.finfo(dtype)
    if exact == 0:
        return 0.0 if value == 0 else float("inf")
    exponent = max(int(mpmath.floor(mpmath.log(abs(exact), 2))), info.minexp)
    return float(abs(mpmath.mpf(float(value)) - exact) / mpmath.mpf(2) ** (exponent - info.nmant))


def inputs(name, dtype, rng, count):
    """Values whose result is a normal number of the format."""
    info = np.finfo(dtype)
    spread = rng.uniform(1, 2, count)
    if name == "exp2":
        near = rng.standard_normal(count // 2) * 2.0 ** rng.integers(-info.nmant, 1, count // 2)
        return np.concatenate([near, rng.uniform(info.minexp, info.maxexp - 1, count - count // 2)]).astype(dtype)
    if name == "log2":
        near = 1 + rng.standard_normal(count // 2) * 2.0 ** -rng.integers(2, info.nmant, count // 2).astype(float)
        wide = np.ldexp(
            rng.uniform(1, 2, count - count // 2), rng.integers(info.minexp, info.maxexp - 1, count - count // 2)
        )
        return np.concatenate([np.abs(near), wide]).astype(dtype)
    if name in ("sin", "cos"):
        return (rng.standard_normal(count) * 2.0 ** rng.integers(-10, 8, count)).astype(dtype)
    values = np.ldexp(spread, rng.integers(info.minexp + 2, info.maxexp - 3, count))
    return np.where(rng.integers(0, 2, count) & (name == "rcp"), -values, values).astype(dtype)


@pytest.mark.parametrize("name", list(F32))
def test_f32_error(name):
    x = inputs(name, np.float32, np.random.default_rng(3), 1500)
    results = F32[name](x)
    errors = [ulps(r, EXACT[name](mpmath.mpf(float(v))), np.float32) for v, r in zip(x, results)]
    assert max(errors) < 1.0
    assert np.mean(np.array(errors) > 0.5) < 0.01, "correctly rounded as a rule"


@pytest.mark.parametrize("name", list(F16))
def test_f16_error(name):
    rng = np.random.default_rng(4)
    x = np.concatenate([inputs(name, np.float16, rng, 1000), np.ldexp(1.0, -np.arange(15, 25)).astype(np.float16)])
    with np.errstate(all="ignore"):
        results = F16[name](x)
    worst = 0.0
    for value, result in zip(x, results):
        exact = EXACT[name](mpmath.mpf(float(value)))
        if abs(exact) < float(np.finfo(np.float16).max):
            worst = max(worst, ulps(result, exact, np.float16))
    assert worst <= 0.5


@pytest.mark.parametrize("name", list(F64))
def test_f64_has_the_stated_coarse_accuracy(name):
    x = inputs(name, np.float64, np.random.default_rng(5), 400)
    results = F64[name](x)
    errors = [ulps(r, EXACT[name](mpmath.mpf(float(v))), np.float64) for v, r in zip(x, results)]
    assert max(errors) <= 2.0**29
    assert max(errors) > 2.0**20, "a full-precision result would hide a missing Newton-Raphson step"


def test_exact_powers():
    whole = np.arange(-126, 128).astype(np.float32)
    assert np.array_equal(tr.exp2_32(whole), np.ldexp(np.float32(1), whole.astype(int)))
    assert np.array_equal(tr.log2_32(np.ldexp(np.float32(1), whole.astype(int))), whole)


MANUAL = {
    "exp2": [(0xFF800000, 0x00000000), (0x80000000, 0x3F800000), (0x7F800000, 0x7F800000)],
    "log2": [
        (0xFF800000, 0xFFC00000),
        (0xBF800000, 0xFFC00000),
        (0x80000000, 0xFF800000),
        (0x00000000, 0xFF800000),
        (0x3F800000, 0x00000000),
        (0x7F800000, 0x7F800000),
    ],
    "rcp": [
        (0xFF800000, 0x80000000),
        (0xC0000000, 0xBF000000),
        (0x80000000, 0xFF800000),
        (0x00000000, 0x7F800000),
        (0x7F800000, 0x00000000),
    ],
    "rsq": [
        (0xFF800000, 0xFFC00000),
        (0x80000000, 0xFF800000),
        (0x00000000, 0x7F800000),
        (0x40800000, 0x3F000000),
        (0x7F800000, 0x00000000),
    ],
    "sqrt": [
        (0xFF800000, 0xFFC00000),
        (0x80000000, 0x80000000),
        (0x00000000, 0x00000000),
        (0x40800000, 0x40000000),
        (0x7F800000, 0x7F800000),
    ],
    "sin": [
        (0xFF800000, 0xFFC00000),
        (0xFF7FFFFF, 0x00000000),
        (0x80000000, 0x80000000),
        (0x3E800000, 0x3F800000),
        (0x7F800000, 0xFFC00000),
    ],
    "cos": [
        (0xFF800000, 0xFFC00000),
        (0xFF7FFFFF, 0x3F800000),
        (0x80000000, 0x3F800000),
        (0x3E800000, 0x00000000),
        (0x7F800000, 0xFFC00000),
    ],
}
FLUSHED = {
    # Denormal input 1 and -0x7fffff, then inputs whose result would be denormal.
    "exp2": [(0x00000001, 0x3F800000), (0x807FFFFF, 0x3F800000), (0xC2FC0001, 0x00000000), (0xC2FC0000, 0x00800000)],
    "log2": [(0x00000001, 0xFF800000), (0x807FFFFF, 0xFF800000)],
    "rcp": [(0x00000001, 0x7F800000), (0x807FFFFF, 0xFF800000), (0x7F7FFFFF, 0x00000000), (0xFF7FFFFF, 0x80000000)],
    "rsq": [(0x00000001, 0x7F800000), (0x807FFFFF, 0xFF800000)],
    "sqrt": [(0x00000001, 0x00000000), (0x807FFFFF, 0x80000000)],
    "sin": [(0x00000001, 0x00000006), (0x80000001, 0x80000006)],  # not flushed: 2 pi rounds to 6
    "cos": [(0x00000001, 0x3F800000)],
}


@pytest.mark.parametrize("table", [MANUAL, FLUSHED], ids=["manual", "denormals"])
@pytest.mark.parametrize("name", list(F32))
def test_f32_special_values(name, table):
    x = np.array([source for source, _ in table[name]], np.uint32).view(np.float32)
    expected = np.array([result for _, result in table[name]], np.uint32)
    assert [hex(b) for b in F32[name](x).view(np.uint32)] == [hex(b) for b in expected]
    for lane in range(len(x)):  # and one at a time, so that no lane takes another's path
        assert F32[name](x[lane : lane + 1]).view(np.uint32)[0] == expected[lane]


@pytest.mark.parametrize("name", list(F32))
def test_nans_are_quieted_with_their_payload(name):
    x = np.array([0x7FC12345, 0xFF812345], np.uint32).view(np.float32)
    assert F32[name](x).view(np.uint32).tolist() == [0x7FC12345, 0xFFC12345]


@pytest.mark.parametrize(
    ("name", "source", "result"),
    [
        ("rcp", 0xFC00, 0x8000),
        ("rcp", 0xC000, 0xB800),
        ("rcp", 0x8000, 0xFC00),
        ("sqrt", 0xFC00, 0xFE00),
        ("sqrt", 0x8000, 0x8000),
        ("rsq", 0x8000, 0xFC00),
        ("rsq", 0x4400, 0x3800),
        ("log2", 0xBC00, 0xFE00),
        ("log2", 0x8000, 0xFC00),
        ("log2", 0x0001, 0xCE00),  # denormals are supported: log2(2**-24) = -24
        ("exp2", 0xFC00, 0x0000),
        ("exp2", 0x7C00, 0x7C00),
        ("exp2", 0xCE00, 0x0001),
        ("sin", 0x3400, 0x3C00),
        ("cos", 0x7C00, 0xFE00),
    ],
)
def test_f16_special_values(name, source, result):
    x = np.array([source], np.uint16).view(np.float16)
    assert hex(F16[name](x).view(np.uint16)[0]) == hex(result)


def test_sine_of_half_turns_is_positive_zero():
    x = np.array([0.5, -0.5, 1.0, -1.0, 1.5, -2.0, 1e30], np.float32)
    assert tr.sin32(x).view(np.uint32).tolist() == [0] * len(x)


@pytest.mark.parametrize("function", list(F32.values()))
def test_scalars_and_shapes(function):
    x = np.linspace(0.5, 3.0, 6, dtype=np.float32).reshape(2, 3)
    together = function(x)
    assert together.shape == (2, 3)
    assert all(function(x[i, j]) == together[i, j] for i in range(2) for j in range(3))
    assert function(np.zeros((0, 64), np.float32)).shape == (0, 64)
