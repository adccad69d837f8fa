"""Instruction -> executable step, through the table and the binder of its form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import UnsupportedError
from ..isa import TABLE, Entry
from ..program.program import Instruction
from .bind_control import CONTROL_FORMS, bind_control
from .bind_flat import bind_global
from .bind_salu import bind_salu
from .bind_smem import bind_smem
from .bind_valu import bind_valu
from .waves import BindContext

Binder = Callable[[Entry, Instruction, BindContext], Any]
BINDERS: dict[str, Binder] = {
    "salu": bind_salu,
    "valu": bind_valu,
    "smem": bind_smem,
    "global": bind_global,
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
