"""A write-back releases what the other waves of its workgroup had stored before; without one, they must have waited."""

from __future__ import annotations

import pytest
import torch

from tests.emulator.race.pair import ONE
from tests.emulator.race.probe import Buffers, text
from validation.emulator import launch

ARCHS = ("gfx942", "gfx950")
SCHEDULES = ("lockstep", "in-order", "reversed", "random:1", "random:2")

#: Workgroup 0 stores with both waves, wave 0 signals; workgroup 1 waits for that and copies.
_BODY = f"""
v_mov_b32_e32 v6, 1
s_cmp_eq_u32 s10, 0
s_cbranch_scc0 reader
{{store}} v3, v0, s[4:5] {{scope}}
s_barrier
s_cmp_eq_u32 s11, 0
s_cbranch_scc0 later
{{release}}
{ONE}
global_atomic_add v4, v6, s[6:7]
s_branch done
reader:
global_load_dword v7, v4, s[6:7] sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s14, v7
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 reader
buffer_inv sc1
global_load_dword v8, v3, s[4:5] {{scope}}
s_waitcnt vmcnt(0)
global_store_dword v3, v8, s[8:9]
later:
s_waitcnt vmcnt(0)
done:
s_nop 0"""


def _out(arch: str, schedule: str, memory: str, release: str, scope: str) -> torch.Tensor:
    body = _BODY.format(store="global_store_dword", scope=scope, release=release)
    buffers = Buffers.make()
    launch(
        text(body, arch), "probe", (2,), (128,), buffers.args, space=buffers.space, schedule=schedule,
        completion="latest", memory=memory,
    )  # fmt: skip
    return buffers.out[:128]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("memory", ["flat", "weak"])
@pytest.mark.parametrize("scope", ["", "sc1"])
def test_a_write_back_takes_the_stores_of_the_workgroup_along(
    scope: str, memory: str, schedule: str, arch: str
) -> None:
    out = _out(arch, schedule, memory, "buffer_wbl2 sc1\ns_waitcnt vmcnt(0)", scope)
    assert (out == torch.arange(128)).all()


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("release", ["s_waitcnt vmcnt(0)", "buffer_wbl2 sc0\ns_waitcnt vmcnt(0)"])
def test_without_it_they_are_late(release: str, arch: str) -> None:
    schedules = [*(f"held:{i}" for i in range(1, 7)), *SCHEDULES]
    assert any((_out(arch, schedule, "weak", release, "sc1")[64:] == 0).any() for schedule in schedules)
