"""The instruction table: one :class:`Entry` per mnemonic holds its syntax, its semantics and its memory effect.

Families of instructions (``isa/*.py``) add their entries at import; the binders in ``machine/`` turn a parsed
instruction plus its entry into a function over the wave state. A mnemonic without an entry cannot be executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ..program.program import SUPPORTED_ARCHS

BOTH = SUPPORTED_ARCHS
GFX942 = ("gfx942",)
GFX950 = ("gfx950",)


@dataclass(frozen=True, slots=True)
class Entry:
    """Syntax and semantics of one mnemonic.

    form: which binder executes it (``salu``, ``valu``, ``vop3p``, ``mfma``, ``mem``, ``control``, ...).
    dst/src: operand types in the order in which the text gives them; the type names of ``machine/types.py``, plus
        implicit operands that the text does not show: ``scc``, ``vcc``, ``exec``, ``m0``.
    fn: pure function of the source values that returns the destination value (a tuple where there are several).
    options: what a form needs beyond that; each form documents its own.
    """

    mnemonic: str
    form: str
    dst: tuple[str, ...]
    src: tuple[str, ...]
    fn: Callable[..., Any]
    archs: tuple[str, ...] = BOTH
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


#: (arch, mnemonic) -> entry.
TABLE: dict[tuple[str, str], Entry] = {}


def define(
    mnemonic: str, form: str, dst: str, src: str, fn: Callable[..., Any], archs: Iterable[str] = BOTH, **options: Any
) -> Entry:
    """Add one entry; ``dst`` and ``src`` are space-separated type names. Defining a mnemonic twice is an error."""
    entry = Entry(mnemonic, form, tuple(dst.split()), tuple(src.split()), fn, tuple(archs), MappingProxyType(options))
    for arch in entry.archs:
        if (arch, mnemonic) in TABLE:
            raise ValueError(f"{mnemonic} is defined twice for {arch}")
        TABLE[arch, mnemonic] = entry
    return entry


def mnemonics(arch: str) -> list[str]:
    """Every mnemonic that can be executed for that architecture, sorted."""
    return sorted(m for a, m in TABLE if a == arch)
