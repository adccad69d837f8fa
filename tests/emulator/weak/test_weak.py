"""The weak memory model: unsafe protocols always go wrong, safe ones never; caches, scopes and kernel boundaries."""

from __future__ import annotations

import time

import pytest
import torch

from validation.emulator import AddressSpace
from validation.emulator.errors import DeadlockError

from ..waits.probe import ARCHS, Outcome, run_probe
from .protocols import PROTOCOLS, Protocol

LANE = torch.arange(64)
pytestmark = pytest.mark.usefixtures("soon")


def _run(protocol: Protocol, text: tuple[str, ...], arch: str, completion: str, memory: str = "weak") -> Outcome:
    return run_probe(text, arch, groups=2, completion=completion, memory=memory, **protocol.options)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
def test_unsafe_goes_wrong(protocol: Protocol, arch: str) -> None:
    if protocol.deadlock:
        with pytest.raises(DeadlockError):
            _run(protocol, protocol.unsafe, arch, protocol.completion)
        return
    outcome = _run(protocol, protocol.unsafe, arch, protocol.completion)
    assert outcome.findings == []
    assert (outcome.out[:64] != protocol.expected(LANE)).any()


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
def test_safe_never_goes_wrong(protocol: Protocol, arch: str) -> None:
    for completion in ("earliest", "latest"):
        for memory in ("weak", "flat"):
            outcome = _run(protocol, protocol.safe, arch, completion, memory)
            assert outcome.findings == []
            assert (outcome.out[:64] == protocol.expected(LANE)).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_flat_memory_shows_none_of_it(arch: str) -> None:
    """The caches, and nothing else, make the unsafe protocols fail."""
    for protocol in PROTOCOLS:
        if protocol.completion == "earliest":
            outcome = _run(protocol, protocol.unsafe, arch, "earliest", "flat")
            assert (outcome.out[:64] == protocol.expected(LANE)).all()


# -- what needs no scope bit ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("arch", ARCHS)
def test_waves_of_a_workgroup_share_a_cache(arch: str) -> None:
    outcome = run_probe(
        ["v_xor_b32_e32 v7, 0x100, v0", "global_load_dword v3, v7, s[4:5]", "s_waitcnt vmcnt(0)", "s_barrier",
         "global_store_dword v0, v0, s[4:5]", "s_waitcnt vmcnt(0)", "s_barrier",
         "global_load_dword v2, v7, s[4:5]", "s_waitcnt vmcnt(0)", "global_store_dword v0, v2, s[8:9]"],
        arch, groups=1, lanes=128, memory="weak", completion="latest",
    )  # fmt: skip
    lane = torch.arange(128)
    assert (outcome.out[:128] == 4 * (lane ^ 64)).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_a_wave_sees_its_own_stores(arch: str) -> None:
    """Plain, bypassing and atomic accesses of one wave to one address stay in order, whatever the caches hold."""
    outcome = run_probe(
        ["global_load_dword v2, v0, s[4:5]", "s_waitcnt vmcnt(0)", "global_store_dword v0, v15, s[4:5]",
         "v_mov_b32_e32 v7, 1", "global_load_dword v3, v0, s[4:5] sc1", "s_waitcnt vmcnt(0)",
         "global_atomic_add v0, v7, s[4:5]", "global_load_dword v4, v0, s[4:5]", "s_waitcnt vmcnt(0)",
         "v_add_u32_e32 v3, v3, v4", "v_mov_b32_e32 v7, 40", "global_store_dword v0, v7, s[4:5] sc0 sc1",
         "global_load_dword v4, v0, s[4:5]", "s_waitcnt vmcnt(0)", "v_add_u32_e32 v3, v3, v4",
         "global_store_byte v0, v15, s[4:5]", "global_load_dword v4, v0, s[4:5] sc1", "s_waitcnt vmcnt(0)",
         "v_add_u32_e32 v3, v3, v4", "global_store_dword v0, v3, s[8:9]"],
        arch, memory="weak", completion="latest",
    )  # fmt: skip
    assert (outcome.out[:64] == 0 + 1 + 40 + 0).all()
    assert (outcome.data[:64] == 0).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_dirty_bytes_of_a_shared_line_survive(arch: str) -> None:
    """Eight workgroups on eight XCDs write every eighth byte of the same lines; each keeps what the others wrote."""
    outcome = run_probe(
        ["global_load_dword v3, v0, s[4:5]", "s_waitcnt vmcnt(0)", "v_lshl_add_u32 v1, v0, 1, s2",
         "v_add_u32_e32 v3, s2, v0",
         "global_store_byte v1, v3, s[4:5]"],
        arch, groups=8, memory="weak",
    )  # fmt: skip
    octets = outcome.data[:128].view(torch.uint8).to(torch.int64)
    place = torch.arange(512)
    assert (octets == (place % 8 + place // 8 * 4) % 256).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_accesses_across_lines(arch: str) -> None:
    outcome = run_probe(
        ["v_mul_u32_u24_e32 v1, 13, v0", "global_load_dwordx4 v[4:7], v1, s[4:5] offset:2", "s_waitcnt vmcnt(0)",
         "v_cmp_gt_u32_e32 vcc, 16, v0", "s_and_saveexec_b64 s[20:21], vcc",
         "global_store_dwordx4 v1, v[4:7], s[8:9] offset:2"],
        arch, memory="weak",
    )  # fmt: skip
    source, target = outcome.data.view(torch.uint8), outcome.out.view(torch.uint8)
    for i in range(4):
        at = 52 * i + 2
        assert (target[at : at + 16] == source[at : at + 16]).all()
    assert not target[158 + 16 :].any()


@pytest.mark.parametrize("arch", ARCHS)
def test_split_k_arrival(arch: str) -> None:
    """192 workgroups publish partial sums, count themselves, and the last one adds them up; under two seconds."""
    body = """
        v_add_u32_e32 v6, s2, v0
        s_lshl_b32 s21, s2, 2
        v_mov_b32_e32 v10, s21
        v_cmp_eq_u32_e32 vcc, 0, v0
        s_and_saveexec_b64 s[22:23], vcc
        global_store_dword v10, v6, s[8:9] offset:1024
        {release}
        v_mov_b32_e32 v7, 1
        global_atomic_add v8, v15, v7, s[8:9] sc0
        s_waitcnt vmcnt(0)
        s_mov_b64 exec, s[22:23]
        v_readfirstlane_b32 s20, v8
        s_cmp_lg_u32 s20, 191
        s_cbranch_scc1 finish
        {acquire}
        v_mov_b32_e32 v2, 0
        global_load_dword v3, v0, s[8:9] offset:1024
        global_load_dword v4, v0, s[8:9] offset:1280
        global_load_dword v5, v0, s[8:9] offset:1536
        s_waitcnt vmcnt(0)
        v_add3_u32 v2, v3, v4, v5
        global_atomic_add v15, v2, s[8:9] offset:4
        finish:"""
    total = 191 * 192 // 2

    def run(release: str, acquire: str, completion: str = "earliest") -> Outcome:
        lines = [x.strip() for x in body.format(release=release, acquire=acquire).splitlines() if x.strip()]
        return run_probe(lines, arch, groups=192, memory="weak", completion=completion)

    start = time.process_time()
    for completion in ("earliest", "latest"):
        assert run("buffer_wbl2 sc1\n s_waitcnt vmcnt(0)", "buffer_inv sc1", completion).out[1] == total
    assert (time.process_time() - start) / 2 < 2
    assert run("s_waitcnt vmcnt(0)", "buffer_inv sc1").out[1] != total


@pytest.mark.parametrize("arch", ARCHS)
def test_kernel_boundaries_release_and_acquire(arch: str) -> None:
    """What a launch leaves in its caches reaches memory; the next one does not see what the host has replaced."""
    import validation.emulator as emulator

    from ..waits import probe

    space = AddressSpace()
    data = space.empty((probe.WORDS,), torch.int32, "data", initialised=True)
    out = space.empty((probe.WORDS,), torch.int32, "out", initialised=True)
    text = probe.assemble(
        ["global_load_dword v2, v0, s[4:5]", "s_load_dword s20, s[4:5], 0x0", "s_waitcnt vmcnt(0) lgkmcnt(0)",
         "v_add_u32_e32 v2, s20, v2", "global_store_dword v0, v2, s[8:9]"], arch,
    )  # fmt: skip
    for value in (7, 9):
        data.fill_(value)
        emulator.launch(text, "probe", (16,), (64,), (data, out), space=space, memory="weak")
        assert (out[:64] == 2 * value).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_xcc_id_follows_the_option(arch: str) -> None:
    body = ["s_getreg_b32 s20, hwreg(HW_REG_XCC_ID, 0, 16)", "v_mov_b32_e32 v2, s20", "s_lshl_b32 s21, s2, 2",
            "v_mov_b32_e32 v3, s21", "global_store_dword v3, v2, s[8:9]"]  # fmt: skip
    assert run_probe(body, arch, groups=12).out[:12].tolist() == [i % 8 for i in range(12)]
    assert run_probe(body, arch, groups=12, xcds=4).out[:12].tolist() == [i % 4 for i in range(12)]


def test_unknown_options_are_refused() -> None:
    for options in ({"memory": "soft"}, {"completion": "late"}, {"lds_dma": "any"}, {"xcds": 0}, {"cus_per_xcd": 0}):
        with pytest.raises(ValueError):
            run_probe("s_nop 0", "gfx942", **options)
