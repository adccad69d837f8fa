"""Registers, LDS bytes and scratch bytes whose contents nobody has defined, and where that matters.

Compilers copy, spill and exchange undefined registers on purpose, so a read alone is no finding. Undefinedness is
carried along, bit by bit, as Valgrind's memcheck does it (Seward and Nethercote, "Using Valgrind to detect undefined
value errors with bit-precision", 2005), and reported where it decides something: an address, data that goes to global
memory, EXEC, a branch, the MODE register. What is reported counts as defined from there on.

*Inferred*: with late completion, bytes change hands when the operation is issued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..isa.entry import Entry
from ..machine.bind import Step
from ..machine.transfer import SCALAR_KEYS, MemoryOperation
from ..machine.waves import ALL_ONES, BindContext, FloatMode, Waves, pack_lanes, unpack_lanes
from ..memory.access import Access, Space
from ..memory.views import TypedViews, Words
from ..program.operands import EXEC
from ..program.program import Instruction
from .effects import SCC_KEY, Effect, key_name
from .registers_flow import Tracking

U32, U64 = np.uint32, np.uint64
_ALL = U64(ALL_ONES)
_ONES = U32(0xFFFFFFFF)


@dataclass(eq=False)
class Watch:
    """One instruction that may meet undefined registers. inner: its step without any check; shadow: its twin that runs
    on the shadow registers, made when first needed (see ``registers_rules``)."""

    inst: Instruction
    entry: Entry
    ctx: BindContext
    effect: Effect
    inner: Callable[[Waves], Any]
    shadow: Any = None

    @classmethod
    def of(cls, step: Step, ctx: BindContext, effect: Effect) -> Watch:
        return cls(step.inst, step.entry, ctx, effect, step.run)

    @property
    def operation(self) -> MemoryOperation:
        assert isinstance(self.inner, MemoryOperation)
        return self.inner


def forget(w: Waves, key: int) -> None:
    """A register was written behind the back of ``w``, which remembers what it made of scalar ones."""
    if SCALAR_KEYS <= key < SCC_KEY:
        w.forget(key - SCALAR_KEYS)


class ShadowPort:
    """The port of the shadow registers: loads give the undefined bits of what is in memory."""

    def __init__(self, state: RegisterState) -> None:
        self.state = state

    def read(self, w: Waves, access: Access) -> Words:
        views = self.state.bytes.get(access.space)
        if views is None:
            return [np.zeros(access.address.shape, U32)] * max(1, access.nbytes // 4)
        offset, inside = self.state.offsets(access)
        return [np.where(inside, word, U32(0)) for word in views.read(offset, access.nbytes)]

    def atomic(self, w: Waves, access: Access, op: Any, operands: Sequence[Any], want_old: bool = True) -> Any:
        return np.zeros(access.address.shape, op.dtype)


class RegisterState:
    """Shadow of one chunk.

    shadow: a second set of registers, 1 in each undefined bit. dirty: keys of the registers that may have such bits;
    the others have none. lanes: of each dirty vector register, uint64 [W]: only these lanes of its shadow count. bytes:
    of LDS (from the first undefined store on) and scratch, the undefined bits. origin: what made a register undefined.
    """

    def __init__(self, w: Waves, tracking: Tracking) -> None:
        self.w, self.tracked = w, tracking.keys
        self.dirty = set(tracking.initial)
        self.lanes: dict[int, NDArray[np.uint64]] = {}
        self.bytes: dict[Space, TypedViews] = {}
        self.origin: dict[int, str] = {}
        self.shadow = Waves(w.ident, w.agpr_base, len(w.V) - w.agpr_base, FloatMode(), w.port)
        self.shadow.S[...] = 0
        self.shadow.exec_mask = w.exec_mask
        self.shadow.port = ShadowPort(self)  # type: ignore[assignment]
        began = pack_lanes(w.exec_mask)
        for key in tracking.initial:
            if key >= SCALAR_KEYS:
                self._scalar(key)[...] = True if key == SCC_KEY else _ONES
            else:
                self.shadow.V[key] = _ONES
                self.lanes[key] = began.copy()
        scratch = w.port.spaces[Space.SCRATCH]
        if scratch.size:
            self.bytes[Space.SCRATCH] = TypedViews(np.full(len(scratch.content), 0xFF, np.uint8))

    # -- looking -------------------------------------------------------------------------------------------------------
    def _scalar(self, key: int) -> NDArray[Any]:
        return self.shadow.scc if key == SCC_KEY else self.shadow.S[key - SCALAR_KEYS]

    def chosen(self, array: NDArray[Any]) -> NDArray[Any]:
        """Of the waves that step."""
        return array if self.w.sel is None else array[self.w.sel]

    def undefined(self, keys: Iterable[int], mask: Any) -> list[int]:
        """Those of the keys with undefined bits in the lanes ``mask`` (uint64 [n]) of the waves that step."""
        found = []
        for key in keys:
            if key not in self.dirty:
                continue
            bits = self.chosen(self._scalar(key)) if key >= SCALAR_KEYS else self.chosen(self.lanes[key]) & mask
            if bits.any():
                found.append(key)
        return found

    def bits(self, key: int) -> NDArray[Any]:
        """Undefined bits: uint32 [n, 64] of a vector register, uint32 [n] of a scalar one, bool [n] of SCC."""
        if key < SCALAR_KEYS:
            self.settle((key,))
            return self.chosen(self.shadow.V[key])
        return self.chosen(self._scalar(key))

    def where(self, key: int) -> NDArray[np.bool_]:
        """Lanes with undefined bits, bool [n, 64]; the first lane of a wave for a scalar register."""
        bits = self.bits(key) != 0
        return bits if bits.ndim == 2 else bits[:, None] & (np.arange(64) == 0)

    def offsets(self, access: Access) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Place of each lane in ``bytes``, and whether it takes part."""
        memory = self.w.port.spaces[access.space]
        address = access.address.astype(np.int64)
        inside = access.mask & (address >= 0) & (address + access.nbytes <= memory.size)
        return np.where(inside, address, 0) + memory.base_of(self.w), inside

    # -- changing ------------------------------------------------------------------------------------------------------
    def follow(self) -> Waves:
        """The shadow registers, with the selection and EXEC of the real ones."""
        w, shadow = self.w, self.shadow
        shadow.sel, shadow.n, shadow.em, shadow.full, shadow._em_bits_of = w.sel, w.n, w.em, w.full, None
        return shadow

    def settle(self, keys: Iterable[int]) -> None:
        """Make the shadow of dirty vector registers exact."""
        for key in keys:
            if key < SCALAR_KEYS and key in self.dirty:
                self.shadow.V[key] *= unpack_lanes(self.lanes[key])

    def define(self, keys: Iterable[int], mask: Any) -> None:
        """The lanes ``mask`` of these registers were written by something defined."""
        for key in keys:
            if key not in self.dirty:
                continue
            if key >= SCALAR_KEYS:
                bits = self._scalar(key)
                bits[slice(None) if self.w.sel is None else self.w.sel] = 0
                forget(self.shadow, key)
                if not bits.any():
                    self.dirty.discard(key)
                continue
            lanes = self.lanes[key]
            if self.w.sel is None:
                lanes &= ~mask
            else:
                lanes[self.w.sel] &= ~mask
            if not lanes.any():
                self._clean(key)

    def _clean(self, key: int) -> None:
        self.dirty.discard(key)
        if key < SCALAR_KEYS:
            self.shadow.V[key] = 0

    def refresh(self, keys: Iterable[int], cause: str) -> None:
        """The shadow of these registers has changed, by an instruction that used what ``cause`` says."""
        for key in keys:
            if key >= SCALAR_KEYS:
                stays = key in self.tracked and bool(self._scalar(key).any())
                if not stays:
                    self._scalar(key)[...] = 0
                forget(self.shadow, key)
            else:
                lanes = pack_lanes(self.shadow.V[key] != 0)
                self.lanes[key] = lanes
                stays = key in self.tracked and bool(lanes.any())
            if not stays:
                self._clean(key)
                continue
            if cause or key not in self.dirty:
                self.origin[key] = cause
            self.dirty.add(key)

    # -- reporting -----------------------------------------------------------------------------------------------------
    def name(self, key: int) -> str:
        return key_name(key, self.w.agpr_base)

    def cause(self, key: int, inst: Instruction) -> str:
        """What to tell of a value that ``inst`` computes from this register."""
        made = f"`{inst.text}` ({inst.place}) made it from {self.name(key)} before anything wrote that"
        return self.origin.get(key) or made

    def report(self, watch: Watch, key: int, where: NDArray[np.bool_], role: str) -> None:
        """``where`` [n, 64]: lanes in which it matters; ``role``: what the register does there."""
        why = self.origin.get(key) or "nothing has written it"
        message = f"{self.name(key)} {role}, and is undefined: {why}"
        self.w.port.log.add("initcheck", message, self.w, watch.inst, where)

    def forgive(self, keys: Iterable[int]) -> None:
        """What was reported counts as defined."""
        self.define(tuple(keys), _ALL)

    # -- stepping ------------------------------------------------------------------------------------------------------
    def step(self, watch: Watch, run: Callable[[Waves], Any], rule: Rule) -> Any:
        """Execute an instruction that touches a dirty register."""
        w, effect = self.w, watch.effect
        em = w.sget64(EXEC)
        if not self.undefined(effect.reads, _ALL if effect.everywhere else em):
            if effect.total:
                result = run(w)
                self.define(effect.writes, _ALL if effect.all_lanes else em)
                return result
            if not self.undefined(effect.writes, _ALL if effect.everywhere else em):
                return run(w)
        return rule(self, watch, run)


def matter(state: RegisterState, watch: Watch, bad: Sequence[int], role: str) -> None:
    """One finding for the undefined registers ``bad``, which the instruction uses where it must not."""
    if not bad:
        return
    where: Any = np.False_
    for key in bad:
        where = where | (state.where(key) & (state.w.em if key < SCALAR_KEYS else np.True_))
    state.report(watch, bad[0], where, role)
    state.forgive(bad)


Rule = Callable[[RegisterState, Watch, Callable[[Waves], Any]], Any]
