"""memcheck: what it reports, with names and indices, and what declared clamps change."""

from __future__ import annotations

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
