"""Schedules: what runs when, the same for the same name; fairness; deadlock and livelock."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.emulator.race.probe import Buffers, text
from validation.emulator import DeadlockError, LaunchResult, explore, launch
from validation.emulator.checks.racecheck import RaceCheck
from validation.emulator.exploration import systematic_schedules
from validation.emulator.machine.waves import Waves
from validation.emulator.memory.access import Access
from validation.emulator.memory.hierarchy import MemoryPort
from validation.emulator.schedule import parse_schedule

ALL = ("lockstep", "in-order", "reversed", "alternating", "random:1", "random:2", "systematic:3")
pytestmark = pytest.mark.usefixtures("soon")
#: Every wave takes a ticket, twice, and stores it: out[2 * wave + turn].
TICKETS = """
s_mul_i32 s14, s10, 4
s_add_u32 s14, s14, s11
s_lshl_b32 s14, s14, 3
v_mov_b32_e32 v5, s14
v_mov_b32_e32 v6, 1
v_cmp_eq_u32_e32 vcc, 0, v1
s_and_b64 exec, exec, vcc
global_atomic_add v7, v4, v6, s[6:7] sc0
s_waitcnt vmcnt(0)
global_store_dword v5, v7, s[8:9]
global_atomic_add v7, v4, v6, s[6:7] sc0
s_waitcnt vmcnt(0)
global_store_dword v5, v7, s[8:9] offset:4
"""


def run(body: str, schedule: str, groups: int, lanes: int, **options: Any) -> tuple[Buffers, LaunchResult]:
    buffers = Buffers.make()
    result = launch(
        text(body, "gfx942"),
        "probe",
        (groups,),
        (lanes,),
        buffers.args,
        space=buffers.space,
        schedule=schedule,
        **options,
    )
    return buffers, result


def tickets(schedule: str) -> list[int]:
    buffers, result = run(TICKETS, schedule, 3, 256)
    assert result.schedule == schedule
    order = buffers.out[:24].tolist()
    assert sorted(order) == list(range(24))
    return order


def test_lockstep_alternates() -> None:
    assert tickets("lockstep")[:6] == [0, 12, 1, 13, 2, 14]


def test_in_order_runs_one_part_after_the_other() -> None:
    """Eight parts: a wave of workgroups 0 and 1 each, then of workgroup 2. A part takes its tickets before the next."""
    order = tickets("in-order")
    assert order[:16] == [0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15]
    assert order[16:] == list(range(16, 24))


def test_reversed_runs_the_last_first() -> None:
    """Workgroups 2 and 1 together, last wave first, then workgroup 0."""
    order = tickets("reversed")
    assert min(order[:8]) == 16
    assert order[:8] == [22, 23, 20, 21, 18, 19, 16, 17]


def test_random_is_a_function_of_its_seed() -> None:
    seen = {seed: tickets(f"random:{seed}") for seed in range(6)}
    assert all(tickets(f"random:{seed}") == order for seed, order in seen.items())
    assert len({tuple(order) for order in seen.values()}) == 6


def test_a_preemption_moves_the_ticket() -> None:
    assert tickets("systematic:1") != tickets("systematic")
    assert str(parse_schedule("systematic:1+1")) == "systematic:1"
    assert tickets("systematic:1+2") != tickets("systematic:1")


def test_names() -> None:
    for name in ALL:
        assert str(parse_schedule(name)) == name
    for name in ("", "lock", "random:x", "in-order:3", "systematic:a"):
        with pytest.raises(ValueError, match="unknown schedule"):
            parse_schedule(name)


@pytest.mark.parametrize("schedule", ALL)
def test_a_chain_of_spinning_workgroups_ends(schedule: str) -> None:
    """Workgroups wait for one of a later chunk, and that one for the next, up to the last."""
    body = """
s_add_u32 s14, s10, 1
s_max_u32 s14, s14, 129
s_cmp_eq_u32 s14, 132
s_cbranch_scc1 free
s_lshl_b32 s15, s14, 2
v_mov_b32_e32 v5, s15
wait:
global_load_dword v6, v5, s[4:5] sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s16, v6
s_cmp_eq_u32 s16, 0
s_cbranch_scc1 wait
free:
s_lshl_b32 s15, s10, 2
v_mov_b32_e32 v5, s15
v_mov_b32_e32 v6, 1
global_store_dword v5, v6, s[4:5] sc1"""
    buffers, result = run(body, schedule, 132, 64)
    assert result.workgroups_run == 132
    assert buffers.data[:132].eq(1).all()


@pytest.mark.parametrize("setter", [0, 2])
@pytest.mark.parametrize("schedule", [*ALL, "held:1"])
def test_waves_that_poll_from_barrier_to_barrier_let_others_run(schedule: str, setter: int) -> None:
    """One wave of each workgroup polls for a flag of workgroup ``setter``, and a barrier is in the loop."""
    body = f"""
s_cmp_eq_u32 s10, {setter}
s_cbranch_scc1 free
wait:
s_mov_b32 s14, 1
s_cmp_eq_u32 s11, 0
s_cbranch_scc0 meet
global_load_dword v6, v4, s[6:7] sc1
s_waitcnt vmcnt(0)
ds_write_b32 v4, v6
s_waitcnt lgkmcnt(0)
meet:
s_barrier
ds_read_b32 v6, v4
s_waitcnt lgkmcnt(0)
v_readfirstlane_b32 s14, v6
s_barrier
s_cmp_eq_u32 s14, 1
s_cbranch_scc0 wait
s_branch done
free:
v_mov_b32_e32 v6, 1
global_store_dword v4, v6, s[6:7] sc1
done:
s_lshl_b32 s15, s10, 2
v_mov_b32_e32 v5, s15
v_mov_b32_e32 v6, 1
global_store_dword v5, v6, s[8:9]"""
    buffers, _ = run(body, schedule, 3, 128)
    assert buffers.out[:3].eq(1).all()


@pytest.mark.parametrize("schedule", ["lockstep", "in-order", "random:5"])
def test_deadlock_names_the_flag(schedule: str) -> None:
    body = """
s_cmp_eq_u32 s11, 0
s_cbranch_scc0 join
v_mov_b32_e32 v5, 1
global_store_dword v4, v5, s[6:7] offset:20
wait:
global_load_dword v6, v4, s[6:7] offset:20 sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s14, v6
s_cmp_eq_u32 s14, 2
s_cbranch_scc0 wait
join:
s_barrier"""
    with pytest.raises(DeadlockError) as caught:
        run(body, schedule, 1, 128, checks=("racecheck",))
    message = str(caught.value)
    assert "deadlock" in message
    assert "wave 0 polls flags[5] = 0x1 at global_load_dword v6" in message
    assert "last written by wave 0 of workgroup (0, 0, 0) of probe at global_store_dword v4" in message
    assert "wave 1 waits at s_barrier" in message
    assert "for wave 0" in message


@pytest.mark.parametrize("schedule", ["lockstep", "random:5"])
def test_livelock_is_found(schedule: str) -> None:
    """Memory changes all the time, and nothing comes of it."""
    body = """
v_mov_b32_e32 v5, 1
again:
global_atomic_add v6, v4, v5, s[6:7] sc0
s_waitcnt vmcnt(0)
s_branch again"""
    with pytest.raises(DeadlockError, match=r"livelock: more than 100 .*branch_limit.*\n.*polls flags\[0\]"):
        run(body, schedule, 1, 128, branch_limit=100)


#: Adds 1 to out[0] once a wave, by a load and a store.
LOST_UPDATE = """
v_cmp_eq_u32_e32 vcc, 0, v1
s_and_b64 exec, exec, vcc
global_load_dword v5, v4, s[8:9]
s_waitcnt vmcnt(0)
v_add_u32_e32 v5, 1, v5
global_store_dword v4, v5, s[8:9]
"""


def update(schedule: str) -> tuple[dict[str, torch.Tensor], tuple, int]:
    buffers, result = run(LOST_UPDATE, schedule, 1, 192)
    return {"out": buffers.out}, result.findings, result.switch_points


def test_systematic_search_finds_the_lost_update_and_replays_it() -> None:
    found = explore(update, ["systematic"], preemptions=1)
    assert not found.passed
    assert found.outcomes[0].outputs["out"][:4] == (3).to_bytes(4, "little")
    for name, _ in found.failures:
        again = update(name)[0]["out"]
        assert int(again[0]) < 3
        assert f'schedule="{name}"' in str(found)


def test_explore_compares_bit_for_bit() -> None:
    found = explore(update, ["in-order", "reversed", "lockstep", "random:0..3"])
    failing = {name for name, what in found.failures if "out differs from the run under in-order" in what}
    assert "lockstep" in failing
    assert "reversed" not in failing
    assert len(found.outcomes) == 7


def test_explore_passes_what_does_not_depend_on_the_schedule() -> None:
    def sums(schedule: str) -> tuple[dict[str, torch.Tensor], tuple, int]:
        body = "v_mov_b32_e32 v5, 1\nglobal_atomic_add v4, v5, s[8:9]"
        buffers, result = run(body, schedule, 2, 128)
        return {"out": buffers.out}, result.findings, result.switch_points

    found = explore(sums, ["lockstep", "reversed", "random:0..2", "systematic"], limit=20)
    assert found.passed, str(found)
    assert len(found.outcomes) > 8


def test_explore_reports_what_a_schedule_raises() -> None:
    def stuck(schedule: str) -> tuple[dict[str, torch.Tensor], tuple]:
        raise DeadlockError(f"stuck under {schedule}")

    found = explore(stuck, ["lockstep"])
    assert found.failures == (("lockstep", "DeadlockError: stuck under lockstep"),)


def test_systematic_search_is_bounded() -> None:
    assert systematic_schedules(3, 2, 100) == [
        "systematic:1", "systematic:2", "systematic:3", "systematic:1,2", "systematic:1,3", "systematic:2,3",
    ]  # fmt: skip
    assert len(systematic_schedules(400, 2, 60)) <= 60


@pytest.mark.parametrize(("groups", "lanes"), [(3, 256), (1, 64)])
def test_alternating_of_one_launch_is_in_order(groups: int, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One chunk has nobody to take turns with: it makes the same accesses of the same waves in the same order."""
    body = TICKETS + f"s_mov_b64 exec, s[20:21]\ns_barrier\nds_write_b32 v3, v0\n{LOST_UPDATE}"
    observe = RaceCheck.observe

    def orders(schedule: str) -> list[tuple[int, list[int]]]:
        seen: list[tuple[int, list[int]]] = []

        def note(check: RaceCheck, port: MemoryPort, w: Waves, access: Access) -> None:
            rows = range(w.count) if w.sel is None else w.sel.tolist()
            seen.append((access.inst.index, list(rows)))
            observe(check, port, w, access)

        monkeypatch.setattr(RaceCheck, "observe", note)
        run(body, schedule, groups, lanes, checks=("racecheck",))
        return seen

    first = orders("in-order")
    assert orders("alternating") == first
    assert (orders("random:1") == first) == (groups == 1)
