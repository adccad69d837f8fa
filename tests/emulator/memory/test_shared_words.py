"""Atomics on 16 bits at the ends of a tensor: the dword that LLVM makes them of reaches over them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.emulator.launches.texts import ARCHS, text
from validation.emulator import launch

CHECKS = ("memcheck", "initcheck")
WAIT = "s_waitcnt vmcnt(0) lgkmcnt(0)"
MACHINES: list[dict[str, Any]] = [{}, {"memory": "weak", "completion": "latest"}]


def program(arch: str, offset: int, addend: int, swap: str = "global_atomic_cmpswap v2, v1, v[4:5], s[4:5]") -> str:
    """One lane adds ``addend`` to the dword at ``offset`` bytes from the argument."""
    load = [WAIT, f"global_load_dword v5, v1, s[4:5] offset:{offset}", WAIT, f"v_add_u32_e32 v4, {addend:#x}, v5"]
    last = f"{swap} offset:{offset} sc0" if swap else "v_nop"
    return text([*load, last, WAIT], arch)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("machine", MACHINES)
def test_a_dword_that_begins_before_the_tensor(arch: str, machine: dict[str, Any]) -> None:
    storage = torch.arange(1, 9, dtype=torch.int16)
    result = launch(program(arch, -2, 0x30000), None, (1,), (1,), [storage[1:2]], checks=CHECKS, **machine)
    assert list(result.findings) == []
    assert storage.tolist() == [1, 5, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("machine", MACHINES)
def test_a_dword_that_ends_behind_the_memory(arch: str, machine: dict[str, Any]) -> None:
    tensor = torch.arange(1, 8, dtype=torch.int16)
    result = launch(program(arch, 12, 3), None, (1,), (1,), [tensor], checks=CHECKS, **machine)
    assert list(result.findings) == []
    assert tensor.tolist() == [1, 2, 3, 4, 5, 6, 10]


@pytest.mark.parametrize("arch", ARCHS)
def test_without_a_check_it_is_no_fault(arch: str) -> None:
    tensor = torch.arange(1, 8, dtype=torch.int16)
    launch(program(arch, 12, 3), None, (1,), (1,), [tensor], checks=())
    assert tensor[6] == 10


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("offset", "swap", "count"),
    [
        (12, "", 1),  # a load of two elements where there is one
        (12, "global_atomic_add v2, v1, v4, s[4:5]", 2),  # no part of the dword is put back
        (12, "global_atomic_cmpswap v2, v3, v[4:5], s[4:5]", 2),  # of another address
        (16, "global_atomic_cmpswap v2, v1, v[4:5], s[4:5]", 2),  # nothing of it is inside
        (-4, "global_atomic_cmpswap v2, v1, v[4:5], s[4:5]", 2),
    ],
)
def test_anything_else_that_runs_over_is_a_finding(arch: str, offset: int, swap: str, count: int) -> None:
    tensor = torch.arange(1, 8, dtype=torch.int16)
    asm = program(arch, offset, 3, swap).replace("v_and_b32_e32 v0, 0x3ff, v0", "v_mov_b32_e32 v3, 0")
    asm = asm.replace("v_lshlrev_b32_e32 v1, 2, v0", "v_mov_b32_e32 v1, 0")
    result = launch(asm, None, (1,), (1,), [tensor], checks=("memcheck",))
    assert [finding.check for finding in result.findings] == ["memcheck"] * count
    assert tensor.tolist() == [1, 2, 3, 4, 5, 6, 7]
