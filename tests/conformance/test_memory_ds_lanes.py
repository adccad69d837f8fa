"""DS instructions that move data between lanes: swizzle, permute, bpermute, transposing reads (gfx950)."""

from __future__ import annotations

import numpy as np
import pytest

from validation.emulator.errors import AsmError, ReservedError, UnsupportedError

from .harness import ARCHS, FULL, run
from .memory_support import OLD, is_active, pattern, span

SPARSE = 0x8001_0F0F_1234_FF7E
DATA = np.array([(0x01000193 * (lane + 1)) & 0xFFFFFFFF for lane in range(64)], np.uint32)


def swizzle_source(code: int, lane: int) -> int:
    """Source lane, written out from the ISA's description bit by bit."""
    half, i = lane & 32, lane & 31
    if code >= 0xE000:
        mask = code & 31
        reverse = sum(((i >> b) & 1) << (4 - b) for b in range(5))
        return half + ((reverse >> bin(mask).count("1")) | (i & mask))
    if code >= 0xC000:
        turn, mask = (code >> 5) & 31, code & 31
        moved = (i - turn if code & 0x400 else i + turn) % 32
        return half + ((i & mask) | (moved & (31 - mask)))
    if code & 0x8000:
        return (lane & 60) + ((code >> (2 * (lane & 3))) & 3)
    return half + (((i & (code & 31)) | ((code >> 5) & 31)) ^ ((code >> 10) & 31))


CODES = {
    "swizzle(SWAP,16)": 0x401F,
    "swizzle(SWAP,1)": 0x041F,
    "swizzle(REVERSE,32)": 0x7C1F,
    "swizzle(REVERSE,4)": 0x0C1F,
    "swizzle(BROADCAST,8,3)": 0x0078,
    "swizzle(BROADCAST,32,31)": 0x03E0,
    'swizzle(BITMASK_PERM,"pippi")': 0x241F,
    'swizzle(BITMASK_PERM, "01pip")': 0x0907,
    "swizzle(QUAD_PERM,3,2,1,0)": 0x801B,
    "swizzle(QUAD_PERM, 1, 1, 3, 0)": 0x8035,
    "swizzle(FFT,0)": 0xE000,
    "swizzle(FFT,16)": 0xE010,
    "swizzle(FFT,31)": 0xE01F,
    "swizzle(ROTATE,0,5)": 0xC0A0,
    "swizzle(ROTATE,1,7)": 0xC4E0,
    "0x041f": 0x041F,
    "0xc0a3": 0xC0A3,
    "0xffff": 0xFFFF,
    "0": 0x0000,
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("exec_", [FULL, SPARSE])
@pytest.mark.parametrize("text", CODES)
def test_swizzle(text: str, exec_: int, arch: str) -> None:
    state = run(f"ds_swizzle_b32 v2, v2 offset:{text}", v={2: DATA}, exec_=exec_, arch=arch)
    for lane in range(64):
        source = swizzle_source(CODES[text], lane)
        wanted = int(DATA[source]) if is_active(exec_, source) else 0
        assert int(state.v[2][lane]) == (wanted if is_active(exec_, lane) else int(DATA[lane]))


def test_swizzle_fft_order_of_the_manual() -> None:
    """The manual lists the sources (from 1) for offsets 0xe000 and 0xe010."""
    first = "1 11 9 19 5 15 d 1d 3 13 b 1b 7 17 f 1f 2 12 a 1a 6 16 e 1e 4 14 c 1c 8 18 10 20"
    second = "1 9 5 d 3 b 7 f 2 a 6 e 4 c 8 10 11 19 15 1d 13 1b 17 1f 12 1a 16 1e 14 1c 18 20"
    for code, order in ((0xE000, first), (0xE010, second)):
        state = run(f"ds_swizzle_b32 v2, v1 offset:{code}", v={1: range(64)})
        assert state.v[2][:32].tolist() == [int(x, 16) - 1 for x in order.split()]


@pytest.mark.parametrize("text", ["swizzle(SWAP)", "swizzle(TURN,1)", 'swizzle(BITMASK_PERM,"01")', "what"])
def test_swizzle_patterns_that_do_not_exist(text: str) -> None:
    with pytest.raises(AsmError):
        run(f"ds_swizzle_b32 v2, v1 offset:{text}")


ADDRESS = [(lane * 4 * 13 + 2 + (lane & 1) * 0x1000) & 0xFFFFFFFF for lane in range(60)] + [252, 252, 0xFFFFFFFC, 7]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("exec_", [FULL, SPARSE, 1 << 63])
@pytest.mark.parametrize("offset", [0, 8])
def test_bpermute_pulls(exec_: int, offset: int, arch: str) -> None:
    state = run(f"ds_bpermute_b32 v2, v2, v3 offset:{offset}", arch=arch, v={2: ADDRESS, 3: DATA}, exec_=exec_)
    for lane in range(64):
        source = (ADDRESS[lane] + offset) % (1 << 32) // 4 % 64
        wanted = int(DATA[source]) if is_active(exec_, source) else 0
        assert int(state.v[2][lane]) == (wanted if is_active(exec_, lane) else ADDRESS[lane])


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("exec_", [FULL, SPARSE, 1 << 63])
@pytest.mark.parametrize("offset", [0, 8])
def test_permute_pushes(exec_: int, offset: int, arch: str) -> None:
    state = run(f"ds_permute_b32 v4, v2, v3 offset:{offset}", v={2: ADDRESS, 3: DATA, 4: OLD}, exec_=exec_, arch=arch)
    received = [0] * 64
    for lane in range(64):
        if is_active(exec_, lane):
            received[(ADDRESS[lane] + offset) % (1 << 32) // 4 % 64] = int(DATA[lane])
    assert state.v[4].tolist() == [received[i] if is_active(exec_, i) else OLD for i in range(64)]


@pytest.mark.parametrize(
    ("name", "bits", "size"), [("b64_tr_b16", 16, 8), ("b64_tr_b8", 8, 8), ("b64_tr_b4", 4, 8), ("b96_tr_b6", 6, 12)]
)
def test_transposing_read(name: str, bits: int, size: int) -> None:
    """16 lanes read rows; lane t gets the t-th element of every 16: a matrix row by row becomes column by column."""
    lds = pattern(4096)
    places = [(lane * 11 % 64) * 16 + 32 for lane in range(64)]
    count = size // 4
    state = run(
        f"ds_read_{name} {span(20, count)}, v1 offset:32", arch="gfx950", lds=lds, v={1: [p - 32 for p in places]}
    )
    for lane in range(64):
        group = lane - lane % 16
        joined = 0
        for k in range(16):
            place = places[group + k]
            joined |= int.from_bytes(lds[place : place + size], "little") << (8 * size * k)
        elements = [(joined >> (bits * (lane % 16 + 16 * j))) & ((1 << bits) - 1) for j in range(8 * size // bits)]
        wanted = sum(e << (bits * j) for j, e in enumerate(elements))
        got = sum(int(state.v[20 + i][lane]) << (32 * i) for i in range(count))
        assert got == wanted
    with pytest.raises(ReservedError, match="all 64 lanes"):
        run(f"ds_read_{name} {span(20, count)}, v1", arch="gfx950", exec_=SPARSE)
    with pytest.raises(UnsupportedError, match="only on gfx950"):
        run(f"ds_read_{name} {span(20, count)}, v1", arch="gfx942")
