"""The kernel around a vector: a real assembler takes it, and it keeps every bit that its body leaves alone."""

from __future__ import annotations

import numpy as np
import pytest

from tests.calibrate.fake_hip import FakeRunner
from validation.calibrate.assemble import AssemblerError, assembler
from validation.calibrate.differ import Element, compared
from validation.calibrate.snippet import SPECIAL, NotComparableError, Snippet, kernel_text, named

ARCHES = ("gfx942", "gfx950")


def snippet(arch: str, body: str, vgprs: int = 61, lds: int = 4096) -> Snippet:
    rng = np.random.default_rng(5)
    v, a, s = (rng.integers(0, 1 << 32, shape, dtype=np.uint32) for shape in ((vgprs, 64), (20, 64), (102,)))
    special = {name: int(rng.integers(0, 1 << 32)) for name in SPECIAL} | {"scc": 1}
    content = rng.integers(0, 256, lds, dtype=np.uint8).tobytes()
    mode = {"float_round_mode_32": 1, "float_denorm_mode_32": 3, "dx10_clamp": 1, "ieee_mode": 1, "fp16_overflow": 0}
    return Snippet(arch, body, v, a, s, special, content, mode, scratch_bytes=64)


@pytest.mark.parametrize("arch", ARCHES)
def test_a_state_survives_and_an_assembler_takes_the_text(arch: str) -> None:
    pytest.importorskip("triton", reason="it brings the assembler")
    there = snippet(arch, "\tv_mov_b32_e32 v3, 7")
    name, assemble = assembler()
    assert name.startswith("LLVM of triton")
    assert assemble(kernel_text(there), arch).startswith(b"\x7fELF")
    with pytest.raises(AssemblerError, match="rejected"):
        assemble(kernel_text(snippet(arch, "\tv_no_such v3")), arch)
    image = FakeRunner().run(kernel_text(there), arch, there.image(), ())
    expected = there.image()
    lanes = [lane for lane in range(64) if (there.special["exec_lo"] | there.special["exec_hi"] << 32) >> lane & 1]
    expected[2 + 3, lanes] = 7
    assert 0 < len(lanes) < 64
    assert (image == expected).all()
    assert int(named(there, image)["m0"][0]) == there.special["m0"]


def test_what_cannot_be_carried_out_alike_is_refused() -> None:
    with pytest.raises(NotComparableError, match="s_memtime reads a clock"):
        snippet("gfx942", ".L1: s_memtime s[2:3] ; now")
    with pytest.raises(NotComparableError, match="more than 248 VGPRs"):
        snippet("gfx942", "s_nop 0", vgprs=249)
    with pytest.raises(NotComparableError, match="an LDS of 100 bytes"):
        snippet("gfx942", "s_nop 0", lds=100)


@pytest.mark.parametrize(
    ("ours", "theirs", "kind", "ulps"),
    [
        (0x3F800000, 0x3F800003, "float32", 3),
        (0x00000001, 0x80000001, "float32", 2),
        (0x7F800000, 0x7F7FFFFF, "float32", 1),
        (0x7FC00000, 0x3F800000, "float32", None),
        (0x3F80, 0x3F7F, "bfloat16", 1),
        (0x7C01, 0x3C00, "float16", None),
        (1 << 63, 0, "float64", 0),
        (5, 9, None, None),
    ],
)
def test_ulps(ours: int, theirs: int, kind: str | None, ulps: int | None) -> None:
    assert Element("x", ours, theirs, 32, kind).ulps == ulps


def test_the_worst_come_first() -> None:
    entry = compared("vector", "i", "w", 9, [Element(str(n), n, 0, 32, "float32") for n in (3, 9, 1, 2, 5)])
    assert [each["where"] for each in entry["worst"]] == ["9", "5", "3", "2"]
    assert (entry["differing"], entry["max_ulps"], entry["status"]) == (5, 9, "different")
    assert compared("vector", "i", "w", 9, [])["status"] == "equal"
