"""Vector ALU."""

from __future__ import annotations

import numpy as np

from .entry import define

U32 = np.uint32
define("v_mov_b32", "valu", "b32", "b32", lambda a: a)
define("v_add_u32", "valu", "u32", "u32 u32", lambda a, b: a + b)
define("v_lshlrev_b32", "valu", "b32", "u32 b32", lambda a, b: b << (a & U32(31)))
define("v_add_f32", "valu", "f32", "f32 f32", lambda a, b, round_mode=0: a + b, rounds=True)
