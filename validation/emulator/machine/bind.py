"""Instruction -> executable step, through the table and the binder of its form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import UnsupportedError
from ..isa import TABLE, Entry
from ..program.program import Instruction
from .bind_control import CONTROL_FORMS, bind_control
from .bind_cross_lane import bind_no_effect, bind_permlane_swap, bind_readlane, bind_swap, bind_writelane
from .bind_dot import bind_dot, bind_dot_accumulate, bind_mix
from .bind_ds import bind_ds, bind_ds_count, bind_ds_lane, bind_ds_two
from .bind_ds_lanes import bind_ds_permute, bind_ds_swizzle, bind_ds_transpose
from .bind_flat import bind_flat
from .bind_gpr_index import bind_indexed_move
from .bind_mfma import bind_mfma, bind_mfma_f8f6f4
from .bind_mubuf import bind_cache, bind_mubuf
from .bind_packed import bind_packed16, bind_packed32, bind_packed_move
from .bind_salu import bind_salu
from .bind_small_float import bind_byte_convert, bind_small_float
from .bind_smem import bind_smem
from .bind_smfmac import bind_smfmac
from .bind_valu import bind_valu
from .hwreg import bind_clock, bind_getpc, bind_getreg, bind_movrel, bind_trap
from .waves import BindContext

Binder = Callable[[Entry, Instruction, BindContext], Any]
BINDERS: dict[str, Binder] = {
    "salu": bind_salu,
    "valu": bind_valu,
    "dot": bind_dot,
    "dot_accumulate": bind_dot_accumulate,
    "mix": bind_mix,
    "byte_convert": bind_byte_convert,
    "small_float": bind_small_float,
    "packed16": bind_packed16,
    "packed32": bind_packed32,
    "packed_move": bind_packed_move,
    "readlane": bind_readlane,
    "writelane": bind_writelane,
    "swap": bind_swap,
    "permlane_swap": bind_permlane_swap,
    "no_effect": bind_no_effect,
    "smem": bind_smem,
    **dict.fromkeys(("global", "flat", "scratch"), bind_flat),
    "mubuf": bind_mubuf,
    "cache": bind_cache,
    "ds": bind_ds,
    "ds_two": bind_ds_two,
    "ds_lane": bind_ds_lane,
    "ds_count": bind_ds_count,
    "ds_swizzle": bind_ds_swizzle,
    "ds_permute": bind_ds_permute,
    "ds_transpose": bind_ds_transpose,
    "mfma": bind_mfma,
    "mfma_f8f6f4": bind_mfma_f8f6f4,
    "smfmac": bind_smfmac,
    "getreg": bind_getreg,
    "getpc": bind_getpc,
    "clock": bind_clock,
    "movrel": bind_movrel,
    "indexed_move": bind_indexed_move,
    "trap": bind_trap,
    **dict.fromkeys(CONTROL_FORMS, bind_control),
}


@dataclass(slots=True)
class Step:
    """A bound instruction. ``run(waves)`` executes it; ``control`` is empty for straight-line instructions, else the
    form the engine acts upon (and ``run`` returns what that form documents)."""

    run: Callable[[Any], Any]
    control: str
    inst: Instruction
    entry: Entry
    target: int = -1


def bind(inst: Instruction, ctx: BindContext) -> Step:
    """Raises UnsupportedError for a mnemonic that the table does not hold for this architecture."""
    entry = TABLE.get((ctx.arch, inst.mnemonic))
    if entry is None:
        other = [a for a, m in TABLE if m == inst.mnemonic]
        hint = f" (only on {', '.join(other)})" if other else ""
        raise UnsupportedError(f"instruction {inst.mnemonic!r} on {ctx.arch}{hint}", inst.line_number, inst.text)
    run = BINDERS[entry.form](entry, inst, ctx)
    control = entry.form if entry.form in CONTROL_FORMS else ""
    target = -1
    if inst.operands and inst.operands[-1].kind == "label" and control:
        name = inst.operands[-1].name
        if name not in ctx.labels:
            raise UnsupportedError(f"branch to {name!r}, which is not in this text", inst.line_number, inst.text)
        target = ctx.labels[name]
    return Step(run, control, inst, entry, target)
