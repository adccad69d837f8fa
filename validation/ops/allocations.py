"""What the op allocates during a case: guarded, poisoned, and sparse where only chosen rows run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch

from oracle.guards import poison
from validation.operation import Bench

_POISONED = (torch.bfloat16, torch.float32)
#: Guarded and, to initcheck, uninitialised; counters are int32.
_GUARDED = (*_POISONED, torch.int32)
#: Where Python code gets uninitialised memory from torch.
_ALLOCATORS = (
    (torch, "empty"),
    (torch, "empty_like"),
    (torch, "empty_strided"),
    (torch.Tensor, "new_empty"),
    (torch.Tensor, "new_empty_strided"),
)


def poison_rows(tensor: torch.Tensor, m: int, spans: Sequence[slice] | None) -> None:
    """Poison ``spans`` of the axis of ``m`` rows, the first or the second one; the whole of any other tensor."""
    axis = next((i for i in (0, 1) if tensor.dim() > i and tensor.shape[i] == m), None)
    if spans is None or axis is None:
        poison(tensor)
        return
    for span in spans:
        poison(tensor[span] if axis == 0 else tensor[:, span])


@contextmanager
def own_allocations(bench: Bench, package: str, m: int, spans: Sequence[slice] | None) -> Iterator[None]:
    """Within the block, what ``package`` allocates uninitialised comes from ``bench``: guarded and poisoned.

    Only the rows of ``spans`` are poisoned, if given, so that tensors of many GiB stay uncommitted.
    """

    def replacing(allocate: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def allocate_here(*arguments: Any, **options: Any) -> torch.Tensor:
            caller = str(sys._getframe(1).f_globals.get("__name__", ""))
            if caller.partition(".")[0] != package:
                return allocate(*arguments, **options)
            form = allocate(*arguments, **{**options, "device": "meta"})  # it may be larger than this machine's memory
            source = arguments[0].device if arguments and isinstance(arguments[0], torch.Tensor) else "cpu"
            device = torch.device(options.get("device") or source)
            if form.dtype not in _GUARDED or device.type == "meta":
                return allocate(*arguments, **options)
            if form.is_contiguous():
                tensor = bench.empty(tuple(form.shape), form.dtype, "allocated by the op")
            else:
                tensor = allocate(*arguments, **options)
            if tensor.dtype in _POISONED:
                poison_rows(tensor, m, spans)
            return tensor

        return allocate_here

    with ExitStack() as patches:
        for owner, name in _ALLOCATORS:
            patches.enter_context(mock.patch.object(owner, name, replacing(getattr(owner, name))))
        yield
