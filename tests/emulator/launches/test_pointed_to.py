"""A launch says what lay behind each of its pointers, as it saw it."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch

from validation.emulator import AddressSpace, emulate, launch, launch_raw
from validation.emulator.arguments import PointedTo

from .texts import text

BF16 = torch.bfloat16


def pointer(name: str) -> tuple[str, int, str]:
    return (name, 8, "global_buffer")


ONE = text([], args=(pointer("p"),))


def seen(value: Any, space: AddressSpace | None = None) -> str:
    """Of one argument that a launch by text is given."""
    result = launch(ONE, None, (1,), (64,), [value], space=space)
    return str(result.arguments["p"])


def test_tensors() -> None:
    rows = torch.zeros(5, 16, dtype=BF16)
    assert seen(rows) == "bfloat16[5,16]"
    assert seen(rows[:, :8]) == "bfloat16[5,8] strides [16,1]"
    assert seen(rows[2:, 4:6]) == "bfloat16[3,2] strides [16,1]"  # the view that was given, not what it lies in
    assert seen(rows[:1, :8]) == "bfloat16[1,8]"
    assert seen(rows.T) == "bfloat16[16,5] strides [1,16]"
    assert seen(torch.zeros((), dtype=torch.int64)) == "int64[]"
    assert seen(None) == "None"


def test_addresses() -> None:
    """A bare address leads to what the space holds there; a workspace has bytes alone."""
    space = AddressSpace()
    rows = space.empty((5, 16), BF16, "rows")
    assert seen(rows.data_ptr(), space) == "bfloat16[5,16]"
    assert seen(rows.data_ptr() + 64, space) == "bfloat16[5,16] at byte 64"
    space.register(rows[:, 2:10], "view")
    assert seen(rows.data_ptr() + 4, space) == "bfloat16[5,8] strides [16,1]"
    assert seen(rows.data_ptr(), space) == "160 bytes"  # before the tensor that is known there
    space.release(rows)
    assert seen(rows.data_ptr(), space) == "no known memory"
    assert PointedTo(4096, offset=12).contiguous
    assert str(PointedTo(4096, offset=12)) == "4096 bytes at byte 12"


def test_a_tensor_of_many_gib_is_no_burden() -> None:
    space = AddressSpace()
    sparse = space.empty((1 << 20, 10240), BF16, "residual")
    result = launch(ONE, None, (1,), (64,), [sparse[3:]], space=space)
    assert result.arguments["p"] == PointedTo(((1 << 20) - 3) * 20480, ((1 << 20) - 3, 10240), (10240, 1), "bfloat16")


def test_arguments_by_value_count_where_they_are_addresses() -> None:
    memory = torch.zeros(8, dtype=torch.int32)
    fields = memory.data_ptr().to_bytes(8, "little") + (7).to_bytes(8, "little") + (1 << 40).to_bytes(8, "little")
    asm = text([], args=(pointer("p"), ("pair", 24, "by_value"), ("n", 4, "by_value")))
    result = launch(asm, None, (1,), (64,), [memory, fields, 3])
    assert {name: str(value) for name, value in result.arguments.items()} == {"p": "int32[8]", "pair": "int32[8]"}


def test_tensors_at_one_address_are_taken_in_turn() -> None:
    packed = torch.zeros(5, 16, dtype=BF16)
    asm = text([], args=(pointer("packed"), pointer("lora"), pointer("again")))
    result = launch(asm, None, (1,), (64,), [packed, packed[:, :4], packed[:, :4]])
    assert [str(value) for value in result.arguments.values()] == [
        "bfloat16[5,16]",
        *["bfloat16[5,4] strides [16,1]"] * 2,
    ]


@pytest.mark.parametrize("concurrent", [False, True])
def test_a_session_notes_the_tensor_of_a_launch_by_address(concurrent: bool) -> None:
    """By the time that the kernel runs it may be gone."""
    memory, other = torch.zeros(6, 4, dtype=torch.int32), torch.zeros(3, dtype=torch.int32)
    values = [ctypes.c_uint64(tensor.data_ptr()) for tensor in (memory, other)]
    with emulate(concurrent=concurrent) as session:
        launch_raw(ONE, "probe", (1, 1, 1), (64, 1, 1), [ctypes.addressof(values[0])], tensors=[memory[:2]])
        launch_raw(ONE, "probe", (1, 1, 1), (64, 1, 1), [ctypes.addressof(values[1])])
        session.synchronize()
    assert [str(result.arguments["p"]) for result in session.launches] == ["int32[2,4]", "int32[3]"]
