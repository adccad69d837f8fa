"""SMEM: scalar loads, stores and atomics (CDNA3 ISA, SMEM opcodes).

``s_scratch_*`` address physical scratch, which this machine has not, and are not covered.
"""

from __future__ import annotations

from .atomic_ops import INTEGER
from .entry import define
from .memory_vector import INTEGER_ATOMICS, moved

for _prefix, _buffer in (("s", False), ("s_buffer", True)):
    for _n in (1, 2, 4, 8, 16):
        _suffix = "dword" if _n == 1 else f"dwordx{_n}"
        define(f"{_prefix}_load_{_suffix}", "smem", "", "", moved, kind="load", dwords=_n, buffer=_buffer)
        if _n <= 4:
            define(f"{_prefix}_store_{_suffix}", "smem", "", "", moved, kind="store", dwords=_n, buffer=_buffer)
    for _nbytes, _x2 in ((4, ""), (8, "_x2")):
        for _name in INTEGER_ATOMICS:
            define(
                f"{_prefix}_atomic_{_name}{_x2}", "smem", "", "", moved, kind="atomic", buffer=_buffer,
                dwords=_nbytes // 4 * (1 + (_name == "cmpswap")), op=INTEGER[_nbytes][_name],
            )  # fmt: skip
