"""What a finding says, benign races, and what must not look like a race."""

from __future__ import annotations

import pytest

from validation.emulator import launch

from .probe import Buffers, run, text

ARCHS = ("gfx942", "gfx950")


def test_a_finding_names_both_sides_and_the_element() -> None:
    body = """
.loc 1 7 0
v_add_u32_e32 v5, 0x100, v3
v_and_b32_e32 v5, 0x1ff, v5
global_store_dword v3, v0, s[4:5]
s_waitcnt vmcnt(0)
.loc 1 9 0
global_load_dword v6, v5, s[4:5]"""
    (finding,) = run(body, "gfx942", lanes=128).findings
    assert (finding.check, finding.source_line, finding.argument, finding.wave) == ("racecheck", 9, "data", 1)
    assert finding.index == (0,)
    assert "write by wave 0 of workgroup (0, 0, 0)" in finding.message
    assert "/src/kernels/probe.py:7" in finding.message
    assert finding.occurrences == 128


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("schedule", ["lockstep", "in-order"])
@pytest.mark.parametrize(
    "store",
    [
        "ds_write_b32 v4, v6",
        "ds_write_b16 v4, v6",
        "global_store_dword v4, v6, s[8:9]",
        "global_store_byte v4, v6, s[8:9]",
    ],
)
def test_writes_of_one_value_are_a_note(store: str, schedule: str, arch: str) -> None:
    result = run(f"v_mov_b32_e32 v6, 7\n{store}", arch, schedule=schedule)
    assert result.findings == ()
    assert {f.check for f in result.notes} == {"benign"}
    different = run(f"v_mov_b32_e32 v6, s11\n{store}", arch, schedule=schedule)
    assert {f.check for f in different.findings} == {"racecheck"}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("schedule", ["lockstep", "in-order", "random:1"])
def test_what_is_the_same_value_is_what_the_other_workgroup_stored(schedule: str, arch: str) -> None:
    """Over weak memory it may be in the other XCD's L2 alone, and memory hold something else."""
    store = "global_store_dword v4, v6, s[8:9]"
    result = run(f"v_mov_b32_e32 v6, 7\n{store}", arch, groups=3, lanes=64, schedule=schedule, memory="weak")
    assert result.findings == ()
    assert {f.check for f in result.notes} == {"benign"}
    # one stores 5, the other the 0 that memory holds
    body = f"s_cmp_eq_u32 s10, 0\ns_cselect_b32 s14, 5, 0\nv_mov_b32_e32 v6, s14\n{store}"
    different = run(body, arch, groups=2, lanes=64, schedule=schedule, memory="weak")
    assert {f.check for f in different.findings} == {"racecheck"}


def test_the_value_of_another_lane_is_not_the_same_value() -> None:
    # waves agree on lane 0's word, but write their own number to the others
    body = """
v_mov_b32_e32 v6, s11
v_cmp_eq_u32_e32 vcc, 0, v1
v_cndmask_b32_e64 v6, v6, 5, vcc
v_lshlrev_b32_e32 v7, 2, v1
global_store_dword v7, v6, s[8:9]"""
    result = run(body, "gfx942", lanes=128)
    assert [f.check for f in result.findings] == ["racecheck"]


@pytest.mark.parametrize("schedule", ["lockstep", "in-order", "reversed", "random:4"])
def test_waves_that_ended_count_as_arrived_and_are_noted(schedule: str) -> None:
    body = """
s_cmp_eq_u32 s11, 0
s_cbranch_scc1 last
s_barrier
last:
s_nop 0"""
    result = run(body, "gfx942", lanes=192, schedule=schedule)
    assert result.findings == ()
    (note,) = result.notes
    assert note.check == "synccheck"
    assert "wave 0 had ended" in note.message


_APART = """
s_cmp_lt_u32 s11, 2
s_cbranch_scc1 other
.loc 1 5 0
s_barrier
{more}
s_branch done
other:
.loc 1 8 0
s_barrier
done:
s_nop 0"""


@pytest.mark.parametrize("schedule", ["lockstep", "in-order", "reversed", "random:4"])
def test_divergent_barriers_name_the_waves(schedule: str) -> None:
    """Two of the waves pass one barrier more than the others."""
    result = run(_APART.format(more="s_barrier"), "gfx950", schedule=schedule)
    (finding,) = result.findings
    assert "wave 2, 3 at the one of /src/kernels/probe.py:5" in finding.message
    assert "wave 0, 1 at the one of /src/kernels/probe.py:8" in finding.message


@pytest.mark.parametrize("schedule", ["lockstep", "in-order", "reversed", "random:4"])
def test_as_many_barriers_of_each_wave_are_a_note(schedule: str) -> None:
    result = run(_APART.format(more="s_nop 0"), "gfx942", schedule=schedule, groups=3)
    assert result.findings == ()
    (note,) = result.notes
    assert (note.check, note.occurrences) == ("synccheck", 3)
    assert "meet at different barriers" in note.message


def test_readers_are_no_race() -> None:
    assert run("global_load_dword v6, v4, s[4:5]\nglobal_load_dword v6, v3, s[4:5]", "gfx942", groups=3).findings == ()


def test_one_wave_may_do_what_it_likes() -> None:
    body = "ds_write_b32 v3, v0\nds_read_b32 v5, v4\nds_write_b32 v4, v0\nglobal_store_dword v4, v0, s[8:9]"
    assert run(body, "gfx942", lanes=64).findings == ()


def test_the_second_of_three_readers_is_seen() -> None:
    body = """
s_cmp_eq_u32 s11, 3
s_cbranch_scc1 writer
global_load_dword v6, v4, s[4:5]
s_branch done
writer:
global_store_dword v4, v0, s[4:5]
done:
s_nop 0"""
    for schedule in ("lockstep", "in-order", "reversed"):
        (finding,) = run(body, "gfx942", schedule=schedule).findings
        assert finding.check == "racecheck"


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("reader", [0, 1])
@pytest.mark.parametrize("schedule", ["lockstep", "in-order", "reversed", "random:2"])
def test_readers_of_the_own_workgroup_hide_none_of_another(schedule: str, reader: int, arch: str) -> None:
    """Both workgroups read a word, and one of them writes it after a barrier of its own."""
    body = f"""
global_load_dword v6, v4, s[4:5]
s_waitcnt vmcnt(0)
s_cmp_eq_u32 s10, {reader}
s_cbranch_scc1 done
s_barrier
s_cmp_eq_u32 s11, 0
s_cbranch_scc0 done
global_store_dword v4, v0, s[{{buffer}}]
done:
s_nop 0"""
    (finding,) = run(body.format(buffer="4:5"), arch, groups=2, schedule=schedule).findings
    assert "races with the" in finding.message
    assert "nothing orders them" in finding.message
    assert run(body.format(buffer="8:9"), arch, groups=2, schedule=schedule).findings == ()


def test_launches_without_a_session_have_a_history_of_their_own() -> None:
    buffers = Buffers.make()
    for _ in range(2):
        result = launch(
            text("global_store_dword v3, v0, s[8:9]", "gfx942"), "probe", (1,), (64,), buffers.args,
            space=buffers.space, checks=("racecheck",),
        )  # fmt: skip
        assert result.findings == ()


def test_completion_other_than_earliest_is_refused() -> None:
    with pytest.raises(ValueError, match="completion='earliest'"):
        run("s_nop 0", "gfx942", completion="latest")
