"""What the public entry points do before and after their operator."""

from __future__ import annotations

from itertools import chain
from typing import Any, NoReturn

import torch

from hcgr import contract
from hcgr import requirements as must
from hcgr.requirements import Problem


def check(tensors: dict[str, Any], stream: Any, numbers: list[Problem | None]) -> None:
    """What an operator's schema would refuse without saying what is accepted, and the stream."""
    first = next(iter(tensors.values()))
    contract.raise_first(
        chain(
            contract.tensor_problems(tensors),
            contract.present(numbers),
            contract.stream_problems(stream, first),
        )
    )


def mix_numbers(hc_count: Any, eps: Any, fold_w: Any) -> list[Problem | None]:
    """The numbers of every entry point with a norm."""
    return [
        must.one_of("hc_count", hc_count, contract.HC_COUNTS),
        must.normal_float32("eps", eps),
        must.is_bool("fold_w", fold_w),
    ]


def hints(**hints: Any) -> list[Problem | None]:
    """Optional positive integers by name."""
    return [None if value is None else must.positive_integer(name, value) for name, value in hints.items()]


def given(**tensors: Any) -> dict[str, Any]:
    """Those that are not ``None``."""
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def _no_gradient(_: torch.Tensor) -> NoReturn:
    raise NotImplementedError(
        "hcgr operators are for inference and have no gradient; call them under torch.no_grad() or "
        "torch.inference_mode(), or detach what they return"
    )


def refuse_backward(*results: torch.Tensor | None) -> None:
    """Make a backward pass that reaches `results` raise, where torch would warn and go on without a gradient.

    Compiled graphs keep torch's warning.
    """
    for result in results:
        if result is not None and result.requires_grad and not torch.compiler.is_compiling():
            result.register_hook(_no_gradient)
