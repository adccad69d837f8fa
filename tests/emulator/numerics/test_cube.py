"""Cube-map helpers, by hand for one direction on each face."""

from __future__ import annotations

import numpy as np

from validation.emulator.numerics import cube

DIRECTIONS = np.array([[3, 1, 2], [-3, 1, 2], [1, 3, 2], [1, -3, 2], [1, 2, 3], [1, 2, -3], [1, 1, 1]], np.float32)


def test_each_face():
    x, y, z = DIRECTIONS.T
    assert cube.cube_face(x, y, z).tolist() == [0, 1, 2, 3, 4, 5, 4]
    assert cube.cube_s(x, y, z).tolist() == [-2, 2, 1, 1, 1, -1, 1]
    assert cube.cube_t(x, y, z).tolist() == [-1, -1, 2, -2, -2, -2, -1]
    assert cube.cube_major(x, y, z).tolist() == [6, -6, 6, -6, 6, -6, 2]
