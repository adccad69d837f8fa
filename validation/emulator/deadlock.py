"""Who waits for what: the message of a deadlock or livelock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .machine.engine import AT_BARRIER, DONE, RUN, Chunk
from .memory.access import Access, Kind, Space

if TYPE_CHECKING:
    from .machine.waves import Waves
    from .memory.hierarchy import MemoryPort
    from .program.program import Instruction
    from .work import Running

#: Waves that a message names, in all and of one chunk.
SHOWN, SHOWN_OF_CHUNK = 16, 6
#: Turns, and backward branches, in which the probe looks at what a stuck chunk polls.
PROBE_TURNS, PROBE_BRANCHES = 256, 1024


class Probe:
    """Observer that keeps the last read of each wave: what a polling loop looks at."""

    def __init__(self) -> None:
        self.seen: dict[int, tuple[Access, int]] = {}

    def observe(self, port: MemoryPort, w: Waves, access: Access) -> None:
        if access.kind is Kind.STORE:
            return
        rows = np.arange(w.count) if w.sel is None else w.sel
        for i, row in enumerate(rows):
            lanes = np.flatnonzero(access.mask[i])
            if len(lanes):
                self.seen[int(row)] = (access, int(access.address[i, lanes[0]]))


def endless(chunk: Chunk) -> str:
    """What is wrong with a chunk of which a wave has reached its limit."""
    if chunk.most_branches() > chunk.branch_limit:
        return (
            f"livelock: more than {chunk.branch_limit} backward branches of a wave without a barrier (see branch_limit)"
        )
    return (
        f"livelock: more than {chunk.revisit_limit} turns of a loop in which nothing has changed that could end it, "
        "without a barrier (the limit is a share of branch_limit)"
    )


def polling(turns: int) -> str:
    """What is wrong with chunks that poll."""
    return (
        f"livelock: for {turns} turns every wave has polled: no memory has changed, nothing else can run, and nothing "
        "has changed in any wave that could end its loop"
    )


def describe(chunks: Sequence[tuple[Running, Chunk]], what: str) -> str:
    """``what``, then a line for each of the first waves that have not ended."""
    lines: list[str] = []
    hidden = 0
    for running, chunk in chunks:
        seen = _probe(chunk)
        stuck = np.flatnonzero(chunk.state != DONE)
        hidden += max(0, len(stuck) - SHOWN_OF_CHUNK)
        lines += [_line(running, chunk, int(row), seen.get(int(row))) for row in stuck[:SHOWN_OF_CHUNK]]
    hidden += max(0, len(lines) - SHOWN)
    names = ", ".join(dict.fromkeys(running.launch.kernel.name for running, _ in chunks))
    more = f"\n  and {hidden} more" if hidden else ""
    return f"{names}: {what}\n  " + "\n  ".join(lines[:SHOWN]) + more


def _probe(chunk: Chunk) -> dict[int, tuple[Access, int]]:
    """Let the chunk poll a little longer and watch it."""
    probe, port = Probe(), chunk.w.port
    kept = port.observers
    port.observers = (*kept, probe)
    chunk.grant(PROBE_BRANCHES)
    try:
        chunk.run(PROBE_TURNS)
    finally:
        port.observers = kept
    return probe.seen


def _line(running: Running, chunk: Chunk, row: int, seen: tuple[Access, int] | None) -> str:
    w, program = chunk.w, running.launch.program
    group = tuple(int(x) for x in w.ident.workgroup[row])
    who = f"{running.launch.kernel.name} workgroup {group} wave {int(w.ident.wave[row])}"
    pc = int(chunk.pc[row])
    if chunk.state[row] == AT_BARRIER:
        inst = program.instructions[pc - 1]
        missing = np.flatnonzero((w.ident.group == w.ident.group[row]) & (chunk.state == RUN))
        others = ", ".join(str(int(w.ident.wave[i])) for i in missing)
        return f"{who} waits at {inst.text} ({inst.place}) for wave {others}"
    inst = program.instructions[pc]
    if seen is None:
        return f"{who} loops at {inst.text} ({inst.place})"
    access, address = seen
    what = f"{access.inst.text} ({access.inst.place})"
    return f"{who} polls {_where(running, chunk, access, address)} at {what}{_writer(running, access, address)}"


def _where(running: Running, chunk: Chunk, access: Access, address: int) -> str:
    if access.space is not Space.GLOBAL:
        return f"{access.space.value} byte {address:#x}"
    holder = running.launch.space.find(address)
    if holder is None:
        return "an address outside of every allocation"
    value = _value(chunk, access, address)
    index = holder.index_of(address)
    name = holder.name or "memory without a name"
    return f"{name}{list(index) if index else f' + {address - holder.base}'} = {value}"


def _value(chunk: Chunk, access: Access, address: int) -> str:
    memory: Any = chunk.w.port.spaces[Space.GLOBAL]
    offset = np.array([address - memory.base])
    words = memory.views.read(offset, min(access.nbytes, 8))
    return hex(sum(int(word[0]) << (32 * i) for i, word in enumerate(words)))


def _writer(running: Running, access: Access, address: int) -> str:
    """The last write of a polled global word, where racecheck has kept it."""
    for observer in running.launch.observers:
        last: Any = getattr(observer, "last_writer", None)
        if last is not None and access.space is Space.GLOBAL:
            found: tuple[str, Instruction | None] | None = last(address)
            if found is None:
                return "; nothing has written there in this session"
            who, inst = found
            return f"; last written by {who}" + (f" at {inst.text} ({inst.place})" if inst is not None else "")
    return ""
