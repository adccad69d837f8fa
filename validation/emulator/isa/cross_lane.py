"""Vector instructions that move data between lanes or between vector and scalar registers, and those without effect."""

from __future__ import annotations

from typing import Any

from .entry import GFX950, define


def _moved(*_: Any) -> Any:
    raise AssertionError("cross-lane instructions are executed by their binder")


define("v_readfirstlane_b32", "readlane", "u32", "u32", _moved, first=True)
define("v_readlane_b32", "readlane", "u32", "u32 u32", _moved)
define("v_writelane_b32", "writelane", "u32", "u32 u32", _moved)
define("v_swap_b32", "swap", "u32 u32", "", _moved)
define("v_permlane16_swap_b32", "permlane_swap", "u32 u32", "", _moved, GFX950, half=16)
define("v_permlane32_swap_b32", "permlane_swap", "u32 u32", "", _moved, GFX950, half=32)
define("v_nop", "no_effect", "", "", _moved)
#: Clears the exception flags of the wave, which nothing here reads.
define("v_clrexcp", "no_effect", "", "", _moved)
