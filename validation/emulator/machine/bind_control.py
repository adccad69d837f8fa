"""Binder of what steers execution: branches, jumps, barriers, ends, waits. The engine acts on the form."""

from __future__ import annotations

from typing import Any

from ..errors import UnsupportedError
from ..isa.entry import Entry
from ..program.lexer import parse_waitcnt
from ..program.program import Instruction
from .fetch import implicit_source, reject_modifiers, scalar_source, scalar_store
from .hwreg import bind_setreg
from .types import IMPLICIT
from .waves import BindContext, Waves

#: form -> what ``Step.run`` returns to the engine.
#: branch: bool [n], taken. jump: uint64 [n], target address (the link register is written already).
#: barrier, end, wait, yield, nop: nothing. mode: the new FloatMode.
CONTROL_FORMS = ("branch", "jump", "barrier", "end", "wait", "yield", "nop", "mode")


def bind_control(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``fn`` of a branch: condition over its (implicit) sources; of a jump: target address from its sources."""
    reject_modifiers(inst, frozenset())
    if entry.form == "wait":
        counters = parse_waitcnt(inst.wait_text, inst.line_number, inst.text)
        return lambda w: counters
    if entry.form == "mode":
        return bind_setreg(entry, inst, ctx)
    if entry.form in ("barrier", "end", "yield", "nop"):
        _check_operand(entry, inst)
        return lambda w: None
    shown = [o for o in inst.operands if o.kind != "label"]
    fetches = []
    stores = []
    for name in entry.dst:
        stores.append(scalar_store(inst, shown.pop(0), name))
    for name in entry.src:
        fetches.append(implicit_source(name) if name in IMPLICIT else scalar_source(inst, shown.pop(0), name, ctx))
    following = ctx.code_base + 8 * (inst.index + 1)
    fn = entry.fn
    if entry.form == "jump":
        labels, target = ctx.labels, inst.operands[-1]

        def jump(w: Waves) -> Any:
            where = ctx.code_base + 8 * labels[target.name] if target.kind == "label" else fn(*[f(w) for f in fetches])
            for put in stores:
                put(w, following)
            return where

        return jump
    return lambda w: fn(*[f(w) for f in fetches])


def _check_operand(entry: Entry, inst: Instruction) -> None:
    """Refuse an immediate that asks for something which has an effect (the row's option ``only``)."""
    wanted = entry.options.get("only")
    if wanted is not None and [o.value for o in inst.operands] != [wanted]:
        raise UnsupportedError(f"{inst.mnemonic} with another operand than {wanted}", inst.line_number, inst.text)
