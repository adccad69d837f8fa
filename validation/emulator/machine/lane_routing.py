"""DPP: source 0 comes from another lane (CDNA3 ISA, "Data Parallel Primitives (DPP)")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import AsmError
from ..program.program import Instruction
from .fetch import Fetch
from .waves import LANES, Waves

DPP_MODIFIERS = {
    "quad_perm", "row_shl", "row_shr", "row_ror", "row_bcast", "row_newbcast", "row_share", "wave_shl", "wave_rol", "wave_shr",
    "wave_ror", "row_mirror", "row_half_mirror", "row_mask", "bank_mask", "bound_ctrl", "fi",
}  # fmt: skip
_CONTROLS = DPP_MODIFIERS - {"row_mask", "bank_mask", "bound_ctrl", "fi"}
_LANE = np.arange(LANES)
_ROW, _IN_ROW = _LANE & ~15, _LANE & 15


def _wanted(name: str, arg: Any) -> NDArray[np.int64]:
    """Source lane of each lane; -1 where there is none."""
    shift = int(arg) if isinstance(arg, int) and not isinstance(arg, bool) else 0
    table: dict[str, Callable[[], NDArray[np.int64]]] = {
        "quad_perm": lambda: (_LANE & ~3) + np.array(arg)[_LANE & 3],
        "row_shl": lambda: np.where(_IN_ROW + shift < 16, _LANE + shift, -1),
        "row_shr": lambda: np.where(_IN_ROW >= shift, _LANE - shift, -1),
        "row_ror": lambda: _ROW + ((_IN_ROW - shift) & 15),
        "row_mirror": lambda: _ROW + 15 - _IN_ROW,
        "row_half_mirror": lambda: (_LANE & ~7) + 7 - (_LANE & 7),
        "row_newbcast": lambda: _ROW + shift,
        "row_share": lambda: _ROW + shift,
        "wave_shl": lambda: np.where(_LANE < 63, _LANE + 1, -1),
        "wave_rol": lambda: (_LANE + 1) & 63,
        "wave_shr": lambda: _LANE - 1,
        "wave_ror": lambda: (_LANE - 1) & 63,
        # 15: the last lane of each row goes to the whole next row; 31: lane 31 to rows 2 and 3
        "row_bcast": lambda: np.where(_LANE >= 16, _ROW - 1, -1) if shift == 15 else np.where(_LANE >= 32, 31, -1),
    }
    return table[name]()


@dataclass(frozen=True, slots=True)
class Route:
    """Lane permutation of source 0 and the lanes that the instruction may write."""

    lanes: NDArray[np.int64]
    valid: NDArray[np.bool_]
    enabled: NDArray[np.bool_]
    bound_zero: bool
    fetch_inactive: bool

    def source(self, fetch: Fetch) -> Fetch:
        """Read through the permutation; a lane without a source gets 0 (and is written only with bound_ctrl)."""

        def routed(w: Waves) -> Any:
            value = np.broadcast_to(fetch(w), (w.n, LANES))
            ok = self._readable(w)
            return np.where(ok, value[:, self.lanes], value.dtype.type(0))

        return routed

    def _readable(self, w: Waves) -> NDArray[np.bool_]:
        ok = np.broadcast_to(self.valid, (w.n, LANES))
        return ok if self.fetch_inactive or w.full else ok & w.em[:, self.lanes]

    def masked(self, step: Callable[[Waves], None]) -> Callable[[Waves], None]:
        """Run ``step`` with EXEC narrowed to the lanes that DPP lets write."""

        def run(w: Waves) -> None:
            em, full = w.em, w.full
            allowed = np.broadcast_to(self.enabled, (w.n, LANES))
            if not self.bound_zero:
                allowed = allowed & self._readable(w)
            w.em = em & allowed
            w.full = bool(w.em.all())
            try:
                step(w)
            finally:
                w.em, w.full = em, full

        return run


def dpp_route(inst: Instruction) -> Route:
    mods = inst.modifiers
    controls = sorted(_CONTROLS & mods.keys())
    if len(controls) != 1:
        raise AsmError(f"DPP takes one lane control, got {', '.join(controls) or 'none'}", inst.line_number, inst.text)
    name = controls[0]
    if name == "row_bcast" and mods[name] not in (15, 31):
        raise AsmError("row_bcast takes 15 or 31", inst.line_number, inst.text)
    wanted = _wanted(name, mods[name])
    row_mask, bank_mask = int(mods.get("row_mask", 0xF)), int(mods.get("bank_mask", 0xF))
    enabled = ((row_mask >> (_LANE >> 4)) & 1 != 0) & ((bank_mask >> ((_LANE >> 2) & 3)) & 1 != 0)
    bound = "bound_ctrl" in mods
    return Route(np.where(wanted < 0, 0, wanted), wanted >= 0, enabled, bound, bool(mods.get("fi")))
