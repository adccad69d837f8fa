"""GLOBAL loads and stores."""

from __future__ import annotations

from typing import Any

from .entry import define


def _moved(*_: Any) -> Any:
    raise AssertionError("memory instructions are executed by their binder")


_LOADS = (
    "ubyte sbyte ushort sshort dword dwordx2 dwordx3 dwordx4 ubyte_d16 ubyte_d16_hi sbyte_d16 sbyte_d16_hi "
    "short_d16 short_d16_hi"
).split()
_STORES = "byte short dword dwordx2 dwordx3 dwordx4 byte_d16_hi short_d16_hi".split()
for _s in _LOADS:
    define(f"global_load_{_s}", "global", "", "", _moved, kind="load", format=_s)
for _s in _STORES:
    define(f"global_store_{_s}", "global", "", "", _moved, kind="store", format=_s)
