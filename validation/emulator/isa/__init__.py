"""The instruction set: importing this package fills :data:`TABLE` from the family modules."""

from . import control, memory_scalar, memory_vector, salu, valu
from .entry import BOTH, GFX942, GFX950, TABLE, Entry, mnemonics

__all__ = ["BOTH", "GFX942", "GFX950", "TABLE", "Entry", "mnemonics"]

del control, memory_scalar, memory_vector, salu, valu
