"""What of a result depends on undefined bits: found by running the instruction on several fillings of them.

Exact for instructions that move bits or combine them one by one; a comparison could come out the same by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..machine.transfer import SCALAR_KEYS
from ..machine.waves import Waves
from ..program.operands import EXEC
from .effects import SCC_KEY
from .registers import RegisterState, Watch, forget

U32 = np.uint32
_ONES = U32(0xFFFFFFFF)
_NOISE = np.random.default_rng(20250521).integers(0, 1 << 32, 64, dtype=np.uint32)


def row_of(w: Waves, key: int) -> NDArray[Any]:
    """The register itself, of all waves: uint32 [W, 64] or [W], bool [W] for SCC."""
    if key == SCC_KEY:
        return w.scc
    return w.S[key - SCALAR_KEYS] if key >= SCALAR_KEYS else w.V[key]


def _filled(row: NDArray[Any], undefined: NDArray[Any], key: int, filling: int) -> None:
    if row.dtype == np.bool_:
        noise: Any = (np.arange(len(row)) & 1).astype(bool)
        value: Any = (False, True, noise)[filling]
        row[...] = (row & ~undefined) | (undefined & value)
        return
    mixed = _NOISE * U32((2654435761 * (2 * key + 1)) & 0xFFFFFFFF)
    noise = mixed if row.ndim == 2 else np.resize(mixed, len(row))
    value = (U32(0), _ONES, noise)[filling]
    row[...] = (row & ~undefined) | (value & undefined)


def fillings(state: RegisterState, watch: Watch, compute: Callable[[], list[NDArray[Any]]]) -> list[NDArray[Any]]:
    """Bits of what ``compute`` returns that depend on undefined bits; the registers are as before afterwards."""
    w, effect = state.w, watch.effect
    touched = dict.fromkeys((*effect.reads, *effect.writes))
    saved = {key: row_of(w, key).copy() for key in touched}
    unsure = [key for key in touched if key in state.dirty]
    state.settle(unsure)
    outcomes = []
    for filling in range(3):
        for key in unsure:
            _filled(row_of(w, key), row_of(state.shadow, key), key, filling)
            forget(w, key)
        outcomes.append(compute())
        for key, row in saved.items():
            row_of(w, key)[...] = row
            forget(w, key)
        if effect.writes_exec:
            w.sync_exec()
    return [(a ^ b) | (a ^ c) for a, b, c in zip(*outcomes, strict=True)]


def cause_of(state: RegisterState, watch: Watch) -> str:
    """Why results of the instruction may be undefined; nothing when only their own old contents are."""
    em = state.w.sget64(EXEC)
    bad = state.undefined(watch.effect.reads, ~np.uint64(0) if watch.effect.everywhere else em)
    return state.cause(bad[0], watch.inst) if bad else ""
