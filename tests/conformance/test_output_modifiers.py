"""What happens to a float result on its way to the register: denormals by MODE, OMOD, CLAMP."""

from __future__ import annotations

import pytest

from validation.emulator.errors import UnsupportedError
from validation.emulator.machine.waves import FloatMode

from .harness import ARCHS, flushing, run

#: MODE with which output modifiers work: denormal results flushed, IEEE off.
LOOSE = FloatMode(denorm_32=0, denorm_16_64=0, ieee=False)
ONE, TWO, THREE, HALF, TENTH, INF, NAN = (
    0x3F800000,
    0x40000000,
    0x40400000,
    0x3F000000,
    0x3DCCCCCD,
    0x7F800000,
    0x7FC00000,
)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("modifier", "want"), [("mul:2", 0x40C00000), ("mul:4", 0x41400000), ("div:2", 0x3FC00000)])
def test_omod_scales_only_without_ieee_and_denormals(arch: str, modifier: str, want: int) -> None:
    body, v = f"v_add_f32_e64 v2, v0, v1 {modifier}", {0: ONE, 1: TWO}
    assert int(run(body, arch=arch, v=v, mode=LOOSE).v[2][0]) == want
    for mode in (None, flushing(), FloatMode(ieee=False), FloatMode(denorm_32=2, ieee=False)):
        assert int(run(body, arch=arch, v=v, mode=mode).v[2][0]) == THREE


@pytest.mark.parametrize("arch", ARCHS)
def test_omod_makes_minus_zero_plus_zero(arch: str) -> None:
    state = run("v_mul_f32_e64 v2, v0, v1 mul:2", arch=arch, v={0: 0x80000000, 1: ONE}, mode=LOOSE)
    assert int(state.v[2][0]) == 0


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("value", "want"),
    [(TWO, ONE), (TENTH, TENTH), (0xBF800000, 0), (0x80000000, 0), (INF, ONE), (0xFF800000, 0), (NAN, 0)],
)
def test_clamp_limits_to_zero_and_one(arch: str, value: int, want: int) -> None:
    body = "v_max_f32_e64 v2, v0, v0 clamp"
    assert int(run(body, arch=arch, v={0: value}).v[2][0]) == want


@pytest.mark.parametrize("arch", ARCHS)
def test_clamp_keeps_nan_without_dx10_clamp(arch: str) -> None:
    state = run("v_max_f32_e64 v2, v0, v0 clamp", arch=arch, v={0: NAN}, mode=FloatMode(dx10_clamp=False))
    assert int(state.v[2][0]) == NAN


@pytest.mark.parametrize("arch", ARCHS)
def test_clamp_comes_after_omod(arch: str) -> None:
    state = run("v_add_f32_e64 v2, v0, v1 mul:4 clamp", arch=arch, v={0: HALF, 1: HALF}, mode=LOOSE)
    assert int(state.v[2][0]) == ONE


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("field", "product"), [(3, 1), (1, 0), (2, 0), (0, 0)])
def test_denormals_by_mode(arch: str, field: int, product: int) -> None:
    """MODE.FP_DENORM bit 0 lets denormal inputs in, bit 1 denormal results out."""
    mode = FloatMode(denorm_32=field)
    # 2**-149 * 1: a denormal input and a denormal result
    assert int(run("v_mul_f32_e32 v2, v0, v1", arch=arch, v={0: 1, 1: ONE}, mode=mode).v[2][0]) == product
    # 2**-126 / 2: only the result is denormal
    want = 0x00400000 if field & 2 else 0
    assert int(run("v_mul_f32_e32 v2, v0, v1", arch=arch, v={0: 0x00800000, 1: HALF}, mode=mode).v[2][0]) == want
    # 2**-127 * 2: only the input is denormal
    want = 0x00800000 if field & 1 else 0
    assert int(run("v_mul_f32_e32 v2, v0, v1", arch=arch, v={0: 0x00400000, 1: TWO}, mode=mode).v[2][0]) == want


@pytest.mark.parametrize("arch", ARCHS)
def test_flushing_keeps_the_sign(arch: str) -> None:
    state = run("v_mul_f32_e32 v2, v0, v1", arch=arch, v={0: 0x80000001, 1: ONE}, mode=flushing())
    assert int(state.v[2][0]) == 0x80000000


def test_omod_on_integers_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="omod"):
        run("v_add_u32_e64 v2, v0, v1 mul:2")


OVERFLOW = FloatMode(fp16_overflow=True)
#: f16 bits: 65504, its double, infinity, 32768, 1, 0, 16
MAX, INF16, BIG, ONE16, SIXTEEN = 0x7BFF, 0x7C00, 0x7800, 0x3C00, 0x4C00
#: instruction on v0, v1, v2 into v3; their low halves; result without and with FP16_OVFL
F16_OVERFLOWS = [
    ("v_add_f16_e32 v3, v0, v1", (MAX, MAX, 0), INF16, MAX),
    ("v_sub_f16_e32 v3, v0, v1", (0xFBFF, MAX, 0), 0xFC00, 0xFBFF),
    ("v_mul_f16_e32 v3, v0, v1", (BIG, BIG, 0), INF16, MAX),
    ("v_fma_f16 v3, v0, v1, v2", (BIG, BIG, ONE16), INF16, MAX),
    ("v_exp_f16_e32 v3, v0", (SIXTEEN, 0, 0), INF16, MAX),
    ("v_ldexp_f16_e32 v3, v0, v1", (BIG, 1, 0), INF16, MAX),
    ("v_cvt_f16_u16_e32 v3, v0", (0xFFFF, 0, 0), INF16, MAX),
    # 2**-16 is an f16 denormal whose inverse is too large
    ("v_rcp_f16_e32 v3, v0", (0x0100, 0, 0), INF16, MAX),
    ("v_add_f16_e32 v3, v0, v1", (INF16, MAX, 0), INF16, INF16),
    ("v_rcp_f16_e32 v3, v0", (0x8000, 0, 0), 0xFC00, 0xFC00),
    ("v_rsq_f16_e32 v3, v0", (0, 0, 0), INF16, INF16),
    ("v_log_f16_e32 v3, v0", (0, 0, 0), 0xFC00, 0xFC00),
    ("v_div_fixup_f16 v3, v0, v1, v2", (ONE16, 0, ONE16), INF16, INF16),
]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("line", "sources", "plain", "limited"), F16_OVERFLOWS)
def test_f16_overflow_mode(line: str, sources: tuple[int, int, int], plain: int, limited: int, arch: str) -> None:
    """FP16_OVFL: computed overflow gives the largest number, an infinite operand or a division by 0 an infinity (LLVM
    AMDGPUUsage, compute program resource registers)."""
    v = dict(enumerate(sources))
    assert int(run(line, arch=arch, v=v).v[3][0]) == plain
    assert int(run(line, arch=arch, v=v, mode=OVERFLOW).v[3][0]) == limited


@pytest.mark.parametrize("arch", ARCHS)
def test_f16_overflow_mode_of_conversions_and_halves(arch: str) -> None:
    big, inf = 0x47800000, INF  # 65536.0
    assert int(run("v_cvt_f16_f32_e32 v3, v0", arch=arch, v={0: big}, mode=OVERFLOW).v[3][0]) == MAX
    assert int(run("v_cvt_f16_f32_e32 v3, v0", arch=arch, v={0: inf}, mode=OVERFLOW).v[3][0]) == INF16
    v = {0: MAX << 16 | ONE16, 1: MAX << 16 | INF16}
    assert int(run("v_pk_add_f16 v3, v0, v1", arch=arch, v=v, mode=OVERFLOW).v[3][0]) == MAX << 16 | INF16
    assert int(run("v_pk_add_f16 v3, v0, v1", arch=arch, v=v).v[3][0]) == INF16 << 16 | INF16
    # a denormal that is flushed is a zero divisor
    flushed = FloatMode(fp16_overflow=True, denorm_16_64=0)
    assert int(run("v_rcp_f16_e32 v3, v0", arch=arch, v={0: 0x0100}, mode=flushed).v[3][0]) == INF16


def test_f16_overflow_mode_of_the_packed_conversion() -> None:
    v = {0: 0x47800000, 1: 0xFF800000}
    state = run("v_cvt_pk_f16_f32 v3, v0, v1", arch="gfx950", v=v, mode=OVERFLOW)
    assert int(state.v[3][0]) == 0xFC00 << 16 | MAX
