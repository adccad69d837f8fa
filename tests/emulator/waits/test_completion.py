"""What latest completion does beyond the pairs: full counters, order of retirement, atomics that overtake."""

from __future__ import annotations

import pytest
import torch

from .probe import ARCHS, run_probe

LANE = torch.arange(64)
STORE = "global_store_dword v0, v2, s[8:9]"


@pytest.mark.parametrize("arch", ARCHS)
def test_a_full_vmcnt_retires_the_oldest(arch: str) -> None:
    """With 63 younger loads issued, the first has retired without a wait; the second has not."""
    loads = [f"global_load_dword v{16 + i}, v0, s[4:5]" for i in range(64)]
    fine = run_probe([*loads, "v_mov_b32_e32 v2, v16", STORE], arch, completion="latest")
    assert fine.findings == []
    assert (fine.out[:64] == 1000 + LANE).all()
    early = run_probe([*loads, "v_mov_b32_e32 v2, v17", STORE], arch, completion="latest")
    assert "v17 is read" in early.findings[0]
    assert (early.out[:64] == 0).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_a_full_lgkmcnt_retires_the_oldest(arch: str) -> None:
    reads = [f"ds_read_b32 v{16 + i}, v0" for i in range(16)]
    body = ["ds_write_b32 v0, v0", "s_waitcnt lgkmcnt(0)", *reads]
    fine = run_probe([*body, "v_mov_b32_e32 v2, v16", STORE], arch, completion="latest")
    assert fine.findings == []
    assert (fine.out[:64] == 4 * LANE).all()
    assert run_probe([*body, "v_mov_b32_e32 v2, v17", STORE], arch, completion="latest").findings


@pytest.mark.parametrize("arch", ARCHS)
def test_a_store_reads_its_data_when_issued(arch: str) -> None:
    """Overwriting the data register of a store in flight, LDS or global, is no hazard."""
    outcome = run_probe(
        ["v_mov_b32_e32 v2, 7", STORE, "v_mov_b32_e32 v2, 9", "ds_write_b32 v0, v2", "v_mov_b32_e32 v2, 11",
         "ds_read_b32 v3, v0", "s_waitcnt lgkmcnt(0)", "global_store_dword v0, v3, s[8:9] offset:1024",
         "v_mov_b32_e32 v3, 0"],
        arch, completion="latest",
    )  # fmt: skip
    assert outcome.findings == []
    assert (outcome.out[:64] == 7).all()
    assert (outcome.out[256:320] == 9).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_loads_of_one_queue_may_share_a_register(arch: str) -> None:
    """They retire in order, so the younger one's value stays; d16 loads fill both halves of one."""
    outcome = run_probe(
        ["global_load_dword v2, v0, s[4:5]", "global_load_dword v2, v0, s[4:5] offset:256", "s_waitcnt vmcnt(0)", STORE,
         "v_mov_b32_e32 v3, 0", "global_load_short_d16 v3, v0, s[4:5]", "global_load_short_d16_hi v3, v0, s[4:5]",
         "s_waitcnt vmcnt(0)", "global_store_dword v0, v3, s[8:9] offset:1024"],
        arch, completion="latest",
    )  # fmt: skip
    assert outcome.findings == []
    assert (outcome.out[:64] == 1064 + LANE).all()
    assert (outcome.out[256:320] == (1000 + LANE) * 0x10001).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_one_wave_reads_back_what_it_stored(arch: str) -> None:
    """No wait is needed between a store and a load of one wave to one address: global, LDS, scratch."""
    outcome = run_probe(
        [STORE, "v_mov_b32_e32 v2, 3", "global_store_dword v0, v2, s[4:5]", "global_load_dword v4, v0, s[4:5]",
         "ds_write_b32 v0, v2", "ds_read_b32 v5, v0", "scratch_store_dword off, v2, off offset:4",
         "scratch_load_dword v6, off, off offset:4", "s_waitcnt vmcnt(0) lgkmcnt(0)",
         "v_add3_u32 v2, v4, v5, v6", STORE],
        arch, completion="latest",
    )  # fmt: skip
    assert outcome.findings == []
    assert (outcome.out[:64] == 9).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_a_returning_atomic_overtakes_stores_but_not_its_own_bytes(arch: str) -> None:
    outcome = run_probe(
        ["v_mov_b32_e32 v3, 5", "v_mov_b32_e32 v4, 1", "global_store_dword v0, v3, s[4:5]",
         "global_atomic_add v2, v0, v4, s[4:5] sc0", "s_waitcnt vmcnt(0)", STORE],
        arch, completion="latest",
    )  # fmt: skip
    assert (outcome.out[:64] == 5).all()
    assert (outcome.data[:64] == 6).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_exec_at_issue_decides_which_lanes_a_late_load_writes(arch: str) -> None:
    outcome = run_probe(
        ["v_mov_b32_e32 v2, 1", "s_mov_b64 exec, 0xff", "global_load_dword v2, v0, s[4:5]", "s_mov_b64 exec, -1",
         "s_waitcnt vmcnt(0)", STORE],
        arch, completion="latest",
    )  # fmt: skip
    assert (outcome.out[:64] == torch.where(LANE < 8, 1000 + LANE, 1)).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_what_is_outstanding_at_the_end_completes(arch: str) -> None:
    outcome = run_probe(["v_mov_b32_e32 v2, 6", STORE, "global_load_dword v3, v0, s[4:5]"], arch, completion="latest")
    assert outcome.findings == []
    assert (outcome.out[:64] == 6).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_a_pending_store_reaches_a_wave_that_polls_for_it(arch: str) -> None:
    """The storing wave never waits for it: it polls LDS for an answer. Late is not never."""
    outcome = run_probe(
        ["v_readfirstlane_b32 s20, v0", "v_mov_b32_e32 v4, 1", "s_cmp_lg_u32 s20, 0", "s_cbranch_scc1 other",
         "global_store_dword v15, v4, s[4:5] sc1",
         "wait:", "ds_read_b32 v3, v15", "s_waitcnt lgkmcnt(0)", "v_readfirstlane_b32 s21, v3", "s_cmp_lg_u32 s21, 1",
         "s_cbranch_scc1 wait", "s_branch finish",
         "other:", "global_load_dword v3, v15, s[4:5] sc1", "s_waitcnt vmcnt(0)", "v_readfirstlane_b32 s21, v3",
         "s_cmp_lg_u32 s21, 1", "s_cbranch_scc1 other", "ds_write_b32 v15, v4", "s_waitcnt lgkmcnt(0)",
         "finish:", "global_store_dword v0, v4, s[8:9]"],
        arch, lanes=128, completion="latest",
    )  # fmt: skip
    assert (outcome.out[:128] == 1).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_finding_names_the_loose_wait_and_both_places(arch: str) -> None:
    outcome = run_probe(
        [".loc\t1 20 0", "global_load_dword v1, v0, s[4:5]", "global_load_dword v3, v0, s[4:5]", ".loc\t1 21 0",
         "s_waitcnt vmcnt(1)", ".loc\t1 22 0", "v_add_u32_e32 v2, v1, v3", "s_waitcnt vmcnt(0)"],
        arch,
    )  # fmt: skip
    (finding,) = outcome.result.findings
    assert (finding.check, finding.source_line, finding.instruction) == ("waits", 22, "v_add_u32_e32 v2, v1, v3")
    assert "v3 is read while `global_load_dword v3, v0, s[4:5]` (/src/kernels/probe.py:20" in finding.message
    assert "`s_waitcnt vmcnt(1)` (/src/kernels/probe.py:21" in finding.message
    assert finding.message.endswith("is too loose, it takes vmcnt(0)")


#: What a workgroup may rely on without any vmcnt: its vector memory operations go through one L1, in order of issue.
SHARED = {
    "store, barrier, load": (
        """global_store_dword v0, v0, s[8:9] offset:2048
s_waitcnt lgkmcnt(0)
s_barrier
v_xor_b32_e32 v7, 0x100, v0
global_load_dword v2, v7, s[8:9] offset:2048""",
        lambda lane: 4 * (lane ^ 64),
    ),
    "load, barrier, store": (
        """v_xor_b32_e32 v7, 0x100, v0
global_load_dword v2, v7, s[4:5]
s_barrier
global_store_dword v0, v15, s[4:5]""",
        lambda lane: 1000 + (lane ^ 64),
    ),
    "store, barrier, atomic, barrier, load": (
        """v_xor_b32_e32 v7, 0x100, v0
v_mov_b32_e32 v3, 3
global_store_dword v0, v0, s[4:5]
s_barrier
global_atomic_add v7, v3, s[4:5]
s_barrier
global_load_dword v2, v0, s[4:5]""",
        lambda lane: 4 * lane + 3,
    ),
    "store, barrier, store, barrier, load": (
        """v_xor_b32_e32 v7, 0x100, v0
global_store_dword v0, v15, s[4:5]
s_barrier
global_store_dword v7, v0, s[4:5]
s_barrier
global_load_dword v2, v0, s[4:5]""",
        lambda lane: 4 * (lane ^ 64),
    ),
    "store, flag in LDS, load": (
        """v_mov_b32_e32 v7, 1
ds_write_b32 v0, v15 offset:1024
s_waitcnt lgkmcnt(0)
s_barrier
v_readfirstlane_b32 s20, v0
v_mov_b32_e32 v2, v0
s_cmp_lg_u32 s20, 0
s_cbranch_scc1 other
v_mov_b32_e32 v3, 5
global_store_dword v0, v3, s[4:5]
ds_write_b32 v15, v7 offset:1024
s_branch finish
other:
ds_read_b32 v3, v15 offset:1024
s_waitcnt lgkmcnt(0)
v_readfirstlane_b32 s21, v3
s_cmp_lg_u32 s21, 1
s_cbranch_scc1 other
v_xor_b32_e32 v7, 0x100, v0
global_load_dword v2, v7, s[4:5]
finish:
s_nop 0""",
        lambda lane: torch.where(lane < 64, 4 * lane, 5),
    ),
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("schedule", ["lockstep", "in-order", "reversed", "random:1"])
def test_a_workgroup_sees_its_own_operations_in_order(name: str, schedule: str, arch: str) -> None:
    """LLVM's release of workgroup scope waits for no vmcnt, so neither may the emulator want one."""
    body, expected = SHARED[name]
    for memory in ("flat", "weak"):
        outcome = run_probe(
            [body, "s_waitcnt vmcnt(0)", STORE], arch, lanes=128, completion="latest", memory=memory, schedule=schedule
        )
        assert outcome.findings == []
        assert (outcome.out[:128] == expected(torch.arange(128))).all()
