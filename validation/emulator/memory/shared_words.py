"""Atomics on 8 and 16 bits: the hardware has none, so LLVM makes them of the dword that holds the element.

It loads that dword, then compares and swaps it until nobody was faster (LLVM, ``AtomicExpandPass``, partword atomics).
Where a tensor begins or ends within a dword, the other bytes are outside of it: they are read and put back as they
were. Device memory is given out in units of more than a dword, so hardware has no fault there, and neither is it a
finding. Everything else that runs over the end by less than a dword is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ..program.program import Instruction

_FAMILIES = ("global", "flat", "buffer")
_LOADS = {f"{family}_load_dword": family for family in _FAMILIES}
_SWAPS = {f"{family}_atomic_cmpswap": family for family in _FAMILIES}
#: Modifiers that are part of an address.
_PLACING = ("offset", "offen", "idxen")

Place = tuple[Any, ...]


class SharedWords:
    """Which instructions of a program are such a load or such a swap: they name the same address."""

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self._instructions = instructions

    def __contains__(self, inst: object) -> bool:
        return isinstance(inst, Instruction) and inst.index in self._sites

    @cached_property
    def _sites(self) -> frozenset[int]:
        loads, swaps = self._places(_LOADS), self._places(_SWAPS)
        return frozenset(i for place in loads.keys() & swaps.keys() for i in (*loads[place], *swaps[place]))

    def _places(self, families: dict[str, str]) -> dict[Place, list[int]]:
        found: dict[Place, list[int]] = {}
        for inst in self._instructions:
            family = families.get(inst.mnemonic)
            if family is not None:
                found.setdefault(_place(family, inst), []).append(inst.index)
        return found


def _place(family: str, inst: Instruction) -> Place:
    """The operands of the address, as written, and what is added to them."""
    operands = list(inst.operands)
    if inst.mnemonic in _SWAPS:
        # data and address, in this order for a buffer; a result comes first where one is asked for
        returns = family != "buffer" and bool(inst.modifiers.get("sc0"))
        del operands[0 if family == "buffer" else 1 + returns]
        operands = operands[returns:]
    else:
        operands = operands[1:]
    return (family, *operands, *(inst.modifiers.get(name) for name in _PLACING))
