"""Traffic of a launch: requested bytes, 128-byte lines (unique, and summed over workgroups), LDS work."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..memory.access import Access, Kind, Space
from ..memory.grids import Grid, Lanes
from ..memory.space import Allocation
from .banks import BankModel
from .lines import LINE_BYTES, LINE_SHIFT, LineSet, line_count

if TYPE_CHECKING:
    from ..machine.waves import Waves
    from ..memory.hierarchy import MemoryPort

#: Directions that an access counts for.
_DIRECTIONS = {Kind.LOAD: ("read",), Kind.STORE: ("written",), Kind.ATOMIC: ("read", "written")}


@lru_cache(maxsize=1024)
def _touched(lanes: Lanes, within: int, nbytes: int) -> NDArray[np.int64]:
    """Lines of one wave's lanes, counted from that in which its first lane begins, ``within`` bytes into it."""
    first = lanes.offsets + within
    return np.unique(np.concatenate([first, first + (nbytes - 1)]) >> LINE_SHIFT)


@dataclass(slots=True)
class _Traffic:
    """Numbers of one allocation. ``unique``: direction -> lines of the launch."""

    allocation: Allocation
    lines: int
    totals: Counter[str] = field(default_factory=Counter)
    unique: dict[str, LineSet] = field(default_factory=dict)


class TrafficCounter:
    """Counts exactly what was executed.

    ``counts()`` gives, over the launch: ``<space>_bytes_read`` and ``_written`` (what instructions asked for; an atomic
    counts in both), ``lines_read`` and ``lines_written`` (different 128-byte lines of global memory),
    ``lines_read_by_workgroups`` and ``lines_written_by_workgroups`` (different lines of each workgroup, summed),
    ``lds_cycles`` and ``lds_conflict_cycles``, and ``arguments``: the byte and line numbers by allocation name.
    """

    def __init__(self, arch: str) -> None:
        self.banks = BankModel(arch)
        self.totals: Counter[str] = Counter()
        self._traffic: dict[int, _Traffic] = {}

    def observe(self, port: MemoryPort, w: Waves, access: Access) -> None:
        lanes = access.mask.size if access.everywhere else int(np.count_nonzero(access.mask))
        if not lanes:
            return
        for direction in _DIRECTIONS[access.kind]:
            self.totals[f"{access.space.value}_bytes_{direction}"] += lanes * access.nbytes
        if access.space is Space.GLOBAL:
            self._global(port, w, access)
        elif access.space is Space.LDS and access.address.shape[1] == 64:
            is_read = access.kind is Kind.LOAD
            cycles, extra = self.banks.cycles(access.address, access.mask, access.nbytes, is_read)
            self.totals["lds_cycles"] += cycles
            self.totals["lds_conflict_cycles"] += extra

    def _global(self, port: MemoryPort, w: Waves, access: Access) -> None:
        space = port.spaces[Space.GLOBAL].space
        groups = w.ident.group if w.sel is None else w.ident.group[w.sel]
        if access.grid is not None and access.everywhere:
            holder, (_, end) = space.find(access.grid.low), access.bounds()
            if holder is not None and end <= holder.end and self._strided(w, access, access.grid, holder, groups):
                return
        address = access.address[access.mask]
        group = np.broadcast_to(groups[:, None], access.mask.shape)[access.mask]
        low, high = int(address.min()), int(address.max())
        holder = space.find(low)
        if holder is not None and high < holder.end:
            self._lines(w, access, holder, address, group)
            return
        for allocation in space.allocations:
            if allocation.end > low and allocation.base <= high:
                here = (address >= allocation.base) & (address < allocation.end)
                if here.any():
                    self._lines(w, access, allocation, address[here], group[here])

    def _strided(self, w: Waves, access: Access, grid: Grid, holder: Allocation, groups: NDArray[np.int64]) -> bool:
        """Count an access of all lanes by what the waves have in common: where their lanes begin within a line. False
        when they have not."""
        start = grid.rows - holder.base
        within = start & (LINE_BYTES - 1)
        if (within != within[0]).any():
            return False
        touched = _touched(grid.lanes, int(within[0]), access.nbytes)
        line = ((start >> LINE_SHIFT)[:, None] + touched).reshape(-1)
        self._count(w, access, holder, access.mask.size, line, np.repeat(groups, len(touched)))
        return True

    def _lines(
        self, w: Waves, access: Access, holder: Allocation, address: NDArray[np.int64], group: NDArray[np.int64]
    ) -> None:
        # from the allocation's first byte: a device's allocations start at a line, whatever the host's do
        offset = address - holder.base
        first = offset >> LINE_SHIFT
        last = np.minimum((offset + access.nbytes - 1) >> LINE_SHIFT, line_count(holder) - 1)
        if (first != last).any():
            # an access is shorter than a line: it straddles two at most
            first, group = np.concatenate([first, last]), np.concatenate([group, group])
        self._count(w, access, holder, len(address), first, group)

    def _count(
        self, w: Waves, access: Access, holder: Allocation, lanes: int, line: NDArray[np.int64],
        group: NDArray[np.int64],
    ) -> None:  # fmt: skip
        """``line``: those that the workgroups ``group`` touch, repetitions allowed."""
        traffic = self._traffic.get(id(holder))
        if traffic is None:
            traffic = self._traffic[id(holder)] = _Traffic(holder, line_count(holder))
        for direction in _DIRECTIONS[access.kind]:
            traffic.totals[f"bytes_{direction}"] += lanes * access.nbytes
            if direction not in traffic.unique:
                traffic.unique[direction] = LineSet(1, traffic.lines)
            own: dict[Any, LineSet] = w.extra.setdefault("lines", {})
            key = (id(holder), direction)
            if key not in own:
                own[key] = LineSet(int(w.ident.group.max()) + 1, traffic.lines)
            fresh = own[key].add(group * traffic.lines + line)
            if fresh:
                traffic.totals[f"lines_{direction}_by_workgroups"] += fresh
                traffic.totals[f"lines_{direction}"] += traffic.unique[direction].add(line)

    def counts(self) -> dict[str, Any]:
        arguments: dict[str, Counter[str]] = {}
        lines: Counter[str] = Counter()
        for traffic in self._traffic.values():
            name = traffic.allocation.name or "without a name"
            arguments.setdefault(name, Counter()).update(traffic.totals)
            lines.update({k: v for k, v in traffic.totals.items() if k.startswith("lines_")})
        return {**self.totals, **lines, "arguments": {name: dict(c) for name, c in arguments.items()}}
