"""Functions that can compute straight into the destination register, and what that register may be.

Such a function takes ``out=``: an array of the result's type and full shape, or None for a new one. It returns the
result, in ``out`` if there is one. Sources may lie in the same memory as ``out`` only where the function has read them
for the last time when it first writes: those are declared with it. NumPy's own functions work element by element, so
they take any. The binders (``machine/bind_valu.py``, ``machine/bind_packed.py``) fall back on a new array otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

Fn = Callable[..., Any]
_ATTRIBUTE = "sources_in_out"


def into(*positions: int) -> Callable[[Fn], Fn]:
    """Decorator: the function takes ``out=``, and its sources at ``positions`` may be the same memory."""

    def mark(fn: Fn) -> Fn:
        setattr(fn, _ATTRIBUTE, frozenset(positions))
        return fn

    return mark


def sources_in_out(fn: Fn) -> frozenset[int] | None:
    """Positions of the sources that may be ``out``; None for a function that does not take one."""
    if isinstance(fn, np.ufunc):
        return frozenset(range(fn.nin))
    if isinstance(fn, partial):
        return None if fn.args else sources_in_out(fn.func)
    marked: frozenset[int] | None = getattr(fn, _ATTRIBUTE, None)
    return marked


def placed(result: Any, out: Any) -> Any:
    """``result``, in ``out`` if there is one and it is not there yet."""
    if out is None or result is out:
        return result
    np.copyto(out, result)
    return out


@into(0)
def move(a: Any, out: Any = None) -> Any:
    """The source itself."""
    return placed(a, out)


def swapped(fn: Fn) -> Fn:
    """``fn`` of two sources, given in the other order."""

    @into(*(1 - i for i in sources_in_out(fn) or ()))
    def of_swapped(a: Any, b: Any, out: Any = None) -> Any:
        return fn(b, a, out=out)

    return of_swapped


def then(first: Fn, second: Fn) -> Fn:
    """``second(first(a, b), c)`` as one function; ``second`` must take its first source in ``out``."""

    @into(*(sources_in_out(first) or ()))
    def both(a: Any, b: Any, c: Any, out: Any = None) -> Any:
        return second(first(a, b, out=out), c, out=out)

    return both


@into(0, 1)
def shift_left(a: Any, n: Any, out: Any = None) -> Any:
    """``a << n`` by the low bits of ``n`` that the width of ``a`` needs."""
    return np.left_shift(a, n & a.dtype.type(8 * a.itemsize - 1), out=out)


@into(0, 1)
def shift_right(a: Any, n: Any, out: Any = None) -> Any:
    """``a >> n`` likewise; arithmetic for signed types."""
    return np.right_shift(a, n & a.dtype.type(8 * a.itemsize - 1), out=out)
