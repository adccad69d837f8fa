"""Messages of memcheck: which tensor, which index, how far outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .access import Access, Space

if TYPE_CHECKING:
    from ..machine.waves import Waves
    from .hierarchy import MemoryPort
    from .space import Allocation


def _first(access: Access, bad: NDArray[np.bool_]) -> int:
    row, lane = (int(x[0]) for x in np.nonzero(bad))
    return int(access.address[row, lane])


def _what(access: Access) -> str:
    return f"{access.space.value} {access.kind.value} of {access.nbytes} bytes"


def describe_fault(port: MemoryPort, w: Waves, access: Access, bad: NDArray[np.bool_]) -> None:
    """Log lanes whose access lies outside of every allocation, of the LDS or of the lane's scratch."""
    if access.space is not Space.GLOBAL:
        size, address = port.spaces[access.space].size, _first(access, bad)
        message = f"{_what(access)} at byte {address:#x}, outside of the {size} bytes there are"
        port.log.add("memcheck", message, w, access.inst, bad)
        return
    space = port.spaces[Space.GLOBAL].space
    address = _first(access, bad)
    near = space.nearest(address)
    if near is None:
        port.log.add("memcheck", f"{_what(access)} at {address:#x}: no memory is registered", w, access.inst, bad)
        return
    message = _where(access, near, address)
    port.log.add("memcheck", message, w, access.inst, bad, near.name or None, near.index_of(address))


def _where(access: Access, near: Allocation, address: int) -> str:
    name = near.name or f"the {near.size}-byte allocation at {near.base:#x}"
    if near.freed and near.base <= address < near.end:
        return f"use after free: {_what(access)} {address - near.base} bytes into {name}, released before"
    if address >= near.end:
        where = f"{address - near.end} bytes past the end of"
    elif address < near.base:
        where = f"{near.base - address} bytes before"
    else:
        where = f"running {address + access.nbytes - near.end} bytes over the end of"
    freed = " (released before)" if near.freed else ""
    return f"{_what(access)} {where} {name} ({near.size} bytes){freed}"


def describe_misalignment(port: MemoryPort, w: Waves, access: Access, bad: NDArray[np.bool_], natural: int) -> None:
    """Log LDS accesses and atomics whose address is no multiple of their size."""
    address = _first(access, bad)
    name: str | None = None
    index: Any = None
    if access.space is Space.GLOBAL:
        holder = port.spaces[Space.GLOBAL].space.find(address)
        if holder is not None:
            name, index = holder.name or None, holder.index_of(address)
    message = f"{_what(access)} at {address:#x}, which is no multiple of {natural}"
    port.log.add("alignment", message, w, access.inst, bad, name, index)
