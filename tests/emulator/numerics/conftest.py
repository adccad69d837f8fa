"""The numerics run silenced, as a launch runs them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _silenced() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield
