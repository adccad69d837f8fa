"""Strided accesses against the same addresses, lane by lane."""

from __future__ import annotations

import numpy as np
import pytest

from validation.emulator.memory.grids import Grid, Lanes, levels_of
from validation.emulator.memory.views import TypedViews, place_of

LANE = np.arange(64)
SIZES = (1, 2, 4, 8, 12, 16)
BYTES = 1 << 18


def patterns(nbytes: int, far: int) -> dict[str, np.ndarray]:
    """Offsets of 64 lanes from the first one."""
    return {
        "side by side": LANE * nbytes,
        "backwards": -LANE * nbytes,
        "tile": LANE % 8 * nbytes + LANE // 8 * far,
        "fragment": LANE % 16 * far + LANE // 16 * nbytes,
        "one place": LANE * 0,
        "spread": LANE * far,
        "swizzled": ((LANE % 8) ^ (LANE // 8)) * nbytes + LANE // 8 * far,
        "irregular": (LANE * 29 + LANE % 3) % 64 * nbytes,
    }


#: Distance of each wave's first lane from the first wave's, in units.
WAVES = {
    "one": [0],
    "regular": [0, 5, 10, 15],
    "pairs": [0, 0, 40, 40],
    "two levels": [0, 3, 100, 103],
    "down": [0, -9, -18, -27],
    "irregular": [0, 7, 1, 90, 33],
}


def cases() -> list[tuple[int, Grid, np.ndarray]]:
    made = []
    for nbytes in SIZES:
        unit = min(nbytes, 4)
        for far in (nbytes, 3 * nbytes, 61 * unit):
            for offsets in patterns(nbytes, far).values():
                for distances in WAVES.values():
                    for skew in (0, unit):
                        rows = BYTES // 2 + skew + np.array(distances, np.int64) * far
                        made.append((nbytes, Grid.of(rows, Lanes.of(offsets)), rows[:, None] + offsets))
    return made


CASES = cases()


@pytest.fixture(scope="module")
def content() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, BYTES, dtype=np.uint8)


def test_a_grid_holds_its_addresses() -> None:
    for nbytes, grid, address in CASES:
        assert (grid.addresses() == address).all()
        assert (grid.low, grid.high) == (address.min(), address.max())
        for width in (2, 4, 8, 16):
            assert (grid.bits & (width - 1) == 0) == (address % width == 0).all()
        moved = grid.moved(-4096)
        assert (moved.addresses() == address - 4096).all(), nbytes
        assert moved.low == grid.low - 4096


def test_reads_are_those_of_the_lanes(content: np.ndarray) -> None:
    views, strided = TypedViews(content), 0
    for nbytes, grid, address in CASES:
        due = views.read(address, nbytes)
        assert np.array_equal(views.gather(place_of(grid, nbytes)), due)
        if grid.form is not None and grid.form.regular(nbytes):
            rows = [np.empty(address.shape, np.uint32) for _ in due]
            views.read_strided(grid.base, grid.form, nbytes, rows)
            assert np.array_equal(rows, due)
            strided += 1
    assert strided > 200


def test_writes_are_those_of_the_lanes(content: np.ndarray) -> None:
    rng, strided = np.random.default_rng(4), 0
    for nbytes, grid, address in CASES:
        words = [rng.integers(0, 1 << 32, address.shape, dtype=np.uint32) for _ in range(max(1, nbytes // 4))]
        due, placed = content.copy(), content.copy()
        TypedViews(due).write(address, nbytes, words)
        TypedViews(placed).scatter(place_of(grid, nbytes), words)
        assert np.array_equal(placed, due)
        form = grid.form
        if form is None:
            continue
        filled = content.copy()
        TypedViews(filled).fill_strided(grid.base, form, nbytes, 1)
        ones = [np.full(address.shape, 0x01010101, np.uint32) for _ in words]
        marked = content.copy()
        TypedViews(marked).write(address, nbytes, ones)
        assert np.array_equal(filled, marked)
        if form.regular(nbytes) and form.apart(nbytes):
            assert (np.diff(np.sort(address, axis=None)) >= nbytes).all()
            side = content.copy()
            TypedViews(side).write_strided(grid.base, form, nbytes, words)
            assert np.array_equal(side, due)
            strided += 1
    assert strided > 100


def test_lanes_that_overlap_are_not_apart() -> None:
    for nbytes, grid, address in CASES:
        if grid.form is not None and (np.diff(np.sort(address, axis=None)) < nbytes).any():
            assert not grid.form.apart(nbytes)


@pytest.mark.parametrize(
    ("offsets", "levels"),
    [
        ([0], ()),
        ([0, 0, 0], ((3, 0),)),
        ([0, 4, 8, 12], ((4, 4),)),
        ([0, 4, 100, 104], ((2, 100), (2, 4))),
        ([0, 0, 16, 16, 512, 512, 528, 528], ((2, 512), (2, 16), (2, 0))),
        ([0, 4, 9], None),
        ([0, 4, 100, 105], None),
    ],
)
def test_levels(offsets: list[int], levels: tuple[tuple[int, int], ...] | None) -> None:
    assert levels_of(np.array(offsets, np.int64).tobytes()) == levels
