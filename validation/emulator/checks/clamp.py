"""Accesses that a buffer descriptor clamps: loads that silently give 0, stores that silently vanish."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from ..memory.access import Access, Space

if TYPE_CHECKING:
    from ..machine.waves import Waves
    from ..memory.hierarchy import MemoryPort
    from ..program.program import Instruction


class ClampCheck:
    """A clamped lane is a finding unless its source place is declared: ``file.py`` or ``file.py:12``, with or without
    leading directories."""

    def __init__(self, declared: Collection[str] = ()) -> None:
        self.declared = [self._place(text) for text in declared]
        self._known: dict[int, bool] = {}

    @staticmethod
    def _place(text: str) -> tuple[tuple[str, ...], int | None]:
        path, colon, line = text.rpartition(":")
        if colon and line.isdigit():
            return PurePath(path).parts, int(line)
        return PurePath(text).parts, None

    def is_declared(self, inst: Instruction) -> bool:
        if inst.index not in self._known:
            self._known[inst.index] = inst.source is not None and any(
                PurePath(inst.source[0]).parts[-len(parts) :] == parts and line in (None, inst.source[1])
                for parts, line in self.declared
            )
        return self._known[inst.index]

    def observe(self, port: MemoryPort, w: Waves, access: Access) -> None:
        if access.clamped is None or not access.clamped.any() or self.is_declared(access.inst):
            return
        row, lane = (int(x[0]) for x in np.nonzero(access.clamped))
        address = int(access.address[row, lane])
        near = port.spaces[Space.GLOBAL].space.nearest(address)
        effect = "gives 0" if access.kind.value == "load" else "is dropped"
        message = f"the buffer descriptor clamps a {access.kind.value} of {access.nbytes} bytes, which {effect}"
        name, index = (near.name or None, near.index_of(address)) if near is not None else (None, None)
        port.log.add("clamp", message, w, access.inst, access.clamped, name, index)
