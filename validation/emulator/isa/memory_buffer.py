"""MUBUF: untyped buffer loads, stores and atomics, cache maintenance (CDNA3 and CDNA4 ISA, MUBUF opcodes).

``buffer_load_format_*`` and ``buffer_store_format_*`` convert through the descriptor's data format and are not covered.
"""

from __future__ import annotations

from ..memory.access import Maintenance
from .entry import BOTH, GFX950, define
from .memory_vector import ATOMICS, LDS_LOADS, LOADS, STORES, moved

_INTO_LDS = dict(LDS_LOADS)
for _s in LOADS:
    define(f"buffer_load_{_s}", "mubuf", "", "", moved, kind="load", format=_s, lds_archs=_INTO_LDS.get(_s, ()))
for _s in STORES:
    define(f"buffer_store_{_s}", "mubuf", "", "", moved, kind="store", format=_s)
for _s, _op, _n in ATOMICS:
    # of the two packed additions, gfx942 has the bf16 one in GLOBAL, FLAT and DS only
    _archs = GFX950 if _s == "pk_add_bf16" else BOTH
    define(f"buffer_atomic_{_s}", "mubuf", "", "", moved, _archs, kind="atomic", op=_op, operands=_n)
define("buffer_wbl2", "cache", "", "", moved, what=Maintenance.WRITE_BACK)
define("buffer_inv", "cache", "", "", moved, what=Maintenance.INVALIDATE)
