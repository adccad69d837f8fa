"""Control flow, barriers, waits, hardware registers, and instructions that only steer the hardware."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..memory.access import Maintenance
from .entry import define


def _always(*_: Any) -> Any:
    return np.True_


_WHICH, _12 = np.uint32(0xF000), np.uint32(12)


def _index(index: Any, m0: Any) -> Any:
    """M0 with another index."""
    return m0 & np.uint32(0xFFFFFF00) | index & np.uint32(0xFF)


_BRANCHES = (
    ("s_branch", "", _always),
    ("s_cbranch_scc0", "scc", lambda scc: ~scc),
    ("s_cbranch_scc1", "scc", lambda scc: scc),
    ("s_cbranch_vccz", "vcc", lambda vcc: vcc == 0),
    ("s_cbranch_vccnz", "vcc", lambda vcc: vcc != 0),
    ("s_cbranch_execz", "exec", lambda exec_: exec_ == 0),
    ("s_cbranch_execnz", "exec", lambda exec_: exec_ != 0),
)
for _name, _src, _fn in _BRANCHES:
    define(_name, "branch", "", _src, _fn)

define("s_setpc_b64", "jump", "", "u64", lambda target: target)
define("s_swappc_b64", "jump", "u64", "u64", lambda target: target)
define("s_call_b64", "jump", "u64", "", _always)
define("s_getpc_b64", "getpc", "u64", "", _always)

define("s_endpgm", "end", "", "", _always)
define("s_endpgm_saved", "end", "", "", _always)
define("s_barrier", "barrier", "", "", _always)
define("s_waitcnt", "wait", "", "", _always)
define("s_sleep", "yield", "", "", _always)
define("s_trap", "trap", "", "", _always)
for _name in ("s_dcache_inv", "s_dcache_inv_vol"):
    define(_name, "cache", "", "", _always, what=Maintenance.INVALIDATE_SCALAR)
#: No architectural effect on one wave's registers or memory: pacing, priority, prefetch, write-back of the scalar cache
#: (its stores write through here), instruction cache, tracing.
for _name in (
    "s_nop", "s_setprio", "s_icache_inv", "s_dcache_wb", "s_dcache_wb_vol", "s_wakeup", "s_incperflevel",
    "s_decperflevel", "s_ttracedata", "s_code_end",
):  # fmt: skip
    define(_name, "nop", "", "", _always)
#: 0 lets the wave go on; 1 halts it until a debugger lets it go, which there is none to do.
define("s_sethalt", "nop", "", "", _always, only=0)

define("s_setreg_b32", "mode", "", "b32", _always)
define("s_setreg_imm32_b32", "mode", "", "b32", _always)
define("s_getreg_b32", "getreg", "b32", "", _always)
define("s_memtime", "clock", "u64", "", _always)
define("s_memrealtime", "clock", "u64", "", _always)
for _bits in ("b32", "b64"):
    define(f"s_movrels_{_bits}", "movrel", _bits, _bits, _always, indexed="source")
    define(f"s_movreld_{_bits}", "movrel", _bits, _bits, _always, indexed="destination")
#: M0[7:0] is the index, M0[15:12] what it is added to; MODE's enable bit is no state here: ``program/gpr_index.py``.
define(
    "s_set_gpr_idx_on", "salu", "m0", "u32 u32 m0", lambda index, which, m0: _index(index, m0) & ~_WHICH | which << _12
)
define("s_set_gpr_idx_idx", "salu", "m0", "u32 m0", lambda index, m0: _index(index, m0))
define("s_set_gpr_idx_off", "nop", "", "", _always)
define("v_mov_b32_gpr_idx", "indexed_move", "b32", "b32", _always)
