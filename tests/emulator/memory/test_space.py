"""AddressSpace: guarded lazy mappings, registration, lookup, release."""

from __future__ import annotations

import itertools

import pytest
import torch

from validation.emulator import AddressSpace
from validation.emulator.memory.space import GUARD_BYTES


def test_empty_is_aligned_zeroed_and_named() -> None:
    space = AddressSpace()
    x = space.empty((3, 5), torch.bfloat16, "x")
    assert x.shape == (3, 5)
    assert not x.any()
    assert x.data_ptr() % 256 == 0
    holder = space.find(x.data_ptr() + 29)
    assert holder is not None
    assert holder.name == "x"
    assert holder.size == 30
    assert space.find(x.data_ptr() + 30) is None
    assert space.find(x.data_ptr() - 1) is None


def test_neighbours_stand_apart() -> None:
    space = AddressSpace()
    tensors = [space.empty((64,), torch.uint8, str(i)) for i in range(8)]
    starts = sorted(t.data_ptr() for t in tensors)
    assert all(b - a >= GUARD_BYTES for a, b in itertools.pairwise(starts))


def test_a_huge_tensor_costs_only_what_is_touched() -> None:
    space = AddressSpace()
    x = space.empty((1 << 36,), torch.uint8, "huge")
    x[1 << 35] = 3
    assert int(x[1 << 35]) == 3


def test_register_covers_the_storage_and_views_rename() -> None:
    space = AddressSpace()
    base = torch.arange(64, dtype=torch.int32)
    view = base[16:48].view(4, 8)
    allocation = space.register(view, "v")
    assert (allocation.base, allocation.size) == (base.data_ptr(), 256)
    assert allocation.index_of(view.data_ptr() + 4 * 11) == (1, 3)
    assert allocation.index_of(view.data_ptr() + 4 * 32) == (4, 0)
    space.register(base, "whole")
    assert len(space.allocations) == 1
    assert space.allocations[0].name == "whole"


def test_release_moves_to_the_freed_and_reuse_replaces() -> None:
    space = AddressSpace()
    x = space.empty((16,), torch.float32, "x")
    space.release(x)
    assert space.find(x.data_ptr()) is None
    nearest = space.nearest(x.data_ptr())
    assert nearest is not None
    assert nearest.freed
    assert nearest.name == "x"
    space.register(x, "again")
    holder = space.find(x.data_ptr())
    assert holder is not None
    assert holder.name == "again"
    with pytest.raises(KeyError, match="no allocation"):
        space.release(torch.empty(4))


def test_mark_written_covers_the_dense_span() -> None:
    space = AddressSpace()
    x = space.empty((4, 8), torch.float32, "x")
    shadow = space.allocations[0].shadow
    assert shadow is not None
    assert not shadow.any()
    space.mark_written(x[1, 2:6])
    assert shadow.nonzero()[0].tolist() == list(range(40, 56))
