"""LDS reads and writes, pairs, addtid, append and consume; alignment and bounds findings."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from validation.emulator.errors import AsmError, UnsupportedError

from .harness import ARCHS, FULL, run
from .memory_support import LOADS, OLD, STORES, is_active, loaded, pattern, registers, span

SPARSE = 0x8001_0F0F_0000_FFFE
LDS = pattern(4096)
#: DS name -> format of the same meaning in global memory.
READS = {
    "u8": "ubyte",
    "i8": "sbyte",
    "u16": "ushort",
    "i16": "sshort",
    "b32": "dword",
    "b64": "dwordx2",
    "b96": "dwordx3",
    "b128": "dwordx4",
    "u8_d16": "ubyte_d16",
    "u8_d16_hi": "ubyte_d16_hi",
    "i8_d16": "sbyte_d16",
    "i8_d16_hi": "sbyte_d16_hi",
    "u16_d16": "short_d16",
    "u16_d16_hi": "short_d16_hi",
}
WRITES = {
    "b8": "byte",
    "b16": "short",
    "b32": "dword",
    "b64": "dwordx2",
    "b96": "dwordx3",
    "b128": "dwordx4",
    "b8_d16_hi": "byte_d16_hi",
    "b16_d16_hi": "short_d16_hi",
}
VALUES = [
    np.array([(0xDEADBEEF * (lane + 1) + 0x01010101 * r) & 0xFFFFFFFF for lane in range(64)], np.uint32)
    for r in range(4)
]


def word(raw: bytes, place: int) -> int:
    return int.from_bytes(raw[place : place + 4], "little")


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("exec_", [FULL, SPARSE, 0])
@pytest.mark.parametrize("name", READS)
def test_read(name: str, exec_: int, arch: str) -> None:
    nbytes = LOADS[READS[name]][0]
    count, step = registers(nbytes), 16 if nbytes == 12 else nbytes
    places = [(lane * 5 % 64) * step + 32 for lane in range(64)]
    state = run(
        f"ds_read_{name} {span(20, count)}, v1 offset:32",
        arch=arch,
        lds=LDS,
        exec_=exec_,
        v={1: [p - 32 for p in places], **{20 + i: OLD for i in range(count)}},
    )
    for lane in range(64):
        wanted = loaded(LDS[places[lane] :], READS[name]) if is_active(exec_, lane) else [OLD] * count
        assert [int(state.v[20 + i][lane]) for i in range(count)] == wanted
    assert not state.findings


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("exec_", [FULL, SPARSE, 0])
@pytest.mark.parametrize("name", WRITES)
def test_write(name: str, exec_: int, arch: str) -> None:
    nbytes, shift = STORES[WRITES[name]]
    count, step = registers(nbytes), 16 if nbytes == 12 else nbytes
    places = [(lane * 7 % 64) * step + 64 for lane in range(64)]
    state = run(
        f"ds_write_{name} v1, {span(10, count)} offset:48",
        arch=arch,
        lds=LDS,
        exec_=exec_,
        v={1: [p - 48 for p in places], **{10 + i: VALUES[i] for i in range(count)}},
    )
    wanted = bytearray(LDS)
    for lane in range(64):
        if is_active(exec_, lane):
            raw = b"".join((int(VALUES[i][lane]) >> shift).to_bytes(4, "little") for i in range(count))
            wanted[places[lane] : places[lane] + nbytes] = raw[:nbytes]
    assert state.lds.tobytes() == bytes(wanted)
    assert not state.findings


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("tag", ["", "st64"])
@pytest.mark.parametrize(("bits", "size"), [("b32", 4), ("b64", 8)])
def test_read2(bits: str, size: int, tag: str, arch: str) -> None:
    """The result may lie over the address."""
    unit, count = size * (64 if tag else 1), size // 4
    second = 3 if tag else 17
    state = run(
        f"ds_read2{tag}_{bits} {span(20, 2 * count)}, v20 offset0:1 offset1:{second}",
        lds=LDS,
        v={20: [lane * 8 for lane in range(64)]},
        arch=arch,
    )
    for lane in range(64):
        for half, offset in enumerate((1, second)):
            for i in range(count):
                got = int(state.v[20 + half * count + i][lane])
                assert got == word(LDS, lane * 8 + unit * offset + 4 * i)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("tag", ["", "st64"])
@pytest.mark.parametrize(("bits", "size"), [("b32", 4), ("b64", 8)])
def test_write2(bits: str, size: int, tag: str, arch: str) -> None:
    """Where both halves meet, the second one is the later."""
    unit, count = size * (64 if tag else 1), size // 4
    state = run(
        f"ds_write2{tag}_{bits} v1, {span(10, count)}, {span(10 + count, count)} offset1:2",
        lds=LDS,
        exec_=SPARSE,
        v={1: [lane * 2 * size for lane in range(64)], **{10 + i: VALUES[i] for i in range(2 * count)}},
        arch=arch,
    )
    wanted = bytearray(LDS)
    for half in range(2):
        for lane in range(64):
            if is_active(SPARSE, lane):
                raw = b"".join(int(VALUES[half * count + i][lane]).to_bytes(4, "little") for i in range(count))
                place = lane * 2 * size + half * 2 * unit
                wanted[place : place + size] = raw
    assert state.lds.tobytes() == bytes(wanted)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("tag", ["", "st64"])
@pytest.mark.parametrize(("bits", "size"), [("b32", 4), ("b64", 8)])
def test_exchange2(bits: str, size: int, tag: str, arch: str) -> None:
    unit, count = size * (64 if tag else 1), size // 4
    second = 2 if tag else 64
    state = run(
        f"ds_wrxchg2{tag}_rtn_{bits} {span(10, 2 * count)}, v1, {span(10, count)}, {span(10 + count, count)} "
        f"offset1:{second}",
        lds=LDS,
        v={1: [lane * size for lane in range(64)], **{10 + i: VALUES[i] for i in range(2 * count)}},
        arch=arch,
    )
    wanted = bytearray(LDS)
    for half in range(2):
        for lane in range(64):
            place = lane * size + half * second * unit
            for i in range(count):
                assert int(state.v[10 + half * count + i][lane]) == word(LDS, place + 4 * i)
                raw = int(VALUES[half * count + i][lane]).to_bytes(4, "little")
                wanted[place + 4 * i : place + 4 * i + 4] = raw
    assert state.lds.tobytes() == bytes(wanted)


def test_address_wraps_at_32_bits() -> None:
    state = run("ds_read_b32 v2, v1 offset:64", lds=LDS, v={1: 0xFFFFFFC4})
    assert state.v[2].tolist() == [word(LDS, 4)] * 64


@pytest.mark.parametrize("arch", ARCHS)
def test_addtid_adds_the_lane(arch: str) -> None:
    state = run(
        ["ds_read_addtid_b32 v2 offset:16", "ds_write_addtid_b32 v3 offset:1024"],
        lds=LDS,
        m0=0x50020,
        v={3: VALUES[0]},
        arch=arch,
    )
    assert state.v[2].tolist() == [word(LDS, 0x20 + 16 + 4 * lane) for lane in range(64)]
    assert state.lds.tobytes()[0x420 : 0x420 + 256] == VALUES[0].tobytes()


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("name", "sign"), [("append", 1), ("consume", -1)])
def test_append_and_consume_count_active_lanes(name: str, sign: int, arch: str) -> None:
    lds = struct.pack("<4I", 1, 2, 3, 1000)
    state = run(f"ds_{name} v2 offset:4", lds=lds, m0=8, v={2: OLD}, exec_=SPARSE, arch=arch)
    assert struct.unpack("<4I", state.lds.tobytes()[:16])[3] == 1000 + sign * SPARSE.bit_count()
    assert state.v[2].tolist() == [1000 if is_active(SPARSE, lane) else OLD for lane in range(64)]
    state = run(f"ds_{name} v2 offset:4", lds=lds, m0=8, v={2: OLD}, exec_=0, arch=arch)
    assert state.lds.tobytes()[:16] == lds


@pytest.mark.parametrize("line", ["ds_read_b64 v[2:3], v1", "ds_read_b128 v[2:5], v1", "ds_write_b128 v1, v[2:5]"])
def test_wide_access_needs_dwords_only(line: str) -> None:
    """Unaligned access mode, in which amdhsa runs: compilers rely on it."""
    state = run(line, lds=LDS, v={1: [32 * lane + 4 for lane in range(64)]})
    assert not state.findings


@pytest.mark.parametrize(
    ("line", "multiple"),
    [
        ("ds_read_b64 v[2:3], v1", 4),
        ("ds_read_b128 v[2:5], v1", 4),
        ("ds_write_b96 v1, v[2:4]", 4),
        ("ds_read_b32 v2, v1", 4),
    ],
)
def test_misaligned_access_is_a_finding_but_executes(line: str, multiple: int) -> None:
    state = run(line, lds=LDS, v={1: [64 * lane + (lane == 9) * multiple // 2 for lane in range(63)] + [0]})
    assert [(f.check, f.lane, f.occurrences) for f in state.findings] == [("alignment", 9, 1)]
    assert f"no multiple of {multiple}" in state.findings[0].message
    if "read" in line:
        assert int(state.v[2][9]) == word(LDS, 576 + multiple // 2)


def test_out_of_bounds_reads_zero_and_drops_writes() -> None:
    state = run(
        ["ds_read_b64 v[2:3], v1", "ds_write_b32 v1, v4"],
        lds=LDS[:512],
        lds_bytes=512,
        v={1: [504, 512], 2: OLD, 3: OLD, 4: 7},
    )
    assert int(state.v[3][0]) == word(LDS, 508)
    assert not state.v[2][1::2].any()
    assert [(f.check, f.lane, f.occurrences) for f in state.findings] == [("memcheck", 1, 32)] * 2


@pytest.mark.parametrize("arch", ARCHS)
def test_nop_does_nothing_and_gws_is_refused(arch: str) -> None:
    assert run("ds_nop", lds=LDS, arch=arch).lds.tobytes() == LDS
    with pytest.raises(UnsupportedError):
        run("ds_gws_barrier v1 gds", arch=arch)
    with pytest.raises(AsmError):
        run("ds_read_b32 v1, v2 offset:65536", arch=arch)
