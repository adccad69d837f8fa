"""Controls say what is wrong; they do not break."""

from __future__ import annotations

import pytest

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
    from hcgr.plan import choose

    assert plans._refusals("gfx950") == []
    monkeypatch.setattr(choose, name, lambda *arguments, **options: "a plan")
    wrong = plans._refusals("gfx950")
    assert len(wrong) == 2
    assert all(problem.startswith(f"{name.upper()} ") and "planned as a plan" in problem for problem in wrong)
