"""Kernels that poll end under every schedule, also those that write in each turn without any effect on the others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.emulator.race.probe import Buffers, text
from validation.emulator import DeadlockError, launch

ARCHS = ("gfx942", "gfx950")
SCHEDULES = ("lockstep", "in-order", "reversed", "random:1", "systematic:1", "alternating")
pytestmark = pytest.mark.usefixtures("soon")


#: The part ``{last}`` (of the workgroups or of the waves, which ``{who}`` counts) raises a flag for which the others
#: poll; ``{beat}``: what these do in each turn beside that.
_FLAG = """
v_mov_b32_e32 v6, 1
s_cmp_eq_u32 {who}, {last}
s_cbranch_scc1 setter
poll:
{beat}
global_load_dword v8, v4, s[6:7] sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s16, v8
s_cmp_eq_u32 s16, 1
s_cbranch_scc0 poll
s_endpgm
setter:
global_store_dword v4, v6, s[6:7] sc1"""
BEATS = {
    "counts by an atomic": "global_atomic_add v4, v6, s[6:7] offset:64",
    "stores a count": "v_add_u32_e32 v10, 1, v10\nglobal_store_dword v4, v10, s[8:9] offset:64 sc1",
}
#: A semaphore of ``{free}`` places: who finds none gives back what it has taken, and tries again. Who has one waits for
#: the data of workgroup 2, which is the last to come.
_SEMAPHORE = """
v_mov_b32_e32 v6, 1
s_cmp_eq_u32 s10, 2
s_cbranch_scc0 take
{set}
s_endpgm
take:
global_atomic_add v8, v4, v6, s[6:7] sc0
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s16, v8
s_cmp_lt_u32 s16, {free}
s_cbranch_scc1 taken
global_atomic_sub v4, v6, s[6:7]
s_branch take
taken:
global_load_dword v8, v4, s[6:7] offset:64 sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s16, v8
s_cmp_eq_u32 s16, 1
s_cbranch_scc0 taken
global_atomic_sub v4, v6, s[6:7]
global_atomic_add v4, v6, s[8:9]"""


def _run(body: str, arch: str, schedule: str, groups: int, lanes: int, **options: Any) -> Buffers:
    buffers = Buffers.make()
    launch(
        text(body, arch), "probe", (groups,), (lanes,), buffers.args, space=buffers.space, schedule=schedule, **options
    )
    return buffers


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("beat", "arch"), list(zip(BEATS, ARCHS, strict=True)))
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize(("who", "groups", "lanes"), [("s10", 2, 64), ("s11", 1, 128)])
def test_who_polls_and_writes_does_not_keep_others_from_running(
    who: str, groups: int, lanes: int, last: int, beat: str, arch: str, schedule: str
) -> None:
    buffers = _run(_FLAG.format(who=who, last=last, beat=BEATS[beat]), arch, schedule, groups, lanes)
    assert int(buffers.flags[0]) == 1


@pytest.mark.parametrize("arch", ARCHS)
def test_late_operations_and_stale_caches(arch: str) -> None:
    body = _FLAG.format(who="s10", last=0, beat=BEATS["counts by an atomic"])
    assert int(_run(body, arch, "reversed", 2, 64, completion="latest", memory="weak").flags[0]) == 1


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("schedule", SCHEDULES[:4])
def test_a_semaphore_that_is_tried_again(schedule: str, arch: str) -> None:
    raised = "global_store_dword v4, v6, s[6:7] offset:64 sc1"
    buffers = _run(_SEMAPHORE.format(set=raised, free=1), arch, schedule, 3, 64)
    # all 64 lanes of both workgroups
    assert int(buffers.out[0]) == 128


@pytest.mark.parametrize("arch", ARCHS)
def test_one_that_nobody_can_take_is_a_livelock(arch: str) -> None:
    with pytest.raises(DeadlockError, match=r"livelock(.|\n)*polls flags"):
        _run(_SEMAPHORE.format(set="s_nop 0", free=1), arch, "in-order", 3, 64, branch_limit=1 << 14)
