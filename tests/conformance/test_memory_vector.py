"""GLOBAL, FLAT and SCRATCH loads and stores: formats, address forms, offsets, EXEC, apertures, bounds."""

from __future__ import annotations

import numpy as np
import pytest

from validation.emulator.errors import AsmError, UnsupportedError
from validation.emulator.program.operands import PRIVATE_APERTURE, SHARED_APERTURE

from .harness import ARCHS, FULL, run
from .memory_support import LOADS, OLD, STORES, arena, is_active, loaded, pattern, registers, span, split

SPARSE = 0x8000_0001_F0F0_00FF
#: Byte addresses of the lanes: unaligned, descending, repeated.
PLACES = [(lane * 37) % 2000 + 64 for lane in range(64)]
VALUES = [
    np.array([(0x01020304 * (lane + 3) + 0x9E3779B9 * r) & 0xFFFFFFFF for lane in range(64)], np.uint32)
    for r in range(4)
]


def check_load(state: object, suffix: str, exec_: int, expected: list[bytes], first: int = 20, kind: str = "v") -> None:
    rows = getattr(state, kind)
    for lane in range(64):
        wanted = loaded(expected[lane], suffix) if is_active(exec_, lane) else [OLD] * registers(LOADS[suffix][0])
        got = [int(rows[first + i][lane]) for i in range(len(wanted))]
        assert got == wanted, (suffix, lane)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("exec_", [FULL, SPARSE, 0])
@pytest.mark.parametrize("suffix", LOADS)
def test_global_load_formats(suffix: str, exec_: int, arch: str) -> None:
    memory, count = arena(), registers(LOADS[suffix][0])
    old = {20 + i: OLD for i in range(count)}
    state = run(
        f"global_load_{suffix} {span(20, count)}, v1, s[2:3] offset:-5",
        arch=arch,
        space=memory.space,
        v={1: PLACES, **old},
        s=memory.scalars(2),
        exec_=exec_,
    )
    check_load(state, suffix, exec_, [memory.before[p - 5 : p + 11] for p in PLACES])
    assert not state.findings
    assert memory.content == memory.before


@pytest.mark.parametrize("suffix", ["ubyte", "dword", "dwordx2", "dwordx4"])
def test_global_load_with_vector_address_into_its_own_registers_and_agprs(suffix: str) -> None:
    memory, count = arena(), registers(LOADS[suffix][0])
    low, high = split([memory.address + p + 4095 for p in PLACES])
    raw = [memory.before[p : p + 16] for p in PLACES]
    state = run(
        f"global_load_{suffix} {span(4, count)}, v[4:5], off offset:-4095", space=memory.space, v={4: low, 5: high}
    )
    for lane in range(64):
        assert [int(state.v[4 + i][lane]) for i in range(count)] == loaded(raw[lane], suffix)
    state = run(
        f"global_load_{suffix} {span(8, count, 'a')}, v[4:5], off offset:-4095",
        space=memory.space,
        v={4: low, 5: high},
        a={8 + i: OLD for i in range(count)},
    )
    check_load(state, suffix, FULL, raw, 8, "a")


def stored(before: bytes, places: list[int], suffix: str, exec_: int) -> bytes:
    content = bytearray(before)
    nbytes, shift = STORES[suffix]
    for lane, place in enumerate(places):
        if is_active(exec_, lane):
            raw = b"".join(int(VALUES[i][lane] >> np.uint32(shift)).to_bytes(4, "little") for i in range(4))
            content[place : place + nbytes] = raw[:nbytes]
    return bytes(content)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("exec_", [FULL, SPARSE, 0])
@pytest.mark.parametrize("suffix", STORES)
def test_global_store_formats(suffix: str, exec_: int, arch: str) -> None:
    memory, count = arena(), registers(STORES[suffix][0])
    places = [lane * 24 + 7 for lane in range(64)]
    data = {10 + i: VALUES[i] for i in range(count)}
    body = f"global_store_{suffix} v1, {span(10, count)}, s[2:3] offset:3"
    run(body, arch=arch, space=memory.space, v={1: [p - 3 for p in places], **data}, s=memory.scalars(2), exec_=exec_)
    assert memory.content == stored(memory.before, places, suffix, exec_)


def test_conflicting_stores_of_one_wave_leave_the_highest_lane() -> None:
    memory = arena()
    run(
        "global_store_dword v1, v10, s[2:3]",
        space=memory.space,
        v={1: 128, 10: VALUES[0]},
        s=memory.scalars(2),
        exec_=0x00FF_FFFF_0000_0000,
    )
    assert memory.content[128:132] == int(VALUES[0][55]).to_bytes(4, "little")


def test_scalar_base_takes_an_unsigned_lane_offset() -> None:
    memory = arena()
    base = memory.address - 0xFFFF_FF00
    state = run(
        "global_load_dword v20, v1, s[2:3]",
        space=memory.space,
        v={1: 0xFFFF_FF00},
        s={2: base & 0xFFFFFFFF, 3: base >> 32},
    )
    assert int(state.v[20][5]) == int.from_bytes(memory.before[:4], "little")


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("suffix", LOADS)
def test_flat_load_splits_lanes_among_lds_scratch_and_global(suffix: str, arch: str) -> None:
    memory, count = arena(), registers(LOADS[suffix][0])
    lds = pattern(1024)[::-1]
    kinds = [lane % 3 for lane in range(64)]
    inside = [(lane * 16) % 992 for lane in range(64)]
    bases = (memory.address, SHARED_APERTURE, PRIVATE_APERTURE)
    low, high = split([bases[k] + p for k, p in zip(kinds, inside, strict=True)])
    body = ["scratch_store_dwordx4 v2, v[10:13], off", f"flat_load_{suffix} {span(20, count)}, v[4:5] offset:4"]
    v = {2: [p + 4 for p in inside], 4: low, 5: high, **{10 + i: VALUES[i] for i in range(4)}}
    state = run(
        body,
        space=memory.space,
        v={**v, **{20 + i: OLD for i in range(count)}},
        lds=lds,
        lds_bytes=1024,
        scratch_bytes=1024,
        exec_=SPARSE,
        arch=arch,
    )
    private = [b"".join(int(VALUES[i][lane]).to_bytes(4, "little") for i in range(4)) for lane in range(64)]
    sources = {
        0: lambda lane, p: memory.before[p + 4 :],
        1: lambda lane, p: lds[p + 4 :],
        2: lambda lane, p: private[lane],
    }
    check_load(state, suffix, SPARSE, [sources[kinds[lane]](lane, inside[lane]) for lane in range(64)])
    # the only thing to say is that LDS wants natural alignment
    assert {f.check for f in state.findings} <= {"alignment"}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("suffix", STORES)
def test_flat_store_reaches_lds_and_global(suffix: str, arch: str) -> None:
    memory, count = arena(), registers(STORES[suffix][0])
    places = [lane * 16 for lane in range(64)]
    low, high = split([(SHARED_APERTURE if lane & 1 else memory.address) + p for lane, p in enumerate(places)])
    state = run(
        f"flat_store_{suffix} v[4:5], {span(10, count)}",
        space=memory.space,
        lds=pattern(1024),
        lds_bytes=1024,
        v={4: low, 5: high, **{10 + i: VALUES[i] for i in range(count)}},
        arch=arch,
    )
    odd = int("10" * 32, 2)
    assert memory.content == stored(memory.before, places, suffix, FULL ^ odd)
    assert state.lds.tobytes() == stored(pattern(1024), places, suffix, odd)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("form", ["v1, off", "v1, s4", "off, s4", "off, off"])
@pytest.mark.parametrize(
    "suffix", ["byte", "short", "dword", "dwordx2", "dwordx3", "dwordx4", "byte_d16_hi", "short_d16_hi"]
)
def test_scratch_store_is_private_to_a_lane(suffix: str, form: str, arch: str) -> None:
    nbytes, shift = STORES[suffix]
    count = registers(nbytes)
    vaddr, saddr = form.split(", ")
    where = 32 + (8 if vaddr != "off" else 0) + (16 if saddr != "off" else 0)
    load = {1: "ubyte", 2: "ushort"}.get(nbytes, f"dwordx{count}".replace("dwordx1", "dword"))
    body = [
        f"scratch_store_{suffix} {vaddr}, {span(10, count)}, {saddr} offset:32",
        f"scratch_load_{load} {span(20, count)}, off, off offset:{where}",
    ]
    state = run(body, v={1: 8, **{10 + i: VALUES[i] for i in range(count)}}, s={4: 16}, scratch_bytes=128, arch=arch)
    mask = (1 << (8 * min(nbytes, 4))) - 1
    for i in range(count):
        wanted = [(int(x) >> shift) & mask for x in VALUES[i]]
        assert [int(x) for x in state.v[20 + i]] == wanted
    assert not state.findings


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("suffix", LOADS)
def test_scratch_load_formats(suffix: str, arch: str) -> None:
    count = registers(LOADS[suffix][0])
    body = [
        "scratch_store_dwordx4 off, v[10:13], s3 offset:-16",
        f"scratch_load_{suffix} {span(20, count)}, v1, off offset:-1",
    ]
    state = run(
        body,
        v={1: 17, **{10 + i: VALUES[i] for i in range(4)}, **{20 + i: OLD for i in range(count)}},
        s={3: 32},
        scratch_bytes=64,
        arch=arch,
    )
    raw = [b"".join(int(VALUES[i][lane]).to_bytes(4, "little") for i in range(4)) for lane in range(64)]
    check_load(state, suffix, FULL, raw)


def test_scratch_beyond_the_private_segment_is_a_finding() -> None:
    state = run(
        "scratch_store_dword off, v1, off offset:60\n scratch_load_dword v2, off, off offset:61",
        v={2: OLD},
        scratch_bytes=64,
    )
    assert [f.check for f in state.findings] == ["memcheck"]
    assert "outside of the 64 bytes" in state.findings[0].message
    assert not state.v[2].any()


def test_global_overrun_names_the_tensor_and_drops_the_lanes() -> None:
    memory = arena(256)
    state = run(
        ["global_store_dword v1, v2, s[2:3]", "global_load_dword v3, v1, s[2:3]"],
        space=memory.space,
        v={1: [lane * 8 for lane in range(64)], 2: 7, 3: OLD},
        s=memory.scalars(2),
    )
    store, load = state.findings
    assert (store.check, store.argument, store.index, store.lane, store.occurrences) == (
        "memcheck",
        "t",
        (256,),
        32,
        32,
    )
    assert "0 bytes past the end of t (256 bytes)" in store.message
    assert (load.occurrences, load.lane) == (32, 32)
    assert state.v[3].tolist() == [7] * 32 + [0] * 32


@pytest.mark.parametrize(
    "line",
    [
        "global_load_dword v1, v2, s[2:3] offset:4096",
        "global_load_dword v1, v[2:3], off offset:-4097",
        "flat_load_dword v1, v[2:3] offset:-1",
        "scratch_load_dword v1, off, off offset:5000",
        "global_load_dwordx2 v1, v2, s[2:3]",
        "global_load_dword v1, v2, s2",
    ],
)
def test_what_the_encoding_cannot_hold_is_refused(line: str) -> None:
    with pytest.raises(AsmError):
        run(line)


def test_unknown_modifiers_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="gds"):
        run("ds_read_b32 v1, v2 gds")
