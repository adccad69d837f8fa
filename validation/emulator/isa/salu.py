"""Scalar ALU."""

from __future__ import annotations

import numpy as np

from .entry import define

U32, U64 = np.uint32, np.uint64
M5, M6 = U32(31), U32(63)

_SOP1 = (
    ("s_mov_b32", "b32", "b32", lambda a: a),
    ("s_mov_b64", "b64", "b64", lambda a: a),
)
for _row in _SOP1:
    define(_row[0], "salu", _row[1], _row[2], _row[3])
