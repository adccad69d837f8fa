"""Controls say what is wrong; they do not break."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hcgr.plan import choose
from validation.grid import GridError
from validation.mutation import controls
from validation.mutation.controls import plans


def test_a_grid_that_contradicts_itself_is_wrong() -> None:
    def contradicts(arch: str) -> list[str]:
        raise GridError("an anchor of a value that is gone")

    control = controls._of_grids(contradicts)
    assert control.check == "grid-control"
    assert control.run("gfx942") == ["a grid contradicts itself: an anchor of a value that is gone"]


@pytest.mark.parametrize("name", ["k1", "k2"])
def test_a_planner_that_refuses_nothing_is_wrong(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plans._refusals("gfx950") == []
    monkeypatch.setattr(choose, name, lambda *arguments, **options: "a plan")
    wrong = plans._refusals("gfx950")
    assert len(wrong) == 2
    assert all(problem.startswith(f"{name.upper()} ") and "planned as a plan" in problem for problem in wrong)


@pytest.mark.parametrize(
    ("most", "words"),
    [(lambda most: most - 1, "refuses"), (lambda most: most * 2, "more than HIP launches")],
    ids=["one row less", "twice as many"],
)
def test_a_planner_takes_as_many_rows_as_a_grid_covers(
    most: Callable[[int], int], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plans._last_rows("gfx950") == []
    right = choose._Shape.most_tokens
    monkeypatch.setattr(choose, "k1", choose.k1.__wrapped__)  # plans of the right planner are kept
    monkeypatch.setattr(choose._Shape, "most_tokens", lambda shape, plan: most(right(shape, plan)))
    wrong = plans._last_rows("gfx950")
    assert wrong
    assert all(words in line for line in wrong)


def test_a_planner_that_breaks_off_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    right = choose._Shape.most_tokens
    runs = lambda shape, plan: shape.tokens < right(shape, plan)  # noqa: E731
    monkeypatch.setattr(choose, "k1", choose.k1.__wrapped__)
    monkeypatch.setattr(choose._Shape, "runs", runs)
    wrong = plans._last_rows("gfx950")
    assert wrong
    assert all("neither planned nor refused" in line for line in wrong)
