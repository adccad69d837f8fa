"""Findings: what a checker saw the kernel do, with every coordinate a reader needs to go there."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .program.program import Instruction

if TYPE_CHECKING:
    from .machine.waves import Waves


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect at one instruction; ``occurrences`` counts the lanes or waves that showed it."""

    check: str
    message: str
    kernel: str
    workgroup: tuple[int, int, int]
    wave: int
    lane: int
    instruction: str
    asm_line: int
    source_file: str | None
    source_line: int | None
    argument: str | None = None
    index: tuple[int, ...] | None = None
    occurrences: int = 1
    #: the helper that emitted the instruction, as ``file:line``; source_file and source_line are the kernel's own
    via: str | None = None

    def __str__(self) -> str:
        place = f"{self.source_file}:{self.source_line}" if self.source_file else f"asm line {self.asm_line}"
        place += f" (in {self.via})" if self.via else ""
        what = f" [{self.argument}{list(self.index) if self.index else ''}]" if self.argument else ""
        who = f"{self.kernel} workgroup {self.workgroup} wave {self.wave} lane {self.lane}"
        more = f" (x{self.occurrences})" if self.occurrences > 1 else ""
        return f"{self.check}: {self.message}{what} at {place}: {self.instruction} ({who}){more}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class FindingLog:
    """Collects findings, one for each (check, instruction, argument); the first occurrence gives the coordinates.

    A note is the same, but no defect: it is kept apart.
    """

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self._found: dict[tuple[str, int, str | None], Finding] = {}
        self._notes: dict[tuple[str, int, str | None], Finding] = {}

    def add(
        self,
        check: str,
        message: str,
        w: Waves,
        inst: Instruction,
        where: NDArray[np.bool_],
        argument: str | None = None,
        index: tuple[int, ...] | None = None,
    ) -> None:
        """``where``: bool [n, 64] (or [n, 1]) over the selected waves; must hold at least one True."""
        row, lane = (int(x[0]) for x in np.nonzero(where))
        wave = row if w.sel is None else int(w.sel[row])
        self.add_at(check, message, w, inst, wave, lane, int(where.sum()), argument, index)

    def add_at(
        self,
        check: str,
        message: str,
        w: Waves,
        inst: Instruction,
        wave: int,
        lane: int,
        count: int = 1,
        argument: str | None = None,
        index: tuple[int, ...] | None = None,
        note: bool = False,
    ) -> None:
        """``wave``: row of the chunk."""
        key, kept = (check, inst.index, argument), self._notes if note else self._found
        if key in kept:
            kept[key] = replace(kept[key], occurrences=kept[key].occurrences + count)
            return
        x, y, z = (int(i) for i in w.ident.workgroup[wave])
        source = inst.source or (None, None)
        kept[key] = Finding(
            check, message, self.kernel, (x, y, z), int(w.ident.wave[wave]), lane, inst.text, inst.line_number,
            source[0], source[1], argument, index, count, inst.via,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self._found)

    def all(self) -> tuple[Finding, ...]:
        return tuple(self._found.values())

    def notes(self) -> tuple[Finding, ...]:
        return tuple(self._notes.values())
