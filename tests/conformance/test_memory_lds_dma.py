"""Loads that write LDS: M0, instruction offset, lane size, narrow data, clamped and inactive lanes."""

from __future__ import annotations

import pytest

from validation.emulator.errors import UnsupportedError

from .harness import ARCHS, FULL, run
from .memory_support import arena, is_active, pattern

SIZES = {
    "ubyte": (1, False),
    "sbyte": (1, True),
    "ushort": (2, False),
    "sshort": (2, True),
    "dword": (4, False),
    "dwordx3": (12, False),
    "dwordx4": (16, False),
}
BOTH = ("ubyte", "sbyte", "ushort", "sshort", "dword")
SPARSE = 0xF0F0_0001_8000_00FF
BEFORE = pattern(4096)[::-1]


def expected(source: bytes, suffix: str, places: list[int], start: int, exec_: int, limit: int = 1 << 40) -> bytes:
    size, signed = SIZES[suffix]
    lds = bytearray(BEFORE)
    for lane, place in enumerate(places):
        if not is_active(exec_, lane):
            continue
        if size < 4:
            value = int.from_bytes(source[place : place + size], "little", signed=signed)
            raw = ((value if place + size <= limit else 0) & 0xFFFFFFFF).to_bytes(4, "little")
        else:
            words = [
                source[place + i : place + i + 4] if place + i + 4 <= limit else bytes(4) for i in range(0, size, 4)
            ]
            raw = b"".join(words)
        width = max(4, size)
        lds[start + lane * width : start + (lane + 1) * width] = raw
    return bytes(lds)


CASES = [(suffix, arch) for suffix in SIZES for arch in ARCHS if suffix in BOTH or arch == "gfx950"]


@pytest.mark.parametrize("exec_", [FULL, SPARSE])
@pytest.mark.parametrize(("suffix", "arch"), CASES)
def test_global_load_lds(suffix: str, arch: str, exec_: int) -> None:
    memory = arena()
    places = [lane * 20 + 52 for lane in range(64)]
    state = run(
        f"global_load_lds_{suffix} v1, s[2:3] offset:48",
        arch=arch,
        space=memory.space,
        lds=BEFORE,
        m0=256,
        v={1: [p - 48 for p in places]},
        s=memory.scalars(2),
        exec_=exec_,
    )
    assert state.lds.tobytes() == expected(memory.before, suffix, places, 256 + 48, exec_)
    assert not state.findings


@pytest.mark.parametrize(("suffix", "arch"), CASES)
def test_buffer_load_lds_writes_zeros_for_clamped_lanes(suffix: str, arch: str) -> None:
    memory = arena()
    places = [lane * 16 for lane in range(64)]
    state = run(
        f"buffer_load_{suffix} v1, s[4:7], s8 offen offset:32 lds",
        arch=arch,
        space=memory.space,
        lds=BEFORE,
        m0=64,
        v={1: [p - 32 for p in places[2:]] + [0, 16]},
        exec_=SPARSE,
        s={**memory.descriptor(4, 500), 8: 64},
    )
    shown = [p + 64 for p in [*places[2:], 32, 48]]
    assert state.lds.tobytes() == expected(memory.before, suffix, shown, 64 + 32, SPARSE, 500 + 64)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("suffix", BOTH)
def test_scratch_load_lds(suffix: str, arch: str) -> None:
    state = run(
        ["scratch_store_dword off, v1, off offset:8", f"scratch_load_lds_{suffix} off, off offset:8"],
        lds=BEFORE,
        v={1: [0x80F1 + 0x01010000 * lane for lane in range(64)]},
        scratch_bytes=32,
        arch=arch,
    )
    own = b"".join((0x80F1 + 0x01010000 * lane).to_bytes(4, "little") for lane in range(64))
    assert state.lds.tobytes() == expected(own, suffix, [4 * lane for lane in range(64)], 8, FULL)


@pytest.mark.parametrize("line", ["buffer_load_dwordx4 v1, s[4:7], 0 offen lds", "global_load_lds_dwordx3 v1, s[2:3]"])
def test_wide_forms_need_gfx950(line: str) -> None:
    with pytest.raises(UnsupportedError, match="gfx942"):
        run(line, arch="gfx942")


def test_lds_overrun_is_a_finding() -> None:
    memory = arena()
    state = run("global_load_lds_dword v1, s[2:3]", space=memory.space, lds_bytes=512, m0=400, s=memory.scalars(2))
    assert [(f.check, f.lane, f.occurrences) for f in state.findings] == [("memcheck", 28, 36)]
