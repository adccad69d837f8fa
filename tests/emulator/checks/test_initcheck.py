"""initcheck: reads of what nobody wrote, in global memory and LDS."""

from __future__ import annotations

import pytest
import torch

from validation.emulator import AddressSpace

from .snippet import launch_snippet

CHECKS = ("memcheck", "initcheck")
SCALE = "v_lshlrev_b32_e32 v1, 2, v0"


def fresh(count: int = 128) -> tuple[AddressSpace, torch.Tensor]:
    space = AddressSpace()
    return space, space.empty((count // 8, 8), torch.float32, "x")


def test_read_before_any_write() -> None:
    space, x = fresh()
    (found,) = launch_snippet([SCALE, "global_load_dword v2, v1, s[4:5] offset:40"], x, space, checks=CHECKS).findings
    assert (found.check, found.argument, found.index, found.occurrences) == ("initcheck", "x", (1, 2), 64)


def test_host_writes_count() -> None:
    space, x = fresh()
    space.mark_written(x[:4])
    (found,) = launch_snippet([SCALE, "global_load_dword v2, v1, s[4:5]"], x, space, checks=CHECKS).findings
    assert (found.index, found.lane, found.occurrences) == ((4, 0), 32, 32)


@pytest.mark.parametrize(
    ("store", "size"),
    [("global_store_byte v1, v0, s[4:5]", 1), ("global_store_short v1, v0, s[4:5]", 2),
     ("global_store_dword v1, v0, s[4:5]", 4)],
)  # fmt: skip
@pytest.mark.parametrize(("load", "wanted"), [("ubyte", 1), ("ushort", 2), ("dword", 4)])
def test_kernel_writes_count_byte_by_byte(store: str, size: int, load: str, wanted: int) -> None:
    space, x = fresh()
    result = launch_snippet([SCALE, store, f"global_load_{load} v2, v1, s[4:5]"], x, space, checks=CHECKS)
    assert len(result.findings) == (wanted > size)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_wide_accesses_and_misaligned_ones(count: int) -> None:
    space, x = fresh(512)
    body = [*(f"v_mov_b32_e32 v{4 + i}, 0" for i in range(4)), "v_lshlrev_b32_e32 v1, 4, v0",
            f"global_store_dwordx{count} v1, v[4:{3 + count}], s[4:5] offset:4",
            f"global_load_dwordx{count} v[4:{3 + count}], v1, s[4:5] offset:4"]  # fmt: skip
    assert launch_snippet(body, x, space, checks=CHECKS).findings == ()
    body[-1] = f"global_load_dwordx{count} v[4:{3 + count}], v1, s[4:5] offset:3"
    space, x = fresh(512)
    (found,) = launch_snippet(body, x, space, checks=CHECKS).findings
    # the byte before lane 0's store is unwritten; four dwords a lane leave no gap between the others
    assert found.occurrences == (1 if count == 4 else 64)


def test_only_active_lanes_write_and_read() -> None:
    space, x = fresh()
    body = [SCALE, "s_mov_b64 exec, 0xff", "global_store_dword v1, v0, s[4:5]", "global_load_dword v2, v1, s[4:5]"]
    assert launch_snippet(body, x, space, checks=CHECKS).findings == ()
    body[3:] = ["s_mov_b64 exec, 0x1ff", "global_load_dword v2, v1, s[4:5]"]
    space, x = fresh()
    (found,) = launch_snippet(body, x, space, checks=CHECKS).findings
    assert (found.lane, found.occurrences) == (8, 1)


def test_atomic_reads_and_writes() -> None:
    space, x = fresh()
    body = [SCALE, "global_atomic_add v1, v0, s[4:5]", "global_load_dword v2, v1, s[4:5]"]
    (found,) = launch_snippet(body, x, space, checks=CHECKS).findings
    assert "atomic" in found.instruction


def test_lds_of_each_workgroup_starts_unwritten() -> None:
    space, x = fresh()
    body = [SCALE, "s_cmp_eq_u32 s2, 1", "s_cbranch_scc1 skip", "ds_write_b32 v1, v0", "skip:", "ds_read_b32 v2, v1"]
    (found,) = launch_snippet(body, x, space, checks=CHECKS, groups=3, lanes=128).findings
    assert (found.workgroup, found.occurrences, found.lane) == ((1, 0, 0), 128, 0)
    assert "LDS byte 0x0" in found.message


def test_lds_dma_counts_as_a_write() -> None:
    space, x = fresh()
    space.mark_written(x)
    body = [SCALE, "s_mov_b32 m0, 0", "global_load_lds_dword v1, s[4:5]", "ds_read_b32 v2, v1"]
    assert launch_snippet(body, x, space, checks=CHECKS).findings == ()


def test_findings_of_initcheck_are_not_faults() -> None:
    space, x = fresh()
    body = [SCALE, "global_load_dword v2, v1, s[4:5]"]
    assert [f.check for f in launch_snippet(body, x, space, checks=("initcheck",)).findings] == ["initcheck"]


@pytest.mark.parametrize("load", ["dwordx4 v[4:7]", "dword v4", "ushort v4"])
def test_addresses_of_inactive_lanes_meet_no_small_allocation(load: str) -> None:
    """Between the null of the inactive lanes and x lie tensors that are smaller than the access."""
    space = AddressSpace()
    small = [space.empty((1,), torch.uint8, f"small{i}") for i in range(16)]
    x = space.empty((16, 8), torch.float32, "x")
    small += [space.empty((1,), torch.uint8, f"more{i}") for i in range(16)]
    space.mark_written(x)
    assert any(tensor.data_ptr() < x.data_ptr() for tensor in small)
    body = ["v_mov_b32_e32 v2, 0", "v_mov_b32_e32 v3, 0", "s_mov_b64 exec, 1", "v_mov_b32_e32 v2, s4",
            "v_mov_b32_e32 v3, s5", f"global_load_{load}, v[2:3], off"]  # fmt: skip
    assert launch_snippet(body, x, space, checks=CHECKS).findings == ()
