"""Gathers and scatters at every width and alignment, against slices of bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validation.emulator.memory.views import TypedViews, low_bits

SIZES = (1, 2, 4, 8, 12, 16, 32, 64)


def content(size: int = 512) -> np.ndarray:
    # 16-byte aligned, as banks and the global span are
    raw = np.zeros(size + 16, np.uint8)
    start = -raw.ctypes.data % 16
    area = raw[start : start + size]
    area[:] = np.random.default_rng(3).integers(0, 256, size)
    return area


def words_of(raw: bytes) -> list[int]:
    return [int.from_bytes(raw[i : i + 4], "little") for i in range(0, len(raw), 4)]


@pytest.mark.parametrize("nbytes", SIZES)
@pytest.mark.parametrize("step", [1, 2, 4, 8, 16])
def test_read(nbytes: int, step: int) -> None:
    area = content()
    offset = (np.arange(24, dtype=np.int64).reshape(2, 12) * step * 7) % (512 - 64) // step * step
    words = TypedViews(area).read(offset, nbytes)
    assert len(words) == max(1, nbytes // 4)
    for place, *got in zip(offset.flat, *(w.flat for w in words), strict=True):
        assert [int(x) for x in got] == words_of(area.tobytes()[place : place + nbytes])


@pytest.mark.parametrize("nbytes", [1, 2, 4, 8, 12, 16])
@pytest.mark.parametrize("step", [1, 2, 4, 8, 16])
def test_write_keeps_neighbours_and_later_lanes_win(nbytes: int, step: int) -> None:
    area = content()
    wanted = bytearray(area.tobytes())
    offset = (np.array([5, 3, 9, 3, 20, 5], np.int64) * 3 * step) % (512 - 64) // step * step
    rng = np.random.default_rng(nbytes)
    words = [rng.integers(0, 1 << 32, len(offset)).astype(np.uint32) for _ in range(max(1, nbytes // 4))]
    TypedViews(area).write(offset, nbytes, words)
    for lane, place in enumerate(offset):
        wanted[place : place + nbytes] = b"".join(int(w[lane]).to_bytes(4, "little") for w in words)[:nbytes]
    if step >= min(nbytes, 4) or nbytes == 1:
        assert area.tobytes() == bytes(wanted)
    else:  # overlapping misaligned stores: byte i of every lane goes before byte i + 1 of any
        untouched = set(range(512)) - {int(p) + i for p in offset for i in range(nbytes)}
        assert all(area[i] == wanted[i] for i in untouched)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 480), min_size=1, max_size=40), st.sampled_from([1, 2, 4, 8, 12, 16]))
def test_read_of_any_offsets(places: list[int], nbytes: int) -> None:
    area = content()
    words = TypedViews(area).read(np.array(places, np.int64), nbytes)
    for i, place in enumerate(places):
        assert [int(w[i]) for w in words] == words_of(area.tobytes()[place : place + nbytes])


def test_low_bits_joins_all_lanes() -> None:
    assert low_bits(np.array([[16, 32], [48, 64]])) == 0
    assert low_bits(np.array([[16, 33], [52, 64]])) == 5
    assert low_bits(np.zeros(0, np.int64)) == 0
