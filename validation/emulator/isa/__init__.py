"""The instruction set: importing this package fills :data:`TABLE` from every family module in it."""

import importlib
import pkgutil

from .entry import BOTH, GFX942, GFX950, TABLE, Entry, mnemonics

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["BOTH", "GFX942", "GFX950", "TABLE", "Entry", "mnemonics"]
