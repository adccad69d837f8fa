"""DPP: source 0 comes from another lane.

Source: CDNA3 ISA, "Data Parallel Primitives (DPP)". A source lane that does not exist or is switched off in EXEC gives
0 with ``bound_ctrl`` and disables the write without. ``row_mask`` and ``bank_mask`` switch writes off, never reads.
"""

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

#: Lane controls of gfx9 with the arguments they take; None is no argument.
_ARGUMENTS: dict[str, range | tuple[int, ...] | None] = {
    "quad_perm": range(4),
    "row_shl": range(1, 16),
    "row_shr": range(1, 16),
    "row_ror": range(1, 16),
    "row_newbcast": range(16),
    "row_bcast": (15, 31),
    "wave_shl": (1,),
    "wave_rol": (1,),
    "wave_shr": (1,),
    "wave_ror": (1,),
    "row_mirror": None,
    "row_half_mirror": None,
}
DPP_MODIFIERS = _ARGUMENTS.keys() | {"row_mask", "bank_mask", "bound_ctrl"}
_UINT, _INT = {2: np.uint16, 4: np.uint32, 8: np.uint64}, {2: np.int16, 4: np.int32, 8: np.int64}
_LANE = np.arange(LANES)
_ROW, _IN_ROW = _LANE & ~15, _LANE & 15


def _wanted(name: str, arg: Any) -> NDArray[np.int64]:
    """Source lane of each lane; -1 where there is none."""
    table: dict[str, Callable[[], NDArray[np.int64]]] = {
        "quad_perm": lambda: (_LANE & ~3) + np.array(arg)[_LANE & 3],
        "row_shl": lambda: np.where(_IN_ROW + arg < 16, _LANE + arg, -1),
        "row_shr": lambda: np.where(_IN_ROW - arg >= 0, _LANE - arg, -1),
        "row_ror": lambda: _ROW + ((_IN_ROW - arg) & 15),
        "row_mirror": lambda: _ROW + 15 - _IN_ROW,
        "row_half_mirror": lambda: (_LANE & ~7) + 7 - (_LANE & 7),
        "row_newbcast": lambda: _ROW + arg,
        "wave_shl": lambda: np.where(_LANE < 63, _LANE + 1, -1),
        "wave_rol": lambda: (_LANE + 1) & 63,
        "wave_shr": lambda: _LANE - 1,
        "wave_ror": lambda: (_LANE - 1) & 63,
        # 15: the last lane of each row goes to the whole next row; 31: lane 31 to rows 2 and 3
        "row_bcast": lambda: np.where(_LANE >= 16, _ROW - 1, -1) if arg == 15 else np.where(_LANE >= 32, 31, -1),
    }
    return table[name]()


def _exec_mask(w: Waves) -> NDArray[np.bool_]:
    return w.exec_mask if w.sel is None else w.exec_mask[w.sel]


@dataclass(frozen=True, slots=True)
class Route:
    """Lane permutation of source 0 and the lanes that the instruction may write.

    lanes: source lane of each lane (0 where there is none). valid: it exists. enabled: row and bank masks let it write.
    """

    lanes: NDArray[np.int64]
    valid: NDArray[np.bool_]
    enabled: NDArray[np.bool_]
    bound_zero: bool

    def source(self, fetch: Fetch) -> Fetch:
        """Read through the permutation; with bound_ctrl a lane without a readable source gets 0."""
        complete = bool(self.valid.all())

        def routed(w: Waves) -> Any:
            value = fetch(w).take(self.lanes, axis=1)
            if not self.bound_zero or (complete and w.full):
                return value
            uint = _UINT[value.dtype.itemsize]
            kept = np.negative(self._readable(w).view(np.int8)).astype(_INT[value.dtype.itemsize]).view(uint)
            return (value.view(uint) & kept).view(value.dtype)

        return routed

    def _readable(self, w: Waves) -> NDArray[np.bool_]:
        """bool [n, 64] or [64]: by EXEC itself, as ``w.em`` may be narrowed by the row and bank masks."""
        return self.valid if w.full else self.valid & _exec_mask(w)[:, self.lanes]

    def masked(self, step: Callable[[Waves], None]) -> Callable[[Waves], None]:
        """Run ``step`` with the write mask narrowed to the lanes that DPP lets write."""
        everywhere = bool(self.enabled.all())
        complete = everywhere and bool(self.valid.all())
        if everywhere and self.bound_zero:
            return step

        def run(w: Waves) -> None:
            if complete and w.full:
                step(w)
                return
            em, full = w.em, w.full
            w.em = em & (self.enabled if self.bound_zero else self.enabled & self._readable(w))
            w.full = bool(w.em.all())
            try:
                step(w)
            finally:
                w.em, w.full = em, full

        return run


def _argument(inst: Instruction, name: str) -> Any:
    """The control's argument, checked."""
    arg, allowed = inst.modifiers[name], _ARGUMENTS[name]
    if allowed is None:
        return None
    if name == "quad_perm":
        good = isinstance(arg, tuple) and len(arg) == 4 and all(isinstance(x, int) and x in allowed for x in arg)
    else:
        good = isinstance(arg, int) and arg in allowed
    if not good:
        accepted = "four lanes 0..3" if name == "quad_perm" else f"{allowed[0]}..{allowed[-1]}"
        raise AsmError(f"{name}:{arg}: it takes {accepted}", inst.line_number, inst.text)
    return arg


def dpp_route(inst: Instruction, wide: bool) -> Route:
    """The route of one instruction; ``wide``: it has 64-bit operands, for which only row_newbcast exists."""
    mods = inst.modifiers
    controls = sorted(_ARGUMENTS.keys() & mods.keys())
    if len(controls) != 1:
        raise AsmError(f"DPP takes one lane control, got {', '.join(controls) or 'none'}", inst.line_number, inst.text)
    name = controls[0]
    if wide and name != "row_newbcast":
        raise AsmError(f"{name} on 64-bit operands: only row_newbcast moves those", inst.line_number, inst.text)
    wanted = _wanted(name, _argument(inst, name))
    row_mask, bank_mask = int(mods.get("row_mask", 0xF)), int(mods.get("bank_mask", 0xF))
    enabled = ((row_mask >> (_LANE >> 4)) & 1 != 0) & ((bank_mask >> ((_LANE >> 2) & 3)) & 1 != 0)
    # bound_ctrl:0 and bound_ctrl:1 both set the bit on gfx9 (LLVM AsmParser, convertDppBoundCtrl)
    return Route(np.where(wanted < 0, 0, wanted), wanted >= 0, enabled, "bound_ctrl" in mods)
