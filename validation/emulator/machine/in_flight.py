"""Memory operations between issue and retirement (being built)."""

from __future__ import annotations

from typing import Any


def instrument(options: Any, checks: Any) -> Any:
    return None


def attach(w: Any, options: Any, checks: Any, program: Any) -> None:
    return None
