"""Positive controls: what the validator itself must refuse, or must contain, whatever the code under test does.

A loosened bound or a removed grid case makes no kernel fail. These checks see it: they plant faults that the oracle
must find, cap its bounds by formulas of their own, and hold the grid, the contract and the plans against tables that
are written here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from validation.grid import GridError
from validation.mutation.controls import grids, judges, plans, scenarios, tolerances

Run = Callable[[str], list[str]]


@dataclass(frozen=True)
class Control:
    """``run(arch)`` returns what is wrong; ``check`` is the name under which a kill is counted."""

    check: str
    run: Run


def _of_grids(run: Run) -> Control:
    """A control of the grids: one that contradicts itself (an anchor of a value that is gone) is wrong, too."""

    def judged(arch: str) -> list[str]:
        try:
            return run(arch)
        except GridError as error:
            return [f"a grid contradicts itself: {error}"]

    return Control("grid-control", judged)


CONTROLS: dict[str, Control] = {
    "bounds": Control("tolerance-control", tolerances.bounds_within_caps),
    "planted": Control("tolerance-control", tolerances.planted_faults),
    "judge": Control("tolerance-control", judges.judge_fails),
    "grid-axes": _of_grids(grids.axes),
    "grid-pairs": _of_grids(grids.pairs),
    "grid-contract": _of_grids(grids.contract_rows),
    "grid-paths": _of_grids(grids.paths),
    "grid-protocol": Control("grid-control", scenarios.scenarios),
    "plans": Control("plan-check", plans.plans),
    "table": Control("plan-check", plans.table_entries),
}
