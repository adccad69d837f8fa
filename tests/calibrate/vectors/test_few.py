"""A few vectors for the tests of calibration, of every kind that it treats in a way of its own."""

from __future__ import annotations

import pytest

from tests.conformance.harness import ARCHS, f16, f32, flushing, run
from tests.conformance.memory_support import arena


@pytest.mark.parametrize("arch", ARCHS)
def test_float_results(arch: str) -> None:
    one, two = f32(1.0), f32(2.0)
    assert run("v_add_f32_e32 v1, v2, v3", arch=arch, v={2: one, 3: two}).v[1].tolist() == f32(3.0).tolist()
    assert run("v_mul_f32_e32 v1, v2, v3", arch=arch, v={2: one, 3: two}, exec_=0xF0).v[1, 4] == two[0]
    assert run("v_add_f16_e32 v1, v2, v2", arch=arch, v={2: f16(1.0)}).v[1].tolist() == f16(2.0).tolist()
    assert run("v_mul_f32_e32 v1, v2, v3", arch=arch, v={2: 1, 3: one}, mode=flushing()).v[1, 0] == 0


@pytest.mark.parametrize("arch", ARCHS)
def test_scalar_state(arch: str) -> None:
    state = run(
        ["s_cselect_b32 s3, s4, s5", "s_mov_b32 s6, m0", "s_not_b64 vcc, vcc"],
        arch=arch, s={4: 7, 5: 8}, scc=True, m0=9, vcc=1 << 40,
    )  # fmt: skip
    assert (state.s[3], state.s[6], state.vcc) == (7, 9, ~(1 << 40) & (1 << 64) - 1)


@pytest.mark.parametrize("arch", ARCHS)
def test_memory(arch: str) -> None:
    there = arena(256)
    scalars = there.scalars(2)
    body = ["s_load_dword s4, s[2:3], 0x0", "s_waitcnt lgkmcnt(0)", "s_add_u32 s4, s4, 1", "v_mov_b32_e32 v2, s4",
            "v_mov_b32_e32 v3, 0", "global_store_dword v3, v2, s[2:3]", "s_waitcnt vmcnt(0)"]  # fmt: skip
    run(body, arch=arch, s=scalars, space=there.space, exec_=1)
    (first,) = (int.from_bytes(x[:4], "little") for x in (there.content,))
    assert first == int.from_bytes(there.before[:4], "little") + 1


@pytest.mark.parametrize("arch", ARCHS)
def test_what_no_two_devices_share(arch: str) -> None:
    run("s_memtime s[2:3]", arch=arch)
    there = arena(64)
    assert run("global_load_dword v2, v3, s[2:3]", arch=arch, s=there.scalars(2), v={3: 64}, space=there.space).findings
