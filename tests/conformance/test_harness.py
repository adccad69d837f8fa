"""The harness itself: inputs arrive, untouched registers stay, inactive lanes keep their contents."""

from __future__ import annotations

import numpy as np
import pytest

from .harness import ARCHS, run


@pytest.mark.parametrize("arch", ARCHS)
def test_move_respects_exec(arch: str) -> None:
    state = run("v_mov_b32_e32 v1, v2", arch=arch, v={1: 7, 2: range(64)}, exec_=0xF0)
    expected = np.full(64, 7)
    expected[4:8] = range(4, 8)
    assert state.v[1].tolist() == expected.tolist()
    assert state.v[2].tolist() == list(range(64))
    assert state.exec_ == 0xF0


@pytest.mark.parametrize("arch", ARCHS)
def test_scalar_inputs_arrive(arch: str) -> None:
    state = run("s_mov_b64 s[4:5], s[2:3]", arch=arch, s={2: 0xFFFFFFFF, 3: 5}, scc=True, vcc=1 << 63)
    assert state.s64(4) == 0x5FFFFFFFF
    assert state.scc
    assert state.vcc == 1 << 63
