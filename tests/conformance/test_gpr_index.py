"""VGPR indexing mode: M0, and the moves that it leads elsewhere (CDNA3 ISA, "VGPR indexing", SOP1, SOPC and SOPP)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.emulator.checks.snippet import launch_snippet
from validation.emulator import AddressSpace, KernelFault, UnsupportedError

from .harness import ARCHS, run

OLD_M0 = 0xABCD_1234
REGISTERS = {r: 1000 * r + np.arange(64) for r in range(4, 20)}


def moved(flags: str, move: str, index: str = "s6", **options: object) -> object:
    body = f"s_set_gpr_idx_on {index}, gpr_idx({flags})\n{move}\ns_set_gpr_idx_off"
    return run(body, v=REGISTERS, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("arch", ARCHS)
def test_m0(arch: str) -> None:
    """``on`` sets M0[7:0] and M0[15:12], ``idx`` M0[7:0]; the rest stays."""
    for flags, bits in (("SRC0", 1), ("SRC1", 2), ("SRC2", 4), ("DST", 8), ("SRC0,DST", 9), ("", 0)):
        on = f"s_set_gpr_idx_on s6, gpr_idx({flags})\ns_set_gpr_idx_off\ns_mov_b32 s20, m0"
        assert run(on, arch=arch, m0=OLD_M0, s={6: 0xFFFFFF05}).s[20] == 0xABCD_0205 | bits << 12
    raw = "s_set_gpr_idx_on s6, 0x9\ns_set_gpr_idx_idx 7\ns_set_gpr_idx_off\ns_mov_b32 s20, m0"
    assert run(raw, arch=arch, m0=OLD_M0, s={6: 5}).s[20] == 0xABCD_9207


@pytest.mark.parametrize("arch", ARCHS)
def test_source(arch: str) -> None:
    state = moved("SRC0", "v_mov_b32_e32 v30, v4", arch=arch, s={6: 0x103}, exec_=0xFF)  # only bits 7:0 count
    assert state.v[30].tolist() == [7000 + i for i in range(8)] + [0] * 56  # type: ignore[attr-defined]


@pytest.mark.parametrize("arch", ARCHS)
def test_destination(arch: str) -> None:
    state = moved("DST", "v_mov_b32_e32 v4, v5", arch=arch, s={6: 5}, exec_=0b110)
    want = 9000 + np.arange(64)
    want[1:3] = [5001, 5002]
    assert (state.v[9] == want).all()  # type: ignore[attr-defined]
    assert (state.v[4] == REGISTERS[4]).all()  # type: ignore[attr-defined]


@pytest.mark.parametrize("arch", ARCHS)
def test_both_and_what_is_never_indexed(arch: str) -> None:
    state = moved("SRC0,DST", "v_mov_b32_e32 v4, v5", arch=arch, s={6: 2})
    assert (state.v[6] == REGISTERS[7]).all()  # type: ignore[attr-defined]
    for source, value in (("s5", 77), ("3", 3)):
        state = moved("SRC0", f"v_mov_b32_e32 v4, {source}", arch=arch, s={5: 77, 6: 2})
        assert (state.v[4] == value).all()  # type: ignore[attr-defined]
    state = moved("SRC1,SRC2", "v_mov_b32_e32 v4, v5", arch=arch, s={6: 2})
    assert (state.v[4] == REGISTERS[5]).all()  # type: ignore[attr-defined]
    after = "s_set_gpr_idx_on 2, gpr_idx(SRC0)\ns_set_gpr_idx_off\nv_mov_b32_e32 v30, v4"
    assert (run(after, v=REGISTERS, arch=arch).v[30] == REGISTERS[4]).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_index_changes_under_the_mode(arch: str) -> None:
    body = "v_mov_b32_e32 v30, v4\ns_set_gpr_idx_idx s7\ns_nop 0\nv_mov_b32_e32 v31, v4"
    state = moved("SRC0", body, arch=arch, s={6: 1, 7: 6})
    assert (state.v[30] == REGISTERS[5]).all()  # type: ignore[attr-defined]
    assert (state.v[31] == REGISTERS[10]).all()  # type: ignore[attr-defined]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("flags", ["SRC0", "DST"])
def test_beyond_the_registers(arch: str, flags: str) -> None:
    with pytest.raises(KernelFault, match=r"v_mov_b32_e32 v4, v4 at .*outside of the vector registers, to v64 of 64"):
        moved(flags, "v_mov_b32_e32 v4, v4", arch=arch, s={6: 60})


UNDER = {
    "v_add_u32_e32 v4, v5, v6": "v_add_u32 between s_set_gpr_idx_on and s_set_gpr_idx_off",
    "v_mov_b32_dpp v4, v5 row_shr:1": "v_mov_b32 between",
    "s_barrier": "s_barrier between",
    ".Lhere:": "a label between",
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("line", UNDER)
def test_what_cannot_stand_under_the_mode(arch: str, line: str) -> None:
    with pytest.raises(UnsupportedError, match=UNDER[line]):
        moved("SRC0", line, arch=arch)
    with pytest.raises(UnsupportedError, match="s_endpgm between"):
        run("s_set_gpr_idx_on 2, gpr_idx(SRC0)", arch=arch)


ARRAY = [
    *(f"v_mov_b32_e32 v{4 + i}, {i}" for i in range(8)),
    "v_lshlrev_b32_e32 v1, 2, v0",
    "s_lshl_b32 s9, s2, 8",
    "v_add_u32_e32 v1, s9, v1",
]
READ = ["s_set_gpr_idx_on s2, gpr_idx(SRC0)", "v_mov_b32_e32 v2, v4", "s_set_gpr_idx_off"]
STORE = ["s_waitcnt lgkmcnt(0)", "global_store_dword v1, v2, s[4:5]"]


def stored(body: list[str], arch: str, **options: object) -> tuple[torch.Tensor, list[str]]:
    """What eight workgroups of a wave leave in 8 x 64 integers, and the findings."""
    space = AddressSpace()
    x = space.empty((8, 64), torch.int32, "x", initialised=True)
    checks = ("memcheck", "initcheck", "waits")
    result = launch_snippet(body, x, space, arch=arch, groups=8, checks=checks, **options)  # type: ignore[arg-type]
    return x, [f.message for f in result.findings]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("schedule", ["lockstep", "random:3"])
def test_waves_that_step_together_have_indices_of_their_own(arch: str, schedule: str) -> None:
    x, found = stored([*ARRAY, *READ, *STORE], arch, schedule=schedule)
    assert (x == torch.arange(8, dtype=torch.int32)[:, None]).all()
    assert found == []
    write = ["s_set_gpr_idx_on s2, gpr_idx(DST)", "v_mov_b32_e32 v4, 99", "s_set_gpr_idx_off", "v_mov_b32_e32 v2, v7"]
    x, found = stored([*ARRAY, *write, *STORE], arch, schedule=schedule)
    assert x[:, 0].tolist() == [3, 3, 3, 99, 3, 3, 3, 3]
    assert found == []


@pytest.mark.parametrize("arch", ARCHS)
def test_undefined_registers_and_indices(arch: str) -> None:
    """An undefined element is a finding where it is the one read; so is an undefined index; the rest of M0 is none."""
    without_v9 = [line for line in ARRAY if " v9," not in line]
    _, found = stored([*without_v9, *READ, *STORE], arch)
    assert len(found) == 1
    assert found[0].startswith("v2 is stored, and is undefined")
    written = ["s_set_gpr_idx_on 5, gpr_idx(DST)", "v_mov_b32_e32 v4, 5", "s_set_gpr_idx_off"]
    assert stored([*without_v9, *written, *READ, *STORE], arch)[1] == []
    wild = [READ[0].replace("s2", "s20"), *READ[1:]]
    assert [m.split(",")[0] for m in stored([*ARRAY, *wild, *STORE], arch)[1]] == ["m0 decides which register is moved"]


@pytest.mark.parametrize("arch", ARCHS)
def test_a_load_in_flight_into_the_named_register(arch: str) -> None:
    load = ["s_waitcnt lgkmcnt(0)", "global_load_dword v4, v1, s[4:5]"]
    _, found = stored([*ARRAY, *load, *READ, *STORE], arch)
    assert any(message.startswith("v4 is read while") for message in found)
    other = [load[0], load[1].replace("v4", "v20")]
    assert stored([*ARRAY, *other, *READ, *STORE, "s_waitcnt vmcnt(0)"], arch)[1] == []
