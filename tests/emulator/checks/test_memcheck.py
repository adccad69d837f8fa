"""memcheck: what it reports, with names and indices, and what declared clamps change."""

from __future__ import annotations

import re

import pytest
import torch

from validation.emulator import AddressSpace, KernelFault

from .snippet import launch_snippet

LOAD = ["v_lshlrev_b32_e32 v1, 2, v0", "global_load_dword v2, v1, s[4:5]"]


def make(shape: tuple[int, ...], name: str = "x") -> tuple[AddressSpace, torch.Tensor]:
    space = AddressSpace()
    return space, space.empty(shape, torch.float32, name, initialised=True)


def test_clean_access_finds_nothing() -> None:
    space, x = make((64,))
    result = launch_snippet(LOAD, x, space)
    assert result.findings == ()


def test_overrun_of_a_row_names_tensor_index_and_source() -> None:
    space, x = make((6, 8))
    result = launch_snippet(LOAD, x, space)
    (found,) = result.findings
    assert (found.check, found.argument, found.index, found.lane, found.occurrences) == (
        "memcheck",
        "x",
        (6, 0),
        48,
        16,
    )
    assert found.source_file is not None
    assert (found.source_file.rsplit("/", 1)[1], found.source_line) == ("tile.py", 12)


def test_without_memcheck_a_bad_address_is_a_fault() -> None:
    space, x = make((6, 8))
    with pytest.raises(KernelFault, match="past the end of x"):
        launch_snippet(LOAD, x, space, checks=())


def test_underrun_and_neighbour_in_the_guard() -> None:
    space, x = make((64,))
    space.empty((64,), torch.float32, "neighbour", initialised=True)
    result = launch_snippet(["v_lshlrev_b32_e32 v1, 2, v0", "global_load_dword v2, v1, s[4:5] offset:-8"], x, space)
    (found,) = result.findings
    assert (found.argument, found.lane, found.occurrences) == ("x", 0, 2)
    assert "8 bytes before x" in found.message


def test_use_after_free() -> None:
    space, x = make((64,))
    pointer = x.data_ptr()
    space.release(x)
    body = [f"s_mov_b32 s4, 0x{pointer & 0xFFFFFFFF:x}", f"s_mov_b32 s5, 0x{pointer >> 32:x}", *LOAD]
    other = space.empty((4,), torch.float32, "other", initialised=True)
    (found,) = launch_snippet(body, other, space).findings
    assert found.message.startswith("use after free")
    assert found.argument == "x"


def test_access_running_over_the_end() -> None:
    space, x = make((64,))
    body = ["v_lshlrev_b32_e32 v1, 2, v0", "global_load_dwordx4 v[4:7], v1, s[4:5]"]
    (found,) = launch_snippet(body, x, space).findings
    assert (found.lane, found.occurrences) == (61, 3)
    assert "running 4 bytes over the end of x" in found.message


CLAMPED = ["v_lshlrev_b32_e32 v1, 2, v0", "buffer_load_dword v2, v1, s[4:7], 0 offen"]


def test_clamped_lanes_are_findings_of_their_own() -> None:
    space, x = make((64,))
    (found,) = launch_snippet(CLAMPED, x, space, records=240).findings
    assert (found.check, found.argument, found.index, found.lane, found.occurrences) == ("clamp", "x", (60,), 60, 4)
    assert launch_snippet(CLAMPED, x, space, records=256).findings == ()


@pytest.mark.parametrize("place", ["tile.py", "tile.py:12", "kernels/tile.py:12", "/src/kernels/tile.py"])
def test_declared_clamps_are_no_findings(place: str) -> None:
    space, x = make((64,))
    assert launch_snippet(CLAMPED, x, space, records=240, declared_clamps=(place,)).findings == ()


@pytest.mark.parametrize("place", ["tile.py:13", "le.py", "other/tile.py:12", "12"])
def test_other_declarations_do_not_cover_the_place(place: str) -> None:
    space, x = make((64,))
    assert len(launch_snippet(CLAMPED, x, space, records=240, declared_clamps=(place,)).findings) == 1


def test_a_clamp_is_not_fatal_without_memcheck() -> None:
    space, x = make((64,))
    assert launch_snippet(CLAMPED, x, space, records=240, checks=()).findings == ()


SCALAR = {
    "base": (
        ["s_add_u32 s4, s4, 6", "s_addc_u32 s5, s5, 0", "s_load_dword s10, s[4:5], 0x8"],
        3,
        "a base .* 2 modulo 4",
    ),
    "register offset": (["s_mov_b32 s9, 7", "s_load_dword s10, s[4:5], s9"], 1, "an offset that is 3 modulo 4"),
    "both": (
        ["s_add_u32 s4, s4, 2", "s_addc_u32 s5, s5, 0", "s_mov_b32 s9, 6", "s_load_dword s10, s[4:5], s9"],
        1,
        "a base that is 2 modulo 4 and an offset that is 2 modulo 4",
    ),
    "buffer": (
        ["s_add_u32 s4, s4, 1", "s_addc_u32 s5, s5, 0", "s_buffer_load_dword s10, s[4:7], 0x10"],
        4,
        "a base that is 1 modulo 4",
    ),
    "wide": (["s_mov_b32 s9, 5", "s_load_dwordx4 s[8:11], s[4:5], s9", "s_mov_b32 s10, s8"], 1, "an offset"),
}


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("case", SCALAR)
def test_scalar_loads_drop_low_address_bits(case: str, arch: str) -> None:
    """CDNA3 ISA, SMEM: base and offset lose bits 1:0, each by itself; the kernel meant another address."""
    body, element, words = SCALAR[case]
    space, x = make((64,))
    x.view(torch.int32).copy_(torch.arange(100, 164, dtype=torch.int32))
    store = [
        "s_waitcnt lgkmcnt(0)",
        "s_load_dwordx2 s[4:5], s[0:1], 0x0",
        "v_mov_b32_e32 v2, s10",
        "v_mov_b32_e32 v1, 0",
    ]
    store += ["s_waitcnt lgkmcnt(0)", "global_store_dword v1, v2, s[4:5] offset:252"]
    result = launch_snippet(["s_waitcnt lgkmcnt(0)", *body, *store], x, space, arch=arch, checks=("memcheck",))
    (found,) = result.findings
    assert (found.check, found.argument, found.lane) == ("alignment", "x", 0)
    assert re.search(words, found.message), found.message
    assert int(x.view(torch.int32)[63]) == 100 + element


@pytest.mark.parametrize(
    "body", [["s_load_dword s10, s[4:5], 0x8"], ["s_mov_b32 s9, 12", "s_load_dword s10, s[4:5], s9"]]
)
def test_aligned_scalar_loads_are_clean(body: list[str]) -> None:
    space, x = make((64,))
    assert launch_snippet(body, x, space).findings == ()
