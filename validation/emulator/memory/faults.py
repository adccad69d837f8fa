"""Messages of memcheck: which tensor, which index, how far outside.

No message holds a host address: reports of two runs are the same. Places are given relative to an allocation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .access import Access, Kind, Space
from .space import GUARD_BYTES

if TYPE_CHECKING:
    from ..machine.waves import Waves
    from ..program.program import Instruction
    from .hierarchy import MemoryPort
    from .space import Allocation
    from .spaces import GlobalMemory

#: Addresses below this are those of a null pointer and an offset: no host maps its first pages.
NULL_BYTES = 1 << 16
#: Host memory lies above this: addresses below are the kernel's own numbers, the same in every run.
LOWEST_HOST_ADDRESS = 1 << 40


def _first(access: Access, bad: NDArray[np.bool_]) -> int:
    row, lane = (int(x[0]) for x in np.nonzero(bad))
    return int(access.address[row, lane])


def _what(access: Access) -> str:
    return f"{access.space.value} {access.kind.value} of {access.nbytes} bytes"


def describe_fault(port: MemoryPort, w: Waves, access: Access, bad: NDArray[np.bool_]) -> None:
    """Log lanes whose access lies outside of every allocation, of the LDS or of the lane's scratch."""
    address = _first(access, bad)
    if access.space is not Space.GLOBAL:
        size = port.spaces[access.space].size
        message = f"{_what(access)} at byte {address:#x}, outside of the {size} bytes there are"
        port.log.add("memcheck", message, w, access.inst, bad)
        return
    memory: GlobalMemory = port.spaces[Space.GLOBAL]
    if 0 <= address < NULL_BYTES:
        names = memory.nulls
        argument = names[0] if len(names) == 1 else None
        which = f" (null: {', '.join(names)})" if names else ""
        message = f"null pointer: {_what(access)} {address} bytes after address 0{which}"
        port.log.add("memcheck", message, w, access.inst, bad, argument)
        return
    if not LOWEST_HOST_ADDRESS <= address < 1 << 47:
        message = f"{_what(access)} at {address:#x}: no allocation near, and no address that memory can have"
        port.log.add("memcheck", message, w, access.inst, bad)
        return
    near = _nearest(memory, address)
    if near is None:
        port.log.add("memcheck", f"{_what(access)} where no memory is registered", w, access.inst, bad)
        return
    message = _where(memory, access, near, address)
    port.log.add("memcheck", message, w, access.inst, bad, near.name or None, near.index_of(address))


def _distance(near: Allocation, address: int) -> int:
    return max(near.base - address, address - near.end, 0)


def _nearest(memory: GlobalMemory, address: int) -> Allocation | None:
    """What to measure from: the view beside the address if its storage holds it, else an allocation."""
    holder = memory.space.find(address)
    if holder is not None:
        inside = [p for p in memory.parts if holder.base <= p.base < holder.end]
        return min(inside, key=lambda p: _distance(p, address), default=holder)
    return memory.space.nearest(address)


def _where(memory: GlobalMemory, access: Access, near: Allocation, address: int) -> str:
    name = near.name or f"an allocation of {near.size} bytes without a name"
    within = near.base <= address < near.end
    if near.freed and within:
        return f"use after free: {_what(access)} {address - near.base} bytes into {name}, released before"
    if not near.writable and access.kind is not Kind.LOAD and within:
        return f"{_what(access)} {address - near.base} bytes into {name}, which is read-only"
    extent = f"{name} ({near.size} bytes)" + (" (released before)" if near.freed else "")
    if any(part is near for part in memory.parts):
        extent = f"the view {extent}, inside of its storage, where no argument of this launch lies"
    if within:
        return f"{_what(access)} running {address + access.nbytes - near.end} bytes over the end of {extent}"
    side = "past the end of" if address >= near.end else "before"
    away = address - near.end if address >= near.end else near.base - address
    if away > GUARD_BYTES and not any(part is near for part in memory.parts):
        where = "past its end" if address >= near.end else "before it"
        return f"{_what(access)} with no allocation near: the nearest is {extent}, {away} bytes away ({where})"
    return f"{_what(access)} {away} bytes {side} {extent}"


def describe_misalignment(port: MemoryPort, w: Waves, access: Access, bad: NDArray[np.bool_], natural: int) -> None:
    """Log LDS accesses and atomics whose address is no multiple of their size."""
    address = _first(access, bad)
    name: str | None = None
    index: Any = None
    place = f"byte {address:#x}"
    if access.space is Space.GLOBAL:
        holder = port.spaces[Space.GLOBAL].space.find(address)
        place = f"an address that is {address % natural} modulo {natural}"
        if holder is not None:
            name, index = holder.name or None, holder.index_of(address)
            place = f"byte {address - holder.base} of {name or 'an allocation without a name'}"
    message = f"{_what(access)} at {place}, which is no multiple of {natural}"
    port.log.add("alignment", message, w, access.inst, bad, name, index)


def describe_dropped_bits(
    port: MemoryPort, w: Waves, inst: Instruction, parts: tuple[NDArray[np.int64], NDArray[np.int64]], bad: Any
) -> None:
    """Log scalar accesses whose base or offset (``parts``, [n]) has bits below a dword, which hardware ignores."""
    row = int(np.flatnonzero(bad)[0])
    base, offset = (int(part[row]) for part in parts)
    found = [
        f"{what} that is {value & 3} modulo 4" for what, value in (("a base", base), ("an offset", offset)) if value & 3
    ]
    holder = port.spaces[Space.GLOBAL].space.find((base & ~3) + (offset & ~3))
    name, index = (holder.name or None, holder.index_of(base + offset)) if holder is not None else (None, None)
    message = f"scalar access with {' and '.join(found)}: hardware ignores these bits and takes the dword before"
    port.log.add("alignment", message, w, inst, bad[:, None], name, index)
