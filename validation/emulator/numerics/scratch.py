"""Arrays that serve again and again for intermediate results: fresh pages cost more than the arithmetic on them."""

from __future__ import annotations

import threading
from math import prod
from typing import Any

import numpy as np


class _Kept(threading.local):
    def __init__(self) -> None:
        self.arrays: dict[tuple[str, Any], Any] = {}


_KEPT = _Kept()


def scratch(name: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """An array of this thread with undefined contents, valid until the same name and dtype are asked for again.

    Whoever takes one neither returns it nor calls, while using it, what might take the same.
    """
    count = prod(shape)
    kept = _KEPT.arrays.get((name, dtype))
    if kept is None or len(kept) < count:
        kept = _KEPT.arrays[name, dtype] = np.empty(count, dtype)
    return kept[:count].reshape(shape)
