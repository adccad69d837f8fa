"""counts: bytes, lines and bank conflicts against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from validation.emulator import AddressSpace
from validation.emulator.checks.banks import BankModel

from .snippet import launch_snippet

CHECKS = ("memcheck", "counts")
SCALE = "v_lshlrev_b32_e32 v1, 2, v0"


def counts(body: list[str], shape: tuple[int, ...] = (4096,), **options: int) -> dict:
    space = AddressSpace()
    x = space.empty(shape, torch.float32, "x", initialised=True)
    result = launch_snippet(body, x, space, checks=CHECKS, **options)  # type: ignore[arg-type]
    assert result.findings == ()
    return result.counts


def test_contiguous_dwords_of_four_workgroups_that_read_the_same() -> None:
    found = counts([SCALE, "global_load_dword v2, v1, s[4:5]"], groups=4, lanes=256)
    x = found["arguments"]["x"]
    assert x == {"bytes_read": 4 * 1024, "lines_read": 8, "lines_read_by_workgroups": 32}


def test_workgroups_of_their_own_lines_and_repeated_reads() -> None:
    own = [SCALE, "s_lshl_b32 s8, s2, 8", "s_add_u32 s4, s4, s8", "s_addc_u32 s5, s5, 0"]
    found = counts([*own, "global_load_dword v2, v1, s[4:5]", "global_load_dword v3, v1, s[4:5]"], groups=3)
    x = found["arguments"]["x"]
    assert x == {"bytes_read": 2 * 3 * 256, "lines_read": 6, "lines_read_by_workgroups": 6}


def test_stores_and_atomics() -> None:
    found = counts([SCALE, "global_store_dword v1, v0, s[4:5]", "global_atomic_add v1, v0, s[4:5] offset:1024"])
    x = found["arguments"]["x"]
    assert (x["bytes_written"], x["bytes_read"]) == (512, 256)
    assert (x["lines_written"], x["lines_read"]) == (4, 2)
    # the argument pointer is read through the scalar cache
    assert found["global_bytes_read"] == 256 + 8
    assert found["global_bytes_written"] == 512


def test_an_access_over_a_line_boundary_counts_both() -> None:
    body = ["s_mov_b64 exec, 1", "v_mov_b32_e32 v1, 0x7c", "global_load_dwordx2 v[2:3], v1, s[4:5]"]
    assert counts(body)["arguments"]["x"] == {"bytes_read": 8, "lines_read": 2, "lines_read_by_workgroups": 2}


def test_clamped_lanes_move_nothing() -> None:
    space = AddressSpace()
    x = space.empty((64,), torch.float32, "x", initialised=True)
    body = [SCALE, "buffer_load_dword v2, v1, s[4:7], 0 offen"]
    found = launch_snippet(body, x, space, records=64, checks=("counts",)).counts
    assert found["arguments"]["x"]["bytes_read"] == 64


def test_lds_bytes_and_cycles() -> None:
    found = counts([SCALE, "ds_write_b32 v1, v0", "ds_read_b32 v2, v1"], lanes=128)
    assert (found["lds_bytes_written"], found["lds_bytes_read"]) == (512, 512)
    assert (found["lds_cycles"], found["lds_conflict_cycles"]) == (2 * 2 * 2, 0)


FULL = np.ones((1, 64), bool)
LANE = np.arange(64)


@pytest.mark.parametrize(
    ("arch", "address", "nbytes", "is_read", "expected"),
    [
        ("gfx942", LANE * 4, 4, True, (2, 0)),
        ("gfx950", LANE * 4, 4, True, (1, 0)),
        ("gfx942", LANE * 0, 4, True, (2, 0)),  # broadcast
        ("gfx942", LANE * 8, 4, True, (4, 2)),  # two lanes a bank
        ("gfx950", LANE * 8, 4, True, (2, 1)),
        ("gfx942", LANE * 128, 4, True, (64, 62)),  # all on one bank
        ("gfx950", LANE * 128, 4, True, (32, 31)),
        ("gfx950", LANE * 256, 4, True, (64, 63)),
        ("gfx942", LANE * 2, 2, True, (2, 0)),  # pairs of lanes share a dword
        ("gfx942", LANE * 8, 8, True, (4, 0)),
        ("gfx942", LANE * 16, 16, True, (8, 0)),
        ("gfx942", LANE * 16, 16, False, (8, 0)),
        ("gfx950", LANE * 16, 16, True, (4, 0)),
        # rows of 64 bytes, 16 lanes down a column: consecutive lanes collide four-fold
        ("gfx942", (LANE % 16) * 64 + (LANE // 16) * 16, 16, False, (32, 24)),
    ],
)
def test_bank_model(arch: str, address: np.ndarray, nbytes: int, is_read: bool, expected: tuple[int, int]) -> None:
    model = BankModel(arch)
    assert model.cycles(address[None].astype(np.uint32), FULL, nbytes, is_read) == expected
    # moving all by a dword turns the banks; two such waves cost twice
    both = np.stack([address, address + 4]).astype(np.uint32)
    assert model.cycles(both, np.ones((2, 64), bool), nbytes, is_read) == (2 * expected[0], 2 * expected[1])


def test_read_b128_phases_of_gfx942_are_not_consecutive() -> None:
    """Lanes 0 and 20 are served together, lanes 0 and 4 are not."""
    model = BankModel("gfx942")
    mask = np.zeros((1, 64), bool)
    mask[0, [0, 20]] = True
    address = np.zeros((1, 64), np.uint32)
    address[0, 20] = 4096
    assert model.cycles(address, mask, 16, True) == (2, 1)
    mask[0, 20], mask[0, 4], address[0, 4] = False, True, 4096
    assert model.cycles(address, mask, 16, True) == (2, 0)
