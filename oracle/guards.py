"""Poisoned outputs and guard bytes: was every element written, and nothing else?

Outputs are filled before a run with a bit pattern that arithmetic cannot produce: a signalling NaN with a
payload.  Any operation on it yields a quiet NaN, whose bits differ, so that an element that still holds the
exact pattern was never written, even where NaN is the right result.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_INTEGER = {torch.bfloat16: torch.int16, torch.float32: torch.int32}
_POISON = {torch.bfloat16: 0x7FA5, torch.float32: 0x7FA5A5A5}
_GUARD_BYTE = 0xA5


def _bits(tensor: Tensor) -> Tensor:
    if tensor.dtype not in _INTEGER:
        raise TypeError(f"poison: dtype must be one of {', '.join(map(str, _INTEGER))} (got {tensor.dtype})")
    return tensor.view(_INTEGER[tensor.dtype])


def poison(tensor: Tensor) -> Tensor:
    """Fill a bf16 or float32 tensor (any strides) with its poison pattern, in place, and return it."""
    _bits(tensor).fill_(_POISON[tensor.dtype])
    return tensor


def unwritten(tensor: Tensor) -> Tensor:
    """Indices [n,dims] of elements that still hold the poison pattern; empty when everything was written."""
    return (_bits(tensor) == _POISON[tensor.dtype]).nonzero()


@dataclass(frozen=True)
class GuardBreach:
    """Bytes outside the logical tensor that changed: how many, and the first one's offset from element 0."""

    region: str
    changed: int
    first_offset: int

    def __str__(self) -> str:
        return f"{self.changed} guard bytes changed {self.region} the tensor, first at byte offset {self.first_offset}"


class Guarded:
    """A poisoned 2-D or 3-D tensor inside a larger allocation whose other bytes are guards.

    Guards are before it, behind it, and, with `row_stride` above the row's length, between its rows.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        *,
        row_stride: int | None = None,
        guard_bytes: int = 4096,
        device: torch.device | str = "cpu",
    ) -> None:
        if dtype not in _INTEGER:
            raise TypeError(f"dtype must be one of {', '.join(map(str, _INTEGER))} (got {dtype})")
        inner = 1
        for size in shape[1:]:
            inner *= size
        stride = inner if row_stride is None else row_stride
        if stride < inner:
            raise ValueError(f"row_stride: must be at least the row's {inner} elements (got {stride})")
        size = torch.empty((), dtype=dtype).element_size()
        if guard_bytes % 256:
            raise ValueError(f"guard_bytes: must be a multiple of 256, to keep the tensor aligned (got {guard_bytes})")
        span = (shape[0] - 1) * stride + inner if shape[0] else 0
        self._bytes = torch.full(
            (guard_bytes + span * size + guard_bytes,), _GUARD_BYTE, dtype=torch.uint8, device=device
        )
        strides = [1] * len(shape)
        for axis in range(len(shape) - 2, 0, -1):
            strides[axis] = strides[axis + 1] * shape[axis + 1]
        strides[0] = stride
        self._origin = guard_bytes
        self._span = span * size
        self.tensor = self._bytes.view(dtype).as_strided(shape, strides, guard_bytes // size)
        poison(self.tensor)

    def unwritten(self) -> Tensor:
        """Indices of elements that nobody wrote (see `unwritten`)."""
        return unwritten(self.tensor)

    def breaches(self) -> list[GuardBreach]:
        """Guard regions that are no longer intact: "before", "behind", "between the rows of"."""
        size = self.tensor.element_size()
        inside = torch.zeros(self._bytes.numel() // size, dtype=torch.bool, device=self._bytes.device)
        inside.as_strided(self.tensor.shape, self.tensor.stride(), self._origin // size).fill_(True)
        changed = (self._bytes != _GUARD_BYTE) & ~inside.repeat_interleave(size)
        offsets = changed.nonzero().flatten() - self._origin
        regions = {
            "before": offsets < 0,
            "between the rows of": (offsets >= 0) & (offsets < self._span),
            "behind": offsets >= self._span,
        }
        return [
            GuardBreach(region, int(mask.sum()), int(offsets[mask][0]))
            for region, mask in regions.items()
            if bool(mask.any())
        ]
