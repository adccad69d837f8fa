"""Which registers can be read before they were written at all: a forward dataflow analysis over a kernel's code.

What it names is followed at run time (``registers``), everything else needs no look. Two sets of registers go along
each path: those written in every lane the kernel began with, and those written in every lane that is active now. Code
under the entry's EXEC mask adds to both; code under a part of it adds to the second, which shrinks to the first where
EXEC may gain lanes. EXEC is known to be the entry's again when it is restored from a copy of that mask.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from ..abi import initial_registers
from ..isa import TABLE
from ..isa.entry import Entry
from ..machine.transfer import SCALAR_KEYS, scalar_key
from ..machine.waves import FloatMode, Identity, Waves
from ..program.operands import EXEC, Operand
from ..program.program import Instruction, Kernel, Program
from .effects import EXEC_KEYS, Effect, Keys, effect_of

#: Scalar registers that the kernel's entry leaves as they must be whatever its descriptor says: FLAT_SCRATCH,
#: XNACK_MASK, trap temporaries (CDNA3 ISA, "SGPRs"; gfx942 has architected flat scratch), EXEC.
_ALWAYS = (*range(102, 106), *range(108, 124), 125, EXEC, EXEC + 1)
_ENTRY = Operand("s", EXEC, 2)
#: Position of the scalar registers in a set of registers, which is an int with a bit for each.
_SCALAR_BIT = 2048
_SENTINEL = 0xA5C3F00D
#: Instructions that can only take lanes from EXEC.
_NARROWING = ("s_and_saveexec_b64", "s_andn1_saveexec_b64", "s_andn1_wrexec_b64")


def abi_keys(kernel: Kernel) -> frozenset[int]:
    """Registers that the command processor sets: found by letting the ABI set them on a wave filled with a pattern."""
    one = np.zeros(1, np.int64)
    w = Waves(Identity(np.zeros((1, 3), np.int64), one, one, one), 8, 0, FloatMode(), None)  # type: ignore[arg-type]
    w.V[...] = _SENTINEL
    w.S[: EXEC - 1] = _SENTINEL
    initial_registers(w, kernel, (64, 1, 1), bytes(kernel.kernarg_bytes), 0, 0)
    scalars = [scalar_key(int(r)) for r in np.flatnonzero(w.S[: EXEC - 1, 0] != _SENTINEL)]
    vectors = [int(r) for r in np.flatnonzero((w.V[:, 0] != _SENTINEL).any(axis=1))]
    return frozenset([*scalars, *vectors, *map(scalar_key, _ALWAYS)])


@dataclass(frozen=True, eq=False)
class Tracking:
    """What the run-time part follows. keys: registers; initial: those of them that the entry leaves undefined; effects:
    of the instructions that touch any of ``keys``, or LDS or scratch bytes that may be undefined, by index."""

    keys: frozenset[int]
    initial: frozenset[int]
    effects: dict[int, Effect]


def tracking(program: Program, kernel: Kernel, agpr_base: int) -> Tracking:
    """The analysis of one kernel, done once."""
    known = program.bound.get(("registers", kernel.name))
    if known is None:
        known = program.bound["registers", kernel.name] = _Flow(program, kernel, agpr_base).solve()
    return known


def _bit(key: int) -> int:
    return 1 << (key if key < SCALAR_KEYS else key - SCALAR_KEYS + _SCALAR_BIT)


def _bits(keys: Keys | frozenset[int]) -> int:
    total = 0
    for key in keys:
        total |= _bit(key)
    return total


def _keys(bits: int) -> list[int]:
    found = []
    while bits:
        position = (bits & -bits).bit_length() - 1
        found.append(position if position < _SCALAR_BIT else position - _SCALAR_BIT + SCALAR_KEYS)
        bits &= bits - 1
    return found


_EXEC_BITS = _bits(EXEC_KEYS)


@dataclass(slots=True)
class _State:
    """Sets at one point. copies: first registers of the pairs that hold the entry's EXEC mask."""

    strong: int
    active: int
    at_entry: bool
    copies: frozenset[int]

    def joined(self, other: _State) -> _State:
        return _State(
            self.strong & other.strong,
            self.active & other.active,
            self.at_entry and other.at_entry,
            self.copies & other.copies,
        )


@dataclass(frozen=True, slots=True)
class _Node:
    """One instruction, prepared. defines: what it writes as a whole, spoils: what it may leave undefined."""

    inst: Instruction
    effect: Effect
    reads: int
    defines: int
    spoils: int
    scalars: int


class _Flow:
    def __init__(self, program: Program, kernel: Kernel, agpr_base: int) -> None:
        self.program, self.kernel, self.agpr_base = program, kernel, agpr_base
        self.nodes: dict[int, _Node] = {}
        self.given = abi_keys(kernel)
        returns = [i.index + 1 for i in program.instructions if i.mnemonic in ("s_swappc_b64", "s_call_b64")]
        #: where control may arrive from somewhere else
        self.targets = frozenset({*program.labels.values(), *returns})
        self.lds_undefined = False

    def solve(self) -> Tracking:
        while True:
            suspects, undefined_lds = self._pass()
            if undefined_lds == self.lds_undefined:
                break
            self.lds_undefined = undefined_lds
            self.nodes.clear()
        keys = frozenset(_keys(suspects))
        touching = {}
        for index, node in self.nodes.items():
            near = not keys.isdisjoint(node.effect.reads) or not keys.isdisjoint(node.effect.writes)
            if near or self._reaches_followed_memory(node.inst):
                touching[index] = node.effect
        return Tracking(keys, keys - self.given, touching)

    def _reaches_followed_memory(self, inst: Instruction) -> bool:
        name = inst.mnemonic
        if self.kernel.scratch_bytes and name.startswith(("scratch_", "flat_")):
            return True
        return self.lds_undefined and (name.startswith(("ds_", "flat_")) or "lds" in name or "lds" in inst.modifiers)

    # -- instructions --------------------------------------------------------------------------------------------------
    def _node(self, index: int) -> _Node | None:
        """None past the end, and for an instruction that the table does not hold: executing it would stop the run."""
        if index >= len(self.program.instructions):
            return None
        inst = self.program.instructions[index]
        entry = TABLE.get((self.program.arch, inst.mnemonic))
        if entry is None:
            return None
        known = self.nodes.get(index)
        if known is None:
            effect = effect_of(inst, entry, self.agpr_base)
            fresh = _bits(effect.writes) if effect.total else 0
            spoils = _bits(effect.writes) if self._from_memory(entry) else 0
            scalars = _bits(tuple(k for k in effect.writes if k >= SCALAR_KEYS))
            known = self.nodes[index] = _Node(inst, effect, _bits(effect.reads), fresh, spoils, scalars)
        return known

    def _from_memory(self, entry: Entry) -> bool:
        """May the result be undefined although the sources are not? Scratch is followed byte by byte; LDS holds
        undefined bytes only where the kernel may store some."""
        if entry.options.get("kind") not in ("load", "atomic"):
            return False
        if entry.form in ("scratch", "flat") and self.kernel.scratch_bytes:
            return True
        return self.lds_undefined and (entry.form.startswith("ds") or entry.form == "flat")

    # -- the analysis --------------------------------------------------------------------------------------------------
    def _pass(self) -> tuple[int, bool]:
        """Registers that may be undefined where they are read; whether undefined data may reach LDS."""
        given = _bits(self.given)
        states = {self.kernel.entry: _State(given, given, True, frozenset())}
        work = [self.kernel.entry]
        suspects, undefined_lds = 0, False
        while work:
            index = work.pop()
            state: _State | None = states[index]
            while state is not None:
                node = self._node(index)
                if node is None:
                    break
                missing = node.reads & ~(state.strong if node.effect.everywhere else state.active)
                suspects |= missing
                if missing and not undefined_lds:
                    undefined_lds = bool(node.inst.mnemonic.startswith(("ds_write", "flat_store")))
                state, following = self._after(node, state, missing)
                index, state = self._go(following, state, states, work)
        return suspects, undefined_lds

    def _go(
        self, following: Collection[int], state: _State, states: dict[int, _State], work: list[int]
    ) -> tuple[int, _State | None]:
        """Hand the state on; straight-line code continues without a stop."""
        if len(following) == 1:
            (only,) = following
            if only not in self.targets:
                return only, state
        for index in following:
            old = states.get(index)
            new = state if old is None else old.joined(state)
            if new != old:
                states[index] = new
                work.append(index)
        return 0, None

    def _after(self, node: _Node, state: _State, missing: int) -> tuple[_State, Collection[int]]:
        strong, active = state.strong, state.active
        inst, effect = node.inst, node.effect
        gone = node.spoils
        if missing or gone:
            # what is computed from undefined registers may be undefined
            wiped = _bits(effect.writes) & ~_EXEC_BITS
            strong, active = strong & ~wiped, active & ~wiped
        else:
            active |= node.defines
            strong |= node.defines if state.at_entry or effect.all_lanes else node.defines & node.scalars
        copies = state.copies
        if copies and node.scalars:
            copies = frozenset(c for c in copies if not node.scalars & _bits((scalar_key(c), scalar_key(c + 1))))
        copied = _copies_exec(inst, state.at_entry)
        if copied is not None:
            copies = copies | {copied}
        at_entry = state.at_entry
        if effect.writes_exec:
            at_entry = _restores(inst, state.copies)
            if at_entry or not _narrows(inst):
                active = strong
        return _State(strong, active, at_entry, copies), self._following(inst)

    def _following(self, inst: Instruction) -> Collection[int]:
        name, after = inst.mnemonic, inst.index + 1
        if name.startswith("s_endpgm"):
            return ()
        if name in ("s_setpc_b64", "s_swappc_b64"):
            return self.targets
        if name in ("s_branch", "s_call_b64"):
            return (self.program.labels[inst.operands[-1].name],)
        if name.startswith("s_cbranch"):
            return (after, self.program.labels[inst.operands[-1].name])
        return (after,)


def _copies_exec(inst: Instruction, at_entry: bool) -> int | None:
    """First register of the pair into which the instruction puts the EXEC mask of the entry, if it does."""
    if not at_entry or not inst.operands or inst.operands[0].kind != "s" or inst.operands[0].index >= EXEC:
        return None
    saves = inst.mnemonic.endswith("_saveexec_b64")
    return inst.operands[0].index if saves or (inst.mnemonic == "s_mov_b64" and inst.operands[1] == _ENTRY) else None


def _restores(inst: Instruction, copies: frozenset[int]) -> bool:
    """Does EXEC become what it was at the entry (or all ones, which holds it)?"""
    sources = inst.operands[1:]

    def whole(operand: Operand) -> bool:
        if operand.kind == "int":
            return int(operand.value) in (-1, 0xFFFFFFFFFFFFFFFF)
        return operand.kind == "s" and operand.count == 2 and operand.index in copies

    if inst.mnemonic == "s_mov_b64":
        return whole(sources[0])
    if inst.mnemonic in ("s_or_b64", "s_or_saveexec_b64"):
        return any(whole(o) for o in sources)
    return False


def _narrows(inst: Instruction) -> bool:
    name = inst.mnemonic
    if name in _NARROWING or name.startswith("v_cmpx"):
        return True
    if name == "s_and_b64":
        return _ENTRY in inst.operands[1:]
    return name in ("s_andn2_b64", "s_andn2_wrexec_b64") and inst.operands[1] == _ENTRY
