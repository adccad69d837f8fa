"""Control flow, barriers, waits and the instructions that only steer the hardware."""

from __future__ import annotations

from typing import Any

import numpy as np

from .entry import define


def _always(*_: Any) -> Any:
    return np.True_


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

define("s_endpgm", "end", "", "", _always)
define("s_barrier", "barrier", "", "", _always)
define("s_waitcnt", "wait", "", "", _always)
