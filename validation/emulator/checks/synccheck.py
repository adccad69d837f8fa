"""synccheck: barriers that the waves of a workgroup do not reach together.

The hardware counts arrivals, whatever the instruction, and a wave that has ended counts as arrived (CDNA3 ISA,
S_BARRIER). So waves at different barriers go on, and out of step. Where every wave has passed as many barriers when the
workgroup ends, that is how kernels alternate between two halves of their waves on purpose (Triton's block ping-pong
puts half of them one barrier ahead), and only noted; racecheck knows what such barriers order. Where a wave ends while
others still meet at barriers, some waves have passed one that was not meant for them: a finding. A wave that ended
without anything of that is noted only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.engine import DONE
from ..program import Program
from ..program.program import Instruction

if TYPE_CHECKING:
    from ..machine.engine import Chunk
    from ..machine.waves import Waves
    from ..memory.access import Access
    from ..memory.hierarchy import MemoryPort


@dataclass(slots=True)
class Meeting:
    """Waves of one workgroup at different barriers. inst: the first of these; row: a wave there. times: so far."""

    message: str
    inst: Instruction
    row: int
    times: int = 1


class SyncCheck:
    """Looks at each workgroup whose barrier is released."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def observe(self, port: MemoryPort, w: Waves, access: Access) -> None:
        """Accesses do not matter here."""

    def released(self, chunk: Chunk, rows: Any) -> None:
        if rows is None:
            return  # all waves of the chunk stepped over one barrier
        w = chunk.w
        arrived = rows & (chunk.state != DONE)
        for group in np.unique(w.ident.group[arrived]):
            mine = np.flatnonzero(arrived & (w.ident.group == group))
            self._divergence(chunk, int(group), mine)
            ended = np.flatnonzero((w.ident.group == group) & (chunk.state == DONE))
            if len(ended):
                self._ended(chunk, int(mine[0]), [int(w.ident.wave[i]) for i in ended])
                self._tell(w, int(group), note=False)

    def ended(self, w: Waves) -> None:
        """The waves that step have ended."""
        meetings = self._meetings(w)
        if not meetings:
            return
        over = w.extra.setdefault("ended waves", np.zeros(w.count, bool))
        over[slice(None) if w.sel is None else w.sel] = True
        for group in [g for g in meetings if over[w.ident.group == g].all()]:
            self._tell(w, group, note=True)

    @staticmethod
    def _meetings(w: Waves) -> dict[int, dict[int, Meeting]]:
        """Of each workgroup of the chunk, by instruction, those that nothing is told of yet."""
        found: dict[int, dict[int, Meeting]] = w.extra.setdefault("divergent barriers", {})
        return found

    def _tell(self, w: Waves, group: int, note: bool) -> None:
        for m in self._meetings(w).pop(group, {}).values():
            w.port.log.add_at("synccheck", m.message, w, m.inst, m.row, 0, m.times, note=note)

    def _barrier(self, chunk: Chunk, row: int) -> Instruction:
        return self.program.instructions[int(chunk.pc[row]) - 1]

    def _divergence(self, chunk: Chunk, group: int, waves: Any) -> None:
        places = chunk.pc[waves]
        if (places == places[0]).all():
            return
        w, first = chunk.w, int(waves[np.argmin(places)])
        inst, known = self._barrier(chunk, first), self._meetings(w).setdefault(group, {})
        if inst.index in known:
            known[inst.index].times += 1
            return
        at: dict[int, list[int]] = {}
        for row in waves:
            at.setdefault(int(chunk.pc[row]), []).append(int(w.ident.wave[row]))
        where = "; ".join(
            f"wave {', '.join(map(str, at[pc]))} at the one of {self.program.instructions[pc - 1].place}"
            for pc in sorted(at)
        )
        message = f"waves of a workgroup meet at different barriers: {where}"
        known[inst.index] = Meeting(message, inst, first)

    def _ended(self, chunk: Chunk, row: int, ended: list[int]) -> None:
        message = f"wave {', '.join(map(str, ended))} had ended when the others met at this barrier"
        chunk.w.port.log.add_at("synccheck", message, chunk.w, self._barrier(chunk, row), row, 0, note=True)
