"""Pieces that HCGR's drivers share: value distributions and poisoned allocations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch

from oracle.guards import poison

BF16 = torch.bfloat16
_SPECIALS = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, -1e-40, 3.3895e38, -3.3895e38)
#: Share of special values in the ``specials`` distribution.
_SPECIAL_SHARE = 0.02


def _normal(shape: torch.Size, name: str, generator: torch.Generator) -> torch.Tensor:
    scale = 4.0 if name == "injection" else 1.0
    return torch.randn(shape, generator=generator) * scale


def _exact(shape: torch.Size, name: str, generator: torch.Generator) -> torch.Tensor:
    """Integers whose combine is exact in bf16: with a logit of 0 or ±1024 the weight is 1, 2 or 0 for any HC <= 8."""
    if name == "injection":
        return torch.randint(-1, 2, shape, generator=generator) * 1024.0
    return torch.randint(-64, 65, shape, generator=generator).float()


def _wide(shape: torch.Size, name: str, generator: torch.Generator) -> torch.Tensor:
    reach = 8.0 if name == "injection" else 60.0
    exponents = (torch.rand(shape, generator=generator) * 2 - 1) * reach
    return torch.randn(shape, generator=generator) * torch.exp2(exponents)


def _specials(shape: torch.Size, name: str, generator: torch.Generator) -> torch.Tensor:
    values = _normal(shape, name, generator)
    chosen = torch.rand(shape, generator=generator) < _SPECIAL_SHARE
    which = torch.randint(0, len(_SPECIALS), shape, generator=generator)
    return torch.where(chosen, torch.tensor(_SPECIALS)[which], values)


_DISTRIBUTIONS: dict[str, Callable[[torch.Size, str, torch.Generator], torch.Tensor]] = {
    "normal": _normal,
    "exact": _exact,
    "wide": _wide,
    "specials": _specials,
}


def fill(tensor: torch.Tensor, values: str, name: str, generator: torch.Generator) -> None:
    """Fill ``tensor``, the argument called ``name``, from the distribution called ``values``."""
    tensor.copy_(_DISTRIBUTIONS[values](tensor.shape, name, generator))


#: Where Python code gets uninitialised memory from torch.
_ALLOCATORS = (
    (torch, "empty"),
    (torch, "empty_like"),
    (torch, "empty_strided"),
    (torch.Tensor, "new_empty"),
    (torch.Tensor, "new_empty_strided"),
)


@contextmanager
def poisoned_allocations() -> Iterator[None]:
    """Within the block, what the code under test allocates uninitialised is poisoned: stale results cannot pass.

    torch's own switch for this (deterministic algorithms) imports its compiler, seconds in every worker.
    """

    def poisoning(allocate: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def allocate_and_poison(*arguments: Any, **options: Any) -> torch.Tensor:
            tensor = allocate(*arguments, **options)
            return poison(tensor) if tensor.dtype in (BF16, torch.float32) else tensor

        return allocate_and_poison

    with ExitStack() as patches:
        for owner, name in _ALLOCATORS:
            patches.enter_context(mock.patch.object(owner, name, poisoning(getattr(owner, name))))
        yield
