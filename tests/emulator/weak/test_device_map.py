"""Lines of the caches go by the device's addresses: where the host put a tensor changes nothing."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import torch

from tests.emulator.race.probe import text
from validation.emulator import AddressSpace, launch
from validation.emulator.memory.device_map import DeviceMap

ARCHS = ("gfx942", "gfx950")

#: Workgroup 1 reads its own word of ``out``, waits for the flag, and reads the data without any invalidation.
_STALE = """
v_mov_b32_e32 v6, 1
s_cmp_eq_u32 s10, 0
s_cbranch_scc0 reader
global_store_dword v3, v0, s[4:5] sc1
s_waitcnt vmcnt(0)
global_store_dword v4, v6, s[6:7] sc1
s_endpgm
reader:
global_load_dword v9, v3, s[8:9] offset:{own}
s_waitcnt vmcnt(0)
again:
global_load_dword v7, v4, s[6:7] sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s14, v7
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 again
global_load_dword v8, v3, s[4:5]
s_waitcnt vmcnt(0)
global_store_dword v3, v8, s[8:9]"""


def _tensors(offsets: tuple[int, int, int], words: int = 64) -> tuple[Any, list[torch.Tensor]]:
    """Three int32 tensors at these bytes behind a multiple of 4096 of the host."""
    area = np.zeros(3 * 4096 + 4096, np.uint8)
    start = -area.ctypes.data % 4096
    made = []
    for offset in offsets:
        raw = (ctypes.c_uint8 * (4 * words)).from_buffer(area, start + offset)
        made.append(torch.frombuffer(raw, dtype=torch.int32))
    return area, made


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("own", [0, 128])
def test_the_host_alignment_of_tensors_changes_nothing(own: int, arch: str) -> None:
    """Two tensors in one line of the host, in lines of their own, in reverse order, and across lines otherwise."""
    seen = []
    for places in ((0, 1024, 256), (64, 1024, 320), (0, 1024, 4096), (4096, 0, 256), (304, 2048, 48), (16, 4096, 272)):
        area, (data, flags, out) = _tensors(places)
        result = launch(
            text(_STALE.format(own=own), arch), "probe", (2,), (32,), [data, flags, out], memory="weak",
            schedule="reversed", checks=("memcheck",),
        )  # fmt: skip
        assert result.findings == ()
        assert (data[:32] == torch.arange(32)).all()
        seen.append(out.tolist())
        del area
    assert all(values == seen[0] for values in seen)
    assert seen[0][:32] == list(range(32))


@pytest.mark.parametrize("low", [0, 4, 8])
def test_device_addresses_and_back(low: int) -> None:
    known = DeviceMap()
    hosts = [0x1000 + low, 0x1040 + low, 0x5000 + low]
    devices = [known.place(host, 0x30) for host in hosts]
    assert [known.host(device) for device in devices] == hosts
    assert len({device >> 8 for device in devices}) == 3
    assert all(device & 15 == low for device in devices)
    # also from the beginning of the line
    lines = np.array(devices, np.int64) >> 7 << 7
    assert (known.hosts(lines) == np.array(hosts) - low).all()


def test_a_place_is_kept_where_the_allocation_fits() -> None:
    known = DeviceMap()
    first = known.place(0x4000, 500)
    assert known.place(0x4000, 512) == first
    assert known.place(0x4000, 513) != first
    assert known.host(first + 8) == 0x4008


def test_allocations_of_a_space_share_no_line() -> None:
    space = AddressSpace()
    area, tensors = _tensors((0, 512, 1024))
    places = [space.register(t).device for t in tensors]
    assert len({place >> 7 for place in places}) == 3
    assert all(place % 256 == 0 for place in places)
    del area
