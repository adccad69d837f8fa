"""MUBUF: address calculation, range checking, formats; and SMEM loads."""

from __future__ import annotations

import numpy as np
import pytest

from validation.emulator.errors import AsmError, UnsupportedError

from .harness import ARCHS, FULL, run
from .memory_support import LOADS, OLD, STORES, arena, is_active, loaded, pattern, registers, span

SPARSE = 0x7000_0001_F0F0_00FE
PLACES = [(lane * 52) % 3000 for lane in range(64)]
VALUES = [
    np.array([(0x0F1E2D3C * (lane + 5) + 0x7F4A7C15 * r) & 0xFFFFFFFF for lane in range(64)], np.uint32)
    for r in range(4)
]
OOB = 1 << 64  # an address beyond everything


def word(raw: bytes, place: int) -> int:
    return int.from_bytes(raw[place : place + 4], "little")


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("exec_", [FULL, SPARSE])
@pytest.mark.parametrize("suffix", LOADS)
def test_raw_load_formats(suffix: str, exec_: int, arch: str) -> None:
    memory, count = arena(), registers(LOADS[suffix][0])
    state = run(
        f"buffer_load_{suffix} {span(20, count)}, v1, s[4:7], s8 offen offset:12",
        arch=arch,
        space=memory.space,
        v={1: PLACES, **{20 + i: OLD for i in range(count)}},
        s={**memory.descriptor(4), 8: 20},
        exec_=exec_,
    )
    for lane in range(64):
        raw = memory.before[PLACES[lane] + 32 :][:16]
        wanted = loaded(raw, suffix) if is_active(exec_, lane) else [OLD] * count
        assert [int(state.v[20 + i][lane]) for i in range(count)] == wanted
    assert not state.findings


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("exec_", [FULL, SPARSE])
@pytest.mark.parametrize("suffix", STORES)
def test_raw_store_formats_and_clamp(suffix: str, exec_: int, arch: str) -> None:
    """The descriptor ends in the middle of lane 40's 16 bytes: dwords are stored or dropped one by one."""
    memory, (nbytes, shift) = arena(), STORES[suffix]
    count = registers(nbytes)
    limit = 40 * 16 + 9
    state = run(
        f"buffer_store_{suffix} {span(10, count)}, v1, s[4:7], 0 offen",
        space=memory.space,
        exec_=exec_,
        v={1: [16 * lane for lane in range(64)], **{10 + i: VALUES[i] for i in range(count)}},
        s=memory.descriptor(4, limit),
        arch=arch,
    )
    wanted = bytearray(memory.before)
    dropped = 0
    for lane in range(64):
        if not is_active(exec_, lane):
            continue
        size = min(nbytes, 4)
        inside = [16 * lane + 4 * i + size <= limit for i in range(count)]
        for i in range(count):
            if inside[i]:
                raw = int(VALUES[i][lane] >> np.uint32(shift)).to_bytes(4, "little")[:size]
                wanted[16 * lane + 4 * i : 16 * lane + 4 * i + size] = raw
        dropped += not all(inside)
    assert memory.content == bytes(wanted)
    assert {f.check for f in state.findings} == ({"clamp"} if dropped else set())


def test_load_is_clamped_by_dword() -> None:
    memory = arena()
    state = run(
        "buffer_load_dwordx4 v[20:23], v1, s[4:7], 0 offen",
        space=memory.space,
        v={1: [lane * 4 for lane in range(64)], **{20 + i: OLD for i in range(4)}},
        s=memory.descriptor(4, 130),
    )
    for lane in range(64):
        for i in range(4):
            place = 4 * (lane + i)
            assert int(state.v[20 + i][lane]) == (word(memory.before, place) if place + 4 <= 130 else 0)


def test_soffset_is_outside_of_the_range_check_and_the_vector_offset_is_unsigned() -> None:
    memory = arena()
    state = run(
        [
            "buffer_load_dword v20, v1, s[4:7], s8 offen",
            "buffer_load_dword v21, off, s[4:7], s8",
            "buffer_load_dword v22, v2, s[4:7], 0 offen offset:3",
        ],
        space=memory.space,
        v={1: [60, 64], 2: 0xFFFFFFF8, 22: OLD},
        s={**memory.descriptor(4, 64), 8: 1024},
    )
    assert [int(state.v[20][i]) for i in (0, 1)] == [word(memory.before, 1084), 0]
    assert int(state.v[21][9]) == word(memory.before, 1024)
    assert not state.v[22].any()


#: Vector offsets whose sum with ``offset:16`` passes 2**32 from lane 1 on: places -4 (dropped), 0, 4, 8, ...
AROUND_ZERO = [(4 * lane - 20) & 0xFFFFFFFF for lane in range(64)]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("exec_", [FULL, SPARSE])
def test_vector_and_instruction_offset_add_up_in_32_bits(exec_: int, arch: str) -> None:
    """What LLVM makes of ``p[i - 5 + 4]`` is a VGPR of -20 and offset:16; only GFX1250 adds in more bits."""
    memory = arena()
    state = run(
        [
            "buffer_load_dword v20, v1, s[4:7], s8 offen offset:16",
            "buffer_load_dwordx2 v[22:23], v1, s[4:7], s8 offen offset:16",
            "buffer_store_dword v10, v1, s[4:7], 0 offen offset:16",
        ],
        arch=arch,
        space=memory.space,
        v={1: AROUND_ZERO, 10: VALUES[0], 20: OLD, 22: OLD, 23: OLD},
        s={**memory.descriptor(4, 200), 8: 64},
        exec_=exec_,
    )
    wanted = bytearray(memory.before)
    for lane in range(64):
        place = 4 * lane - 4
        read = [word(memory.before, place + 64 + 4 * i) if 0 <= place + 4 * i < 200 else 0 for i in (0, 1)]
        if not is_active(exec_, lane):
            read = [OLD, OLD]
        elif 0 <= place < 200:
            wanted[place : place + 4] = int(VALUES[0][lane]).to_bytes(4, "little")
        assert [int(state.v[20][lane]), int(state.v[22][lane])] == [read[0], read[0]]
        if lane:  # nothing says whether a single access goes on at 0
            assert int(state.v[23][lane]) == read[1]
    assert memory.content == bytes(wanted)


@pytest.mark.parametrize("arch", ARCHS)
def test_the_32_bit_sum_of_a_structured_record_and_of_an_atomic(arch: str) -> None:
    memory = arena()
    state = run(
        [
            "buffer_load_dword v20, v[2:3], s[4:7], 0 idxen offen offset:16",
            "buffer_atomic_add v21, v3, s[8:11], 0 offen offset:16 sc0",
        ],
        arch=arch,
        space=memory.space,
        exec_=0b11,
        v={2: [2, 5], 3: [(-8) & 0xFFFFFFFF, (-16) & 0xFFFFFFFF], 20: OLD, 21: [7, 9]},
        s={**memory.descriptor(4, records=20, stride=24), **memory.descriptor(8, 64)},
    )
    assert [int(state.v[20][i]) for i in (0, 1)] == [word(memory.before, 24 * 2 + 8), word(memory.before, 24 * 5)]
    assert [int(state.v[21][i]) for i in (0, 1)] == [word(memory.before, 8), word(memory.before, 0)]
    assert word(memory.content, 8) == (word(memory.before, 8) + 7) % 2**32
    assert word(memory.content, 0) == (word(memory.before, 0) + 9) % 2**32


@pytest.mark.parametrize("soffset", ["s8", "m0", "16", "0"])
def test_scalar_offset_sources(soffset: str) -> None:
    memory = arena()
    offset = {"s8": 96, "m0": 200, "16": 16, "0": 0}[soffset]
    state = run(
        f"buffer_load_dword v20, off, s[4:7], {soffset} offset:4",
        space=memory.space,
        s={**memory.descriptor(4), 8: 96},
        m0=200,
    )
    assert state.v[20].tolist() == [word(memory.before, offset + 4)] * 64


def test_structured_access_checks_the_index() -> None:
    memory = arena()
    descriptor = memory.descriptor(4, records=20, stride=24)
    state = run(
        [
            "buffer_load_dword v20, v1, s[4:7], 0 idxen offset:4",
            "buffer_load_dwordx2 v[22:23], v[2:3], s[4:7], 0 idxen offen",
        ],
        space=memory.space,
        v={1: range(64), 2: range(64), 3: 8},
        s=descriptor,
    )
    for lane in range(64):
        assert int(state.v[20][lane]) == (word(memory.before, 24 * lane + 4) if lane < 20 else 0)
        assert int(state.v[23][lane]) == (word(memory.before, 24 * lane + 12) if lane < 20 else 0)


def test_stride_without_index_counts_bytes() -> None:
    memory = arena()
    state = run(
        "buffer_load_dword v20, v1, s[4:7], 0 offen",
        space=memory.space,
        v={1: [0, 16, 20]},
        s=memory.descriptor(4, records=20, stride=24),
    )
    assert [int(x) for x in state.v[20][:3]] == [word(memory.before, 0), word(memory.before, 16), 0]


def test_add_tid_and_its_wide_stride() -> None:
    memory = arena(1 << 16)
    stride = 12
    state = run(
        "buffer_load_dword v20, off, s[4:7], 0",
        space=memory.space,
        s=memory.descriptor(4, stride=stride, word3=1 << 23),
    )
    assert state.v[20].tolist() == [word(memory.before, lane * stride) for lane in range(64)]
    # with add_tid the data format holds bits 17:14 of the stride
    state = run(
        "buffer_load_dword v20, off, s[4:7], 0",
        space=memory.space,
        exec_=0xF,
        s=memory.descriptor(4, stride=8, word3=1 << 23 | 1 << 15),
    )
    assert state.v[20][:4].tolist() == [word(memory.before, lane * (16384 + 8)) for lane in range(4)]


@pytest.mark.parametrize(("code", "count"), [(0, 8), (1, 16), (2, 32), (3, 64)])
def test_swizzled_addressing(code: int, count: int) -> None:
    memory = arena()
    descriptor = memory.descriptor(4, records=64, stride=20, word3=code << 21)
    descriptor[5] |= 1 << 31
    state = run(
        "buffer_load_ubyte v20, v[1:2], s[4:7], 0 idxen offen", space=memory.space, v={1: range(64), 2: 9}, s=descriptor
    )
    for lane in range(64):
        high, low = divmod(lane, count)
        place = (high * 20 + 8) * count + low * 4 + 1
        assert int(state.v[20][lane]) == memory.before[place]


def test_swizzled_wide_access_is_refused() -> None:
    memory = arena()
    descriptor = memory.descriptor(4, records=64, stride=16)
    descriptor[5] |= 1 << 31
    with pytest.raises(UnsupportedError, match="swizzled"):
        run("buffer_load_dwordx2 v[20:21], v1, s[4:7], 0 idxen", space=memory.space, s=descriptor)


def test_descriptor_without_limit_lets_an_overrun_through_to_memcheck() -> None:
    memory = arena(256)
    state = run(
        "buffer_load_dword v20, v1, s[4:7], 0 offen",
        space=memory.space,
        v={1: [lane * 8 for lane in range(64)]},
        s=memory.descriptor(4, 0xFFFFFFFF),
    )
    assert [(f.check, f.argument, f.index) for f in state.findings] == [("memcheck", "t", (256,))]


@pytest.mark.parametrize(
    "line",
    [
        "buffer_load_dword v1, v2, s[4:7], 0",
        "buffer_load_dword v1, off, s[4:7], 0 offen",
        "buffer_load_dword v1, v2, s[4:7], 0 idxen offen",
        "buffer_load_dword v1, off, s[5:8], 0",
        "buffer_load_dword v1, off, s[4:7], 0 offset:4096",
        "buffer_load_dwordx2 v1, off, s[4:7], 0",
    ],
)
def test_malformed_operands_are_refused(line: str) -> None:
    with pytest.raises(AsmError):
        run(line)


@pytest.mark.parametrize("arch", ARCHS)
def test_cache_maintenance_moves_no_data(arch: str) -> None:
    memory = arena()
    state = run(
        ["buffer_wbl2 sc0 sc1", "buffer_inv sc1", "buffer_load_dword v1, off, s[4:7], 0 sc0 sc1 nt"],
        space=memory.space,
        s=memory.descriptor(4),
        arch=arch,
    )
    assert int(state.v[1][0]) == word(memory.before, 0)
    assert memory.content == pattern(4096)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("count", [1, 2, 4, 8, 16])
def test_scalar_load(count: int, arch: str) -> None:
    """Address bits 1:0 count for nothing; the offset is an immediate, an SGPR or both; EXEC does not matter."""
    memory = arena()
    name = "s_load_dword" if count == 1 else f"s_load_dwordx{count}"
    for offset, place in (("0x40", 64), ("-4", 508), ("s6", 640), ("s6 offset:20", 660), ("3", 0)):
        base = memory.address + (512 if offset == "-4" else 0)
        state = run(
            f"{name} {span(16, count, 's')}, s[2:3], {offset}",
            arch=arch,
            space=memory.space,
            exec_=0,
            s={2: base & 0xFFFFFFFF, 3: base >> 32, 6: 642},
        )
        assert state.s[16 : 16 + count] == [word(memory.before, place + 4 * i) for i in range(count)]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("count", [1, 2, 4, 8, 16])
def test_scalar_buffer_load_is_clamped_by_dword(count: int, arch: str) -> None:
    memory = arena()
    name = "s_buffer_load_dword" if count == 1 else f"s_buffer_load_dwordx{count}"
    state = run(
        f"{name} {span(16, count, 's')}, s[4:7], s9",
        space=memory.space,
        s={**memory.descriptor(4, 108), 9: 96},
        arch=arch,
    )
    wanted = [word(memory.before, 96 + 4 * i) if 100 + 4 * i <= 108 else 0 for i in range(count)]
    assert state.s[16 : 16 + count] == wanted
    state = run(
        f"{name} {span(16, count, 's')}, s[4:7], 0x8",
        space=memory.space,
        s=memory.descriptor(4, 5, stride=16),
        arch=arch,
    )
    wanted = [word(memory.before, 8 + 4 * i) if 12 + 4 * i <= 80 else 0 for i in range(count)]
    assert state.s[16 : 16 + count] == wanted


def test_one_byte_short_of_everything_clamps_the_last_dword() -> None:
    memory = arena()
    state = run(
        "buffer_load_dword v20, v1, s[4:7], 0 offen",
        space=memory.space,
        v={1: [lane * 4 for lane in range(64)]},
        s=memory.descriptor(4, 255),
    )
    assert int(state.v[20][62]) == word(memory.before, 248)
    assert int(state.v[20][63]) == 0


def test_descriptor_is_read_anew_when_its_registers_change() -> None:
    memory = arena()
    loop = [
        "s_mov_b32 s10, 0",
        "again:",
        "buffer_load_dword v20, off, s[4:7], 0",
        "v_mov_b32_e32 v21, v22",
        "v_mov_b32_e32 v22, v20",
        "s_add_u32 s4, s4, 8",
        "s_add_u32 s10, s10, 1",
        "s_cmp_lg_u32 s10, 2",
        "s_cbranch_scc1 again",
    ]
    state = run(loop, space=memory.space, s=memory.descriptor(4))
    assert (int(state.v[21][0]), int(state.v[22][0])) == (word(memory.before, 0), word(memory.before, 8))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("prefix", ["s_store", "s_buffer_store"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_scalar_store(count: int, prefix: str, arch: str) -> None:
    memory = arena()
    suffix = "dword" if count == 1 else f"dwordx{count}"
    values = {12 + i: 0x11111111 * (i + 1) for i in range(4)}
    base, where = ("s[2:3]", memory.scalars(2)) if prefix == "s_store" else ("s[4:7]", memory.descriptor(4, 72))
    run(
        f"{prefix}_{suffix} {span(12, count, 's')}, {base}, s8 offset:4",
        arch=arch,
        space=memory.space,
        exec_=0,
        s={**where, **values, 8: 60},
    )
    kept = count if prefix == "s_store" else min(count, 2)
    wanted = b"".join((0x11111111 * (i + 1)).to_bytes(4, "little") for i in range(kept))
    assert memory.content[64 : 64 + 4 * kept] == wanted
    assert memory.content[64 + 4 * kept :] == memory.before[64 + 4 * kept :]
