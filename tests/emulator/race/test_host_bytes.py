"""Fills and copies of streams touch the bytes of their tensors, and none between or beside them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emulator.race.probe import Buffers, text
from validation.emulator import Stream, emulate
from validation.emulator.checks.host_spans import Footprint


@dataclass(frozen=True)
class Strided:
    """As much of a tensor as a footprint asks for; strides in elements."""

    address: int
    size: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def data_ptr(self) -> int:
        return self.address

    def element_size(self) -> int:
        return self.size

    def numel(self) -> int:
        return math.prod(self.shape)

    def stride(self) -> tuple[int, ...]:
        return self.strides


Views = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
F32, BF16, U8 = torch.float32, torch.bfloat16, torch.uint8

#: dtype, two views, do they share a byte?
PAIRS: dict[str, tuple[torch.dtype, Views, bool]] = {
    "columns": (F32, lambda x: (x[:, :4], x[:, 4:]), False),
    "columns that overlap": (F32, lambda x: (x[:, :5], x[:, 4:]), True),
    "every other column": (F32, lambda x: (x[:, ::2], x[:, 1::2]), False),
    "rows": (F32, lambda x: (x[:4], x[4:]), False),
    "the same, transposed": (F32, lambda x: (x.t()[:4], x.t()[4:]), False),
    "halves of a word": (BF16, lambda x: (x.view(-1)[:3], x.view(-1)[3:]), False),
    "halves that overlap": (BF16, lambda x: (x.view(-1)[:4], x.view(-1)[3:]), True),
    "every other half": (BF16, lambda x: (x.view(-1)[::2], x.view(-1)[1::2]), False),
    "bytes": (U8, lambda x: (x.view(-1)[1:3], x.view(-1)[3:9]), False),
    "bytes between": (U8, lambda x: (x.view(-1)[::4], x.view(-1)[2::4]), False),
    "bytes that overlap": (U8, lambda x: (x.view(-1)[1:4], x.view(-1)[3:9]), True),
    "an element of a row, broadcast": (F32, lambda x: (x[:1, :1].expand(4, 4), x[:, 1:]), False),
    "odd ends of long runs": (U8, lambda x: (x.view(-1)[:5003], x.view(-1)[5003:]), False),
    "long runs that overlap by a byte": (U8, lambda x: (x.view(-1)[:5003], x.view(-1)[5002:]), True),
}


@pytest.mark.parametrize("name", PAIRS)
def test_two_streams_race_where_their_views_share_a_byte(name: str) -> None:
    dtype, views, shared = PAIRS[name]
    one, two = views(torch.zeros((1024, 8), dtype=dtype))
    with emulate(concurrent=True, checks=("racecheck",)) as session:
        Stream().copy_(torch.zeros(one.shape, dtype=dtype), one)
        Stream().fill_(two, 1)
    assert bool(session.findings) == shared


#: Stores a half, or a byte, of data[0].
STORE = "v_cmp_eq_u32_e32 vcc, 0, v0\ns_and_b64 exec, exec, vcc\nglobal_store_{width} v4, v4, s[4:5] offset:{at}"


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize(("width", "at", "shared"), [("short", 2, False), ("short", 0, True), ("byte", 3, False)])
@pytest.mark.parametrize("kernel_first", [True, False])
def test_a_fill_beside_a_narrow_store(arch: str, width: str, at: int, shared: bool, kernel_first: bool) -> None:
    """A stream fills the first half of a word of which a kernel of another stream stores a part."""
    buffers = Buffers.make()
    with emulate(concurrent=True, checks=("racecheck",), space=buffers.space) as session:

        def kernel() -> None:
            body = text(STORE.format(width=width, at=at), arch)
            session.launch(body, "probe", (1,), (64,), buffers.args, stream=Stream())

        def fill() -> None:
            Stream().fill_(buffers.data.view(torch.int16)[:1], 1)

        for act in (kernel, fill) if kernel_first else (fill, kernel):
            act()
    assert bool(session.findings) == shared, session.findings


@settings(max_examples=60, deadline=None)
@given(
    base=st.integers(0, 70),
    size=st.sampled_from([1, 2, 4, 8]),
    dims=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 9)), max_size=3),
    shift=st.sampled_from([5, 6, 12]),
)
def test_words_are_the_bytes_of_the_elements(base: int, size: int, dims: list[tuple[int, int]], shift: int) -> None:
    tensor = Strided(base * size, size, tuple(n for n, _ in dims), tuple(s for _, s in dims))
    wanted = {
        base * size + size * sum(i * s for i, (_, s) in zip(index, dims, strict=True)) + byte
        for index in np.ndindex(*tensor.shape)
        for byte in range(size)
    }
    got: set[int] = set()
    for number, words, part in Footprint.of(tensor, write=True).words(shift):
        numbers = np.arange(words.start, words.stop) if isinstance(words, slice) else words
        assert numbers.max() < 1 << (shift - 2)
        for word, bits in zip(numbers, np.full(len(numbers), 15) if part is None else part, strict=True):
            got |= {(number << shift) + 4 * int(word) + bit for bit in range(4) if int(bits) >> bit & 1}
    assert got == wanted
