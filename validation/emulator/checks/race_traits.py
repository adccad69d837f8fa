"""What racecheck needs to know of a memory instruction, as bits that are kept with each access."""

from __future__ import annotations

from dataclasses import dataclass

from ..isa.entry import Entry
from ..program.program import Instruction
from .sync_points import FLAG_BYTES, LOADED

#: read-modify-write
ATOMIC = 1
#: an atomic on floating-point data: it carries values, and publishes nothing
DATA_ATOMIC = 2
#: its data goes past the caches that other workgroups do not share
THROUGH = 4
#: a load into LDS: complete when vmcnt has counted it
DMA = 8
#: through the scalar cache
SCALAR = 16
#: a load, or an attempt to take a lock, that waits for another wave's store
POLL = 32
#: a store that may be one
FLAG = 64
#: a load of flag size with scope bits: C++ would call it atomic
RELAXED = 128
WRITE = 256
#: of unknown place until it runs: counted by vmcnt and lgkmcnt, complete in any order
FLAT = 512
#: an atomic whose old value comes back: only such a one tells its wave anything
RETURNS = 1024
#: a load whose value an atomic checks
GUESS = 2048

#: The same for stores too.
_SIZES = LOADED | {"byte": 1, "short": 2, "b8": 1, "b16": 2}


@dataclass(frozen=True, slots=True)
class Traits:
    """bits: as above. vm, lds: does it retire in the order of vmcnt, of the LDS part of lgkmcnt?"""

    bits: int
    vm: bool
    lds: bool


def traits_of(inst: Instruction, entry: Entry, acquires: bool, guesses: bool, flag_bytes: int = FLAG_BYTES) -> Traits:
    """``acquires``, ``guesses``: the load is one of :func:`~validation.emulator.checks.sync_points.acquire_loads`, of
    :func:`~validation.emulator.checks.sync_points.guess_loads`. flag_bytes: what a flag of this program has at most."""
    kind, form, modifiers = entry.options.get("kind"), entry.form, inst.modifiers
    local = form.startswith("ds")
    into_lds = kind == "lds" or "lds" in modifiers
    scoped = bool(modifiers.get("sc0") or modifiers.get("sc1"))
    size = _SIZES.get(inst.mnemonic.rpartition("_")[2], flag_bytes + 1)
    bits = 0
    if kind == "atomic" or form == "ds_count":
        bits |= ATOMIC | THROUGH | WRITE | (POLL if acquires else 0)
        bits |= RETURNS if _returns(inst, entry) else 0
        if "_f32" in inst.mnemonic or "_f64" in inst.mnemonic or "_f16" in inst.mnemonic or "_bf16" in inst.mnemonic:
            bits |= DATA_ATOMIC
    elif kind == "store":
        bits |= WRITE
        if size <= flag_bytes and (local or scoped):
            bits |= FLAG
    elif acquires:
        bits |= POLL
    if kind == "load" and scoped and size <= FLAG_BYTES and not into_lds:
        bits |= RELAXED
    if guesses:
        # whatever it gives is compared with the word itself, where atomics are performed
        bits |= GUESS | THROUGH
    if modifiers.get("sc1"):
        bits |= THROUGH
    if into_lds:
        bits |= DMA
    if form == "smem":
        bits |= SCALAR
    if form == "flat":
        bits |= FLAT
    return Traits(bits, form in ("global", "mubuf", "scratch"), local)


def _returns(inst: Instruction, entry: Entry) -> bool:
    """Does an atomic give its old value?"""
    if entry.form.startswith("ds"):
        return entry.form != "ds" or bool(entry.options.get("returns"))
    return bool(inst.modifiers.get("sc0") or inst.modifiers.get("glc"))
