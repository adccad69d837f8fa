"""Loads that wait for another wave's store: what racecheck takes for an acquire. Found in the text, not at run time.

A relaxed or acquire load of C++ is an ordinary load with scope bits here (AMDGPUUsage, "Memory Model GFX942"), so what
tells a flag from data is its use: a load in a polling loop, one that a wait and a cache invalidation follow, or (not in
LDS, where this is how data is broadcast) one whose value decides where the program goes on. So is an atomic that tries
for a lock in a loop. What a polling loop loads and does not look at is data.

Another kind is the guess of a compare-and-swap loop, which is how LLVM writes an atomic that the hardware lacks
(AtomicExpandPass): an ordinary load of the same word, whose value the swap compares. A wrong guess costs a turn.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..isa import TABLE
from ..isa.entry import Entry
from ..program import Program
from ..program.lexer import parse_waitcnt
from ..program.program import Instruction
from .effects import effect_of

#: Instructions of a loop that can still be one that only polls, and between a load and its invalidation.
LOOP_LENGTH, ACQUIRE_LENGTH = 64, 8
#: A flag has at most this many bytes; one that a loop does nothing but poll may have more.
FLAG_BYTES, POLLED_BYTES = 8, 16
#: Bytes of a load by the last part of its mnemonic, where it may be one of a flag.
LOADED = {"dword": 4, "dwordx2": 8, "dwordx4": 16, "b32": 4, "b64": 8, "b128": 16, "ubyte": 1, "ushort": 2}
#: Atomics that take a lock.
_ATTEMPTS = ("cmpswap", "cmpst", "swap", "wrxchg")
_COMPARES = ("cmpswap", "cmpst")
_FLAG_FORMS = ("global", "flat", "mubuf", "ds")
_ENDS = frozenset(["s_branch", "s_endpgm", "s_setpc_b64", "s_swappc_b64"])
#: More registers than there are: AGPRs are told from VGPRs, whatever the kernel has.
_AGPR_BASE = 512
_MEMORY = frozenset(["global", "flat", "mubuf", "ds", "ds_two", "ds_lane", "ds_count", "smem", "scratch"])


def acquire_loads(program: Program) -> frozenset[int]:
    """Indices of the loads that acquire; remembered with the program."""
    if "acquire loads" not in program.bound:
        program.bound["acquire loads"] = frozenset(_find(program))
    found: frozenset[int] = program.bound["acquire loads"]
    return found


def flag_bytes(program: Program) -> int:
    """Bytes of the widest flag that the program may wait for."""
    polled = (_size(program.instructions[i]) for i in acquire_loads(program))
    return max(FLAG_BYTES, *(size for size in polled if size <= POLLED_BYTES), 0)


def guess_loads(program: Program) -> frozenset[int]:
    """Indices of the loads that only guess what a compare-and-swap will find; remembered with the program."""
    if "guess loads" not in program.bound:
        found = (i.index for i in program.instructions if _is_guess(program, i))
        program.bound["guess loads"] = frozenset(found)
    known: frozenset[int] = program.bound["guess loads"]
    return known


def polls_lds(program: Program) -> bool:
    """Does a loop of the text wait for a value in LDS?"""
    return any(program.instructions[i].mnemonic.startswith("ds_") for i in acquire_loads(program))


def _entry(program: Program, inst: Instruction) -> Entry | None:
    return TABLE.get((program.arch, inst.mnemonic))


def _size(inst: Instruction) -> int:
    """Bytes of a load that may be one of a flag; more than a flag has for others."""
    return LOADED.get(inst.mnemonic.rpartition("_")[2], POLLED_BYTES + 1)


def _is_flag_load(inst: Instruction, entry: Entry | None) -> bool:
    if entry is None or entry.form not in _FLAG_FORMS or entry.options.get("kind") != "load":
        return False
    if _size(inst) > POLLED_BYTES or "lds" in inst.modifiers:
        return False
    return entry.form == "ds" or "sc1" in inst.modifiers or "sc0" in inst.modifiers


def _is_attempt(inst: Instruction, entry: Entry | None) -> bool:
    """An atomic that can take a lock, and tells whether it did."""
    if entry is None or entry.options.get("kind") != "atomic" or not any(word in inst.mnemonic for word in _ATTEMPTS):
        return False
    return "_rtn" in inst.mnemonic if entry.form == "ds" else "sc0" in inst.modifiers


def _find(program: Program) -> Iterator[int]:
    loops = [(target, i.index) for i in program.instructions if (target := _target(program, i)) is not None]
    for inst in program.instructions:
        entry = _entry(program, inst)
        load = _is_flag_load(inst, entry)
        if not load and not _is_attempt(inst, entry):
            continue
        narrow = load and _size(inst) <= FLAG_BYTES
        if (narrow and (_invalidates_after(program, inst) or _decides(program, inst))) or any(
            first <= inst.index <= last
            and _is_used(program, first, last, inst)
            and _only_polls(program, first, last, inst)
            for first, last in loops
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


def _decides(program: Program, load: Instruction) -> bool:
    """Does a branch or EXEC depend on the loaded value, in the text straight behind the load?"""
    entry = _entry(program, load)
    if entry is None or entry.form == "ds":
        return False
    carried = set(effect_of(load, entry, _AGPR_BASE).writes)
    for inst in program.instructions[load.index + 1 : load.index + 1 + LOOP_LENGTH]:
        entry = _entry(program, inst)
        if entry is None or inst.mnemonic in _ENDS or not carried:
            return False
        effect = effect_of(inst, entry, _AGPR_BASE)
        uses = bool(carried.intersection(effect.reads))
        if uses and (entry.form == "branch" or effect.writes_exec):
            return True
        if uses and entry.form not in _MEMORY:
            carried.update(effect.writes)
        elif effect.total:
            carried.difference_update(effect.writes)
    return False


def _is_guess(program: Program, load: Instruction) -> bool:
    """Does a compare-and-swap of the same word, in the text straight behind the load, compare what the load gave?"""
    entry = _entry(program, load)
    if entry is None or entry.form not in _FLAG_FORMS or entry.options.get("kind") != "load":
        return False
    loaded = effect_of(load, entry, _AGPR_BASE)
    carried, address = set(loaded.writes), set(loaded.address)
    for inst in program.instructions[load.index + 1 : load.index + 1 + LOOP_LENGTH]:
        entry = _entry(program, inst)
        if entry is None or inst.mnemonic in _ENDS:
            return False
        effect = effect_of(inst, entry, _AGPR_BASE)
        compares = entry.options.get("kind") == "atomic" and any(word in inst.mnemonic for word in _COMPARES)
        if compares and set(effect.address) == address and inst.modifiers.get("offset") == load.modifiers.get("offset"):
            half = len(effect.data) // 2
            return not carried.isdisjoint(effect.data[:half] if entry.form == "ds" else effect.data[half:])
        if not address.isdisjoint(effect.writes):
            return False
        if not carried.isdisjoint(effect.reads) and entry.form not in _MEMORY:
            carried.update(effect.writes)
        elif effect.total:
            carried.difference_update(effect.writes)
    return False


def _is_used(program: Program, first: int, last: int, load: Instruction) -> bool:
    """Does the loop use what was loaded? If not, it is data, and came along with a flag."""
    entry = _entry(program, load)
    loaded = set(effect_of(load, entry, _AGPR_BASE).writes) if entry is not None else set()
    for inst in program.instructions[first : last + 1]:
        entry = _entry(program, inst)
        if entry is not None and not loaded.isdisjoint(effect_of(inst, entry, _AGPR_BASE).reads):
            return True
    return False


def _only_polls(program: Program, first: int, last: int, load: Instruction) -> bool:
    """Does nothing in the loop write global memory (or LDS, where the load is one of LDS) or the address of the load?

    LDS may carry the flag from the wave that polls to the others.
    """
    local, entry = load.mnemonic.startswith("ds_"), _entry(program, load)
    # what an attempt swaps in is no part of it: compilers may set that anew in each turn
    address = set(effect_of(load, entry, _AGPR_BASE).address) if entry is not None else set()
    for inst in program.instructions[first : last + 1]:
        entry = _entry(program, inst)
        if entry is None:
            return False
        polls = _is_flag_load(inst, entry) or _is_attempt(inst, entry)
        if entry.form in _MEMORY and not polls and (local or not entry.form.startswith("ds")):
            return False
        if not address.isdisjoint(effect_of(inst, entry, _AGPR_BASE).writes):
            return False
    return True
