"""Conversions to and from fp8 and bf8, and stochastic rounding; scaled ones: ``test_small_float_scaled.py``."""

from __future__ import annotations

import numpy as np
import pytest

from validation.emulator.errors import AsmError, EmulatorError, UnsupportedError

from .harness import ARCHS, lanes, run
from .small_float_support import BYTES, LARGEST, SATURATING, decoded, encoded, finite_values, same_float

both = pytest.mark.parametrize("arch", ARCHS)


@both
@pytest.mark.parametrize("name", BYTES)
def test_every_code_to_f32(name: str, arch: str) -> None:
    for start in range(0, 256, 64):
        codes = np.arange(start, start + 64)
        word = codes | 0x11 << 8 | (255 - codes) << 16 | 0x22 << 24
        plain = run(f"v_cvt_f32_{name} v1, v0", arch=arch, v={0: word})
        same_float(plain.v[1].view(np.float32), decoded(name, arch, codes))
        byte = run(f"v_cvt_f32_{name}_sdwa v1, v0 src0_sel:BYTE_2", arch=arch, v={0: word})
        same_float(byte.v[1].view(np.float32), decoded(name, arch, 255 - codes))
        low = run(f"v_cvt_pk_f32_{name}_e32 v[2:3], v0", arch=arch, v={0: word})
        high = run(f"v_cvt_pk_f32_{name}_sdwa v[2:3], v0 src0_sel:WORD_1", arch=arch, v={0: word})
        for state, first, second in ((low, codes, codes * 0 + 0x11), (high, 255 - codes, codes * 0 + 0x22)):
            same_float(state.v[2].view(np.float32), decoded(name, arch, first))
            same_float(state.v[3].view(np.float32), decoded(name, arch, second))


@both
def test_f32_from_scalar_and_dpp(arch: str) -> None:
    one = int(encoded("fp8", arch, np.array([1.0]))[0])
    assert run("v_cvt_f32_fp8 v1, s3", arch=arch, s={3: 0xFF00 | one}).v[1].view(np.float32)[9] == 1.0
    codes = np.arange(64)
    state = run("v_cvt_f32_fp8_dpp v1, v0 row_mirror row_mask:0xf bank_mask:0xf", arch=arch, v={0: codes})
    same_float(state.v[1].view(np.float32), decoded("fp8", arch, (codes & ~15) + 15 - (codes & 15)))
    assert run("v_cvt_f32_fp8_e64 v1, v0 clamp", arch=arch, v={0: 0x7B}).v[1].view(np.float32)[0] == 1.0


@both
@pytest.mark.parametrize("name", BYTES)
def test_pk_narrow_from_f32(name: str, arch: str) -> None:
    a, b = finite_values(name, arch, 1), finite_values(name, arch, 2)
    v = {0: a.view(np.uint32), 1: b.view(np.uint32), 2: 0xDEADBEEF}
    expected = encoded(name, arch, a) | encoded(name, arch, b) << 8
    low = run(f"v_cvt_pk_{name}_f32 v2, v0, v1", arch=arch, v=v)
    assert (low.v[2] == (expected | 0xDEAD0000)).all()
    high = run(f"v_cvt_pk_{name}_f32 v2, v0, v1 op_sel:[0,0,1]", arch=arch, v=v)
    assert (high.v[2] == (expected << 16 | 0xBEEF)).all()
    negated = run(f"v_cvt_pk_{name}_f32 v2, -v0, |v1|", arch=arch, v=v, exec_=1 << 40)
    assert negated.v[2][40] & 0xFFFF == encoded(name, arch, -a)[40] | encoded(name, arch, np.abs(b))[40] << 8
    assert negated.v[2][41] == 0xDEADBEEF


@both
@pytest.mark.parametrize("name", BYTES)
def test_overflow_follows_fp16_ovfl(name: str, arch: str) -> None:
    """Without it NaN (fp8) or infinity (bf8, NaN where there is none), with it the largest value; NaN stays NaN."""
    largest = LARGEST[name, arch]
    top = int(encoded(name, arch, np.array([largest]))[0])
    values = np.array([largest * 2, -largest * 2, np.inf, -np.inf, np.nan, largest], np.float32)
    v = {0: lanes(values.view(np.uint32)), 1: 0, 2: 0}
    text = f"v_cvt_pk_{name}_f32 v2, v0, v1"
    plain = run(text, arch=arch, v=v).v[2][:6] & 0xFF
    got = decoded(name, arch, plain)
    if name == "bf8" and arch == "gfx950":
        assert got[:4].tolist() == [np.inf, -np.inf, np.inf, -np.inf]
    else:
        assert np.isnan(got[:4]).all()
    assert np.isnan(got[4])
    assert got[5] == largest
    clamped = run(text, arch=arch, v=v, mode=SATURATING).v[2][:6] & 0xFF
    assert clamped[:4].tolist() == [top, top | 0x80, top, top | 0x80]
    assert np.isnan(decoded(name, arch, clamped[4:5]))


@both
@pytest.mark.parametrize("name", BYTES)
def test_stochastic_rounding_of_f32(name: str, arch: str) -> None:
    """1 + 1/4 of an ulp: up when the top seed bits, as a fraction, reach 3/4."""
    ulp = 2.0**-3 if name == "fp8" else 2.0**-2
    value = np.float32(1 + ulp / 4)
    seeds = [0, 0x40000000, 0xBFFFFFFF, 0xC0000000, 0xFFFFFFFF, 0x80000000]
    expected = encoded(name, arch, np.array([1.0, 1.0, 1.0, 1 + ulp, 1 + ulp, 1.0]))
    for byte in range(4):
        v = {0: lanes(value.view(np.uint32)), 1: seeds, 2: 0xDEADBEEF}
        text = f"v_cvt_sr_{name}_f32 v2, v0, v1 op_sel:[0,0,{byte & 1},{byte >> 1}]"
        got = run(text, arch=arch, v=v).v[2][:6]
        assert ((got >> (8 * byte)) & 0xFF).tolist() == expected.tolist()
        keep = 0xFFFFFFFF ^ (0xFF << (8 * byte))
        assert (got & keep == 0xDEADBEEF & keep).all()
    negative = run(f"v_cvt_sr_{name}_f32 v2, -v0, v1", arch=arch, v={0: lanes(value.view(np.uint32)), 1: -1, 2: 0})
    assert negative.v[2][0] == encoded(name, arch, np.array([-1 - ulp]))[0]


def test_stochastic_rounding_to_16_bits() -> None:
    for name, ulp, code in (("f16", 2.0**-10, 0x3C00), ("bf16", 2.0**-7, 0x3F80)):
        value = np.float32(1 + ulp / 4).view(np.uint32)
        v = {0: lanes(value), 1: [0, 0xBFFFFFFF, 0xC0000000, 0xFFFFFFFF], 2: 0xDEADBEEF}
        low = run(f"v_cvt_sr_{name}_f32 v2, v0, v1", arch="gfx950", v=v).v[2][:4]
        assert low.tolist() == [0xDEAD0000 | code] * 2 + [0xDEAD0000 | (code + 1)] * 2
        high = run(f"v_cvt_sr_{name}_f32 v2, v0, v1 op_sel:[0,0,1]", arch="gfx950", v=v).v[2][:4]
        assert high.tolist() == [0xBEEF | code << 16] * 2 + [0xBEEF | (code + 1) << 16] * 2


@both
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("v_cvt_f32_fp8_sdwa v0, v1 src0_sel:WORD_1", UnsupportedError),
        ("v_cvt_pk_f32_fp8_sdwa v[0:1], v1 src0_sel:BYTE_1", UnsupportedError),
        ("v_cvt_pk_f32_fp8 v0, v1", AsmError),
        ("v_cvt_pk_f32_fp8 v[0:1], v1 clamp", UnsupportedError),
        ("v_cvt_pk_fp8_f32 v0, v1, v2 op_sel:[1,0,0]", UnsupportedError),
        ("v_cvt_pk_fp8_f32 v0, v1, v2 op_sel:[0,0,0,1]", AsmError),
        ("v_cvt_pk_fp8_f32 v0, v1", AsmError),
        ("v_cvt_pk_fp8_f32 s0, v1, v2", AsmError),
    ],
)
def test_refused(text: str, error: type[EmulatorError], arch: str) -> None:
    with pytest.raises(error):
        run(text, arch=arch)
