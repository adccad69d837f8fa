"""Evaluation in cache-sized blocks of rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

BLOCK = 8192
"""Lanes per block: float64 temporaries of 64 KiB stay in the L2 cache and below malloc's mmap threshold."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def blocked(function: _Function) -> _Function:
    """Run an elementwise function of arrays block by block along the first axis when they are large.

    The result is the same array: elementwise operations do not see the blocks.
    Measured on [256, 64] f32 arrays it halves the time of `exp2_32` and its kin,
    which make a dozen float64 temporaries.
    """

    @wraps(function)
    def run(*operands: Any) -> Any:
        shapes = [np.shape(operand) for operand in operands]
        shape = np.broadcast_shapes(*shapes)
        size = int(np.prod(shape))
        if size <= BLOCK or shape[0] == 1:
            return function(*operands)
        rows = max(1, BLOCK // (size // shape[0]))
        sliced = [len(s) == len(shape) and s[0] == shape[0] for s in shapes]
        result: Any = None
        for start in range(0, shape[0], rows):
            part = slice(start, start + rows)
            piece = function(*(x[part] if cut else x for x, cut in zip(operands, sliced, strict=True)))
            if result is None:
                result = np.empty(shape, piece.dtype)
            result[part] = piece
        return result

    return run  # type: ignore[return-value]
