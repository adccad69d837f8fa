"""Loads that wait for another wave's store: what racecheck takes for an acquire. Found in the text, not at run time.

A relaxed or acquire load of C++ is an ordinary load with scope bits here (AMDGPUUsage, "Memory Model GFX942"), so what
tells a flag from data is its use: a load in a polling loop, or one that a wait and a cache invalidation follow.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..isa import TABLE
from ..isa.entry import Entry
from ..program import Program
from ..program.lexer import parse_waitcnt
from ..program.operands import Operand
from ..program.program import Instruction

#: Instructions of a loop that can still be one that only polls, and between a load and its invalidation.
LOOP_LENGTH, ACQUIRE_LENGTH = 64, 8
#: A flag has at most this many bytes.
FLAG_BYTES = 8
_BYTES = {"dword": 4, "dwordx2": 8, "b32": 4, "b64": 8, "ubyte": 1, "ushort": 2}
_MEMORY = frozenset(["global", "flat", "mubuf", "ds", "ds_two", "ds_lane", "ds_count", "smem", "scratch"])


def acquire_loads(program: Program) -> frozenset[int]:
    """Indices of the loads that acquire; remembered with the program."""
    if "acquire loads" not in program.bound:
        program.bound["acquire loads"] = frozenset(_find(program))
    found: frozenset[int] = program.bound["acquire loads"]
    return found


def polls_lds(program: Program) -> bool:
    """Does a loop of the text wait for a value in LDS?"""
    return any(program.instructions[i].mnemonic.startswith("ds_") for i in acquire_loads(program))


def _entry(program: Program, inst: Instruction) -> Entry | None:
    return TABLE.get((program.arch, inst.mnemonic))


def _is_flag_load(inst: Instruction, entry: Entry | None) -> bool:
    if entry is None or entry.form not in ("global", "flat", "mubuf", "ds") or entry.options.get("kind") != "load":
        return False
    if _BYTES.get(inst.mnemonic.rpartition("_")[2], FLAG_BYTES + 1) > FLAG_BYTES or "lds" in inst.modifiers:
        return False
    return entry.form == "ds" or "sc1" in inst.modifiers or "sc0" in inst.modifiers


def _find(program: Program) -> Iterator[int]:
    loops = [(target, i.index) for i in program.instructions if (target := _target(program, i)) is not None]
    for inst in program.instructions:
        if not _is_flag_load(inst, _entry(program, inst)):
            continue
        if _invalidates_after(program, inst) or any(
            first <= inst.index <= last and _only_polls(program, first, last, inst) for first, last in loops
        ):
            yield inst.index


def _target(program: Program, inst: Instruction) -> int | None:
    """First instruction of the short loop that this branch closes."""
    if inst.mnemonic.startswith(("s_branch", "s_cbranch")) and inst.operands and inst.operands[-1].kind == "label":
        target = program.labels.get(inst.operands[-1].name)
        if target is not None and target <= inst.index < target + LOOP_LENGTH:
            return target
    return None


def _invalidates_after(program: Program, load: Instruction) -> bool:
    waited = False
    for inst in program.instructions[load.index + 1 : load.index + 1 + ACQUIRE_LENGTH]:
        entry = _entry(program, inst)
        if entry is None or entry.form in _MEMORY:
            return False
        if entry.form == "wait":
            waited = waited or parse_waitcnt(inst.wait_text, inst.line_number, inst.text).get("vmcnt") == 0
        elif inst.mnemonic == "buffer_inv":
            return waited
    return False


def _only_polls(program: Program, first: int, last: int, load: Instruction) -> bool:
    """Does nothing in the loop write memory or the address of the load?"""
    address = [o for o in load.operands[1:] if o.kind in ("v", "s", "a")]
    for inst in program.instructions[first : last + 1]:
        entry = _entry(program, inst)
        if entry is None or (entry.form in _MEMORY and not _is_flag_load(inst, entry)):
            return False
        writes = inst.operands[:1] if entry.dst or entry.options.get("kind") == "load" else ()
        if any(_overlap(target, o) for target in writes for o in address):
            return False
    return True


def _overlap(a: Operand, b: Operand) -> bool:
    return a.kind == b.kind and a.index < b.index + b.count and b.index < a.index + a.count
