"""What may have been meant by a name that there is not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def hint(given: str, known: Iterable[str], most: int = 1) -> str:
    """``; did you mean ...?`` with the nearest of ``known``, to be put behind a message; empty where none is near."""
    near = difflib.get_close_matches(given, list(known), most)
    return f"; did you mean {' or '.join(near)}?" if near else ""
