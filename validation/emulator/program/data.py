"""Constant data of a code object: what the data directives of an allocated section lay down."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

_NUMBERS = {
    ".byte": "B",
    ".short": "H",
    ".2byte": "H",
    ".long": "I",
    ".4byte": "I",
    ".int": "I",
    ".quad": "Q",
    ".8byte": "Q",
}
DATA_DIRECTIVES = frozenset([*_NUMBERS, ".zero", ".fill", ".ascii", ".asciz", ".p2align", ".space", ".skip"])


@dataclass(slots=True)
class DataSection:
    """Bytes, which symbols stand at which offset, and ``fixups``: (offset, bytes, symbol whose address goes there)."""

    content: bytearray = field(default_factory=bytearray)
    symbols: dict[str, int] = field(default_factory=dict)
    fixups: list[tuple[int, int, str]] = field(default_factory=list)

    def append(self, word: str, rest: str) -> None:
        """One data directive and its operands."""
        content = self.content
        if word == ".p2align":
            content.extend(bytes(-len(content) % (1 << int(rest.split(",")[0]))))
        elif word in (".zero", ".space", ".skip"):
            content.extend(bytes(int(rest.split(",")[0], 0)))
        elif word == ".fill":
            count, size, value = ([int(p, 0) for p in rest.split(",")] + [1, 0])[:3]
            content.extend((value & ((1 << (8 * size)) - 1)).to_bytes(size, "little") * count)
        elif word in (".ascii", ".asciz"):
            content.extend(_unescape(rest.strip()) + (b"\0" if word == ".asciz" else b""))
        else:
            size = struct.calcsize(_NUMBERS[word])
            for item in rest.split(","):
                try:
                    value = int(item.strip(), 0)
                except ValueError:
                    self.fixups.append((len(content), size, item.strip()))
                    value = 0
                content.extend((value & ((1 << (8 * size)) - 1)).to_bytes(size, "little"))


def _unescape(text: str) -> bytes:
    body = text[1:-1] if text.startswith('"') else text
    return body.encode("latin-1", "backslashreplace").decode("unicode_escape").encode("latin-1")
