"""Loops that nothing can end are reported soon, also when they count their turns; loops that work run on."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.emulator.race.probe import Buffers, text
from validation.emulator import DeadlockError, LaunchResult, launch
from validation.emulator.machine import engine

ARCHS = ("gfx942", "gfx950")
SMALL = 1 << 20
DEAD = "livelock: for 256 turns every wave has polled"
#: As shipped.
WATCH_AFTER = engine.WATCH_AFTER
pytestmark = pytest.mark.usefixtures("soon")


def run(
    body: str, arch: str, schedule: str = "lockstep", groups: int = 1, lanes: int = 64, **options: Any
) -> tuple[Buffers, LaunchResult]:
    buffers = Buffers.make()
    result = launch(
        text(body, arch), "probe", (groups,), (lanes,), buffers.args, space=buffers.space, schedule=schedule,
        **options,
    )  # fmt: skip
    return buffers, result


#: Polls what nobody writes, and counts. ``{also}``: what else a turn does.
POLL = """
v_mov_b32_e32 v5, 1
s_mov_b32 s14, 0
again:
s_add_u32 s14, s14, 1
{also}
{poll}
s_waitcnt vmcnt(0) lgkmcnt(0)
v_readfirstlane_b32 s15, v6
s_cmp_eq_u32 s15, 2
s_cbranch_scc0 again"""
LOAD = "global_load_dword v6, v4, s[6:7] sc1"
POLLS = {
    "a load": (LOAD, "s_nop 0", "polls flags[0] = 0x0"),
    "a lock that is taken": ("global_atomic_cmpswap v6, v4, v[4:5], s[6:7] sc0 sc1", "s_nop 0", "polls flags[0] = 0x0"),
    "a load of LDS": ("ds_read_b32 v6, v4", "s_nop 0", "polls lds byte 0x0"),
    "an atomic of LDS that changes nothing": ("ds_or_rtn_b32 v6, v4, v4", "s_nop 0", "polls lds byte 0x0"),
    "beside a store of what is there": (LOAD, "global_store_dword v4, v4, s[6:7] offset:64", "polls flags[0] = 0x0"),
    "beside a store to LDS of what is there": (LOAD, "ds_write_b32 v3, v4 offset:64", "polls flags[0] = 0x0"),
    "with a barrier in each turn": (LOAD, "s_barrier", "polls flags[0] = 0x0"),
    "with a delay in each turn": (
        LOAD,
        "s_movk_i32 s16, 3\ndelay:\ns_sub_u32 s16, s16, 1\ns_cmp_eq_u32 s16, 0\ns_cbranch_scc0 delay",
        "polls flags[0] = 0x0",
    ),
}


@pytest.mark.parametrize(("name", "arch"), list(zip(POLLS, itertools.cycle(ARCHS), strict=False)))
def test_a_dead_poll_that_counts(name: str, arch: str) -> None:
    poll, also, says = POLLS[name]
    with pytest.raises(DeadlockError) as caught:
        run(POLL.format(poll=poll, also=also), arch, branch_limit=SMALL)
    assert DEAD in str(caught.value)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("schedule", "memory", "arch"),
    [("in-order", "flat", "gfx942"), ("random:3", "flat", "gfx950"), ("lockstep", "weak", "gfx950")],
)
def test_under_every_schedule_and_memory(schedule: str, memory: str, arch: str) -> None:
    same = "global_store_dword v4, v4, s[6:7] offset:64 sc1"
    body = POLL.format(poll=LOAD, also=same if memory == "weak" else "s_nop 0")
    with pytest.raises(DeadlockError, match=DEAD):
        run(body, arch, schedule, lanes=128 if memory == "flat" else 64, memory=memory, branch_limit=SMALL)


#: Loops that nothing but a counter, a clock or a walk through memory ends, and which read the same places again and
#: again, for 3000 turns. v5 is 4 * lane, v7 is 3000, s14 counts down from there, s[18:19] is the time at the start.
ENDS = {
    "walks a ring in LDS": """v_add_u32_e32 v6, 4, v5
v_and_b32_e32 v6, 0xff, v6
ds_write_b32 v5, v6
again:
ds_read_b32 v5, v5
s_waitcnt lgkmcnt(0)
s_sub_u32 s14, s14, 1
s_cmp_eq_u32 s14, 0
s_cbranch_scc0 again""",
    "reads one word for ever": """again:
global_load_dword v6, v4, s[6:7]
s_sub_u32 s14, s14, 1
s_cmp_eq_u32 s14, 0
s_cbranch_scc0 again""",
    "gives up after so many turns": """again:
global_load_dword v6, v4, s[6:7] sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s15, v6
s_cmp_eq_u32 s15, 2
s_cbranch_scc1 done
s_sub_u32 s14, s14, 1
s_cmp_eq_u32 s14, 0
s_cbranch_scc0 again
done:""",
    "gives up after so long": """again:
global_load_dword v6, v4, s[6:7] sc1
s_memtime s[16:17]
s_waitcnt vmcnt(0) lgkmcnt(0)
v_readfirstlane_b32 s15, v6
s_cmp_eq_u32 s15, 2
s_cbranch_scc1 done
s_sub_u32 s16, s16, s18
s_cmp_lt_u32 s16, 30000
s_cbranch_scc1 again
done:""",
    "lanes give up one by one": """again:
global_load_dword v6, v5, s[6:7] sc1
s_waitcnt vmcnt(0)
v_sub_u32_e32 v7, v7, v6
v_subrev_u32_e32 v7, 1, v7
v_cmp_lt_i32_e32 vcc, v5, v7
s_and_b64 exec, exec, vcc
s_cbranch_execnz again
s_mov_b64 exec, s[20:21]""",
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", ENDS)
def test_a_loop_that_ends_by_itself_is_no_livelock(name: str, arch: str) -> None:
    start = """v_mov_b32_e32 v7, 3000
v_lshlrev_b32_e32 v5, 2, v1
s_movk_i32 s14, 3000
s_memtime s[18:19]
s_waitcnt lgkmcnt(0)
"""
    _, result = run(start + ENDS[name], arch)
    turns = max(result.mnemonics[k] for k in result.mnemonics if k.startswith("s_cbranch"))
    assert turns > 10 * engine.POLLS or name == "gives up after so long"


@pytest.mark.parametrize("arch", ARCHS)
def test_registers_that_decide_nothing_may_change_in_the_same_flags(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counters go through SCC, VCC and the register of the flag, and are dead where the loop starts again."""
    monkeypatch.setattr(engine, "WATCH_AFTER", WATCH_AFTER)
    also = """s_add_u32 s16, s16, 3
s_addc_u32 s17, s17, 0
v_add_co_u32_e32 v6, vcc, v7, v5
v_mov_b32_e32 v7, v6"""
    with pytest.raises(DeadlockError, match=DEAD):
        run(POLL.format(poll=LOAD, also=also), arch)


@pytest.mark.parametrize(("schedule", "arch"), [("lockstep", "gfx942"), ("in-order", "gfx950"), ("random:3", "gfx942")])
def test_a_wave_that_computes_for_long_before_it_sets_the_flag(schedule: str, arch: str) -> None:
    """Meanwhile another workgroup polls and counts, more often than the limit says."""
    setter = """
s_cmp_eq_u32 s10, 0
s_cbranch_scc1 polls
s_movk_i32 s17, 3000
busy:
s_sub_u32 s17, s17, 1
s_cmp_eq_u32 s17, 0
s_cbranch_scc0 busy
v_mov_b32_e32 v5, 2
global_store_dword v4, v5, s[6:7] sc1
s_endpgm
polls:"""
    end = "\nv_mov_b32_e32 v7, s14\nglobal_store_dword v4, v7, s[8:9]"
    buffers, _ = run(setter + POLL.format(poll=LOAD, also="s_nop 0") + end, arch, schedule, 2, 64, branch_limit=SMALL)
    assert int(buffers.flags[0]) == 2
    assert int(buffers.out[0]) > 0


#: 1000 turns of work in each wave. ``{work}`` may use s14, which counts down, and v5 = 4 * (s14 % 4096).
LONG = """
s_movk_i32 s14, 1000
again:
s_and_b32 s15, s14, 4095
s_lshl_b32 s15, s15, 2
v_mov_b32_e32 v5, s15
{work}
s_sub_u32 s14, s14, 1
s_cmp_eq_u32 s14, 0
s_cbranch_scc0 again"""
WORK = {
    "computes": "s_nop 0",
    "reads its arguments": "s_load_dwordx2 s[16:17], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)",
    "adds up in LDS": "v_mov_b32_e32 v6, 1\nds_add_u32 v4, v6\ns_waitcnt lgkmcnt(0)",
}


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize(("schedule", "arch"), [("lockstep", "gfx942"), ("in-order", "gfx950")])
def test_long_loops_that_work_run_to_their_end(work: str, schedule: str, arch: str) -> None:
    """Four waves take 4000 branches together, each of them fewer than the limits."""
    _, result = run(LONG.format(work=WORK[work]), arch, schedule, lanes=256, branch_limit=1200 * 8)
    assert result.mnemonics["s_cbranch_scc0"] == 4 * 1000


@pytest.mark.parametrize(("schedule", "arch"), [("lockstep", "gfx950"), ("in-order", "gfx942")])
def test_branches_of_waves_do_not_add_up(schedule: str, arch: str) -> None:
    run(LONG.format(work="s_nop 0"), arch, schedule, lanes=256, branch_limit=1000)
    with pytest.raises(DeadlockError, match="livelock: more than 900 backward branches of a wave"):
        run(LONG.format(work="s_nop 0"), arch, schedule, lanes=256, branch_limit=900)


@pytest.mark.parametrize("arch", ARCHS)
def test_polling_while_memory_changes_has_a_limit_of_its_own(arch: str) -> None:
    """A heartbeat goes on; the wave still reads nothing but what it has read before."""
    body = POLL.format(poll=LOAD, also="global_atomic_add v4, v5, s[6:7] offset:64")
    with pytest.raises(
        DeadlockError, match=r"more than 2048 turns of a loop in which nothing has changed.*\n.*polls flags"
    ):
        run(body, arch, lanes=64, branch_limit=1 << 14)
