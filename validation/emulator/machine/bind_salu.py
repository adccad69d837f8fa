"""Binder of scalar ALU instructions (SOP1, SOP2, SOPK, SOPC): values are [n], one per wave."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..isa.entry import Entry
from ..program.program import Instruction
from .fetch import Fetch, Store, implicit_source, operand_count, reject_modifiers, scalar_source, scalar_store
from .types import IMPLICIT
from .waves import BindContext, Waves


def _implicit_store(name: str) -> Store:
    table: dict[str, Store] = {
        "scc": lambda w, value: w.scc_put(value),
        "vcc": lambda w, value: w.sput64(106, value),
        "exec": lambda w, value: w.sput64(126, np.broadcast_to(value, (w.n,))),
        "m0": lambda w, value: w.sput(124, value),
    }
    return table[name]


def bind_salu(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``fn(*sources) -> result`` or a tuple with one value per destination (implicit ones included, in order).

    Options: ``dst_is_source`` - the first destination is read too and passed as first source (s_cmovk, s_bitset).
    """
    reject_modifiers(inst, frozenset())
    shown = [t for t in (*entry.dst, *entry.src) if t not in IMPLICIT]
    operand_count(inst, len(shown))
    operands = iter(inst.operands)
    stores: list[Store] = []
    fetches: list[Fetch] = []
    for name in entry.dst:
        if name in IMPLICIT:
            stores.append(_implicit_store(name))
        else:
            operand = next(operands)
            stores.append(scalar_store(inst, operand, name))
            if entry.options.get("dst_is_source"):
                fetches.append(scalar_source(inst, operand, name, ctx))
    for name in entry.src:
        if name in IMPLICIT:
            fetches.append(implicit_source(name))
        else:
            fetches.append(scalar_source(inst, next(operands), name, ctx))
    fn = entry.fn
    if len(stores) == 1:
        store = stores[0]

        def one(w: Waves) -> None:
            store(w, fn(*[f(w) for f in fetches]))

        return one

    def several(w: Waves) -> None:
        for put, value in zip(stores, fn(*[f(w) for f in fetches]), strict=True):
            put(w, value)

    return several
