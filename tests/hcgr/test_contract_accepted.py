"""Remembering accepted calls: never one that differs in anything the contract reads."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hcgr import contract

from . import calls
from .calls import BF16, FUNCTIONS, HC, NoLaunch


class Counting:
    """A check that counts its calls and refuses what `refuse` holds."""

    def __init__(self, refuse: tuple[Any, ...] = ()) -> None:
        self.calls, self.refuse = 0, refuse

    def __call__(self, *arguments: Any) -> None:
        self.calls += 1
        if arguments[-1] in self.refuse:
            raise ValueError("refused")


def test_an_equal_call_is_checked_once() -> None:
    check = Counting()
    accepted = contract.Accepted(check)
    for _ in range(3):
        accepted(torch.zeros(3, 64, dtype=BF16), None, HC, 1e-6, True)
    assert check.calls == 1


def matrix(elements: int = 0) -> torch.Tensor:
    return calls.shifted(torch.zeros(3, 64, dtype=BF16), elements)


@pytest.mark.parametrize(
    "other",
    [
        (matrix(1), None, HC),
        (matrix()[:2], None, HC),
        (matrix().half(), None, HC),
        (calls.padded(matrix(), 8), None, HC),
        (calls.column_major(matrix()), None, HC),
        (matrix().to("meta"), None, HC),
        (matrix(), matrix(), HC),
        (matrix(), None, 2 * HC),
        (None, matrix(), HC),
    ],
    ids=["alignment", "shape", "dtype", "row stride", "order", "device", "optional", "number", "place"],
)
def test_a_call_that_differs_is_checked(other: tuple[Any, ...]) -> None:
    check = Counting()
    accepted = contract.Accepted(check)
    accepted(matrix(), None, HC)
    accepted(*other)
    assert check.calls == 2


def test_a_refused_call_is_refused_again() -> None:
    check = Counting(refuse=(3,))
    accepted = contract.Accepted(check)
    for _ in range(2):
        with pytest.raises(ValueError, match="refused"):
            accepted(matrix(), 3)
    assert check.calls == 2


def test_the_memory_is_bounded() -> None:
    check = Counting()
    accepted = contract.Accepted(check, size=4)
    for number in range(100):
        accepted(number)
        assert len(accepted._calls) <= 4
    accepted(99)
    assert check.calls == 100


def test_a_broken_call_after_an_accepted_one(no_launch: NoLaunch) -> None:
    """The same shapes, one address off its alignment: the operator's memory must not let it pass."""
    for entry, make in (("combine_and_mix", calls.combine_and_mix), ("mix", calls.mix)):
        call = make()
        FUNCTIONS[entry](**call)
        launches = len(no_launch.launches)
        for name in ("residual", "norm_weight", "w_up", "w_down_merged"):
            with pytest.raises(ValueError, match=f"{name} must be aligned"):
                FUNCTIONS[entry](**call | {name: calls.shifted(call[name], 1)})
        assert len(no_launch.launches) == launches
