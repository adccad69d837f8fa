"""Counts of lines do not depend on where the host put a tensor: a device's allocations start at a line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from validation.emulator import AddressSpace, launch
from validation.emulator.memory.space import Allocation

from .texts import ARCHS, text

COPY = ["s_waitcnt lgkmcnt(0)", "global_load_dwordx2 v[4:5], v1, s[4:5]", "s_waitcnt vmcnt(0)"]
COPY += ["global_store_dword v1, v4, s[4:5] offset:256"]


def counts(arch: str, shift: int) -> dict[str, Any]:
    """Of one wave over 1 KiB that starts ``shift`` bytes after a page."""
    space = AddressSpace()
    area = np.zeros(1 << 14, np.uint8)
    start = -area.ctypes.data % 4096 + shift
    x = torch.from_numpy(area)[start : start + 1024].view(torch.float32)
    space.add(Allocation(x.data_ptr(), 1024, "x", owner=area))
    result = launch(text(COPY, arch), None, (1,), (64,), [x], space=space, checks=("memcheck", "counts"))
    assert result.findings == ()
    return result.counts


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("shift", [4, 64, 100, 128, 252, 1028])
def test_a_shifted_tensor_counts_the_same(arch: str, shift: int) -> None:
    expected = counts(arch, 0)
    # bytes 0 to 259 are read: lines 0, 1 and 2; bytes 256 to 511 are written: lines 2 and 3
    lines = expected["arguments"]["x"]
    assert (lines["lines_read"], lines["lines_written"]) == (3, 2)
    assert counts(arch, shift) == expected
