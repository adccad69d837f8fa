"""synccheck: barriers that the waves of a workgroup do not reach together.

The hardware counts arrivals, whatever the instruction, and a wave that has ended counts as arrived (CDNA3 ISA,
S_BARRIER). So waves at different barriers go on, and out of step; a wave that ended is noted only.
"""

from __future__ import annotations

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
            self._divergence(chunk, mine)
            ended = np.flatnonzero((w.ident.group == group) & (chunk.state == DONE))
            if len(ended):
                self._ended(chunk, int(mine[0]), [int(w.ident.wave[i]) for i in ended])

    def _barrier(self, chunk: Chunk, row: int) -> Instruction:
        return self.program.instructions[int(chunk.pc[row]) - 1]

    def _divergence(self, chunk: Chunk, waves: Any) -> None:
        places = chunk.pc[waves]
        if (places == places[0]).all():
            return
        w, first = chunk.w, int(waves[np.argmin(places)])
        at: dict[int, list[int]] = {}
        for row in waves:
            at.setdefault(int(chunk.pc[row]), []).append(int(w.ident.wave[row]))
        where = "; ".join(
            f"wave {', '.join(map(str, at[pc]))} at the one of {self.program.instructions[pc - 1].place}"
            for pc in sorted(at)
        )
        message = f"waves of a workgroup meet at different barriers: {where}"
        w.port.log.add_at("synccheck", message, w, self._barrier(chunk, first), first, 0)

    def _ended(self, chunk: Chunk, row: int, ended: list[int]) -> None:
        message = f"wave {', '.join(map(str, ended))} had ended when the others met at this barrier"
        chunk.w.port.log.add_at("synccheck", message, chunk.w, self._barrier(chunk, row), row, 0, note=True)
