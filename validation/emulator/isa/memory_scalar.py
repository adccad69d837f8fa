"""SMEM: scalar loads."""

from __future__ import annotations

from typing import Any

from .entry import define


def _moved(*_: Any) -> Any:
    raise AssertionError("memory instructions are executed by their binder")


for _n in (1, 2, 4, 8, 16):
    _suffix = "dword" if _n == 1 else f"dwordx{_n}"
    define(f"s_load_{_suffix}", "smem", "", "", _moved, dwords=_n)
    define(f"s_buffer_load_{_suffix}", "smem", "", "", _moved, dwords=_n, buffer=True)
